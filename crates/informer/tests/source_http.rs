//! Sources over real sockets, against a small scripted server.

use std::convert::Infallible;
use std::io::Write as _;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};
use http::{Request, Response};
use http_body_util::{BodyExt, StreamBody, combinators::BoxBody};
use hyper::body::{Frame, Incoming};
use hyper_util::rt::{TokioExecutor, TokioIo};
use k8s_openapi::api::core::v1::Pod;
use kube_client::client::Body;
use kube_client::{Client, Config};
use kube_informer::building_blocks::{
    ListOptions, ListPart, ListWatch, ListerWatcher, ReflectorConfig, Resource, SourceError, WatchOptions,
};
use kube_informer::internals::STREAMS_PER_CONNECTION;
use kube_informer::{Cluster, ClusterConfig, EncodingPreference, Informer, WatchList};
use kube_wire::{Encoding, WatchEvent};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

type Answer = Response<BoxBody<Bytes, std::io::Error>>;
type Handler = Arc<dyn Fn(&Request<Incoming>) -> Answer + Send + Sync>;

#[tokio::test]
async fn promise_14_two_hundred_and_fifty_watches_leave_capacity_for_a_list_and_a_write() {
    let server = TestServer::tls(true, |request| match request.uri().query() {
        Some(query) if query.contains("watch=1") => answer("application/json", stream::pending()),
        _ => text(200, "application/json", EMPTY_LIST),
    })
    .await;
    let cluster = server.cluster();
    let pods = ListWatch::new(cluster.client(), pods());
    let mut watches = Vec::new();
    for _ in 0..250 {
        watches.push(pods.watch(WatchOptions::default()).await.unwrap());
    }
    assert_eq!(server.connections(), 250_usize.div_ceil(STREAMS_PER_CONNECTION));
    list(&pods, ListOptions::default()).await.unwrap();
    let write = Request::put("/api/v1/namespaces/web/pods/a").body(Body::from(b"{}".to_vec())).unwrap();
    assert_eq!(cluster.client().send(write).await.unwrap().status(), 200);
    assert_eq!(
        server.connections(),
        250_usize.div_ceil(STREAMS_PER_CONNECTION) + 2,
        "lists and writes use separate connections"
    );

    // A watch that ends frees a stream for another.
    drop(watches);
    let _watch = pods.watch(WatchOptions::default()).await.unwrap();
    assert_eq!(server.connections(), 250_usize.div_ceil(STREAMS_PER_CONNECTION) + 2);
}

#[tokio::test]
async fn the_watches_of_a_thousand_namespaces_take_thirteen_connections() {
    const NAMESPACES: usize = 1000;
    let namespace = |number| json!({"metadata": {"name": format!("team-{number}"), "resourceVersion": "5"}});
    let namespaces = json!({
        "kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1", "metadata": {"resourceVersion": "7"},
        "items": (0..NAMESPACES).map(namespace).collect::<Vec<_>>(),
    });
    let (namespaces, watches) = (namespaces.to_string(), tokio::sync::watch::Sender::new(0));
    let mut opened = watches.subscribe();
    let server = TestServer::tls(true, move |request| match request.uri().query() {
        Some(query) if query.contains("watch=1") => {
            watches.send_modify(|watches| *watches += 1);
            answer("application/json", stream::pending())
        }
        _ if request.uri().path() == "/api/v1/namespaces" => text(200, "application/json", &namespaces),
        _ => text(200, "application/json", EMPTY_LIST),
    })
    .await;
    let mut config = ReflectorConfig::default();
    config.watch_list = WatchList::Off;
    let pods = Informer::<Pod>::builder(server.client()).namespaces_matching("team").reflector(config);
    let pods = pods.start().unwrap();
    pods.synced().await.unwrap();
    opened.wait_for(|watches| *watches == NAMESPACES + 1).await.unwrap();
    let for_watches = (NAMESPACES + 1).div_ceil(STREAMS_PER_CONNECTION);
    assert_eq!(for_watches, 13);
    // Lists and other requests have a connection each, unless the first of them shared one.
    let connections = server.connections();
    assert!((for_watches..=for_watches + 2).contains(&connections), "{connections} connections");
}

#[tokio::test]
async fn promise_14_a_write_is_never_queued_behind_long_responses() {
    for (path, connections) in [
        ("/api/v1/namespaces/web/pods/a/log?follow=true", 3),
        ("/api/v1/namespaces/web/services/a/proxy/events", 3),
        // A request that is not known to be long-lived.
        ("/apis/example.com/v1/namespaces/web/things/slow", 2),
    ] {
        let server = TestServer::tls(true, |request| match *request.method() {
            http::Method::PUT => text(200, "application/json", "{}"),
            _ => answer("text/plain", stream::pending()),
        })
        .await;
        let client = server.cluster().client();
        let mut streams = Vec::new();
        for _ in 0..150 {
            streams.push(client.send(Request::get(path).body(Body::empty()).unwrap()).await.unwrap());
        }
        let write = Request::put("/api/v1/namespaces/web/pods/a").body(Body::from(b"{}".to_vec())).unwrap();
        assert_eq!(client.send(write).await.unwrap().status(), 200, "{path}");
        assert_eq!(server.connections(), connections, "{path}");
        drop(streams);
    }
}

#[tokio::test]
async fn c8_a_cancelled_request_removes_its_silent_connection() {
    let server = TestServer::tls(true, |_| text(200, "application/json", "{}")).await;
    let relay = Relay::start(server.config.cluster_url.port_u16().unwrap()).await;
    let mut config = server.config.clone();
    config.cluster_url = format!("https://{}", relay.address).parse().unwrap();
    let client = Cluster::from_config(config).unwrap().client();
    let get = || {
        let (client, request) = (client.clone(), Request::get("/api/v1/namespaces/web/leases/a"));
        async move { client.send(request.body(Body::empty()).unwrap()).await.unwrap().status() }
    };
    assert_eq!(get().await, 200);
    relay.fall_silent();
    let hung = tokio::spawn(get());
    relay.swallowed.notified().await;
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(5)).await;
    tokio::time::resume();
    // Like a lease renewal that timed out.
    hung.abort();
    assert!(hung.await.unwrap_err().is_cancelled());
    let next = tokio::time::timeout(Duration::from_secs(60), get()).await;
    assert_eq!(next.expect("it takes another connection"), 200);
    assert_eq!(server.connections(), 2);
}

#[tokio::test]
async fn promise_14_an_upgrade_uses_http_1_even_if_the_server_prefers_http_2() {
    let server = TestServer::tls(true, |request| match request.headers().get("upgrade") {
        Some(protocol) => {
            let mut answer = text(101, "text/plain", "");
            answer.headers_mut().insert("connection", "upgrade".parse().unwrap());
            answer.headers_mut().insert("upgrade", protocol.clone());
            answer
        }
        None => {
            assert_eq!(request.version(), http::Version::HTTP_2);
            text(200, "application/json", "{}")
        }
    })
    .await;
    let client = server.cluster().client();
    let pod = || Request::get("/api/v1/namespaces/web/pods/a").body(Body::empty()).unwrap();
    assert_eq!(client.send(pod()).await.unwrap().status(), 200);
    let mut upgraded = Vec::new();
    for _ in 0..3 {
        let exec = Request::post("/api/v1/namespaces/web/pods/a/exec?command=cat&stdin=true&stdout=true")
            .header("connection", "upgrade")
            .header("upgrade", "websocket")
            .body(Body::empty())
            .unwrap();
        let answer = client.send(exec).await.unwrap();
        assert_eq!(answer.status(), 101);
        upgraded.push(TokioIo::new(hyper::upgrade::on(answer).await.unwrap()));
    }
    for (at, connection) in upgraded.iter_mut().enumerate() {
        let said = format!("hello {at}").into_bytes();
        let mut echoed = vec![0; said.len()];
        connection.write_all(&said).await.unwrap();
        connection.read_exact(&mut echoed).await.unwrap();
        assert_eq!(echoed, said);
    }
    assert_eq!(client.send(pod()).await.unwrap().status(), 200);
    assert_eq!(server.connections(), 4, "an upgrade takes its connection over");
}

/// A list of pods in gzip if the client accepts it; other responses echo `accept-encoding`.
fn compressing(request: &Request<Incoming>, name: &str) -> Answer {
    let gzip = request.headers().get("accept-encoding").is_some_and(|encoding| encoding == "gzip");
    if request.uri().query().unwrap_or_default().contains("watch=1") {
        assert!(!gzip, "a watch is never compressed");
        return answer("application/json", stream::pending());
    }
    let list = json!({"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "7"},
        "items": (0..500).map(|at| json!({"metadata": {"name": format!("{name}-{at}")}})).collect::<Vec<_>>()});
    if !gzip {
        return text(200, "application/json", &list.to_string());
    }
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    packed.write_all(list.to_string().as_bytes()).unwrap();
    let packed = packed.finish().unwrap();
    // In pieces of one byte: nothing may depend on where a piece ends.
    let pieces = packed.iter().map(|byte| Ok(Bytes::copy_from_slice(&[*byte]))).collect::<Vec<_>>();
    let mut answer = answer("application/json", stream::iter(pieces));
    answer.headers_mut().insert("content-encoding", "gzip".parse().unwrap());
    answer
}

#[tokio::test]
async fn lists_are_compressed_on_request_and_watches_never() {
    let mut gzip = ClusterConfig::default();
    gzip.compress_lists = true;
    for (config, is_compressed) in [(ClusterConfig::default(), false), (gzip, true)] {
        let compressed = Arc::<AtomicUsize>::default();
        let counted = compressed.clone();
        let server = TestServer::tls(true, move |request| {
            let answer = compressing(request, "pod");
            counted.fetch_add(answer.headers().contains_key("content-encoding").into(), Ordering::Relaxed);
            answer
        })
        .await;
        let client = Cluster::configured(server.config.clone(), config).unwrap().client();
        let source = ListWatch::new(client, pods()).encoding(EncodingPreference::Json);
        let parts = list(&source, ListOptions::default()).await.unwrap();
        assert_eq!(parts.len(), 501, "all items, and the end");
        assert_eq!(compressed.load(Ordering::Relaxed), usize::from(is_compressed));
        let _watch = source.watch(WatchOptions::default()).await.unwrap();
    }
}

#[tokio::test]
async fn a_compressed_list_over_the_uncompressed_limit_is_an_error() {
    let server = TestServer::tls(true, |request| compressing(request, "a-rather-long-name")).await;
    let mut config = ClusterConfig::default();
    (config.compress_lists, config.unpacked_bytes_max) = (true, 10_000);
    let client = Cluster::configured(server.config.clone(), config).unwrap().client();
    let source = ListWatch::new(client, pods()).encoding(EncodingPreference::Json);
    let error = list(&source, ListOptions::default()).await.unwrap_err();
    assert!(matches!(error, SourceError::Other(_)), "{error:?}");
    assert!(
        error
            .to_string()
            .contains("more than 10000 bytes uncompressed; raise `ClusterConfig::unpacked_bytes_max`"),
        "{error}"
    );
}

#[tokio::test]
async fn a_truncated_or_corrupt_compressed_list_is_an_error() {
    for broken in [&b"\x1f\x8b\x08\0\0\0\0\0\0\x03"[..], b"no gzip at all"] {
        let server = TestServer::tls(true, move |_| {
            let mut answer = answer("application/json", stream::iter([Ok(Bytes::from_static(broken))]));
            answer.headers_mut().insert("content-encoding", "gzip".parse().unwrap());
            answer
        })
        .await;
        let mut config = ClusterConfig::default();
        config.compress_lists = true;
        let client = Cluster::configured(server.config.clone(), config).unwrap().client();
        let source = ListWatch::new(client, pods()).encoding(EncodingPreference::Json);
        assert!(list(&source, ListOptions::default()).await.is_err());
    }
}

#[tokio::test]
async fn a_server_without_http_2_works() {
    let server = TestServer::tls(false, |request| {
        assert_eq!(request.version(), http::Version::HTTP_11);
        match request.uri().query() {
            Some(query) if query.contains("watch=1") => answer("application/json", stream::pending()),
            _ => text(200, "application/json", EMPTY_LIST),
        }
    })
    .await;
    let pods = ListWatch::new(server.cluster().client(), pods());
    let mut watches = Vec::new();
    for _ in 0..5 {
        watches.push(pods.watch(WatchOptions::default()).await.unwrap());
    }
    list(&pods, ListOptions::default()).await.unwrap();
    assert_eq!(server.connections(), 6);
}

#[tokio::test]
async fn requests_depend_on_the_kind() {
    let server = TestServer::plain(|request| {
        if request.uri().path() == "/version" {
            return text(404, "text/plain", "not found");
        }
        let header = |name| request.headers()[name].to_str().unwrap().to_owned();
        let asked = format!("{} {} {}", request.uri(), header("accept"), header("accept-encoding"));
        text(418, "text/plain", &asked)
    })
    .await;
    let asked = async |source: ListWatch, watch: bool| {
        let error = match watch {
            true => source.watch(WatchOptions::default()).await.err().unwrap(),
            false => source.list(ListOptions::default()).await.err().unwrap(),
        };
        error.status().unwrap().message.clone()
    };
    let client = server.client();
    let thing = || ListWatch::new(client.clone(), Resource::new("example.com", "v1", "things", "Thing"));
    let pods = || ListWatch::new(client.clone(), pods());
    let (json, protobuf) = ("application/json", "application/vnd.kubernetes.protobuf");
    let partial = "as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
    let partial_list = "as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
    for (source, watch, expected) in [
        (pods(), false, format!("/api/v1/pods? {protobuf},{json} identity")),
        (pods(), true, format!("/api/v1/pods?watch=1 {protobuf};stream=watch,{json} identity")),
        (
            pods().encoding(EncodingPreference::Protobuf),
            false,
            format!("/api/v1/pods? {protobuf},{json} identity"),
        ),
        (pods().encoding(EncodingPreference::Json), false, format!("/api/v1/pods? {json} identity")),
        (thing(), false, format!("/apis/example.com/v1/things? {json} identity")),
        (
            thing().metadata_only(),
            false,
            format!("/apis/example.com/v1/things? {protobuf};{partial_list},{json};{partial_list} identity"),
        ),
        (
            pods().metadata_only(),
            true,
            format!("/api/v1/pods?watch=1 {protobuf};stream=watch;{partial},{json};{partial} identity"),
        ),
        (
            pods()
                .namespace("web")
                .labels("a=b")
                .fields("spec.nodeName=n")
                .encoding(EncodingPreference::Json),
            false,
            format!(
                "/api/v1/namespaces/web/pods?labelSelector=a%3Db&fieldSelector=spec.nodeName%3Dn {json} identity"
            ),
        ),
        (
            pods().encoding(EncodingPreference::Json).modify_list(|options| options.limit = Some(3)),
            false,
            format!("/api/v1/pods?limit=3 {json} identity"),
        ),
    ] {
        assert_eq!(asked(source, watch).await, expected);
    }
}

#[tokio::test]
async fn items_and_events_are_streamed_as_received() {
    let server = TestServer::plain(|request| match request.uri().query() {
        Some(query) if query.contains("watch=1") => {
            let line = format!(
                "{}\n",
                r#"{"type":"ADDED","object":{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a"}}}"#
            );
            answer("application/json", stream::iter([Ok(line.into())]).chain(stream::pending()))
        }
        _ => {
            let half =
                r#"{"kind":"PodList","apiVersion":"v1","metadata":{},"items":[{"metadata":{"name":"a"}},"#;
            answer("application/json", stream::iter([Ok(half.into())]).chain(stream::pending()))
        }
    })
    .await;
    let pods = ListWatch::new(server.client(), pods());
    let mut parts = pods.list(ListOptions::default()).await.unwrap();
    let Some(Ok(ListPart::Item(item))) = parts.next().await else { panic!() };
    assert_eq!(item.head().name(), "a");
    let mut events = pods.watch(WatchOptions::default()).await.unwrap();
    let Some(Ok(WatchEvent::Added(object))) = events.next().await else { panic!() };
    assert_eq!((object.head().name(), object.encoding()), ("a", Encoding::Json));
}

#[tokio::test]
async fn every_invalid_response_is_an_error_that_describes_it() {
    let whole_list = EMPTY_LIST.to_owned();
    for (handler, expected) in [
        (
            Box::new(|| text(403, "application/json", FORBIDDEN)) as Box<dyn Fn() -> Answer + Send + Sync>,
            "403 Forbidden: pods is forbidden: User \"x\" cannot list resource \"pods\"",
        ),
        (
            Box::new(|| text(502, "text/html", "<html><body><h1>Bad Gateway</h1></body></html>")),
            "502: Bad Gateway",
        ),
        (
            Box::new(|| text(200, "text/html", "<html>login</html>")),
            "expected JSON or Kubernetes protobuf, but the server sent content of type `text/html`; is there a proxy \
             in between?",
        ),
        (
            Box::new(|| text(200, "application/json", r#"{"kind":"PodList","items":[{"metadata""#)),
            "cannot read the response: cannot read the rest of the stream: truncated JSON list: ends after 38 bytes",
        ),
        (
            Box::new(|| text(200, "application/json", "no JSON at all")),
            "cannot read the response: cannot read the rest of the stream: malformed JSON list at byte 0: expected \
             a list",
        ),
        (
            Box::new(|| text(200, "application/vnd.kubernetes.protobuf", "{}{}{}")),
            "cannot read the response: cannot read the rest of the stream: malformed protobuf list at byte 0: \
             missing `k8s\\0` prefix",
        ),
        (
            Box::new(move || {
                let cut = Err(std::io::Error::other("cut"));
                answer("application/json", stream::iter([Ok(Bytes::from(whole_list[..20].to_owned())), cut]))
            }),
            "connection broken: ",
        ),
    ] {
        let server = TestServer::plain(move |_| handler()).await;
        let error = list(&ListWatch::new(server.client(), pods()), ListOptions::default()).await.unwrap_err();
        assert!(error.to_string().starts_with(expected), "{error}\n{expected}");
    }
}

#[tokio::test]
async fn a_200_response_that_is_not_a_list_is_an_error_that_names_it() {
    let envelope = |kind: &str, raw: &[u8]| {
        let mut body = Vec::new();
        kube_wire::internals::envelope::Envelope { api_version: "v1", kind, raw }.seal(&mut body);
        Bytes::from(body)
    };
    let (json, protobuf) = ("application/json", "application/vnd.kubernetes.protobuf");
    let pod_list = "expected a list of v1/Pod, but the server sent ";
    for (content_type, body, expected) in [
        (json, Bytes::from("{}"), format!("{pod_list}an object without a kind")),
        (json, r#"{"status":"ok"}"#.into(), format!("{pod_list}an object without a kind (its members: status)")),
        (
            json,
            r#"{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"v1","resources":[]}"#.into(),
            format!("{pod_list}APIResourceList (its other members: groupVersion, resources)"),
        ),
        (json, r#"{"items":[{"metadata":{"name":"a"}}],"kind":"ServiceList","apiVersion":"v1"}"#.into(), format!("{pod_list}ServiceList")),
        (json, r#"{"kind":"PodList","apiVersion":"v2","items":[]}"#.into(), format!("{pod_list}PodList of v2")),
        (json, r#"{"kind":"PodList","items":[]}"#.into(), format!("{pod_list}PodList without an apiVersion")),
        (protobuf, envelope("ServiceList", b"\x0a\x00"), format!("{pod_list}ServiceList")),
        (protobuf, Bytes::from_static(b"k8s\0"), "cannot read the response: cannot read the rest of the stream: malformed protobuf list at byte 0: empty envelope".to_owned()),
        (protobuf, envelope("PodList", b""), "cannot read the response: cannot read the rest of the stream: malformed protobuf list at byte 0: empty envelope".to_owned()),
    ] {
        let sent = body.clone();
        let server =
            TestServer::plain(move |_| answer(content_type, stream::iter([Ok(sent.clone())]))).await;
        let answered = list(&ListWatch::new(server.client(), pods()), ListOptions::default()).await;
        let error = answered.err().unwrap_or_else(|| panic!("{body:?} was accepted as a list"));
        assert_eq!(error.to_string(), expected);
    }
}

#[tokio::test]
async fn a_list_without_items_and_with_its_kind_last_is_accepted() {
    let (pod, thing) = (pods(), Resource::new("example.com", "v1", "things", "Thing"));
    for (resource, body) in [
        (&pod, r#"{"kind":"PodList","apiVersion":"v1","items":null}"#),
        (&pod, r#"{"apiVersion":"v1","metadata":{"resourceVersion":"7"},"kind":"PodList"}"#),
        (&pod, r#"{"items":[],"metadata":null,"kind":"PodList","apiVersion":"v1"}"#),
        // A CustomResourceDefinition may choose any list kind.
        (&thing, r#"{"items":[],"kind":"ThingCollectionList","apiVersion":"example.com/v1"}"#),
    ] {
        let server = TestServer::plain(move |_| text(200, "application/json", body)).await;
        let parts = list(&ListWatch::new(server.client(), resource.clone()), ListOptions::default()).await;
        assert!(matches!(parts.unwrap()[..], [ListPart::End(_)]), "{body}");
    }
}

#[tokio::test]
async fn an_endless_watch_list_is_remembered_for_all_kinds_of_a_group() {
    let streamed = Arc::<parking_lot::Mutex<Vec<String>>>::default();
    let log = streamed.clone();
    let server = TestServer::plain(move |request| {
        let (path, query) = (request.uri().path(), request.uri().query().unwrap_or_default());
        let (version, kind) = match path {
            "/api/v1/pods" => ("v1", "PodList"),
            "/api/v1/secrets" => ("v1", "SecretList"),
            _ => ("apps/v1", "DeploymentList"),
        };
        if query.contains("sendInitialEvents=true") {
            log.lock().push(path.to_owned());
        }
        if query.contains("watch=1") {
            return answer("application/json", stream::pending());
        }
        let list = format!(
            r#"{{"kind":"{kind}","apiVersion":"{version}","metadata":{{"resourceVersion":"7"}},"items":[]}}"#
        );
        text(200, "application/json", &list)
    })
    .await;
    let cluster = server.cluster();
    sync::<Pod>(&cluster).await;
    sync::<k8s_openapi::api::core::v1::Secret>(&cluster).await;
    sync::<k8s_openapi::api::apps::v1::Deployment>(&cluster).await;
    assert_eq!(*streamed.lock(), ["/api/v1/pods", "/apis/apps/v1/deployments"]);
    // Other groups are unaffected, and a source that insists still tries.
    sync::<k8s_openapi::api::core::v1::Secret>(&server.cluster()).await;
    let options = || {
        let mut options = WatchOptions::default();
        options.send_initial_events = true;
        options
    };
    let pods = ListWatch::new(cluster.client(), pods());
    assert!(pods.watch(options()).await.is_ok());
    let mut optional = options();
    optional.initial_events_optional = true;
    assert!(matches!(pods.watch(optional).await, Err(SourceError::NoWatchList)));
    assert_eq!(streamed.lock()[2..], ["/api/v1/secrets", "/api/v1/pods"]);
}

/// Starts an informer with a short limit for watch-lists, and waits until it is synced.
async fn sync<K>(cluster: &Cluster)
where
    K: kube_core::Resource<DynamicType = ()> + serde::de::DeserializeOwned + Send + Sync + 'static,
    K::Scope: 'static,
{
    let mut config = ReflectorConfig::default();
    config.watch_list_quiet_max = Duration::from_millis(50);
    config.backoff.first = Duration::from_millis(1);
    let informer = Informer::<K>::builder(cluster).reflector(config).start().unwrap();
    informer.synced().await.unwrap();
}

#[tokio::test]
async fn the_maximum_watch_timeout_is_accepted() {
    let server = TestServer::plain(|request| {
        let query = request.uri().query().unwrap_or_default();
        assert!(query.contains("timeoutSeconds=2147483647"), "{query}");
        answer("application/json", stream::pending())
    })
    .await;
    let pods = ListWatch::new(server.client(), pods())
        .list_idle_max(Duration::MAX)
        .modify_watch(|options| options.timeout = Some(Duration::MAX));
    assert!(pods.watch(WatchOptions::default()).await.is_ok());
}

#[tokio::test]
async fn the_maximum_ping_interval_is_accepted() {
    let server = TestServer::tls(true, |_| text(200, "application/json", EMPTY_LIST)).await;
    let mut never = ClusterConfig::default();
    (never.ping_after, never.ping_timeout) = (Duration::MAX, Duration::MAX);
    let cluster = Cluster::configured(server.config.clone(), never).unwrap();
    list(&ListWatch::new(cluster.client(), pods()), ListOptions::default()).await.unwrap();
}

#[tokio::test]
async fn a_missing_server_is_distinguished_from_a_broken_connection() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let client = Cluster::from_config(config(address, "http")).unwrap().client();
    let error = list(&ListWatch::new(client, pods()), ListOptions::default()).await.unwrap_err();
    assert!(matches!(error, SourceError::ConnectionRefused(_)), "{error:?}");
    assert!(error.to_string().contains("whether the API server is running"));
}

#[tokio::test(start_paused = true)]
async fn a_list_that_stalls_times_out() {
    let server = TestServer::plain(|_| answer("application/json", stream::pending())).await;
    let pods = ListWatch::new(server.client(), pods()).list_idle_max(Duration::from_secs(5));
    let error = list(&pods, ListOptions::default()).await.unwrap_err();
    assert!(matches!(error, SourceError::Idle(limit) if limit == Duration::from_secs(5)), "{error:?}");
}

#[tokio::test]
async fn a_watch_cut_inside_an_event_is_an_error_and_between_events_a_normal_close() {
    let line = "{\"type\":\"ADDED\",\"object\":{\"kind\":\"Pod\",\"apiVersion\":\"v1\",\"metadata\":{\"name\":\"a\"}}}\n";
    for (body, broken) in [(line.to_owned(), false), (format!("{line}{}", &line[..30]), true)] {
        let server = TestServer::plain(move |_| text(200, "application/json", &body)).await;
        let watch = ListWatch::new(server.client(), pods()).watch(WatchOptions::default()).await.unwrap();
        let events = watch.collect::<Vec<_>>().await;
        assert!(events[0].is_ok());
        match (&events[1..], broken) {
            ([], false) => {}
            ([Err(error @ SourceError::Wire(_))], true) => {
                assert!(!error.is_about_one_object(), "the stream has ended");
            }
            other => panic!("{other:?}"),
        }
    }
}

// === the server ===

const EMPTY_LIST: &str =
    r#"{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"7"},"items":[]}"#;
const FORBIDDEN: &str = r#"{"kind":"Status","code":403,"reason":"Forbidden","message":"pods is forbidden: User \"x\" cannot list resource \"pods\""}"#;

fn pods() -> Resource {
    Resource::of::<Pod>()
}

async fn list(source: &ListWatch, options: ListOptions) -> Result<Vec<ListPart>, SourceError> {
    source.list(options).await?.try_collect().await
}

fn answer(
    content_type: &str,
    body: impl futures::Stream<Item = Result<Bytes, std::io::Error>> + Send + Sync + 'static,
) -> Answer {
    let body = BodyExt::boxed(StreamBody::new(body.map_ok(Frame::data)));
    Response::builder().header("content-type", content_type).body(body).unwrap()
}

fn text(code: u16, content_type: &str, body: &str) -> Answer {
    let mut answer = answer(content_type, stream::iter([Ok(Bytes::from(body.to_owned()))]));
    *answer.status_mut() = code.try_into().unwrap();
    answer
}

fn config(address: SocketAddr, scheme: &str) -> Config {
    let mut config = Config::new(format!("{scheme}://{address}").parse().unwrap());
    config.default_retry = false;
    config
}

struct TestServer {
    config: Config,
    connections: Arc<AtomicUsize>,
    task: tokio::task::JoinHandle<()>,
}

impl TestServer {
    async fn plain(handler: impl Fn(&Request<Incoming>) -> Answer + Send + Sync + 'static) -> Self {
        Self::start(None, "http", Arc::new(handler)).await
    }

    async fn tls(
        http2: bool,
        handler: impl Fn(&Request<Incoming>) -> Answer + Send + Sync + 'static,
    ) -> Self {
        let key = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
        let mut tls =
            rustls::ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
                .with_safe_default_protocol_versions()
                .unwrap()
                .with_no_client_auth()
                .with_single_cert(
                    vec![key.cert.der().clone()],
                    rustls::pki_types::PrivateKeyDer::try_from(key.signing_key.serialize_der()).unwrap(),
                )
                .unwrap();
        tls.alpn_protocols = match http2 {
            true => vec![b"h2".to_vec(), b"http/1.1".to_vec()],
            false => vec![b"http/1.1".to_vec()],
        };
        let mut server =
            Self::start(Some(TlsAcceptor::from(Arc::new(tls))), "https", Arc::new(handler)).await;
        server.config.root_cert = Some(vec![key.cert.der().to_vec()]);
        server
    }

    async fn start(tls: Option<TlsAcceptor>, scheme: &str, handler: Handler) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let config = config(listener.local_addr().unwrap(), scheme);
        let connections = Arc::<AtomicUsize>::default();
        let counted = connections.clone();
        let task = tokio::spawn(async move {
            let mut served = tokio::task::JoinSet::new();
            loop {
                let (socket, _) = listener.accept().await.unwrap();
                counted.fetch_add(1, Ordering::Relaxed);
                served.spawn(serve(socket, tls.clone(), handler.clone()));
            }
        });
        Self { config, connections, task }
    }

    fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }

    fn cluster(&self) -> Cluster {
        Cluster::from_config(self.config.clone()).unwrap()
    }

    fn client(&self) -> Client {
        self.cluster().client()
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(socket: tokio::net::TcpStream, tls: Option<TlsAcceptor>, handler: Handler) {
    let service = hyper::service::service_fn(move |mut request: Request<Incoming>| {
        let handler = handler.clone();
        async move {
            let answer = handler(&request);
            if answer.status() == 101 {
                tokio::spawn(echo(hyper::upgrade::on(&mut request)));
            }
            Ok::<_, Infallible>(answer)
        }
    });
    // Like a kube-apiserver: a hundred streams, then the client waits.
    let mut builder = hyper_util::server::conn::auto::Builder::new(TokioExecutor::new());
    builder.http2().max_concurrent_streams(100);
    match tls {
        Some(tls) => {
            let Ok(socket) = tls.accept(socket).await else { return };
            let _ = builder.serve_connection_with_upgrades(TokioIo::new(socket), service).await;
        }
        None => drop(builder.serve_connection_with_upgrades(TokioIo::new(socket), service).await),
    }
}

/// Echoes the data of an upgraded connection.
async fn echo(upgrade: hyper::upgrade::OnUpgrade) {
    let (mut read, mut write) = tokio::io::split(TokioIo::new(upgrade.await.unwrap()));
    let _ = tokio::io::copy(&mut read, &mut write).await;
}

/// Forwards connections to a port. When it falls silent, open connections stay open but pass nothing.
struct Relay {
    address: SocketAddr,
    /// How often it has fallen silent.
    silences: Arc<AtomicUsize>,
    /// Notified when data arrives on a silent connection.
    swallowed: Arc<tokio::sync::Notify>,
}

impl Relay {
    async fn start(port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (silences, swallowed) = (Arc::<AtomicUsize>::default(), Arc::<tokio::sync::Notify>::default());
        let relay = Self { address, silences: silences.clone(), swallowed: swallowed.clone() };
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let server = tokio::net::TcpStream::connect(("127.0.0.1", port)).await.unwrap();
                tokio::spawn(forward(client, server, silences.clone(), swallowed.clone()));
            }
        });
        relay
    }

    fn fall_silent(&self) {
        self.silences.fetch_add(1, Ordering::SeqCst);
    }
}

async fn forward(
    mut client: tokio::net::TcpStream,
    mut server: tokio::net::TcpStream,
    silences: Arc<AtomicUsize>,
    swallowed: Arc<tokio::sync::Notify>,
) {
    let before = silences.load(Ordering::SeqCst);
    let (mut up, mut down) = ([0; 4096], [0; 4096]);
    loop {
        let (sent, to) = tokio::select! {
            Ok(count) = client.read(&mut up) => (&up[..count], &mut server),
            Ok(count) = server.read(&mut down) => (&down[..count], &mut client),
            else => return,
        };
        if silences.load(Ordering::SeqCst) > before {
            swallowed.notify_one();
        } else if sent.is_empty() || to.write_all(sent).await.is_err() {
            return;
        }
    }
}

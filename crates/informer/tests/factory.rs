//! Informers shared by all who want the same.
#![allow(clippy::unwrap_used, reason = "what cannot be is a test's failure")]

mod support;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use futures::FutureExt;
use k8s_openapi::api::core::v1::{Node, Pod, Secret};
use kube_client::Client;
use kube_client::client::Body;
use kube_core::DynamicObject;
use kube_informer::{Index, InformerFactory};
use parking_lot::Mutex;
use serde_json::json;
use support::informers::settle;
use support::*;
use tokio::sync::watch;

/// A server of one object a resource, which forbids secrets. Watches stay open and silent; lists wait for the gate.
struct Server {
    lists: Arc<Mutex<Vec<String>>>,
    /// How often it was asked for its version.
    versions: Arc<AtomicUsize>,
    open_watches: Arc<()>,
    gate: watch::Sender<bool>,
    refuses_streams: Arc<AtomicBool>,
}

impl Server {
    fn new() -> (Self, InformerFactory) {
        let (lists, versions, open_watches, refuses_streams) = Default::default();
        let server = Self { lists, versions, open_watches, gate: watch::Sender::new(true), refuses_streams };
        let (lists, watches, gate) =
            (server.lists.clone(), server.open_watches.clone(), server.gate.subscribe());
        let (refuses_streams, versions) = (server.refuses_streams.clone(), server.versions.clone());
        let service = tower::service_fn(move |request: http::Request<Body>| {
            let (lists, watches, mut gate) = (lists.clone(), watches.clone(), gate.clone());
            let (refuses_streams, versions) = (refuses_streams.load(Ordering::Relaxed), versions.clone());
            async move {
                let (path, query) =
                    (request.uri().path().to_owned(), request.uri().query().unwrap_or_default());
                if path == "/version" {
                    versions.fetch_add(1, Ordering::Relaxed);
                    return Ok(http::Response::builder().status(404).body(Body::empty()).unwrap());
                }
                if query.contains("sendInitialEvents=") && refuses_streams {
                    let body =
                        r#"{"kind": "Status", "code": 403, "reason": "Forbidden", "message": "no streams"}"#;
                    let answer =
                        http::Response::builder().status(403).header("content-type", "application/json");
                    return Ok(answer.body(Body::from(body.as_bytes().to_vec())).unwrap());
                }
                if query.contains("watch=") {
                    let _open = watches;
                    return futures::future::pending().await;
                }
                lists.lock().push(path.clone());
                gate.wait_for(|open| *open).await.unwrap();
                let (code, body) = match path.ends_with("secrets") {
                    true => (
                        403,
                        json!({"kind": "Status", "code": 403, "reason": "Forbidden", "message": "no secrets"}),
                    ),
                    false => (
                        200,
                        json!({"kind": "List", "apiVersion": "v1", "metadata": {"resourceVersion": "7"},
                        "items": [{"metadata": {"name": "a", "uid": "u", "resourceVersion": "5"}}]}),
                    ),
                };
                let answer =
                    http::Response::builder().status(code).header("content-type", "application/json");
                let kind = if path.ends_with("pods") { "PodList" } else { "NodeList" };
                let body = body.to_string().replace("\"List\"", &format!("{kind:?}"));
                Ok::<_, std::io::Error>(answer.body(Body::from(body.into_bytes())).unwrap())
            }
        });
        (server, InformerFactory::new(Client::new(service, "default")))
    }

    fn lists(&self) -> Vec<String> {
        std::mem::take(&mut *self.lists.lock())
    }
}

#[tokio::test(start_paused = true)]
async fn whoever_wants_the_same_shares_one_informer_and_its_values() {
    let (server, factory) = Server::new();
    let ask = || {
        factory
            .informer::<Pod>()
            .namespaces(["web", "api"])
            .labels("tier=backend")
            .reflector(listing())
            .memory(memory())
    };
    let pods = ask().start().unwrap();
    let same = factory.informer::<Pod>().namespaces(["api", "web"]).labels("tier=backend").start().unwrap();
    same.synced().await.unwrap();
    settle().await;
    assert_eq!(server.lists(), ["/api/v1/namespaces/web/pods", "/api/v1/namespaces/api/pods"]);
    let key = "a".parse().unwrap();
    let values = [&pods, &same].map(|pods| pods.lister().get(&key).unwrap().decode().unwrap());
    assert!(Arc::ptr_eq(&values[0], &values[1]));

    let others = [ask().labels("tier=front"), ask().drop_fields(["status"]), ask().namespaces(["db"])];
    let others = others.map(|other| other.start().unwrap());
    settle().await;
    assert_eq!(server.lists().len(), 2 + 2 + 3, "other selectors, fields or namespaces are other informers");
    assert_eq!(server.versions.load(Ordering::Relaxed), 1, "all ask the same server");
    drop(others);
}

#[tokio::test(start_paused = true)]
async fn an_informer_stops_with_its_last_handle_and_starts_anew_when_asked_for() {
    let (server, factory) = Server::new();
    let ask = || factory.informer::<Node>().reflector(listing()).memory(memory()).start().unwrap();
    let (one, two) = (ask(), ask());
    one.synced().await.unwrap();
    settle().await;
    let open = || Arc::strong_count(&server.open_watches) - 2;
    assert_eq!((server.lists().len(), open()), (1, 1));
    drop(one);
    settle().await;
    assert_eq!(open(), 1);
    drop(two);
    settle().await;
    assert_eq!(open(), 0);
    let again = ask();
    again.synced().await.unwrap();
    settle().await;
    assert_eq!((server.lists().len(), open()), (1, 1));
    factory.shutdown().await;
    assert_eq!(open(), 0);
    assert!(again.synced().await.is_err());
}

#[tokio::test(start_paused = true)]
async fn waiting_for_sync_says_which_are_missing_and_why() {
    let (server, factory) = Server::new();
    server.gate.send_replace(false);
    let pods = factory.informer::<Pod>().reflector(listing()).memory(memory()).start().unwrap();
    let secrets = factory.informer::<Secret>().reflector(listing()).memory(memory()).start().unwrap();
    assert!(factory.wait_for_sync().now_or_never().is_none());
    let missing = factory.unsynced().into_iter().map(|missing| missing.resource).collect::<BTreeSet<_>>();
    assert_eq!(missing, ["pods in all namespaces", "secrets in all namespaces"].map(str::to_owned).into());
    server.gate.send_replace(true);
    let error = factory.wait_for_sync().await.unwrap_err();
    assert_eq!(error.missing.len(), 1);
    assert!(error.to_string().contains("secrets in all namespaces: the server refuses"), "{error}");
    assert!(error.to_string().contains("no secrets"), "{error}");
    assert!(pods.is_synced());
    drop(secrets);
    settle().await;
    factory.wait_for_sync().await.unwrap();
    assert!(factory.unsynced().is_empty());
}

#[tokio::test(start_paused = true)]
async fn one_that_cannot_be_shared_is_waited_for_and_stopped_like_the_others() {
    let (server, factory) = Server::new();
    server.gate.send_replace(false);
    let ask = || factory.informer::<Node>().transform(|_| ()).reflector(listing()).memory(memory());
    let (one, other) = (ask().start().unwrap(), ask().start().unwrap());
    assert!(factory.wait_for_sync().now_or_never().is_none());
    assert_eq!(factory.unsynced().len(), 2, "two functions are two informers");
    server.gate.send_replace(true);
    factory.wait_for_sync().await.unwrap();
    assert!(one.is_synced() && other.is_synced());
    settle().await;
    let open = || Arc::strong_count(&server.open_watches) - 2;
    assert_eq!(open(), 2);
    factory.shutdown().await;
    assert_eq!(open(), 0);
}

#[tokio::test(start_paused = true)]
async fn indexes_are_joined_and_one_name_means_one_thing() {
    let (_server, factory) = Server::new();
    let by_node = Index::field("node", "spec.nodeName");
    let by_name = Index::by("name", |object| [object.name().to_owned()]);
    let ask = || factory.informer::<Pod>().reflector(listing()).memory(memory());
    let pods = ask().index(&by_node).start().unwrap();
    let same = ask().index(&by_node).index(&by_name).start().unwrap();
    same.synced().await.unwrap();
    assert_eq!(pods.lister().by_index(&by_name, "a").unwrap().len(), 1);
    assert!(ask().index(&by_name).start().is_ok());
    let other = [Index::field("node", "spec.hostname"), Index::by("name", |_| None)];
    for other in other {
        let error = ask().index(&other).start().unwrap_err().to_string();
        assert!(error.contains("already"), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn only_so_many_fetch_their_first_state_at_once() {
    let (server, factory) = Server::new();
    let factory = factory.starts_max(2);
    server.gate.send_replace(false);
    let names = (0..5).map(|n| format!("ns-{n}")).collect::<Vec<_>>();
    let pods =
        factory.informer::<Pod>().namespaces(names).reflector(listing()).memory(memory()).start().unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(server.lists().len(), 2);
    server.gate.send_replace(true);
    pods.synced().await.unwrap();
    assert_eq!(server.lists().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_refused_stream_is_no_answer_while_the_list_is_under_way() {
    let (server, factory) = Server::new();
    server.refuses_streams.store(true, Ordering::Relaxed);
    let factory = factory.starts_max(1);
    server.gate.send_replace(false);
    let names = (0..3).map(|n| format!("ns-{n}")).collect::<Vec<_>>();
    let pods =
        factory.informer::<Pod>().namespaces(names).reflector(streaming()).memory(memory()).start().unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(server.lists().len(), 1, "it still has its turn");
    assert!(pods.synced().now_or_never().is_none(), "the list may be allowed");
    server.gate.send_replace(true);
    pods.synced().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_dynamic_and_a_typed_handle_may_share_a_watch() {
    let (server, factory) = Server::new();
    let typed = factory.informer::<Pod>().reflector(listing()).memory(memory()).start().unwrap();
    let resource = kube_core::ApiResource::erase::<Pod>(&());
    let dynamic = factory.dynamic(&resource).start().unwrap();
    dynamic.synced().await.unwrap();
    let object: Arc<DynamicObject> = dynamic.lister().list()[0].decode().unwrap();
    assert_eq!(object.types.as_ref().unwrap().kind, "Pod");
    assert_eq!(typed.lister().list()[0].decode().unwrap().metadata.name.as_deref(), Some("a"));
    assert_eq!(server.lists().len(), 1);
}

//! Informers shared between equal requests.

use crate::support;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use embedded_apiserver::Server as Embedded;
use futures::{FutureExt, StreamExt};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Node, Pod, Secret};
use kube_client::Client;
use kube_client::client::Body;
use kube_core::{ApiResource, DynamicObject};
use kube_informer::{Event, Index, Informer, InformerFactory, InformerState, Memory, Origin, SyncError};
use parking_lot::Mutex;
use serde_json::json;
use support::informers::settle;
use support::*;
use tokio::sync::watch;

/// A server with one object per resource, which forbids secrets. Watches stay open and silent; lists wait for the gate.
struct Server {
    lists: Arc<Mutex<Vec<String>>>,
    /// How often its version was requested.
    versions: Arc<AtomicUsize>,
    open_watches: Arc<()>,
    gate: watch::Sender<bool>,
    refuses_streams: Arc<AtomicBool>,
}

impl Server {
    fn new() -> (Self, InformerFactory) {
        let (server, client) = Self::start();
        (server, InformerFactory::new(client))
    }

    fn start() -> (Self, Client) {
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
        (server, Client::new(service, "default"))
    }

    fn lists(&self) -> Vec<String> {
        std::mem::take(&mut *self.lists.lock())
    }
}

#[tokio::test(start_paused = true)]
async fn equal_requests_share_one_informer_and_its_values() {
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
    assert_eq!(
        server.lists().len(),
        2 + 2 + 3,
        "requests with other selectors, fields or namespaces get their own informers"
    );
    assert_eq!(
        server.versions.load(Ordering::Relaxed),
        1,
        "one request for the version serves all informers"
    );
    drop(others);
}

#[tokio::test(start_paused = true)]
async fn an_informer_stops_with_its_last_handle_and_a_new_request_starts_another() {
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
async fn wait_for_sync_returns_the_refused_informers_and_why() {
    let (server, factory) = Server::new();
    server.gate.send_replace(false);
    let pods = factory.informer::<Pod>().reflector(listing()).memory(memory()).start().unwrap();
    let secrets = factory.informer::<Secret>().reflector(listing()).memory(memory()).start().unwrap();
    assert!(factory.wait_for_sync().now_or_never().is_none());
    let missing = factory.unsynced().into_iter().map(|(resource, _)| resource).collect::<BTreeSet<_>>();
    assert_eq!(missing, ["pods in all namespaces", "secrets in all namespaces"].map(str::to_owned).into());
    server.gate.send_replace(true);
    let error = factory.wait_for_sync().await.unwrap_err();
    assert_eq!(error.missing.len(), 1);
    assert!(error.to_string().contains("cannot list secrets in all namespaces: "), "{error}");
    assert!(error.to_string().contains("no secrets"), "{error}");
    assert!(pods.is_synced());
    drop(secrets);
    settle().await;
    factory.wait_for_sync().await.unwrap();
    assert!(factory.unsynced().is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_informer_that_cannot_be_shared_is_awaited_and_stopped_too() {
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
async fn indexes_are_merged_and_a_name_has_one_definition() {
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
        assert!(error.contains("the name is taken"), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn concurrent_initial_lists_are_limited() {
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
async fn a_refused_watch_list_is_not_a_refusal_while_the_list_runs() {
    let (server, factory) = Server::new();
    server.refuses_streams.store(true, Ordering::Relaxed);
    let factory = factory.starts_max(1);
    server.gate.send_replace(false);
    let names = (0..3).map(|n| format!("ns-{n}")).collect::<Vec<_>>();
    let pods =
        factory.informer::<Pod>().namespaces(names).reflector(streaming()).memory(memory()).start().unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(server.lists().len(), 1, "the first list still holds its permit");
    assert!(pods.synced().now_or_never().is_none(), "the list may be allowed");
    server.gate.send_replace(true);
    pods.synced().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_dynamic_and_a_typed_handle_may_share_a_watch() {
    let (server, factory) = Server::new();
    let typed = factory.informer::<Pod>().reflector(listing()).memory(memory()).start().unwrap();
    let resource = ApiResource::erase::<Pod>(&());
    let dynamic = factory.dynamic(&resource).start().unwrap();
    dynamic.synced().await.unwrap();
    let object: Arc<DynamicObject> = dynamic.lister().list()[0].decode().unwrap();
    assert_eq!(object.types.as_ref().unwrap().kind, "Pod");
    assert_eq!(typed.lister().list()[0].decode().unwrap().metadata.name.as_deref(), Some("a"));
    assert_eq!(server.lists().len(), 1);
}

// --- defaults ---

/// A server with config maps, by namespace, name and tier. Their data has 4 KiB.
async fn maps_by_tier(maps: &[(&str, &str, &str)]) -> (Embedded, Client) {
    let object = |(namespace, name, tier): &(&str, &str, &str)| {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"text": "x".repeat(4096)},
               "metadata": {"namespace": namespace, "name": name, "labels": {"tier": tier}}})
    };
    let teams = ["web", "api"].map(|name| {
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": {"team": name}}})
    });
    let objects = teams.into_iter().chain(maps.iter().map(object)).collect::<Vec<_>>();
    let server = Embedded::builder().without_socket().seed(1).objects(objects).start().await.unwrap();
    let client = server.client().unwrap();
    (server, client)
}

async fn keys<K: Send + Sync + 'static>(informer: &Informer<K>) -> BTreeSet<String> {
    informer.synced().await.unwrap();
    informer.lister().list().iter().map(|object| object.key().to_string()).collect()
}

fn set<const N: usize>(keys: [&str; N]) -> BTreeSet<String> {
    keys.map(str::to_owned).into()
}

const MAPS: [(&str, &str, &str); 3] = [("web", "a", "back"), ("web", "b", "front"), ("api", "a", "back")];

#[tokio::test(start_paused = true)]
async fn defaults_apply_to_every_informer() {
    let (_server, client) = maps_by_tier(&MAPS).await;
    let factory = InformerFactory::new(client).defaults(|informer| {
        let informer = informer.namespaces(["web"]).labels("tier=back").resync(Duration::from_secs(600));
        informer.drop_fields(["data"]).index(&Index::label("tier", "tier")).memory(memory())
    });
    let maps = factory.informer::<ConfigMap>().start().unwrap();
    assert_eq!(keys(&maps).await, set(["web/a"]));
    assert_eq!(maps.lister().list()[0].decode().unwrap().data, None);
    assert_eq!(maps.lister().by_index("tier", "back").unwrap().len(), 1);
    let mut events = maps.subscribe();
    while !matches!(events.next().await, Some(Event::Updated { origin: Origin::Resync, .. })) {}

    let dynamic = factory.dynamic(&ApiResource::erase::<ConfigMap>(&())).start().unwrap();
    assert_eq!(keys(&dynamic).await, set(["web/a"]));
    assert_eq!(maps.status()[0].resource, dynamic.status()[0].resource);
    let namespaces = factory.informer::<Namespace>().labels("team").start().unwrap();
    assert_eq!(keys(&namespaces).await, set(["api", "web"]), "cluster-scoped, and without `data`");
}

#[tokio::test(start_paused = true)]
async fn a_builder_replaces_the_defaults() {
    let (_server, client) = maps_by_tier(&MAPS).await;
    let factory = InformerFactory::new(client).defaults(|informer| {
        informer.namespaces(["web"]).labels("tier=back").drop_fields(["data"]).memory(memory())
    });
    let ask = || factory.informer::<ConfigMap>();
    let everything = ask().namespaces([""; 0]).labels("").start().unwrap();
    assert!(keys(&everything).await.is_superset(&set(["web/a", "web/b", "api/a"])));
    let api = ask().namespaces(["api"]).keep_fields(["data"]).start().unwrap();
    assert_eq!(keys(&api).await, set(["api/a"]));
    assert!(api.lister().list()[0].decode().unwrap().data.is_some());
    let matching = ask().namespaces_matching("team=api").start().unwrap();
    assert_eq!(keys(&matching).await, set(["api/a"]), "the default labels are not those of namespaces");
    let two = ask().namespaces(["web"]).namespaces(["api"]).start().unwrap();
    assert_eq!(keys(&two).await, set(["api/a", "web/a"]), "only the defaults are replaced");
    assert!(ask().drop_fields(["spec"]).start().is_err(), "a field of one informer must exist");
}

#[tokio::test(start_paused = true)]
async fn informers_with_the_default_transform_are_shared() {
    let (_server, client) = maps_by_tier(&MAPS).await;
    let transforming = |factory: InformerFactory, to: &'static str| {
        factory.defaults(move |informer| {
            let informer = informer.transform(move |object| {
                object.metadata.annotations = Some([("by".to_owned(), to.to_owned())].into());
            });
            informer.memory(memory())
        })
    };
    let factory = transforming(InformerFactory::new(client), "factory");
    let ask = |factory: &InformerFactory| factory.informer::<ConfigMap>().labels("tier");
    let (maps, same) = (ask(&factory).start().unwrap(), ask(&factory).start().unwrap());
    let own = ask(&factory).transform(|map| map.metadata.annotations = None).start().unwrap();
    let other = ask(&transforming(factory.clone(), "other")).start().unwrap();
    let metadata = ask(&factory).metadata_only().start().unwrap();
    let by = |informer: &Informer<ConfigMap>| {
        informer.lister().list()[0].annotations().get("by").cloned().unwrap_or_default()
    };
    for informer in [&maps, &same, &own, &other] {
        assert_eq!(keys(informer).await.len(), 3);
    }
    assert_eq!([by(&maps), by(&same), by(&own), by(&other)], ["factory", "factory", "", "other"]);
    assert_eq!(keys(&metadata).await.len(), 3);
    assert_eq!(metadata.lister().list()[0].annotations()["by"], "factory");
    let key = "web/a".parse().unwrap();
    let values = [&maps, &same].map(|maps| maps.lister().get(&key).unwrap().decode().unwrap());
    assert!(Arc::ptr_eq(&values[0], &values[1]), "both handles share one informer");
}

// --- clusters ---

#[tokio::test(start_paused = true)]
async fn the_informers_of_a_removed_cluster_stop() {
    let (_home, home) = maps_by_tier(&MAPS[..1]).await;
    let (_east, east) = maps_by_tier(&MAPS[1..2]).await;
    let (_west, west) = maps_by_tier(&MAPS[2..]).await;
    let factory = InformerFactory::new(home).defaults(|informer| informer.labels("tier").memory(memory()));
    let maps = |factory: &InformerFactory| factory.informer::<ConfigMap>().start().unwrap();
    let of_home = maps(&factory);
    let of_east = maps(&factory.add_cluster("east", east.clone()));
    let of_west = maps(&factory.add_cluster("west", west));
    assert_eq!(keys(&of_home).await, set(["web/a"]));
    assert_eq!(keys(&of_east).await, set(["web/b"]));
    assert_eq!(keys(&of_west).await, set(["api/a"]));
    let same = maps(&factory.cluster("east").unwrap());
    assert_eq!(same.lister().count(), 1);

    assert!(factory.remove_cluster("east").await);
    assert!(!factory.remove_cluster("east").await && factory.cluster("east").is_none());
    assert!(
        matches!(of_east.state(), InformerState::Stopped) && matches!(same.state(), InformerState::Stopped)
    );
    for running in [&of_home, &of_west] {
        assert!(matches!(running.state(), InformerState::Live), "{}", running.state());
    }

    // It comes back, and a cluster of the same name takes its place.
    let again = maps(&factory.add_cluster("east", east.clone()));
    assert_eq!(keys(&again).await, set(["web/b"]));
    let replacing = maps(&factory.add_cluster("east", east));
    again.stopped().await;
    assert_eq!(keys(&replacing).await, set(["web/b"]));
    factory.shutdown().await;
    for stopped in [&of_home, &of_west, &replacing] {
        assert!(matches!(stopped.state(), InformerState::Stopped), "{}", stopped.state());
    }
}

#[tokio::test(start_paused = true)]
async fn clusters_share_the_memory_budget() {
    let (_home, home) = maps_by_tier(&MAPS[..1]).await;
    let (_east, east) = maps_by_tier(&MAPS[1..2]).await;
    let factory = InformerFactory::new(home)
        .memory_max(7 << 10)
        .defaults(|informer| informer.labels("tier").memory(Memory::Uncompressed));
    let maps = factory.informer::<ConfigMap>().start().unwrap();
    maps.synced().await.unwrap();
    let east = factory.add_cluster("east", east);
    let of_east = east.informer::<ConfigMap>().start().unwrap();
    let error = of_east.synced().await.unwrap_err();
    assert!(matches!(error, SyncError::OverBudget(_)), "{error}");
    drop(maps);
    while of_east.synced().await.is_err() {
        tokio::time::sleep(Duration::from_secs(1)).await; // paused time: nothing sleeps
    }
    assert_eq!(of_east.lister().count(), 1);
}

#[tokio::test(start_paused = true)]
async fn clusters_share_the_limit_of_initial_lists() {
    let ((home, factory), (east, client)) = (Server::new(), Server::start());
    home.gate.send_replace(false);
    let factory = factory.starts_max(1).defaults(|informer| informer.reflector(listing()).memory(memory()));
    let of_home = factory.informer::<Node>().start().unwrap();
    let of_east = factory.add_cluster("east", client).informer::<Node>().start().unwrap();
    settle().await;
    assert_eq!((home.lists().len(), east.lists().len()), (1, 0));
    home.gate.send_replace(true);
    of_home.synced().await.unwrap();
    of_east.synced().await.unwrap();
}

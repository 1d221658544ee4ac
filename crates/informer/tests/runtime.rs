//! Informers under kube-runtime's reflectors and controllers, on the embedded API server.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use embedded_apiserver::{Action, Fault, Match, Server, Verb};
use futures::StreamExt;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret};
use kube_client::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube_client::{Api, Client};
use kube_core::{Resource, Selector};
use kube_informer::Informer;
use kube_informer::runtime::{Reader, events, trigger};
use kube_runtime::controller::{Action as Requeue, Controller};
use kube_runtime::reflector::{ObjectRef, Store};
use kube_runtime::{WatchStreamExt, reflector, watcher};
use serde_json::json;
use tokio::sync::mpsc;

async fn start() -> (Server, Client, Api<ConfigMap>) {
    let server = Server::builder().without_socket().seed(1).start().await.unwrap();
    let client = server.client().unwrap();
    let api = Api::namespaced(client.clone(), "default");
    (server, client, api)
}

async fn create(api: &Api<ConfigMap>, name: &str) {
    let map = json!({"metadata": {"name": name, "labels": {"test": name}}, "data": {"n": "0"}});
    api.create(&PostParams::default(), &serde_json::from_value(map).unwrap()).await.unwrap();
}

fn informer(client: &Client) -> Informer<ConfigMap> {
    Informer::builder(client.clone()).namespaces(["default"]).labels("test").start().unwrap()
}

/// Names and resourceVersions.
fn versions(maps: impl IntoIterator<Item = Arc<ConfigMap>>) -> BTreeMap<String, String> {
    let version = |map: Arc<ConfigMap>| {
        (map.metadata.name.clone().unwrap(), map.metadata.resource_version.clone().unwrap())
    };
    maps.into_iter().map(version).collect()
}

#[tokio::test(start_paused = true)]
async fn a_store_of_kube_runtime_follows_an_informer_through_faults() {
    let (server, client, api) = start().await;
    create(&api, "a").await;
    create(&api, "b").await;
    let maps = informer(&client);
    let (store, writer): (Store<ConfigMap>, _) = reflector::store();
    let stream = reflector(writer, events(&maps)).touched_objects();
    let follows = tokio::spawn(stream.for_each(|object| {
        object.unwrap();
        std::future::ready(())
    }));
    store.wait_until_ready().await.unwrap();
    assert_eq!(versions(store.state()).into_keys().collect::<Vec<_>>(), ["a", "b"]);

    let on_watch = Match::verb(Verb::Watch).resource("configmaps");
    let broken = server.faults().arm(Fault::new(Action::Disconnect).on(on_watch));
    server.disconnect_all();
    api.delete("a", &DeleteParams::default()).await.unwrap();
    create(&api, "c").await;
    let patch = Patch::Merge(json!({"data": {"n": "1"}}));
    api.patch("b", &PatchParams::default(), &patch).await.unwrap();
    server.compact();
    server.faults().disarm(broken);
    tokio::time::sleep(Duration::from_secs(120)).await; // paused time: nothing sleeps

    let served = api.list(&kube_client::api::ListParams::default().labels("test")).await.unwrap();
    let served = versions(served.items.into_iter().map(Arc::new));
    assert_eq!(served.keys().collect::<Vec<_>>(), ["b", "c"]);
    assert_eq!(versions(store.state()), served);
    assert_eq!(versions(Reader::from(&maps).state()), served);
    maps.shutdown().await;
    follows.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_controller_of_kube_runtime_is_triggered_by_an_informer() {
    let (_server, client, api) = start().await;
    create(&api, "a").await;
    let secrets = Api::<Secret>::namespaced(client.clone(), "default");
    let (changed, store) = trigger(&informer(&client));
    let secret_events = events(&Informer::<Secret>::builder(client.clone()).start().unwrap());
    let (reconciled, mut keys) = mpsc::unbounded_channel();
    let reconcile = async |map: Arc<ConfigMap>, reconciled: Arc<mpsc::UnboundedSender<String>>| {
        let n = map.data.as_ref().map(|data| data["n"].clone()).unwrap_or_default();
        reconciled.send(format!("{} {n}", map.metadata.name.as_deref().unwrap())).unwrap();
        Ok::<_, Infallible>(Requeue::await_change())
    };
    let controller = Controller::for_stream(changed, store)
        .owns_stream(secret_events.touched_objects())
        .run(
            move |map, context| Box::pin(reconcile(map, context)),
            |_, _, _| Requeue::await_change(),
            Arc::new(reconciled),
        )
        .for_each(|done| {
            done.unwrap();
            std::future::ready(())
        });
    let controller = tokio::spawn(controller);
    assert_eq!(keys.recv().await.as_deref(), Some("a 0"));
    let patch = Patch::Merge(json!({"data": {"n": "1"}}));
    api.patch("a", &PatchParams::default(), &patch).await.unwrap();
    assert_eq!(keys.recv().await.as_deref(), Some("a 1"));
    create(&api, "b").await;
    assert_eq!(keys.recv().await.as_deref(), Some("b 0"));
    let owner = api.get("b").await.unwrap().controller_owner_ref(&()).unwrap();
    let secret = json!({"metadata": {"name": "of-b", "ownerReferences": [owner]}});
    secrets.create(&PostParams::default(), &serde_json::from_value(secret).unwrap()).await.unwrap();
    assert_eq!(keys.recv().await.as_deref(), Some("b 0"), "its secret has changed");
    controller.abort();
}

#[tokio::test(start_paused = true)]
async fn a_refusal_is_an_error_of_the_stream_and_ends_by_itself() {
    let (server, client, api) = start().await;
    create(&api, "a").await;
    let (reason, message) = ("Forbidden".to_owned(), "no role allows it".to_owned());
    let refused = Action::Status { code: 403, reason, message, retry_after_seconds: 0 };
    let refused = server.faults().arm(Fault::new(refused).on(Match::default().resource("configmaps")));
    let mut events = Box::pin(events(&informer(&client)));
    for _ in 0..3 {
        let error = events.next().await.unwrap().unwrap_err();
        let watcher::Error::InitialListFailed(kube_client::Error::Api(status)) = &error else {
            panic!("{error}")
        };
        assert_eq!((status.code, status.message.as_str()), (403, "no role allows it"));
    }
    server.faults().disarm(refused);
    let mut shape = Vec::new();
    while shape.last() != Some(&"done") {
        match events.next().await.unwrap() {
            Ok(watcher::Event::Init) => shape.push("init"),
            Ok(watcher::Event::InitApply(map)) => {
                assert_eq!(map.metadata.name.as_deref(), Some("a"));
                shape.push("apply");
            }
            Ok(watcher::Event::InitDone) => shape.push("done"),
            Ok(event) => panic!("{event:?}"),
            Err(_) => {}
        }
    }
    assert_eq!(shape, ["init", "apply", "done"]);
}

#[tokio::test(start_paused = true)]
async fn a_reader_has_the_methods_of_a_store() {
    let (_server, client, api) = start().await;
    create(&api, "a").await;
    create(&api, "b").await;
    let maps = Reader::from(&informer(&client));
    maps.wait_until_ready().await.unwrap();
    assert_eq!((maps.len(), maps.is_empty()), (2, false));
    let a = maps.get(&ObjectRef::new("a").within("default")).unwrap();
    assert_eq!(a.metadata.name.as_deref(), Some("a"));
    assert!(maps.get(&ObjectRef::new("a").within("elsewhere")).is_none());
    assert!(maps.find(|map| map.metadata.name.as_deref() == Some("b")).is_some());
    assert_eq!(maps.state_filter(|map| map.metadata.name.as_deref() == Some("c")).len(), 0);
    let selected = maps.state_filter_selector(Selector::from_iter([("test", "b")])).unwrap();
    assert_eq!(versions(selected).into_keys().collect::<Vec<_>>(), ["b"]);
}

#[tokio::test(start_paused = true)]
async fn a_reader_ignores_the_namespace_of_a_cluster_scoped_object() {
    let (_server, client, _) = start().await;
    let namespaces = Reader::from(&Informer::<Namespace>::builder(client).start().unwrap());
    namespaces.wait_until_ready().await.unwrap();
    for reference in [ObjectRef::new("default"), ObjectRef::new("default").within("elsewhere")] {
        let found = namespaces.get(&reference).unwrap();
        assert_eq!(found.metadata.name.as_deref(), Some("default"));
    }
}

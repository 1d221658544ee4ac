//! Informers for resources known only at run time, and for metadata, on the embedded server.

use crate::support;

use embedded_apiserver::{Server, WatchListMode};
use futures::StreamExt;
use kube_client::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube_client::{Api, Client};
use kube_core::{ApiResource, DynamicObject, GroupVersionKind};
use kube_informer::building_blocks::ReflectorConfig;
use kube_informer::{Event, Informer, InformerFactory, Subscription, WatchList};
use serde_json::json;

async fn start(mode: WatchListMode) -> (Server, Client) {
    let server = Server::builder().without_socket().seed(1).watch_list(mode).start().await.unwrap();
    let client = server.client().unwrap();
    (server, client)
}

fn reflector(watch_list: WatchList) -> ReflectorConfig {
    let mut config = ReflectorConfig::default();
    (config.seed, config.watch_list) = (Some(1), watch_list);
    config
}

fn deployments() -> ApiResource {
    ApiResource::from_gvk(&GroupVersionKind::gvk("apps", "v1", "Deployment"))
}

fn deployment(name: &str, tier: &str) -> DynamicObject {
    let labels = json!({"tier": tier});
    let object = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "labels": labels},
        "spec": {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels},
            "spec": {"containers": [{"name": "main", "image": "image"}]}}}});
    serde_json::from_value(object).unwrap()
}

/// The next event's kind and name.
async fn next<K>(events: &mut Subscription<K>) -> String
where
    K: Send + Sync + 'static,
{
    match events.next().await.unwrap() {
        Event::Added { object, .. } => format!("added {}", object.key()),
        Event::Updated { new, .. } => format!("updated {}", new.key()),
        Event::Deleted { last, .. } => format!("deleted {}", last.key()),
        Event::Synced => "synced".to_owned(),
    }
}

#[tokio::test(start_paused = true)]
async fn a_dynamic_informer_reports_creation_change_and_deletion_with_list_and_watch_list() {
    for (mode, watch_list) in [
        (WatchListMode::On, WatchList::On),
        (WatchListMode::On, WatchList::Off),
        (WatchListMode::Off, WatchList::Auto),
        (WatchListMode::Ignored, WatchList::Auto),
    ] {
        let (_server, client) = start(mode).await;
        let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), "default", &deployments());
        api.create(&PostParams::default(), &deployment("a", "backend")).await.unwrap();
        let informer = Informer::dynamic(client.clone(), &deployments())
            .namespaces(["default"])
            .labels("tier=backend")
            .reflector(reflector(watch_list))
            .memory(support::memory())
            .start()
            .unwrap();
        let mut events = informer.subscribe();
        assert_eq!(next(&mut events).await, "added default/a", "{mode:?}, {watch_list:?}");
        assert_eq!(next(&mut events).await, "synced");
        api.create(&PostParams::default(), &deployment("b", "frontend")).await.unwrap();
        api.create(&PostParams::default(), &deployment("c", "backend")).await.unwrap();
        assert_eq!(next(&mut events).await, "added default/c", "b is not selected");
        let patch = Patch::Merge(json!({"spec": {"replicas": 7}}));
        let written = api.patch("c", &PatchParams::default(), &patch).await.unwrap();
        assert_eq!(next(&mut events).await, "updated default/c");
        let found = informer.wait_for(&written).await.unwrap().unwrap();
        assert_eq!(found.decode().unwrap().data, written.data, "the whole object, in any encoding");
        api.delete("c", &DeleteParams::default()).await.unwrap();
        assert_eq!(next(&mut events).await, "deleted default/c");
    }
}

#[tokio::test(start_paused = true)]
async fn a_factory_of_dynamic_informers_shares_by_resource_namespace_and_selector() {
    let (_server, client) = start(WatchListMode::On).await;
    let factory = InformerFactory::new(client.clone());
    let in_namespace = |namespace: &str| {
        factory.dynamic(&deployments()).namespaces([namespace.to_owned()]).memory(support::memory())
    };
    let one = in_namespace("default").start().unwrap();
    let same = in_namespace("default").start().unwrap();
    let other = in_namespace("kube-system").start().unwrap();
    let selected = in_namespace("default").labels("tier=backend").start().unwrap();
    factory.wait_for_sync().await.unwrap();
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), "default", &deployments());
    let written = api.create(&PostParams::default(), &deployment("a", "frontend")).await.unwrap();
    let found = one.wait_for(&written).await.unwrap().unwrap();
    let shared = same.lister().get(&found.key()).unwrap();
    assert!(
        std::sync::Arc::ptr_eq(&found.decode().unwrap(), &shared.decode().unwrap()),
        "both handles share one informer"
    );
    assert_eq!((other.lister().count(), selected.lister().count()), (0, 0));
    factory.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_metadata_informer_reports_changes_outside_the_metadata() {
    for watch_list in [WatchList::On, WatchList::Off] {
        let (_server, client) = start(WatchListMode::On).await;
        let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), "default", &deployments());
        let created = api.create(&PostParams::default(), &deployment("a", "backend")).await.unwrap();
        let informer = Informer::dynamic(client.clone(), &deployments())
            .metadata_only()
            .reflector(reflector(watch_list))
            .memory(support::memory())
            .start()
            .unwrap();
        let mut events = informer.subscribe();
        assert_eq!(next(&mut events).await, "added default/a");
        assert_eq!(next(&mut events).await, "synced");
        let patch = Patch::Merge(json!({"spec": {"replicas": 7}}));
        api.patch("a", &PatchParams::default(), &patch).await.unwrap();
        let Some(Event::Updated { old, new, .. }) = events.next().await else { panic!("an update") };
        assert_eq!((old.generation(), new.generation()), (1, 2));
        let meta = new.decode().unwrap();
        assert_eq!(
            (&meta.metadata.uid, &meta.metadata.labels),
            (&created.metadata.uid, &created.metadata.labels)
        );
        api.delete("a", &DeleteParams::default()).await.unwrap();
        assert_eq!(next(&mut events).await, "deleted default/a");
    }
}

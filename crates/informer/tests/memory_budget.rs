//! The memory budget of a factory, on the embedded API server.

use crate::support;

use std::time::Duration;

use embedded_apiserver::Server;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube_client::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube_client::{Api, Client};
use kube_informer::{Informer, InformerFactory, InformerState, Key, SyncError};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::json;

const KIB: usize = 1 << 10;

/// Text that cannot be packed to less than three quarters.
fn noise(bytes: usize, seed: u64) -> String {
    let mut chance = StdRng::seed_from_u64(seed);
    let alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+-";
    (0..bytes).map(|_| char::from(alphabet[chance.random_range(0..alphabet.len())])).collect()
}

async fn start() -> (Server, Client) {
    let server = Server::builder().without_socket().seed(1).start().await.unwrap();
    let client = server.client().unwrap();
    (server, client)
}

/// Creates config maps of 10 KiB.
async fn create_maps(client: &Client, numbers: std::ops::Range<u64>) {
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
    for number in numbers {
        let map = json!({
            "metadata": {"name": format!("map-{number:03}"), "labels": {"test": "yes"}},
            "data": {"noise": noise(10 * KIB, number)},
        });
        api.create(&PostParams::default(), &serde_json::from_value(map).unwrap()).await.unwrap();
    }
}

async fn delete_maps(client: &Client, numbers: std::ops::Range<u64>) {
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
    for number in numbers {
        api.delete(&format!("map-{number:03}"), &DeleteParams::default()).await.unwrap();
    }
}

fn maps(factory: &InformerFactory) -> Informer<ConfigMap> {
    factory.informer::<ConfigMap>().labels("test").memory(support::memory()).start().unwrap()
}

fn stored_bytes<K>(informer: &Informer<K>) -> usize
where
    K: Send + Sync + 'static,
{
    informer.lister().view().iter().map(|object| object.stored_bytes()).sum()
}

#[tokio::test(start_paused = true)]
async fn promise_6_an_initial_list_over_the_budget_is_an_error_and_affects_no_other_informer() {
    let (_server, client) = start().await;
    let secrets_api: Api<Secret> = Api::namespaced(client.clone(), "default");
    let secret = json!({"metadata": {"name": "one"}, "stringData": {"noise": noise(10 * KIB, 1)}});
    let secret = serde_json::from_value(secret).unwrap();
    secrets_api.create(&PostParams::default(), &secret).await.unwrap();
    create_maps(&client, 0..60).await;

    let factory = InformerFactory::new(client.clone()).memory_max(300 * KIB);
    let secrets = factory.informer::<Secret>().start().unwrap();
    secrets.synced().await.unwrap();
    let maps = maps(&factory);
    let error = maps.synced().await.unwrap_err();
    assert!(matches!(error, SyncError::OverBudget(_)), "{error}");
    let text = error.to_string();
    let says = "cannot sync configmaps in all namespaces with labels test: cannot store an object of 10";
    assert!(text.starts_with(says), "{text}");
    assert!(text.contains(" B: memory budget exceeded (") && text.contains(" MiB of 0.3 MiB); "), "{text}");
    assert_eq!(
        (maps.lister().count(), stored_bytes(&maps)),
        (0, 0),
        "a list is stored as a whole or not at all"
    );
    let missing = factory.wait_for_sync().await.unwrap_err().to_string();
    assert!(missing.starts_with("1 informer not synced: cannot sync configmaps"), "{missing}");

    let patch = Patch::Merge(json!({"stringData": {"more": "text"}}));
    let written = secrets_api.patch("one", &PatchParams::default(), &patch).await.unwrap();
    secrets.wait_for(&written).await.unwrap();
    assert!(matches!(secrets.state(), InformerState::Live), "{}", secrets.state());

    // Once they fit, the informer syncs by itself.
    delete_maps(&client, 10..60).await;
    while maps.synced().await.is_err() {
        tokio::time::sleep(Duration::from_secs(1)).await; // paused time: nothing sleeps
    }
    assert_eq!(maps.lister().count(), 10);
}

#[tokio::test(start_paused = true)]
async fn promise_6_an_informer_that_grows_over_the_budget_is_degraded_and_recovers() {
    const MAX: usize = 300 * KIB;
    let (_server, client) = start().await;
    create_maps(&client, 0..20).await;
    let factory = InformerFactory::new(client.clone()).memory_max(MAX);
    let maps = maps(&factory);
    maps.synced().await.unwrap();
    for number in 20..50 {
        create_maps(&client, number..number + 1).await;
        tokio::time::sleep(Duration::from_secs(2)).await; // paused time: nothing sleeps
        assert!(stored_bytes(&maps) <= MAX);
    }
    let state = maps.state().to_string();
    assert!(state.starts_with("degraded: cannot store an object of "), "{state}");
    assert!(state.contains("memory budget exceeded"), "{state}");
    let stored = maps.lister().count();
    assert!((25..50).contains(&stored), "{stored}: it was used before it was exceeded");

    delete_maps(&client, 5..50).await;
    tokio::time::sleep(Duration::from_secs(300)).await; // paused time: nothing sleeps
    assert!(matches!(maps.state(), InformerState::Live), "{}", maps.state());
    assert_eq!(maps.lister().count(), 5);
    // The deleted objects are released: there is capacity for others.
    create_maps(&client, 50..65).await;
    tokio::time::sleep(Duration::from_secs(2)).await; // paused time: nothing sleeps
    assert_eq!(maps.lister().count(), 20);
}

#[tokio::test(start_paused = true)]
async fn an_object_may_be_replaced_when_the_budget_is_used_up() {
    let (_server, client) = start().await;
    create_maps(&client, 0..10).await;
    let factory = InformerFactory::new(client.clone()).memory_max(112 * KIB);
    let maps = factory
        .informer::<ConfigMap>()
        .labels("test")
        .memory(kube_informer::Memory::Uncompressed)
        .start()
        .unwrap();
    maps.synced().await.unwrap();
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
    for round in 0..20 {
        let patch = Patch::Merge(json!({"data": {"noise": noise(10 * KIB, 1000 + round)}}));
        let written = api.patch("map-003", &PatchParams::default(), &patch).await.unwrap();
        let stored = maps.wait_for(&written).await.unwrap().unwrap();
        assert_eq!(stored.decode().unwrap().data, written.data);
    }
    assert!(matches!(maps.state(), InformerState::Live), "{}", maps.state());
    create_maps(&client, 10..11).await;
    tokio::time::sleep(Duration::from_secs(2)).await; // paused time: nothing sleeps
    assert!(matches!(maps.state(), InformerState::Degraded(_)), "{}", maps.state());
    assert!(maps.lister().get(&Key::new("default", "map-003")).is_some(), "stored objects stay");
}

#[tokio::test(start_paused = true)]
async fn an_informer_that_is_dropped_releases_its_part_of_the_budget() {
    let (_server, client) = start().await;
    create_maps(&client, 0..20).await;
    let factory = InformerFactory::new(client.clone()).memory_max(300 * KIB);
    for round in 0..5 {
        let maps = factory.informer::<ConfigMap>().namespaces(["default"]).labels("test").start().unwrap();
        maps.synced().await.unwrap_or_else(|error| panic!("round {round}: {error}"));
        maps.shutdown().await;
    }
}

//! kube-rs's runtime against the server: watcher, reflector and Controller, with both list strategies, and a lease.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use embedded_apiserver::{Action, Fault, Match, Server, Verb};
use futures::{StreamExt as _, TryStreamExt as _, pin_mut};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ConfigMap;
use kube_client::api::{Patch, PatchParams, PostParams};
use kube_client::{Api, Client};
use kube_lease_manager::LeaseManagerBuilder;
use kube_runtime::controller::{Action as Next, Controller};
use kube_runtime::reflector::{self, ObjectRef};
use kube_runtime::watcher::{self, Event};
use kube_runtime::{WatchStreamExt as _, watcher as watch};

fn config_map(name: &str) -> ConfigMap {
    let mut object = ConfigMap::default();
    object.metadata.name = Some(name.to_owned());
    object
}

async fn start(socket: bool) -> (Server, Client) {
    let builder = Server::builder().tls();
    let builder = if socket { builder } else { builder.without_socket() };
    let server = builder.start().await.unwrap();
    let client = server.client().unwrap();
    (server, client)
}

#[tokio::test]
async fn a_watcher_sees_the_state_and_then_every_change() {
    for config in [watcher::Config::default(), watcher::Config::default().streaming_lists()] {
        for socket in [true, false] {
            let (server, client) = start(socket).await;
            let api: Api<ConfigMap> = Api::default_namespaced(client);
            for name in ["a", "b"] {
                api.create(&PostParams::default(), &config_map(name)).await.unwrap();
            }
            let events = watch(api.clone(), config.clone());
            pin_mut!(events);
            let mut initial = Vec::new();
            loop {
                match events.try_next().await.unwrap().unwrap() {
                    Event::Init => {}
                    Event::InitApply(object) => initial.extend(object.metadata.name),
                    Event::InitDone => break,
                    other => panic!("{other:?}"),
                }
            }
            assert_eq!(initial, ["a", "b"]);
            api.create(&PostParams::default(), &config_map("c")).await.unwrap();
            api.delete("a", &Default::default()).await.unwrap();
            let applied = events.try_next().await.unwrap().unwrap();
            assert!(matches!(applied, Event::Apply(object) if object.metadata.name.as_deref() == Some("c")));
            let deleted = events.try_next().await.unwrap().unwrap();
            assert!(matches!(deleted, Event::Delete(object) if object.metadata.name.as_deref() == Some("a")));
            server.shutdown().await;
        }
    }
}

#[tokio::test]
async fn a_reflector_recovers_from_a_cut_and_an_expired_watch() {
    let (server, client) = start(false).await;
    let api: Api<ConfigMap> = Api::default_namespaced(client);
    api.create(&PostParams::default(), &config_map("a")).await.unwrap();
    let faults = server.faults();
    faults.arm(Fault::new(Action::CutAfterEvents(1)).on(Match::verb(Verb::Watch)).once());
    faults.arm(Fault::new(Action::Expired).on(Match::verb(Verb::Watch)).once());
    let (store, writer) = reflector::store();
    let (seen, mut changes) = tokio::sync::mpsc::unbounded_channel();
    let events = watch(api.clone(), watcher::Config::default()).default_backoff().reflect(writer);
    let running = tokio::spawn(events.for_each(move |event| {
        seen.send(event.is_ok()).ok();
        async {}
    }));
    store.wait_until_ready().await.unwrap();
    api.create(&PostParams::default(), &config_map("b")).await.unwrap();
    let both = [ObjectRef::new("a").within("default"), ObjectRef::new("b").within("default")];
    while !both.iter().all(|key| store.get(key).is_some()) {
        changes.recv().await.unwrap();
    }
    running.abort();
    server.shutdown().await;
}

#[tokio::test]
async fn a_controller_reconciles_owners_and_owned_objects() {
    let (server, client) = start(true).await;
    let deployments: Api<Deployment> = Api::default_namespaced(client.clone());
    let maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
    let (done, mut reconciled) = tokio::sync::mpsc::unbounded_channel();

    // Each deployment owns a config map with its name, created by server-side apply.
    let reconcile =
        |object: Arc<Deployment>,
         context: Arc<(Api<ConfigMap>, tokio::sync::mpsc::UnboundedSender<String>)>| async move {
            let name = object.metadata.name.clone().unwrap();
            let owned = serde_json::json!({
                "apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": name, "ownerReferences": [{
                    "apiVersion": "apps/v1", "kind": "Deployment", "name": name, "uid": object.metadata.uid, "controller": true,
                }]},
                "data": {"replicas": object.spec.replicas.unwrap().to_string()},
            });
            context.0.patch(&name, &PatchParams::apply("test").force(), &Patch::Apply(owned)).await?;
            context.1.send(name).ok();
            Ok::<_, kube_client::Error>(Next::await_change())
        };
    let controller = Controller::new(deployments.clone(), watcher::Config::default())
        .owns(maps.clone(), watcher::Config::default())
        .run(reconcile, |_, _, _| Next::requeue(Duration::from_millis(10)), Arc::new((maps.clone(), done)));
    let running = tokio::spawn(controller.for_each(|_| async {}));

    let deployment: Deployment = serde_json::from_value(serde_json::json!({
        "metadata": {"name": "web"},
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c"}]}}},
    }))
    .unwrap();
    deployments.create(&PostParams::default(), &deployment).await.unwrap();
    assert_eq!(reconciled.recv().await.as_deref(), Some("web"));
    let made = maps.get("web").await.unwrap();
    assert_eq!(made.data, Some(BTreeMap::from([("replicas".to_owned(), "1".to_owned())])));

    // A deleted owned object is recreated, and is deleted with its owner.
    maps.delete("web", &Default::default()).await.unwrap();
    while maps.get_opt("web").await.unwrap().is_none() {
        reconciled.recv().await.unwrap();
    }
    running.abort();
    let _aborted = running.await;
    deployments.delete("web", &Default::default()).await.unwrap();
    assert_eq!(maps.get_opt("web").await.unwrap(), None);
    server.shutdown().await;
}

#[tokio::test]
async fn a_lease_has_one_holder_at_a_time() {
    let (server, client) = start(true).await;
    let manager = |identity: &str| {
        LeaseManagerBuilder::new(client.clone(), "leader")
            .with_namespace("default")
            .with_identity(identity)
            .with_field_manager(format!("manager-{identity}"))
            .with_duration(2)
            .with_grace(1)
            .build()
    };
    let (one, two) = (manager("one").await.unwrap(), manager("two").await.unwrap());
    assert!(one.changed().await.unwrap(), "the first takes the lease");
    let leases: Api<Lease> = Api::default_namespaced(client.clone());
    let holder = || async { leases.get("leader").await.unwrap().spec.unwrap().holder_identity };
    assert_eq!(holder().await.as_deref(), Some("one"));
    let waiting = tokio::spawn(async move {
        let led = two.changed().await.unwrap();
        (two, led)
    });
    one.release().await.unwrap();
    let (two, led) = waiting.await.unwrap();
    assert!(led, "the second takes it once it is released");
    assert_eq!(holder().await.as_deref(), Some("two"));
    two.release().await.unwrap();
    server.shutdown().await;
}

//! Informers over namespaces chosen by label, on the embedded API server.

use crate::support;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use embedded_apiserver::{Action, Fault, FaultId, Match, Server, Verb};
use futures::StreamExt;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret};
use kube_client::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube_client::{Api, Client};
use kube_informer::building_blocks::ReflectorConfig;
use kube_informer::{
    Event, Informer, InformerBuilder, InformerFactory, InformerState, Key, StartError, Subscription,
    SyncError, WaitError,
};
use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};

/// A server without a socket, with tokio's paused clock.
struct Rig {
    server: Server,
    client: Client,
}

impl Rig {
    /// With these namespaces, and the value of their label `team`; each has a config map `a`.
    async fn start(namespaces: &[(&str, &str)]) -> Self {
        let server = Server::builder().without_socket().seed(1).start().await.unwrap();
        let client = server.client().unwrap();
        let rig = Self { server, client };
        for (namespace, team) in namespaces {
            rig.create_namespace(namespace, team).await;
            rig.create(namespace, "a").await;
        }
        rig
    }

    async fn create_namespace(&self, name: &str, team: &str) {
        let namespace = json!({"metadata": {"name": name, "labels": {"team": team}}});
        let namespace = serde_json::from_value(namespace).unwrap();
        self.namespaces().create(&PostParams::default(), &namespace).await.unwrap();
    }

    async fn create(&self, namespace: &str, name: &str) -> ConfigMap {
        let map = json!({"metadata": {"name": name, "labels": {"test": "yes"}}});
        let map = serde_json::from_value(map).unwrap();
        self.maps(namespace).create(&PostParams::default(), &map).await.unwrap()
    }

    /// Sets the label `team` of a namespace.
    async fn label(&self, namespace: &str, team: impl Into<Value>) {
        let patch = Patch::Merge(json!({"metadata": {"labels": {"team": team.into()}}}));
        self.namespaces().patch(namespace, &PatchParams::default(), &patch).await.unwrap();
    }

    fn namespaces(&self) -> Api<Namespace> {
        Api::all(self.client.clone())
    }

    fn maps(&self, namespace: &str) -> Api<ConfigMap> {
        Api::namespaced(self.client.clone(), namespace)
    }

    /// An informer over the config maps with a label, in the namespaces of a team.
    fn builder(&self) -> InformerBuilder<ConfigMap> {
        let mut config = ReflectorConfig::default();
        config.seed = Some(1);
        Informer::builder(self.client.clone())
            .namespaces_matching("team=web")
            .labels("test")
            .reflector(config)
            .memory(support::memory())
    }

    fn forbid(&self, on: Match) -> FaultId {
        let (reason, message) = ("Forbidden".to_owned(), "no role allows it".to_owned());
        let refused = Action::Status { code: 403, reason, message, retry_after_seconds: 0 };
        self.server.faults().arm(Fault::new(refused).on(on))
    }
}

/// The next events, one line each.
async fn next(events: &mut Subscription<ConfigMap>, count: usize) -> Vec<String> {
    let mut lines = Vec::new();
    while lines.len() < count {
        lines.push(match events.next().await.expect("the informer runs") {
            Event::Added { object, .. } => format!("added {}", object.key()),
            Event::Updated { new, .. } => format!("updated {}", new.key()),
            Event::Deleted { last, final_state_known, .. } => {
                format!("deleted {}, final state known: {final_state_known}", last.key())
            }
            Event::Synced => "synced".to_owned(),
        });
    }
    lines
}

fn stored(maps: &Informer<ConfigMap>) -> BTreeSet<String> {
    maps.lister().list().iter().map(|map| map.key().to_string()).collect()
}

fn watched(maps: &Informer<ConfigMap>) -> BTreeSet<String> {
    maps.status().into_iter().filter_map(|scope| scope.namespace).collect()
}

fn set<const N: usize>(names: [&str; N]) -> BTreeSet<String> {
    names.into_iter().map(str::to_owned).collect()
}

#[tokio::test(start_paused = true)]
async fn promise_15_objects_enter_and_leave_with_the_label_of_their_namespace() {
    let rig = Rig::start(&[("web", "web"), ("shop", "web"), ("db", "db")]).await;
    let maps = rig.builder().start().unwrap();
    let mut events = maps.subscribe();
    maps.synced().await.unwrap();
    assert_eq!(stored(&maps), set(["shop/a", "web/a"]));
    let mut initial = next(&mut events, 3).await;
    assert_eq!(initial.pop().as_deref(), Some("synced"), "after the objects of both");

    rig.label("db", "web").await;
    assert_eq!(next(&mut events, 1).await, ["added db/a"]);
    assert_eq!(watched(&maps), set(["db", "shop", "web"]));
    rig.create("db", "b").await;
    assert_eq!(next(&mut events, 1).await, ["added db/b"]);

    rig.label("web", Value::Null).await;
    assert_eq!(next(&mut events, 1).await, ["deleted web/a, final state known: false"]);
    assert_eq!(stored(&maps), set(["db/a", "db/b", "shop/a"]));
    assert_eq!(watched(&maps), set(["db", "shop"]));
    rig.create("web", "unseen").await;

    // Another label changes nothing.
    let patch = Patch::Merge(json!({"metadata": {"labels": {"other": "label"}}}));
    rig.namespaces().patch("db", &PatchParams::default(), &patch).await.unwrap();
    rig.label("web", "web").await;
    let mut back = next(&mut events, 2).await;
    back.sort();
    assert_eq!(back, ["added web/a", "added web/unseen"]);
    assert!(matches!(maps.state(), InformerState::Live), "{}", maps.state());
}

#[tokio::test(start_paused = true)]
async fn promise_15_a_namespace_that_loses_its_label_while_the_watch_is_down_leaves() {
    let rig = Rig::start(&[("web", "web"), ("shop", "web")]).await;
    let maps = rig.builder().start().unwrap();
    maps.synced().await.unwrap();
    let faults = rig.server.faults();
    faults.arm(Fault::new(Action::Disconnect).on(Match::verb(Verb::Watch).resource("namespaces")));
    rig.server.disconnect_all();
    tokio::time::sleep(Duration::from_secs(60)).await; // paused time: nothing sleeps
    assert!(matches!(maps.state(), InformerState::Degraded(_)), "{}: the set may be stale", maps.state());

    let mut events = maps.subscribe();
    next(&mut events, 3).await;
    rig.label("shop", "other").await;
    rig.create("web", "b").await;
    assert_eq!(next(&mut events, 1).await, ["added web/b"], "the other watches continue");
    // The change cannot be watched any more: only a new list shows it.
    rig.server.compact();
    faults.clear();
    assert_eq!(next(&mut events, 1).await, ["deleted shop/a, final state known: false"]);
    assert_eq!(stored(&maps), set(["web/a", "web/b"]));
}

#[tokio::test(start_paused = true)]
async fn promise_15_a_deleted_namespace_leaves_and_its_successor_enters() {
    let rig = Rig::start(&[("web", "web"), ("shop", "web")]).await;
    let maps = rig.builder().start().unwrap();
    maps.synced().await.unwrap();
    let mut events = maps.subscribe();
    next(&mut events, 3).await;

    rig.namespaces().delete("shop", &DeleteParams::default()).await.unwrap();
    let [deleted] = next(&mut events, 1).await.try_into().unwrap();
    assert!(deleted.starts_with("deleted shop/a"), "{deleted}");
    rig.create("web", "b").await;
    assert_eq!(next(&mut events, 1).await, ["added web/b"], "no deletion is reported twice");
    assert_eq!(watched(&maps), set(["web"]));

    rig.create_namespace("shop", "web").await;
    rig.create("shop", "again").await;
    assert_eq!(next(&mut events, 1).await, ["added shop/again"]);
}

#[tokio::test(start_paused = true)]
async fn promise_15_a_forbidden_namespace_is_reported_and_affects_no_other() {
    let rig = Rig::start(&[("web", "web"), ("secret", "web")]).await;
    let forbidden = rig.forbid(Match::default().resource("configmaps").namespace("secret"));
    let maps = rig.builder().start().unwrap();
    let error = maps.synced().await.unwrap_err();
    assert!(matches!(&error, SyncError::Refused { status, .. } if status.code == 403), "{error}");
    assert!(error.to_string().starts_with("cannot list configmaps in namespace secret"), "{error}");

    // It leaves without ever having been listed, so it delays nothing any more.
    rig.label("secret", Value::Null).await;
    while watched(&maps).contains("secret") {
        tokio::time::sleep(Duration::from_millis(10)).await; // paused time: nothing sleeps
    }
    maps.synced().await.unwrap();
    assert_eq!(stored(&maps), set(["web/a"]));

    let mut events = maps.subscribe();
    next(&mut events, 2).await;
    rig.label("secret", "web").await;
    rig.create("web", "b").await;
    assert_eq!(next(&mut events, 1).await, ["added web/b"]);
    tokio::time::sleep(Duration::from_secs(5)).await; // paused time: nothing sleeps
    assert!(maps.is_synced());
    assert!(matches!(maps.state(), InformerState::Degraded(_)), "{}", maps.state());
    let status = maps.status();
    let refused = status.iter().filter(|scope| matches!(scope.state, InformerState::Degraded(_)));
    assert_eq!(
        refused.map(|scope| &*scope.resource).collect::<Vec<_>>(),
        ["configmaps in namespace secret with labels test"]
    );

    rig.server.faults().disarm(forbidden);
    assert_eq!(next(&mut events, 1).await, ["added secret/a"]);
    tokio::time::sleep(Duration::from_secs(5)).await; // paused time: nothing sleeps
    assert!(matches!(maps.state(), InformerState::Live), "{}", maps.state());
}

#[tokio::test(start_paused = true)]
async fn namespaces_that_may_not_be_listed_are_an_error() {
    let rig = Rig::start(&[("web", "web")]).await;
    let forbidden = rig.forbid(Match::default().resource("namespaces"));
    let maps = rig.builder().start().unwrap();
    let error = maps.synced().await.unwrap_err().to_string();
    assert!(
        error.starts_with("cannot list namespaces in all namespaces with labels team=web: 403"),
        "{error}"
    );
    assert!(error.contains("grant `list` and `watch`"), "{error}");
    assert!(!maps.is_synced(), "the namespaces are unknown, not absent");

    rig.server.faults().disarm(forbidden);
    while maps.synced().await.is_err() {
        tokio::time::sleep(Duration::from_secs(1)).await; // paused time: nothing sleeps
    }
    assert_eq!(stored(&maps), set(["web/a"]));
}

#[tokio::test(start_paused = true)]
async fn an_informer_without_matching_namespaces_is_synced_and_empty() {
    let rig = Rig::start(&[("db", "db")]).await;
    let maps = rig.builder().start().unwrap();
    maps.synced().await.unwrap();
    let mut events = maps.subscribe();
    assert_eq!(next(&mut events, 1).await, ["synced"]);
    assert_eq!((maps.lister().count(), maps.status().len()), (0, 0));
    assert!(matches!(maps.state(), InformerState::Live), "{}", maps.state());
    rig.label("db", "web").await;
    assert_eq!(next(&mut events, 1).await, ["added db/a"]);
}

#[tokio::test(start_paused = true)]
async fn waits_end_when_the_namespace_leaves() {
    let rig = Rig::start(&[("web", "web"), ("db", "db")]).await;
    let maps = rig.builder().start().unwrap();
    maps.synced().await.unwrap();
    let elsewhere = rig.create("db", "b").await;
    let error = maps.wait_for(&elsewhere).await.unwrap_err().to_string();
    let why = "cannot wait for `db/b`: namespace `db` is not watched: it does not match `team=web`";
    assert_eq!(error, why);

    let written = rig.create("web", "b").await;
    assert!(maps.wait_for(&written).await.unwrap().is_some());
    let (never, key) = (maps.clone(), Key::new("web", "absent"));
    let waits = tokio::spawn(async move { never.wait_until(&key, |map| map.is_some()).await.map(drop) });
    let (never, uid) = (maps.clone(), written.metadata.uid.clone().unwrap());
    let waits_too = tokio::spawn(async move { never.wait_gone(&Key::new("web", "b"), &uid).await });
    tokio::time::sleep(Duration::from_secs(1)).await; // paused time: nothing sleeps
    rig.label("web", Value::Null).await;
    assert!(matches!(waits.await.unwrap(), Err(WaitError::Never { .. })));
    // The object exists: leaving is not the awaited deletion.
    assert!(matches!(waits_too.await.unwrap(), Err(WaitError::Never { .. })));
    assert!(!maps.has_seen(&Key::new("web", "b"), &written.metadata.resource_version.unwrap()));
}

#[tokio::test(start_paused = true)]
async fn configured_namespaces_stay_with_their_own_selectors() {
    let rig = Rig::start(&[("web", "web"), ("db", "db")]).await;
    let all = kube_informer::Selectors::default().labels("!test");
    let maps = rig.builder().namespaces(["db"]).namespace_with("web", all).start().unwrap();
    maps.synced().await.unwrap();
    assert!(stored(&maps).contains("db/a"));
    assert!(!stored(&maps).contains("web/a"), "the selector of the namespace applies");
    rig.label("web", Value::Null).await;
    rig.label("db", "web").await;
    rig.label("db", Value::Null).await;
    let written = rig.create("db", "b").await;
    maps.wait_for(&written).await.unwrap();
    assert_eq!(watched(&maps), set(["db", "web"]));
}

#[tokio::test(start_paused = true)]
async fn a_factory_watches_the_namespaces_once() {
    let rig = Rig::start(&[("web", "web")]).await;
    let count = Fault::new(Action::Delay(Duration::ZERO)).on(Match::verb(Verb::Watch).resource("namespaces"));
    let watches = rig.server.faults().arm(count);
    let factory = InformerFactory::new(rig.client.clone());
    let maps = || factory.informer::<ConfigMap>().namespaces_matching("team=web").start().unwrap();
    let (one, same) = (maps(), maps());
    let secrets = factory.informer::<Secret>().namespaces_matching("team=web").start().unwrap();
    let others = factory.informer::<ConfigMap>().namespaces_matching("team=db").start().unwrap();
    factory.wait_for_sync().await.unwrap();
    assert_eq!(one.lister().count(), same.lister().count());
    assert_eq!((secrets.status().len(), others.status().len()), (1, 0));
    let opened = rig.server.faults().fired(watches);
    // A watch per selector; a server without watch-lists would need one more request each.
    assert!(opened.is_some_and(|opened| opened <= 4), "{opened:?}");

    drop((one, same));
    rig.label("web", Value::Null).await;
    while !secrets.status().is_empty() {
        tokio::time::sleep(Duration::from_millis(10)).await; // paused time: nothing sleeps
    }
    factory.shutdown().await;
    assert!(matches!(secrets.state(), InformerState::Stopped));
}

#[tokio::test(start_paused = true)]
async fn invalid_labels_are_an_error_at_the_start() {
    let rig = Rig::start(&[]).await;
    let error = rig.builder().namespaces_matching("team in (").start().unwrap_err();
    assert!(matches!(error, StartError::Selector(_)), "{error}");
}

/// What a listener has received: the resourceVersion of each key.
type Received = Arc<Mutex<BTreeMap<String, String>>>;

#[tokio::test(start_paused = true)]
async fn promise_15_any_sequence_of_labels_and_faults_converges() {
    for seed in 0..10 {
        let names = ["n0", "n1", "n2", "n3", "n4"];
        let rig = Rig::start(&names.map(|name| (name, "web"))).await;
        let mut chance = StdRng::seed_from_u64(seed);
        let faults = rig.server.faults();
        for resource in ["configmaps", "namespaces"] {
            let on = || Match::verb(Verb::Watch).resource(resource);
            faults.arm(Fault::new(Action::CutAfterEvents(3)).on(on()).probability(0.3));
            faults.arm(Fault::new(Action::Expired).on(on()).probability(0.2));
            let overloaded = Action::Overloaded { retry_after_seconds: 1 };
            faults
                .arm(Fault::new(overloaded).on(Match::verb(Verb::List).resource(resource)).probability(0.2));
        }
        let maps = rig.builder().start().unwrap();
        let received = Received::default();
        let receives = received.clone();
        let handler = maps.add_handler(move |event: Event<ConfigMap>| {
            let mut received = receives.lock();
            let key = event.object().map(|object| object.key().to_string()).unwrap_or_default();
            let version = event.object().map(|object| object.resource_version().to_owned());
            match event {
                Event::Added { .. } => {
                    assert!(received.insert(key, version.unwrap()).is_none(), "added twice");
                }
                Event::Updated { .. } => assert!(received.insert(key, version.unwrap()).is_some(), "unknown"),
                Event::Deleted { .. } => assert!(received.remove(&key).is_some(), "deleted {key} twice"),
                Event::Synced => {}
            }
            std::future::ready(())
        });
        let handler = handler.unwrap();
        for round in 0..150 {
            let namespace = names[chance.random_range(0..names.len())];
            let name = format!("m{}", chance.random_range(0..3));
            match chance.random_range(0..6) {
                0 => rig.label(namespace, Value::Null).await,
                1 => rig.label(namespace, "web").await,
                2 => drop(rig.maps(namespace).delete(&name, &DeleteParams::default()).await),
                _ => {
                    let patch = json!({
                        "apiVersion": "v1", "kind": "ConfigMap",
                        "metadata": {"name": name, "labels": {"test": "yes"}}, "data": {"n": round.to_string()},
                    });
                    let apply = PatchParams::apply("test").force();
                    rig.maps(namespace).patch(&name, &apply, &Patch::Apply(patch)).await.unwrap();
                }
            }
            let pause = Duration::from_millis(chance.random_range(0..400));
            tokio::time::sleep(pause).await; // paused time: nothing sleeps
            if round % 50 == 49 {
                rig.server.compact();
                rig.server.disconnect_all();
            }
        }
        faults.clear();
        tokio::time::sleep(Duration::from_secs(1200)).await; // paused time: nothing sleeps
        let mut served = BTreeMap::new();
        for namespace in rig.namespaces().list(&Default::default()).await.unwrap() {
            let labels = namespace.metadata.labels.unwrap_or_default();
            if labels.get("team").is_some_and(|team| team == "web") {
                let name = namespace.metadata.name.unwrap();
                let list = kube_client::api::ListParams::default().labels("test");
                for map in rig.maps(&name).list(&list).await.unwrap() {
                    let key = format!("{name}/{}", map.metadata.name.unwrap());
                    served.insert(key, map.metadata.resource_version.unwrap());
                }
            }
        }
        let stored = maps.lister().list();
        let stored = stored.iter().map(|map| (map.key().to_string(), map.resource_version().to_owned()));
        assert_eq!(stored.collect::<BTreeMap<_, _>>(), served, "seed {seed}");
        assert_eq!(*received.lock(), served, "seed {seed}");
        assert_eq!(handler.panics(), 0, "seed {seed}: see above");
        assert!(matches!(maps.state(), InformerState::Live), "{}", maps.state());
        maps.shutdown().await;
    }
}

//! Informers over a part of the objects, on the embedded API server: one that supports `shardSelector`, and one that does not.

use crate::support;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use embedded_apiserver::{Action, Fault, Match, Server, Verb};
use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube_client::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube_client::{Api, Client};
use kube_informer::building_blocks::{ReflectorConfig, ReflectorError};
use kube_informer::{
    AssignedShard, Event, Informer, InformerBuilder, InformerFactory, InformerState, Origin, Shard,
    Subscription, SyncError, WaitError, WatchList,
};
use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::json;

/// A server without a socket, with tokio's paused clock, and config maps in some namespaces.
struct Rig {
    server: Server,
    client: Client,
    watch_list: WatchList,
}

const NAMESPACES: [&str; 4] = ["red", "green", "blue", "white"];

/// Every combination of server and request: whether it supports `shardSelector`, and how the initial list is requested.
const VARIANTS: [(bool, WatchList); 4] =
    [(true, WatchList::Auto), (true, WatchList::Off), (false, WatchList::Auto), (false, WatchList::Off)];

impl Rig {
    async fn start(supports_shards: bool, watch_list: WatchList, maps_per_namespace: usize) -> Self {
        let server = Server::builder().without_socket().seed(5866).sharded_list_and_watch(supports_shards);
        let server = server.start().await.unwrap();
        let client = server.client().unwrap();
        let rig = Self { server, client, watch_list };
        for namespace in NAMESPACES {
            let object = serde_json::from_value(json!({"metadata": {"name": namespace}})).unwrap();
            let namespaces: Api<k8s_openapi::api::core::v1::Namespace> = Api::all(rig.client.clone());
            namespaces.create(&PostParams::default(), &object).await.unwrap();
            for n in 0..maps_per_namespace {
                rig.create(namespace, &format!("m{n}")).await;
            }
        }
        rig
    }

    async fn create(&self, namespace: &str, name: &str) -> ConfigMap {
        let map = json!({"metadata": {"name": name, "labels": {"test": "yes"}}});
        let map = serde_json::from_value(map).unwrap();
        self.maps(namespace).create(&PostParams::default(), &map).await.unwrap()
    }

    async fn change(&self, map: &ConfigMap) -> ConfigMap {
        let (namespace, name) = (map.metadata.namespace.as_deref(), map.metadata.name.as_deref());
        let patch = Patch::Merge(json!({"metadata": {"labels": {"changed": "yes"}}}));
        let maps = self.maps(namespace.unwrap());
        maps.patch(name.unwrap(), &PatchParams::default(), &patch).await.unwrap()
    }

    async fn delete(&self, map: &ConfigMap) {
        let (namespace, name) = (map.metadata.namespace.as_deref(), map.metadata.name.as_deref());
        self.maps(namespace.unwrap()).delete(name.unwrap(), &DeleteParams::default()).await.unwrap();
    }

    fn maps(&self, namespace: &str) -> Api<ConfigMap> {
        Api::namespaced(self.client.clone(), namespace)
    }

    /// The config maps of the test on the server.
    async fn served(&self) -> Vec<ConfigMap> {
        let all: Api<ConfigMap> = Api::all(self.client.clone());
        all.list(&ListParams::default().labels("test")).await.unwrap().items
    }

    /// The keys and resourceVersions on the server that a shard selects.
    async fn served_to(&self, shard: &Shard) -> BTreeMap<String, String> {
        let served = self.served().await;
        let selected = served.iter().filter(|map| is_in(shard, map));
        selected.map(|map| (key(map), map.metadata.resource_version.clone().unwrap())).collect()
    }

    fn builder(&self) -> InformerBuilder<ConfigMap> {
        Informer::builder(self.client.clone())
            .labels("test")
            .reflector(self.config())
            .memory(support::memory())
    }

    fn config(&self) -> ReflectorConfig {
        let mut config = ReflectorConfig::default();
        config.seed = Some(1);
        config.watch_list = self.watch_list;
        config
    }

    /// How many requests the server has received.
    fn requests(&self) -> u64 {
        self.server.requests().iter().map(|count| count.requests).sum()
    }
}

fn key(map: &ConfigMap) -> String {
    format!("{}/{}", map.metadata.namespace.as_deref().unwrap(), map.metadata.name.as_deref().unwrap())
}

fn is_in(shard: &Shard, map: &ConfigMap) -> bool {
    shard.selects(map.metadata.namespace.as_deref().unwrap(), map.metadata.uid.as_deref().unwrap())
}

fn shard(slots: impl IntoIterator<Item = u32>) -> Shard {
    Shard::new(slots, Shard::SLOTS).unwrap()
}

/// The slots of one of four replicas: not adjacent.
fn quarter(replica: u32) -> Shard {
    shard((replica..64).step_by(4))
}

fn stored(maps: &Informer<ConfigMap>) -> BTreeMap<String, String> {
    let stored = maps.lister().list();
    stored.iter().map(|map| (map.key().to_string(), map.resource_version().to_owned())).collect()
}

fn foreign(maps: &Informer<ConfigMap>) -> u64 {
    maps.status().iter().map(|scope| scope.foreign_objects).sum()
}

/// The next event, on one line.
async fn next(events: &mut Subscription<ConfigMap>) -> String {
    match events.next().await.expect("the informer runs") {
        Event::Added { object, origin } => format!("added {} {origin:?}", object.key()),
        Event::Updated { new, .. } => format!("updated {}", new.key()),
        Event::Deleted { last, final_state_known, origin } => {
            format!("deleted {} {origin:?}, final state known: {final_state_known}", last.key())
        }
        Event::Synced => "synced".to_owned(),
    }
}

async fn next_set(events: &mut Subscription<ConfigMap>, count: usize) -> BTreeSet<String> {
    let mut lines = BTreeSet::new();
    for _ in 0..count {
        assert!(lines.insert(next(events).await), "{lines:?}");
    }
    lines
}

#[tokio::test(start_paused = true)]
async fn promise_16_shards_divide_the_objects() {
    for (supports_shards, watch_list) in VARIANTS {
        for by_namespace in [false, true] {
            let rig = Rig::start(supports_shards, watch_list, 10).await;
            let mut all = BTreeMap::new();
            for replica in 0..4 {
                let shard = if by_namespace { quarter(replica).by_namespace() } else { quarter(replica) };
                let maps = rig.builder().shard(shard.clone()).start().unwrap();
                maps.synced().await.unwrap();
                assert_eq!(stored(&maps), rig.served_to(&shard).await);
                let others = 40 - stored(&maps).len() as u64;
                assert_eq!(foreign(&maps), if supports_shards { 0 } else { others });
                let before = all.len();
                all.extend(stored(&maps));
                assert_eq!(all.len(), before + stored(&maps).len(), "no object is in two shards");
            }
            assert_eq!(all.len(), 40, "{supports_shards} {watch_list:?}");
        }
    }
}

/// Lists of metadata do not show whether the server has filtered them.
#[tokio::test(start_paused = true)]
async fn metadata_is_divided_too() {
    for (supports_shards, watch_list) in VARIANTS {
        let rig = Rig::start(supports_shards, watch_list, 10).await;
        let maps = rig.builder().metadata_only().shard(quarter(3)).start().unwrap();
        maps.synced().await.unwrap();
        let keys: BTreeSet<String> = maps.lister().list().iter().map(|map| map.key().to_string()).collect();
        assert_eq!(keys, rig.served_to(&quarter(3)).await.into_keys().collect());
        assert_eq!(maps.status()[0].foreign_objects == 0, supports_shards);
    }
}

#[tokio::test(start_paused = true)]
async fn promise_16_a_shard_receives_only_its_changes() {
    for (supports_shards, watch_list) in VARIANTS {
        let rig = Rig::start(supports_shards, watch_list, 2).await;
        let mine = quarter(0);
        let maps = rig.builder().shard(mine.clone()).start().unwrap();
        maps.synced().await.unwrap();
        let mut events = maps.subscribe();
        while next(&mut events).await != "synced" {}
        for n in 0..30 {
            let map = rig.create("red", &format!("new{n}")).await;
            rig.change(&map).await;
            rig.delete(&map).await;
            if is_in(&mine, &map) {
                let key = key(&map);
                assert_eq!(next(&mut events).await, format!("added {key} Live"));
                assert_eq!(next(&mut events).await, format!("updated {key}"));
                assert_eq!(next(&mut events).await, format!("deleted {key} Live, final state known: true"));
            }
        }
        assert_eq!(stored(&maps), rig.served_to(&mine).await);
        assert_eq!(foreign(&maps) == 0, supports_shards);
    }
}

#[tokio::test(start_paused = true)]
async fn promise_16_gained_objects_enter_and_lost_objects_leave() {
    for (supports_shards, watch_list) in VARIANTS {
        let rig = Rig::start(supports_shards, watch_list, 10).await;
        let (before, after) = (shard(0..32), shard(16..48));
        let assigned = AssignedShard::new(before.clone());
        let maps = rig.builder().shard(&assigned).start().unwrap();
        maps.synced().await.unwrap();
        let mut events = maps.subscribe();
        while next(&mut events).await != "synced" {}

        let served = rig.served().await;
        let left = served.iter().filter(|map| is_in(&before, map) && !is_in(&after, map));
        let left = left.map(|map| format!("deleted {} LeftShard, final state known: false", key(map)));
        let entered = served.iter().filter(|map| !is_in(&before, map) && is_in(&after, map));
        let entered = entered.map(|map| format!("added {} Initial", key(map)));
        let expected: BTreeSet<String> = left.chain(entered).collect();
        assert!(expected.len() > 10, "{expected:?}");

        maps.assigned_shard().unwrap().set(after.clone());
        maps.shard_synced().await.unwrap();
        assert_eq!(stored(&maps), rig.served_to(&after).await);
        assert_eq!(
            next_set(&mut events, expected.len()).await,
            expected,
            "and nothing of the objects that stay"
        );

        let map = served.iter().find(|map| !is_in(&before, map) && is_in(&after, map)).unwrap();
        rig.change(map).await;
        assert_eq!(next(&mut events).await, format!("updated {}", key(map)), "gained objects are watched");
        let [scope] = &*maps.status() else { panic!("one scope") };
        assert_eq!(scope.reflector().epoch, 0, "older objects of gained slots are not a reset of the server");
        assert_eq!(scope.reflector().last_error.as_ref().map(ToString::to_string), None);
        assert!(matches!(maps.state(), InformerState::Live), "{}", maps.state());
    }
}

#[tokio::test(start_paused = true)]
async fn an_informer_without_slots_is_synced_and_empty() {
    for (supports_shards, watch_list) in VARIANTS {
        let rig = Rig::start(supports_shards, watch_list, 10).await;
        let assigned = AssignedShard::new(shard([]));
        let maps = rig.builder().shard(&assigned).start().unwrap();
        maps.synced().await.unwrap();
        maps.shard_synced().await.unwrap();
        assert_eq!(maps.lister().count(), 0);
        let requests = rig.requests();
        rig.create("red", "new").await;
        tokio::time::sleep(Duration::from_secs(3600)).await; // paused time: nothing sleeps
        assert_eq!(
            rig.requests(),
            requests + 1,
            "only the creation was sent: a shard without slots has nothing to watch"
        );
        assert!(matches!(maps.state(), InformerState::Live), "{}", maps.state());
        assert_eq!(maps.behind(&rig.served().await[0].metadata.resource_version.clone().unwrap()), None);

        assigned.set(quarter(1));
        maps.shard_synced().await.unwrap();
        assert_eq!(stored(&maps), rig.served_to(&quarter(1)).await);
        assigned.set(shard([]));
        maps.shard_synced().await.unwrap();
        assert_eq!(maps.lister().count(), 0);
        tokio::time::sleep(Duration::from_secs(3600)).await; // paused time: nothing sleeps
        assert!(matches!(maps.state(), InformerState::Live), "{}", maps.state());
        assigned.set(shard(0..64));
        maps.shard_synced().await.unwrap();
        assert_eq!(maps.lister().count(), 41);
    }
}

#[tokio::test(start_paused = true)]
async fn a_change_of_the_shard_during_the_list_takes_effect_after_it() {
    for (supports_shards, watch_list) in VARIANTS {
        let rig = Rig::start(supports_shards, watch_list, 10).await;
        let slow =
            Fault::new(Action::Delay(Duration::from_secs(5))).on(Match::default().resource("configmaps"));
        rig.server.faults().arm(slow);
        let assigned = AssignedShard::new(quarter(0));
        let maps = rig.builder().shard(&assigned).start().unwrap();
        tokio::time::sleep(Duration::from_secs(1)).await; // paused time: nothing sleeps
        assigned.set(quarter(1));
        assigned.set(quarter(2));
        assert!(maps.behind("1").is_some());
        maps.shard_synced().await.unwrap();
        assert_eq!(stored(&maps), rig.served_to(&quarter(2)).await);
    }
}

#[tokio::test(start_paused = true)]
async fn a_refused_shard_selector_is_reported_and_not_retried_as_a_server_error() {
    let rig = Rig::start(true, WatchList::Off, 1).await;
    let message = "invalid shard selector: unknown function".to_owned();
    let refused = Action::Status { code: 500, reason: String::new(), message, retry_after_seconds: 0 };
    rig.server.faults().arm(Fault::new(refused).on(Match::verb(Verb::List).resource("configmaps")));
    let maps = rig.builder().shard(quarter(0)).start().unwrap();
    let error = maps.synced().await.unwrap_err();
    assert!(matches!(&error, SyncError::Refused { status, .. } if status.code == 500), "{error}");
    let error = error.to_string();
    assert!(error.starts_with("cannot list configmaps in all namespaces with labels test: 500"), "{error}");
    assert!(
        error.contains("invalid shard selector: unknown function; disable the server's feature gate"),
        "{error}"
    );
}

#[tokio::test(start_paused = true)]
async fn waiting_for_an_object_of_another_shard_fails() {
    let rig = Rig::start(true, WatchList::Auto, 10).await;
    let assigned = AssignedShard::new(shard(0..32));
    let maps = rig.builder().shard(&assigned).start().unwrap();
    maps.synced().await.unwrap();
    let served = rig.served().await;
    let mine = served.iter().find(|map| is_in(&assigned.get(), map)).unwrap();
    let other = served.iter().find(|map| !is_in(&assigned.get(), map)).unwrap();
    maps.wait_for(mine).await.unwrap().expect("it is cached");
    let error = maps.wait_for(other).await.unwrap_err();
    assert!(matches!(error, WaitError::Never { .. }), "{error}");
    let error = error.to_string();
    assert!(error.ends_with("of 64 is not assigned to this informer"), "{error}");

    // It leaves while a caller waits for its deletion: that is not the deletion.
    let deleted = maps.wait_deleted(mine);
    tokio::pin!(deleted);
    assert!(futures::poll!(&mut deleted).is_pending());
    assigned.set(shard(32..64));
    let error = deleted.await.unwrap_err();
    assert!(matches!(error, WaitError::Never { .. }), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_wait_that_begins_before_gained_slots_are_listed_finds_their_objects() {
    for (supports_shards, watch_list) in VARIANTS {
        let rig = Rig::start(supports_shards, watch_list, 10).await;
        let assigned = AssignedShard::new(shard(0..32));
        let maps = rig.builder().shard(&assigned).start().unwrap();
        maps.synced().await.unwrap();
        let served = rig.served().await;
        let other = served.iter().find(|map| !is_in(&assigned.get(), map)).unwrap();
        assigned.set(shard(0..64));
        // The resourceVersion of the scope has passed that of the object, but the informer has not listed its slot yet.
        assert!(maps.wait_for(other).await.unwrap().is_some());
        assigned.set(shard(0..32));
        maps.shard_synced().await.unwrap();
        assigned.set(shard(0..64));
        let key = key(other).parse().unwrap();
        let absent =
            tokio::time::timeout(Duration::from_secs(60), maps.wait_until(&key, |map| map.is_none()));
        assert!(absent.await.is_err(), "the object exists");
    }
}

#[tokio::test(start_paused = true)]
async fn absence_means_nothing_until_gained_slots_are_listed() {
    let rig = Rig::start(true, WatchList::Off, 10).await;
    let assigned = AssignedShard::new(shard(0..32));
    let maps = rig.builder().shard(&assigned).start().unwrap();
    maps.synced().await.unwrap();
    let served = rig.served().await;
    let other = served.iter().find(|map| !is_in(&assigned.get(), map)).unwrap();
    let slow =
        Fault::new(Action::Delay(Duration::from_secs(5))).on(Match::verb(Verb::List).resource("configmaps"));
    rig.server.faults().arm(slow);
    assigned.set(shard(0..64));
    let listing = || matches!(maps.status()[0].reflector().state.to_string().as_str(), "listing");
    while !listing() {
        tokio::task::yield_now().await;
    }
    let (key, version) = (key(other).parse().unwrap(), other.metadata.resource_version.as_deref().unwrap());
    assert!(!maps.has_seen(&key, version), "the object's slot is not listed yet");
    let absent = maps.wait_until(&key, |map| map.is_none());
    let absent = tokio::time::timeout(Duration::from_secs(1), absent).await;
    assert!(absent.is_err(), "absence is not a state yet");
    assert!(maps.wait_for(other).await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn a_factory_shares_informers_of_one_assignment() {
    let rig = Rig::start(true, WatchList::Auto, 10).await;
    let factory = InformerFactory::new(rig.client.clone());
    let assigned = AssignedShard::new(quarter(0));
    let builder = |assigned: &AssignedShard| factory.informer::<ConfigMap>().labels("test").shard(assigned);
    let (one, same) = (builder(&assigned).start().unwrap(), builder(&assigned).start().unwrap());
    let other = builder(&AssignedShard::new(quarter(1))).start().unwrap();
    let whole = factory.informer::<ConfigMap>().labels("test").start().unwrap();
    factory.wait_for_sync().await.unwrap();
    assert_eq!(whole.lister().count(), 40);
    assert_eq!(stored(&one), rig.served_to(&quarter(0)).await);
    assert_eq!(stored(&other), rig.served_to(&quarter(1)).await);
    assigned.set(quarter(2));
    same.shard_synced().await.unwrap();
    assert_eq!(stored(&one), rig.served_to(&quarter(2)).await);
    assert_eq!(stored(&other), rig.served_to(&quarter(1)).await);
}

/// A restore from a backup must not go unnoticed because the server shows an object of another shard first.
#[tokio::test(start_paused = true)]
async fn an_empty_shard_is_listed_again_after_a_broken_connection() {
    let source = support::pods();
    for n in 0..20 {
        source.put(json!({"metadata": {"namespace": format!("{n}-ns"), "name": "pod"}}));
    }
    let slot = |namespace: &str| Shard::new([], 64).unwrap().by_namespace().slot(namespace, "");
    let taken: BTreeSet<u32> = (0..20).map(|n| slot(&format!("{n}-ns"))).collect();
    let missing = "absent-ns";
    assert!(!taken.contains(&slot(missing)));
    let mine = Shard::new([slot(missing)], 64).unwrap().by_namespace();
    let errors = Arc::new(Mutex::new(Vec::new()));
    let reported = errors.clone();
    let pods = support::informers::informer(&source).shard(mine);
    let pods = pods.on_error(move |report| reported.lock().push(report.to_string()));
    let pods = pods.start().unwrap();
    pods.synced().await.unwrap();
    assert_eq!(pods.lister().count(), 0);

    // The restored server has an object of this shard, at a resourceVersion that the informer has passed.
    let backup = source.checkpoint();
    for n in 0..5 {
        source.put(json!({"metadata": {"namespace": format!("{n}-ns"), "name": "later"}}));
    }
    support::informers::settle().await;
    source.restore(&backup);
    source.put(json!({"metadata": {"namespace": missing, "name": "pod"}}));
    for n in 0..9 {
        source.put(json!({"metadata": {"namespace": format!("{n}-ns"), "name": "other"}}));
    }
    source.break_watches();
    pods.wait_until(&format!("{missing}/pod").parse().unwrap(), |pod| pod.is_some()).await.unwrap();
    let is_about_history = |error: &String| error.contains("restored");
    assert!(!errors.lock().iter().any(is_about_history), "{:?}", errors.lock());
}

#[tokio::test(start_paused = true)]
async fn a_broken_connection_does_not_cause_a_relist_of_a_shard() {
    for (supports_shards, watch_list) in VARIANTS {
        let rig = Rig::start(supports_shards, watch_list, 10).await;
        let maps = rig.builder().shard(quarter(0)).start().unwrap();
        maps.synced().await.unwrap();
        rig.server.disconnect_all();
        tokio::time::sleep(Duration::from_secs(60)).await; // paused time: nothing sleeps
        let [scope] = &*maps.status() else { panic!("one scope") };
        let diverged = |error: &Arc<ReflectorError>| matches!(**error, ReflectorError::Diverged { .. });
        assert!(!scope.reflector().last_error.as_ref().is_some_and(diverged), "the server was not restored");
        assert_eq!(scope.reflector().complete_lists, 1);
    }
}

/// What a listener has received: the resourceVersion of each key.
type Received = Arc<Mutex<BTreeMap<String, String>>>;

#[tokio::test(start_paused = true)]
async fn promise_16_any_sequence_of_shards_and_faults_converges() {
    for seed in 0..12 {
        let (supports_shards, watch_list) = VARIANTS[seed as usize % VARIANTS.len()];
        let rig = Rig::start(supports_shards, watch_list, 3).await;
        let mut chance = StdRng::seed_from_u64(seed);
        let faults = rig.server.faults();
        let on = || Match::verb(Verb::Watch).resource("configmaps");
        faults.arm(Fault::new(Action::CutAfterEvents(3)).on(on()).probability(0.3));
        faults.arm(Fault::new(Action::Expired).on(on()).probability(0.2));
        let overloaded = Action::Overloaded { retry_after_seconds: 1 };
        faults
            .arm(Fault::new(overloaded).on(Match::verb(Verb::List).resource("configmaps")).probability(0.2));
        let assigned = AssignedShard::new(shard(0..8));
        let maps = rig.builder().shard(&assigned).start().unwrap();
        let received = Received::default();
        let receives = received.clone();
        let deleted = Arc::new(Mutex::new(BTreeSet::new()));
        let deletes = deleted.clone();
        let handler = maps.add_handler(move |event: Event<ConfigMap>| {
            let mut received = receives.lock();
            let key = event.object().map(|object| object.key().to_string()).unwrap_or_default();
            let version = event.object().map(|object| object.resource_version().to_owned());
            match event {
                Event::Added { origin, .. } => {
                    assert_ne!(origin, Origin::Resync);
                    assert!(received.insert(key, version.unwrap()).is_none(), "added twice");
                }
                Event::Updated { .. } => assert!(received.insert(key, version.unwrap()).is_some(), "unknown"),
                Event::Deleted { last, origin, .. } => {
                    assert!(received.remove(&key).is_some(), "deleted {key} twice");
                    let deleted = deletes.lock().contains(last.uid());
                    assert!(deleted || origin == Origin::LeftShard, "{key} was not deleted: {origin:?}");
                }
                Event::Synced => {}
            }
            std::future::ready(())
        });
        let handler = handler.unwrap();
        for round in 0..150 {
            let namespace = NAMESPACES[chance.random_range(0..NAMESPACES.len())];
            let name = format!("m{}", chance.random_range(0..6));
            match chance.random_range(0..8) {
                0 => {
                    let slots = (0..64).filter(|_| chance.random_bool(0.5)).collect::<Vec<u32>>();
                    assigned.set(shard(slots));
                }
                1 => assigned.set(shard([])),
                2 => {
                    if let Ok(map) = rig.maps(namespace).get(&name).await {
                        deleted.lock().insert(map.metadata.uid.unwrap());
                        rig.maps(namespace).delete(&name, &DeleteParams::default()).await.unwrap();
                    }
                }
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
        let last = shard((0..64).filter(|_| chance.random_bool(0.5)).collect::<Vec<u32>>());
        assigned.set(last.clone());
        tokio::time::sleep(Duration::from_secs(1200)).await; // paused time: nothing sleeps
        maps.shard_synced().await.unwrap();
        let served = rig.served_to(&last).await;
        assert!(!served.is_empty());
        assert_eq!(stored(&maps), served, "seed {seed}");
        assert_eq!(*received.lock(), served, "seed {seed}");
        assert_eq!(handler.panics(), 0, "seed {seed}: see above");
        assert_eq!(maps.status()[0].reflector().epoch, 0, "seed {seed}: the server was never reset");
        assert!(matches!(maps.state(), InformerState::Live), "{}", maps.state());
        maps.shutdown().await;
    }
}

//! Informers over a part of the objects, on the embedded API server: one that supports `shardSelector`, and one that does not.

use crate::support;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use embedded_apiserver::{Action, Fault, FaultId, Match, Server, Verb};
use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube_client::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube_client::{Api, Client};
use kube_informer::building_blocks::{ReflectorConfig, ReflectorError};
use kube_informer::{
    AssignedShard, Event, Informer, InformerBuilder, InformerFactory, InformerState, InvalidShard, Origin,
    Shard, StartError, Subscription, SyncError, WaitError, WatchList,
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
        // Some tests refer to owners that do not exist.
        let server = server.garbage_collection(false);
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
async fn a_missing_object_does_not_count_as_deleted_until_gained_slots_are_listed() {
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

/// The slots of one of two replicas.
fn half(replica: u32) -> Shard {
    shard(32 * replica..32 * (replica + 1))
}

/// A tenant whose slot is in a shard.
fn tenant_of(shard: &Shard) -> String {
    (0..1000).map(|n| format!("{n}-tenant")).find(|tenant| shard.selects("", tenant)).unwrap()
}

fn tenant(map: &ConfigMap) -> &str {
    map.metadata.labels.as_ref().and_then(|labels| labels.get("tenant")).map_or("", |tenant| tenant)
}

impl Rig {
    /// Creates or changes a config map by a merge patch, or an apply that creates it.
    async fn put(&self, namespace: &str, name: &str, content: serde_json::Value) -> ConfigMap {
        let mut map = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": {"test": "yes"}},
        });
        merge(&mut map, content);
        let apply = PatchParams::apply("test").force();
        self.maps(namespace).patch(name, &apply, &Patch::Apply(map)).await.unwrap()
    }

    async fn put_tenant(&self, name: &str, tenant: &str) -> ConfigMap {
        self.put("red", name, json!({"metadata": {"labels": {"tenant": tenant}}})).await
    }

    /// The keys and resourceVersions on the server of the objects that a function selects.
    async fn served_where(&self, selects: impl Fn(&ConfigMap) -> bool) -> BTreeMap<String, String> {
        let served = self.served().await.into_iter().filter(|map| selects(map));
        served.map(|map| (key(&map), map.metadata.resource_version.unwrap())).collect()
    }

    /// Lists and watches of config maps fail until the returned faults are disarmed.
    fn cut_off(&self) -> Vec<FaultId> {
        let faults = [(Verb::List, Action::Disconnect), (Verb::Watch, Action::Disconnect)];
        let faults = faults.map(|(verb, action)| {
            let reflector = Match::verb(verb).resource("configmaps");
            self.server.faults().arm(Fault::new(action).on(reflector))
        });
        self.server.disconnect_all();
        faults.to_vec()
    }
}

fn merge(into: &mut serde_json::Value, other: serde_json::Value) {
    match (into, other) {
        (serde_json::Value::Object(into), serde_json::Value::Object(other)) => {
            for (name, value) in other {
                merge(into.entry(name).or_insert(serde_json::Value::Null), value);
            }
        }
        (into, other) => *into = other,
    }
}

/// Reads events up to `synced`.
async fn skip_initial(maps: &Informer<ConfigMap>) -> Subscription<ConfigMap> {
    let mut events = maps.subscribe();
    while next(&mut events).await != "synced" {}
    events
}

#[tokio::test(start_paused = true)]
async fn promise_16_children_follow_their_owner() {
    for (supports_shards, watch_list) in VARIANTS {
        for by_namespace in [false, true] {
            let rig = Rig::start(supports_shards, watch_list, 0).await;
            let owned = |namespace: &str, n: usize, controller: bool| {
                let uid = format!("{}-{namespace}", n % 7);
                json!({"metadata": {"ownerReferences": [
                    {"apiVersion": "v1", "kind": "Node", "name": "another", "uid": "another"},
                    {"apiVersion": "v1", "kind": "Node", "name": "owner", "uid": uid, "controller": controller},
                ]}})
            };
            for namespace in NAMESPACES {
                for n in 0..10 {
                    rig.put(namespace, &format!("m{n}"), owned(namespace, n, true)).await;
                }
                rig.put(namespace, "unowned", json!({})).await;
                rig.put(namespace, "uncontrolled", owned(namespace, 1, false)).await;
            }
            let mut all = BTreeMap::new();
            for replica in 0..4 {
                let shard = if by_namespace { quarter(replica).by_namespace() } else { quarter(replica) };
                let assigned = AssignedShard::new(shard.clone());
                let maps = rig.builder().shard(assigned.by_owner()).start().unwrap();
                maps.synced().await.unwrap();
                let is_ours = |map: &ConfigMap| {
                    let mut owners = map.metadata.owner_references.iter().flatten();
                    let owner = owners.find(|owner| owner.controller == Some(true));
                    let namespace = map.metadata.namespace.as_deref().unwrap();
                    owner.is_some_and(|owner| shard.selects(namespace, &owner.uid))
                };
                assert_eq!(stored(&maps), rig.served_where(is_ours).await);
                assert!(by_namespace || !stored(&maps).is_empty());
                assert_eq!(foreign(&maps), 48 - stored(&maps).len() as u64, "the server sends everything");
                all.extend(stored(&maps));
            }
            assert_eq!(
                all.len(),
                40,
                "{supports_shards} {watch_list:?}: objects without an owner are in no shard"
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn promise_16_objects_move_between_shards_with_their_label() {
    for (supports_shards, watch_list) in VARIANTS {
        let rig = Rig::start(supports_shards, watch_list, 2).await;
        let tenants = [tenant_of(&half(0)), tenant_of(&half(1))];
        let start = |replica| {
            let assigned = AssignedShard::new(half(replica));
            rig.builder().shard(assigned.by_label("tenant")).start().unwrap()
        };
        let informers = [start(0), start(1)];
        for maps in &informers {
            maps.synced().await.unwrap();
        }
        let mut events = [skip_initial(&informers[0]).await, skip_initial(&informers[1]).await];
        let unlabelled = usize::from(half(1).selects("", ""));
        assert_eq!(
            informers[unlabelled].lister().count(),
            8,
            "without the label, in the slot of the empty text"
        );
        assert_eq!(informers[1 - unlabelled].lister().count(), 0);

        for round in 0..3 {
            rig.put_tenant("x", &tenants[0]).await;
            assert_eq!(next(&mut events[0]).await, "added red/x Live");
            rig.put("red", "x", json!({"metadata": {"labels": {"tenant": tenants[0]}}, "data": {"a": "b"}}))
                .await;
            assert_eq!(next(&mut events[0]).await, "updated red/x");
            rig.put_tenant("x", &tenants[1]).await;
            assert_eq!(next(&mut events[0]).await, "deleted red/x LeftShard, final state known: false");
            assert_eq!(next(&mut events[1]).await, "added red/x Live");
            // Changes of a foreign object are not reported.
            let x = rig.put(
                "red",
                "x",
                json!({"metadata": {"labels": {"tenant": tenants[1]}}, "data": {"c": "d"}}),
            );
            let x = x.await;
            assert_eq!(next(&mut events[1]).await, "updated red/x");
            match round {
                0 => {
                    rig.delete(&x).await;
                    assert_eq!(next(&mut events[1]).await, "deleted red/x Live, final state known: true");
                }
                1 => {
                    rig.put("red", "x", json!({})).await;
                    if unlabelled == 0 {
                        assert_eq!(
                            next(&mut events[1]).await,
                            "deleted red/x LeftShard, final state known: false"
                        );
                        assert_eq!(next(&mut events[0]).await, "added red/x Live");
                    } else {
                        assert_eq!(next(&mut events[1]).await, "updated red/x");
                    }
                    rig.delete(&x).await;
                    assert!(next(&mut events[unlabelled]).await.starts_with("deleted red/x Live"));
                }
                _ => {}
            }
        }
        for (replica, maps) in (0..).zip(&informers) {
            assert_eq!(stored(maps), rig.served_where(|map| half(replica).selects("", tenant(map))).await);
            let [scope] = &*maps.status() else { panic!("one scope") };
            assert_eq!((scope.reflector().complete_lists, scope.reflector().epoch), (1, 0));
        }
    }
}

/// A key that is deleted and created again under another tenant is deleted, and does not only leave.
#[tokio::test(start_paused = true)]
async fn promise_16_moves_while_disconnected_are_reported_by_the_next_list() {
    for (supports_shards, watch_list) in VARIANTS {
        let rig = Rig::start(supports_shards, watch_list, 0).await;
        let [ours, theirs] = [tenant_of(&half(0)), tenant_of(&half(1))];
        let stays = rig.put_tenant("stays", &ours).await;
        let leaves = rig.put_tenant("leaves", &ours).await;
        let recreated = rig.put_tenant("recreated", &ours).await;
        let deleted = rig.put_tenant("deleted", &ours).await;
        rig.put_tenant("enters", &theirs).await;
        rig.put_tenant("foreign", &theirs).await;
        let assigned = AssignedShard::new(half(0));
        let maps = rig.builder().shard(assigned.by_label("tenant")).start().unwrap();
        maps.synced().await.unwrap();
        let mut events = skip_initial(&maps).await;

        let faults = rig.cut_off();
        rig.put_tenant("leaves", &theirs).await;
        rig.put_tenant("enters", &ours).await;
        rig.delete(&recreated).await;
        rig.put_tenant("recreated", &theirs).await;
        rig.delete(&deleted).await;
        rig.server.compact();
        faults.into_iter().for_each(|fault| rig.server.faults().disarm(fault));
        let expected = [
            "added red/enters Relist",
            "deleted red/deleted Relist, final state known: false",
            "deleted red/leaves LeftShard, final state known: false",
            "deleted red/recreated Relist, final state known: false",
        ];
        assert_eq!(next_set(&mut events, 4).await, BTreeSet::from(expected.map(str::to_owned)));
        rig.change(&stays).await;
        assert_eq!(next(&mut events).await, "updated red/stays", "nothing else was reported");
        rig.put_tenant("leaves", &ours).await;
        assert_eq!(next(&mut events).await, format!("added {} Live", key(&leaves)));
        assert_eq!(maps.status()[0].reflector().epoch, 0, "the server was not reset");
        assert_eq!(maps.status()[0].reflector().complete_lists, 2);
    }
}

#[tokio::test(start_paused = true)]
async fn promise_16_informers_by_label_and_uid_follow_one_assignment() {
    for (supports_shards, watch_list) in VARIANTS {
        let rig = Rig::start(supports_shards, watch_list, 10).await;
        for n in 0..20 {
            rig.put("blue", &format!("m{n}"), json!({"data": {"tenant": format!("{n}-tenant")}})).await;
        }
        let assigned = AssignedShard::new(half(0));
        let by_uid = rig.builder().shard(&assigned).start().unwrap();
        let by_tenant = rig.builder().shard(assigned.by_field("data.tenant").unwrap()).start().unwrap();
        let has_tenant = |shard: &Shard, map: &ConfigMap| {
            shard.selects(
                "",
                map.data.as_ref().and_then(|data| data.get("tenant")).map_or("", |tenant| tenant),
            )
        };
        by_uid.synced().await.unwrap();
        by_tenant.synced().await.unwrap();
        let mut events = skip_initial(&by_tenant).await;
        let mut before = half(0);
        for now in [quarter(1), shard([]), half(1), shard(0..64)] {
            assigned.set(now.clone());
            by_uid.shard_synced().await.unwrap();
            by_tenant.shard_synced().await.unwrap();
            assert_eq!(stored(&by_uid), rig.served_to(&now).await);
            assert_eq!(stored(&by_tenant), rig.served_where(|map| has_tenant(&now, map)).await);
            assert_eq!(stored(&by_tenant).is_empty(), now == shard([]));
            let served = rig.served().await;
            let changed =
                served.iter().filter_map(|map| match (has_tenant(&before, map), has_tenant(&now, map)) {
                    (false, true) => Some(format!("added {} Initial", key(map))),
                    (true, false) => {
                        Some(format!("deleted {} LeftShard, final state known: false", key(map)))
                    }
                    _ => None,
                });
            let changed: BTreeSet<String> = changed.collect();
            assert_eq!(next_set(&mut events, changed.len()).await, changed);
            before = now;
        }
        rig.put("blue", "m3", json!({"data": {"tenant": "another"}})).await;
        assert_eq!(next(&mut events).await, "updated blue/m3");
        assert!(matches!(by_tenant.state(), InformerState::Live), "{}", by_tenant.state());
    }
}

#[tokio::test(start_paused = true)]
async fn a_key_that_the_informer_cannot_read_is_rejected() {
    let rig = Rig::start(false, WatchList::Auto, 0).await;
    let assigned = AssignedShard::new(half(0));
    let invalid = assigned.by_field("data..x").unwrap_err().to_string();
    assert!(invalid.starts_with("invalid shard: invalid field path `data..x`"), "{invalid}");
    let error = |builder: InformerBuilder<ConfigMap>| builder.start().unwrap_err();
    let by_field = |path| rig.builder().shard(assigned.by_field(path).unwrap());
    let unknown = error(by_field("spec.tenant"));
    assert!(matches!(unknown, StartError::Shard(InvalidShard::Field(_))), "{unknown}");
    let dropped = error(by_field("data.tenant").drop_fields(["data"])).to_string();
    assert_eq!(dropped, "invalid shard: the informer drops field `data.tenant`; keep it, or choose another");
    let _started = by_field("metadata.annotations.tenant").metadata_only().start().unwrap();
}

#[tokio::test(start_paused = true)]
async fn waiting_for_an_object_that_is_in_another_shard_by_label_or_owner_fails() {
    let rig = Rig::start(true, WatchList::Auto, 0).await;
    let assigned = AssignedShard::new(half(0));
    let ours = rig.put_tenant("ours", &tenant_of(&half(0))).await;
    let theirs = rig.put_tenant("theirs", &tenant_of(&half(1))).await;
    let by_label = rig.builder().shard(assigned.by_label("tenant")).start().unwrap();
    by_label.wait_for(&ours).await.unwrap().expect("it is cached");
    let error = by_label.wait_for(&theirs).await.unwrap_err().to_string();
    assert!(error.ends_with("it is not in a slot that is assigned to this informer"), "{error}");
    let by_owner = rig.builder().shard(assigned.by_owner()).start().unwrap();
    let error = by_owner.wait_for(&ours).await.unwrap_err();
    assert!(matches!(error, WaitError::Never { .. }), "{error}");
}

/// A restored server shows an object in its earlier state, in which it is in the shard.
#[tokio::test(start_paused = true)]
async fn an_object_that_left_is_found_after_a_restore() {
    let source = support::pods();
    let pod = |name: &str, tenant: &str| json!({"metadata": {"namespace": "web", "name": name, "labels": {"tenant": tenant}}});
    let [ours, theirs] = [tenant_of(&half(0)), tenant_of(&half(1))];
    source.put(pod("x", &ours));
    source.put(pod("y", &ours));
    let assigned = AssignedShard::new(half(0));
    let pods = support::informers::informer(&source).shard(assigned.by_label("tenant")).start().unwrap();
    pods.synced().await.unwrap();
    let backup = source.checkpoint();
    source.put(pod("x", &theirs));
    support::informers::settle().await;
    assert_eq!(pods.lister().count(), 1);
    source.restore(&backup);
    for n in 0..5 {
        source.put(pod(&format!("other{n}"), &theirs));
    }
    source.break_watches();
    pods.wait_until(&"web/x".parse().unwrap(), |pod| pod.is_some()).await.unwrap();
}

/// Records log messages about the selector.
#[derive(Clone, Default)]
struct SelectorLog(Arc<Mutex<Vec<String>>>);

impl tracing::Subscriber for SelectorLog {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}

    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        let mut text = String::new();
        event.record(&mut |field: &tracing::field::Field, value: &dyn std::fmt::Debug| {
            text += &format!("{field}: {value:?} ");
        });
        if text.contains("ignores `shardSelector`") {
            self.0.lock().push(text);
        }
    }

    fn enter(&self, _: &tracing::span::Id) {}

    fn exit(&self, _: &tracing::span::Id) {}
}

#[tokio::test(start_paused = true)]
async fn a_server_that_ignores_the_selector_is_logged_once() {
    // See `promise_12_an_informer_whose_apply_task_panics_is_stopped`.
    let _ = tracing::subscriber::set_global_default(tracing::subscriber::NoSubscriber::default());
    let log = SelectorLog::default();
    let _guard = tracing::subscriber::set_default(log.clone());
    for (supports_shards, watch_list) in VARIANTS {
        let rig = Rig::start(supports_shards, watch_list, 10).await;
        let assigned = AssignedShard::new(quarter(0));
        let whole = rig.builder().shard(shard(0..64)).start().unwrap();
        let by_label = rig.builder().shard(assigned.by_label("tenant")).start().unwrap();
        whole.synced().await.unwrap();
        by_label.synced().await.unwrap();
        assert_eq!(*log.0.lock(), [""; 0], "neither has sent a selector");
        let maps = rig.builder().namespaces(NAMESPACES).shard(&assigned).start().unwrap();
        maps.synced().await.unwrap();
        assigned.set(quarter(1));
        maps.shard_synced().await.unwrap();
        assert_eq!(maps.status().len(), 4);
        let logged = std::mem::take(&mut *log.0.lock());
        assert_eq!(logged.len(), usize::from(!supports_shards), "{logged:?}");
    }
}

/// What a listener has received: the resourceVersion of each key.
type Received = Arc<Mutex<BTreeMap<String, String>>>;

#[tokio::test(start_paused = true)]
async fn promise_16_any_sequence_of_shards_and_faults_converges() {
    for seed in 0..20 {
        // In the last ones, objects move, too.
        let by_label = seed >= 12;
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
        let part = if by_label { assigned.by_label("tenant") } else { assigned.clone() };
        let maps = rig.builder().shard(part).start().unwrap();
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
                    // The hash barely mixes the last characters.
                    let tenant = format!("{}-tenant", chance.random_range(0..20));
                    let labels = if by_label { json!({"tenant": tenant}) } else { json!({}) };
                    let content = json!({"metadata": {"labels": labels}, "data": {"n": round.to_string()}});
                    rig.put(namespace, &name, content).await;
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
        let is_ours =
            |map: &ConfigMap| if by_label { last.selects("", tenant(map)) } else { is_in(&last, map) };
        let served = rig.served_where(is_ours).await;
        assert!(!served.is_empty());
        assert_eq!(stored(&maps), served, "seed {seed}");
        assert_eq!(*received.lock(), served, "seed {seed}");
        assert_eq!(handler.panics(), 0, "seed {seed}: see above");
        assert_eq!(maps.status()[0].reflector().epoch, 0, "seed {seed}: the server was never reset");
        assert!(matches!(maps.state(), InformerState::Live), "{}", maps.state());
        maps.shutdown().await;
    }
}

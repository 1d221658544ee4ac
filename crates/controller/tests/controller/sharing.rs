//! Replicas that share the work, on the embedded server: scaling, crashes, partitions, rolling updates.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use embedded_apiserver::{Action as FaultAction, Fault, Match, Restart, Schedule, Server, Verb};
use http::HeaderValue;
use k8s_openapi::ByteString;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube_client::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube_client::{Api, Client};
use kube_core::ObjectMeta;
use kube_informer::building_blocks::ReflectorConfig;
use kube_informer::{Informer, Key, Shard, WatchList};
use kube_informer_controller::leader::FencingToken;
use kube_informer_controller::{
    Action, BuildError, Context, Controller, Error, LeaderElection, LeaseTiming, Manager, RunError,
    ShardMetrics, ShardedLease, Stop, children,
};
use parking_lot::Mutex;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use proptest::prelude::*;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};
use tower::ServiceBuilder;

const SECOND: Duration = Duration::from_secs(1);
const LEASE: Duration = Duration::from_secs(15);
const RENEW: Duration = Duration::from_secs(10);
const RETRY: Duration = Duration::from_secs(2);

/// How long one reconcile takes.
const WORK: Duration = Duration::from_millis(50);

/// How long replicas may take after a fault. A watch that hangs is detected after three minutes of silence.
const SETTLED_MAX: Duration = Duration::from_secs(400);

/// A server, and an observer of all work on it.
struct Rig {
    server: Server,
    observer: Arc<Observer>,
}

/// Sees the work of all replicas, and panics in the test if two work on one slot at the same time.
#[derive(Default)]
struct Observer {
    state: Mutex<Observed>,
}

#[derive(Default)]
struct Observed {
    /// Running reconciles by slot: the token under which they run, and how many.
    running: BTreeMap<u32, (FencingToken, usize)>,
    /// The last token of each slot.
    last: BTreeMap<u32, FencingToken>,
    acts: Vec<Act>,
    violations: Vec<String>,
}

/// A reconcile.
#[derive(Clone, Debug)]
struct Act {
    replica: &'static str,
    key: String,
    slot: u32,
    token: String,
    began: Instant,
    /// Whether the object was deleted.
    gone: bool,
}

/// A running reconcile.
struct Acting {
    observer: Arc<Observer>,
    slot: u32,
}

impl Observer {
    fn begin(self: &Arc<Self>, replica: &'static str, key: &Key, gone: bool, token: &FencingToken) -> Acting {
        let slot = token.slot.unwrap();
        let mut state = self.state.lock();
        let state = &mut *state;
        let (running, count) = state.running.entry(slot).or_insert_with(|| (token.clone(), 0));
        if *count == 0 {
            running.clone_from(token);
        } else if running != token {
            state.violations.push(format!("slot {slot} has two owners: {running} and {token}"));
        }
        *count += 1;
        let last = state.last.entry(slot).or_insert_with(|| token.clone());
        if last.transitions > token.transitions && last.lease_uid == token.lease_uid {
            state.violations.push(format!("slot {slot}: {token} after {last}"));
        }
        last.clone_from(token);
        let (key, token) = (key.to_string(), token.to_string());
        state.acts.push(Act { replica, key, slot, token, began: Instant::now(), gone });
        Acting { observer: self.clone(), slot }
    }

    fn check(&self) {
        assert_eq!(self.state.lock().violations, [""; 0]);
    }

    fn acts(&self) -> Vec<Act> {
        self.state.lock().acts.clone()
    }

    fn clear(&self) {
        self.state.lock().acts.clear();
    }
}

impl Drop for Acting {
    fn drop(&mut self) {
        if let Some((_, count)) = self.observer.state.lock().running.get_mut(&self.slot) {
            *count -= 1;
        }
    }
}

impl Rig {
    async fn start(maps: usize) -> Self {
        Self::on(Server::builder().sharded_list_and_watch(true), maps).await
    }

    async fn on(server: embedded_apiserver::Builder, maps: usize) -> Self {
        let server = server.without_socket().seed(1).start().await.unwrap();
        let rig = Self { server, observer: Arc::default() };
        for n in 0..maps {
            rig.create(&format!("m{n}")).await;
        }
        rig
    }

    /// A client whose requests carry this user agent.
    fn client(&self, name: &'static str) -> Client {
        let tag = move |mut request: http::Request<kube_client::client::Body>| {
            request.headers_mut().insert(http::header::USER_AGENT, HeaderValue::from_static(name));
            request
        };
        let service = ServiceBuilder::new().map_request(tag).service(self.server.service());
        Client::new(service, "default")
    }

    fn maps(&self) -> Api<ConfigMap> {
        Api::default_namespaced(self.client("test"))
    }

    async fn create(&self, name: &str) {
        let map = json!({"metadata": {"name": name, "labels": {"test": "yes"}}, "data": {"n": "0"}});
        self.maps().create(&PostParams::default(), &serde_json::from_value(map).unwrap()).await.unwrap();
    }

    async fn change(&self, name: &str, n: usize) {
        let patch = Patch::Merge(json!({"data": {"n": n.to_string()}}));
        self.maps().patch(name, &PatchParams::default(), &patch).await.unwrap();
    }

    /// The config maps whose last change was not reconciled.
    async fn unseen(&self) -> Vec<String> {
        let maps = self.maps().list(&ListParams::default().labels("test")).await.unwrap();
        let unseen = maps.items.into_iter().filter(|map| seen(map) != wanted(map));
        unseen.map(|map| map.metadata.name.unwrap()).collect()
    }

    fn cut_off(&self, name: &str, how: FaultAction) -> embedded_apiserver::FaultId {
        self.server.faults().arm(Fault::new(how).on(Match::default().user_agent(name)))
    }

    /// The records of the slots.
    async fn records(&self) -> BTreeMap<u32, Value> {
        let lease = Api::<Lease>::default_namespaced(self.client("test")).get("web-slots-0").await.unwrap();
        let table: Value =
            serde_json::from_str(&lease.metadata.annotations.unwrap()["kube-informer/slots"]).unwrap();
        let slots = table["slots"].as_object().unwrap();
        slots.iter().map(|(slot, record)| (slot.parse().unwrap(), record.clone())).collect()
    }

    /// How often each slot was taken.
    async fn terms(&self) -> Vec<i64> {
        let records = self.records().await;
        (0..Shard::SLOTS)
            .map(|slot| records.get(&slot).map_or(0, |record| record["term"].as_i64().unwrap()))
            .collect()
    }

    /// Waits until these replicas own all slots, fairly.
    async fn balanced(&self, replicas: &[&Replica]) {
        let balanced = async {
            loop {
                let owned = replicas.iter().map(|replica| replica.owned()).collect::<Vec<_>>();
                let all = owned.iter().flatten().collect::<BTreeSet<_>>();
                let sum = owned.iter().map(BTreeSet::len).sum::<usize>();
                assert_eq!(all.len(), sum, "a slot has two owners: {owned:?}");
                let fair = 64 / replicas.len()..=64_usize.div_ceil(replicas.len());
                if sum == 64 && owned.iter().all(|owned| fair.contains(&owned.len())) {
                    return;
                }
                sleep(Duration::from_millis(20)).await;
            }
        };
        let statuses = || replicas.iter().map(|replica| replica.lease.status()).collect::<Vec<_>>();
        assert!(timeout(SETTLED_MAX, balanced).await.is_ok(), "not balanced: {:#?}", statuses());
    }

    /// Waits until every change was reconciled.
    async fn settled(&self) {
        let settled = async {
            while !self.unseen().await.is_empty() {
                sleep(SECOND / 10).await;
            }
        };
        if timeout(SETTLED_MAX, settled).await.is_err() {
            panic!("not reconciled: {:?}", self.unseen().await);
        }
    }
}

fn wanted(map: &ConfigMap) -> &str {
    &map.data.as_ref().unwrap()["n"]
}

fn seen(map: &ConfigMap) -> &str {
    map.metadata.annotations.as_ref().and_then(|all| all.get("seen")).map_or("", |seen| seen)
}

struct Data {
    replica: &'static str,
    observer: Arc<Observer>,
}

/// Copies `data.n` of a config map into an annotation.
async fn reconcile(ctx: Context<Data>, key: Key) -> Result<Action, Error> {
    let Data { replica, observer } = ctx.data();
    let gone = ctx.object::<ConfigMap>().is_none();
    let _acting = observer.begin(replica, &key, gone, ctx.term().unwrap().token());
    sleep(WORK).await;
    let Some(map) = ctx.object::<ConfigMap>() else { return Ok(Action::Done) };
    let map = map.decode()?;
    if seen(&map) != wanted(&map) {
        let patch = Patch::Merge(json!({"metadata": {"annotations": {"seen": wanted(&map)}}}));
        let api = Api::<ConfigMap>::namespaced(ctx.client(), key.namespace());
        api.patch(key.name(), &PatchParams::default(), &patch).await?;
    }
    Ok(Action::Done)
}

/// How long one reconcile of a busy replica takes at most.
const BUSY: Duration = Duration::from_secs(12);

/// Reconciles a config map again and again, and writes nothing. The times differ, so some reconciles always take a few more seconds.
async fn busy(ctx: Context<Data>, key: Key) -> Result<Action, Error> {
    let Data { replica, observer } = ctx.data();
    let _acting = observer.begin(replica, &key, false, ctx.term().unwrap().token());
    let number: u32 = key.name().trim_start_matches('m').parse().unwrap();
    sleep(BUSY - (number % 9) * SECOND).await;
    Ok(Action::RequeueAfter(SECOND))
}

struct Replica {
    name: &'static str,
    lease: ShardedLease,
    stop: Stop,
    task: JoinHandle<Result<(), RunError>>,
}

impl Replica {
    fn start(rig: &Rig, name: &'static str, seed: u64) -> Self {
        Self::with(rig, name, lease(rig, name, seed))
    }

    fn with(rig: &Rig, name: &'static str, lease: ShardedLease) -> Self {
        let maps = maps(rig, name, &lease);
        let data = Data { replica: name, observer: rig.observer.clone() };
        let builder = Controller::builder("maps", &maps).concurrency(4).shared(&lease);
        Self::run(name, lease, builder.build(data, reconcile).unwrap())
    }

    /// A replica that needs a while to release a slot.
    fn busy(rig: &Rig, name: &'static str, seed: u64) -> Self {
        let lease = lease(rig, name, seed);
        let data = Data { replica: name, observer: rig.observer.clone() };
        let builder = Controller::builder("maps", &maps(rig, name, &lease)).concurrency(100).shared(&lease);
        Self::run(name, lease, builder.build(data, busy).unwrap())
    }

    fn run(name: &'static str, lease: ShardedLease, controller: Controller) -> Self {
        let stop = Stop::new();
        let task = tokio::spawn({
            let stop = stop.clone();
            async move { controller.run(&stop).await }
        });
        Self { name, lease, stop, task }
    }

    fn owned(&self) -> BTreeSet<u32> {
        self.lease.status().working.into_iter().collect()
    }

    /// Stops it as on SIGTERM, and waits for its end.
    async fn end(self) {
        self.stop.stop();
        self.ended().await;
    }

    /// Waits for its end after a stop.
    async fn ended(mut self) {
        (&mut self.task).await.unwrap().unwrap();
    }

    /// Ends it without a release.
    async fn crash(mut self) {
        self.task.abort();
        let _ = (&mut self.task).await;
    }
}

impl Drop for Replica {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn lease(rig: &Rig, name: &'static str, seed: u64) -> ShardedLease {
    ShardedLease::new(rig.client(name), "default", "web").identity(name).seed(seed)
}

fn maps(rig: &Rig, name: &'static str, lease: &ShardedLease) -> Informer<ConfigMap> {
    Informer::builder(rig.client(name)).labels("test").shard(lease.shard()).start().unwrap()
}

#[tokio::test(start_paused = true)]
async fn c11_replicas_divide_the_work_and_scale_up_and_down() {
    for supports_shards in [true, false] {
        let rig = Rig::on(Server::builder().sharded_list_and_watch(supports_shards), 40).await;
        let one = Replica::start(&rig, "one", 1);
        rig.balanced(&[&one]).await;
        rig.settled().await;
        let began = Instant::now();
        let two = Replica::start(&rig, "two", 2);
        rig.balanced(&[&one, &two]).await;
        let three = Replica::start(&rig, "three", 3);
        rig.balanced(&[&one, &two, &three]).await;
        assert!(began.elapsed() < 10 * SECOND, "{:?}", began.elapsed());

        rig.observer.clear();
        for n in 0..40 {
            rig.change(&format!("m{n}"), 1).await;
        }
        rig.settled().await;
        let busy = rig.observer.acts().iter().map(|act| act.replica).collect::<BTreeSet<_>>();
        assert_eq!(busy.len(), 3, "all replicas work: {busy:?}");

        let began = Instant::now();
        three.end().await;
        rig.balanced(&[&one, &two]).await;
        assert!(began.elapsed() < 5 * SECOND, "released slots are taken immediately: {:?}", began.elapsed());
        let (status, released) = (one.lease.status(), two.lease.status());
        assert_eq!((status.members, released.members), (2, 2));
        for n in 0..40 {
            rig.change(&format!("m{n}"), 2).await;
        }
        rig.settled().await;
        rig.observer.check();
    }
}

#[tokio::test(start_paused = true)]
async fn replicas_that_start_at_the_same_time_take_each_slot_once() {
    let rig = Rig::start(20).await;
    let [a, b, c, d] =
        [("a", 1), ("b", 2), ("c", 3), ("d", 4)].map(|(name, seed)| Replica::start(&rig, name, seed));
    rig.balanced(&[&a, &b, &c, &d]).await;
    assert_eq!(rig.terms().await, [1; 64], "a slot has changed hands");
    rig.settled().await;
    for replica in [a, b, c, d] {
        replica.end().await;
    }
    // So do replicas that start after all others have stopped.
    let mut terms = rig.terms().await;
    terms.iter_mut().for_each(|term| *term += 1);
    let [e, f] = [("e", 5), ("f", 6)].map(|(name, seed)| Replica::start(&rig, name, seed));
    rig.balanced(&[&e, &f]).await;
    assert_eq!(rig.terms().await, terms, "a slot has changed hands");
    rig.observer.check();
}

#[tokio::test(start_paused = true)]
async fn c11_slots_of_a_crashed_replica_are_taken_after_its_lease() {
    let rig = Rig::start(40).await;
    let (one, two) = (Replica::start(&rig, "one", 1), Replica::start(&rig, "two", 2));
    rig.balanced(&[&one, &two]).await;
    rig.settled().await;
    sleep(20 * SECOND).await;
    let crashed = Instant::now();
    let (lost, before) = (two.owned(), one.lease.status());
    two.crash().await;
    rig.observer.clear();
    for n in 0..40 {
        rig.change(&format!("m{n}"), 1).await;
    }
    rig.balanced(&[&one]).await;
    rig.settled().await;
    let acts = rig.observer.acts();
    let taken_over = acts.iter().filter(|act| lost.contains(&act.slot)).map(|act| act.began);
    let first = taken_over.min().unwrap();
    assert!(first >= crashed + LEASE - RETRY, "after {:?}", first - crashed);
    // The caches catch up within a second.
    assert!(first <= crashed + LEASE + RETRY.mul_f64(2.2) + SECOND, "after {:?}", first - crashed);
    rig.observer.check();
    let status = one.lease.status();
    assert_eq!((status.members, status.gained - before.gained), (1, 32));
    assert!(status.unowned - before.unowned < 32 * SECOND, "{status:?}");
}

#[tokio::test(start_paused = true)]
async fn c11_replicas_work_again_after_a_restore_from_a_backup() {
    let rig = Rig::start(20).await;
    let (one, two) = (Replica::start(&rig, "one", 1), Replica::start(&rig, "two", 2));
    rig.balanced(&[&one, &two]).await;
    rig.settled().await;
    let backup = rig.server.backup();
    // Renewals raise the revision far beyond that of the backup.
    sleep(3600 * SECOND).await;
    let cut = ["one", "two"].map(|name| rig.cut_off(name, FaultAction::Disconnect));
    rig.server.disconnect_all();
    sleep(60 * SECOND).await;
    rig.server.restart(&Restart::FromBackup(backup));
    cut.into_iter().for_each(|fault| rig.server.faults().disarm(fault));
    rig.balanced(&[&one, &two]).await;
    for n in 0..20 {
        rig.change(&format!("m{n}"), 1).await;
    }
    rig.settled().await;
    rig.observer.check();
}

#[tokio::test(start_paused = true)]
async fn c11_a_partitioned_replica_stops_before_its_slots_are_taken() {
    for how in [FaultAction::Hang, FaultAction::Disconnect, FaultAction::Html { code: 503 }] {
        let rig = Rig::start(60).await;
        let (one, two) = (Replica::start(&rig, "one", 1), Replica::start(&rig, "two", 2));
        rig.balanced(&[&one, &two]).await;
        rig.settled().await;
        let (identity, mine) = (two.lease.status().identity, two.owned());
        let cut = Instant::now();
        let fault = rig.cut_off("two", how.clone());
        rig.observer.clear();
        let mut owned = two.owned();
        while !owned.is_empty() {
            sleep(SECOND / 10).await;
            owned = two.owned();
        }
        assert!(cut.elapsed() <= RENEW + SECOND, "{how:?}: {:?}", cut.elapsed());
        rig.balanced(&[&one]).await;
        assert!(cut.elapsed() >= LEASE - RETRY, "{how:?}: {:?}", cut.elapsed());
        for n in 0..60 {
            rig.change(&format!("m{n}"), 1).await;
        }
        rig.settled().await;
        let acts = rig.observer.acts();
        assert!(acts.iter().any(|act| mine.contains(&act.slot) && act.replica == one.name), "{how:?}");

        rig.server.faults().disarm(fault);
        rig.balanced(&[&one, &two]).await;
        assert_ne!(two.lease.status().identity, identity, "{how:?}: it joins as another");
        rig.observer.check();
    }
}

#[tokio::test(start_paused = true)]
async fn c11_a_new_replica_waits_for_slots_of_a_partitioned_owner() {
    let rig = Rig::start(30).await;
    let (one, two) = (Replica::start(&rig, "one", 1), Replica::start(&rig, "two", 2));
    rig.balanced(&[&one, &two]).await;
    rig.cut_off("two", FaultAction::Hang);
    // Open watches end too, so it does not see what the others do.
    rig.server.disconnect_all();
    let cut = Instant::now();
    let three = Replica::start(&rig, "three", 3);
    while cut.elapsed() < 2 * LEASE {
        let owned = [&one, &two, &three].map(Replica::owned);
        let all = owned.iter().flatten().collect::<BTreeSet<_>>();
        assert_eq!(
            all.len(),
            owned.iter().map(BTreeSet::len).sum::<usize>(),
            "a slot has two owners: {owned:?}"
        );
        sleep(Duration::from_millis(20)).await;
    }
    rig.balanced(&[&one, &three]).await;
    rig.settled().await;
    rig.observer.check();
}

#[tokio::test(start_paused = true)]
async fn c11_a_rolling_update_moves_each_slot_at_most_twice() {
    for surge in [true, false] {
        let rig = Rig::start(30).await;
        let mut replicas = Vec::new();
        for (seed, name) in ["old-0", "old-1", "old-2"].into_iter().enumerate() {
            replicas.push(Replica::start(&rig, name, seed as u64));
            rig.balanced(&replicas.iter().collect::<Vec<_>>()).await;
        }
        let before = rig.terms().await;
        for (seed, name) in ["new-0", "new-1", "new-2"].into_iter().enumerate() {
            let new = || Replica::start(&rig, name, 10 + seed as u64);
            if surge {
                replicas.push(new());
                rig.balanced(&replicas.iter().collect::<Vec<_>>()).await;
            }
            replicas.remove(0).end().await;
            rig.balanced(&replicas.iter().collect::<Vec<_>>()).await;
            if !surge {
                replicas.push(new());
                rig.balanced(&replicas.iter().collect::<Vec<_>>()).await;
            }
        }
        let after = rig.terms().await;
        let moves = before.iter().zip(&after).map(|(before, after)| after - before).collect::<Vec<_>>();
        assert!(moves.iter().all(|moves| (0..=2).contains(moves)), "surge {surge}: {moves:?}");
        rig.observer.check();
    }
}

#[tokio::test(start_paused = true)]
async fn c11_a_rolling_update_with_slow_drains_moves_each_slot_at_most_twice() {
    for surge in [true, false] {
        let rig = Rig::start(30).await;
        let mut replicas = Vec::new();
        for (seed, name) in ["old-0", "old-1", "old-2"].into_iter().enumerate() {
            replicas.push(Replica::busy(&rig, name, seed as u64));
            rig.balanced(&replicas.iter().collect::<Vec<_>>()).await;
        }
        let before = rig.terms().await;
        let names = ["new-0", "new-1", "new-2"].into_iter().enumerate();
        let mut new = names.map(|(seed, name)| Replica::busy(&rig, name, 10 + seed as u64));
        if surge {
            replicas.extend(new.next());
            rig.balanced(&replicas.iter().collect::<Vec<_>>()).await;
        }
        for _ in 0..3 {
            let old = replicas.remove(0);
            old.stop.stop();
            sleep(SECOND).await;
            assert!(!old.task.is_finished(), "it still drains");
            replicas.extend(new.next());
            old.ended().await;
            rig.balanced(&replicas.iter().collect::<Vec<_>>()).await;
        }
        let after = rig.terms().await;
        let moves = before.iter().zip(&after).map(|(before, after)| after - before).collect::<Vec<_>>();
        assert!(moves.iter().all(|moves| (0..=2).contains(moves)), "surge {surge}: {moves:?}");
        rig.observer.check();
    }
}

/// Waits until a replica owns all slots that a draining one has released.
async fn takes_over(replica: &Replica, draining: &Replica) {
    let owned = async {
        while replica.owned().len() + draining.lease.status().releasing.len() < 64 {
            sleep(Duration::from_millis(20)).await;
        }
    };
    assert!(timeout(SECOND, owned).await.is_ok(), "a released slot has no owner");
    assert!(!draining.task.is_finished());
}

#[tokio::test(start_paused = true)]
async fn c11_a_replica_waits_for_the_seat_of_one_that_leaves_while_others_work() {
    for crashes in [false, true] {
        let rig = Rig::start(30).await;
        let (one, two) = (Replica::busy(&rig, "one", 1), Replica::busy(&rig, "two", 2));
        rig.balanced(&[&one, &two]).await;
        sleep(10 * SECOND).await;
        one.stop.stop();
        sleep(SECOND).await;
        let three = Replica::busy(&rig, "three", 3);
        sleep(4 * SECOND).await;
        assert_eq!((three.lease.status().seat, one.task.is_finished()), (None, false));
        takes_over(&two, &one).await;
        let began = Instant::now();
        if crashes {
            one.crash().await;
        } else {
            one.ended().await;
        }
        rig.balanced(&[&two, &three]).await;
        assert_eq!(three.lease.status().seat, Some(0), "crashes: {crashes}");
        assert!(began.elapsed() < LEASE + 4 * RETRY + BUSY, "crashes: {crashes}: {:?}", began.elapsed());
        rig.observer.check();
    }
}

#[tokio::test(start_paused = true)]
async fn c11_no_slot_is_unowned_because_a_replica_waits_for_a_seat() {
    // All others leave.
    let rig = Rig::start(30).await;
    let one = Replica::busy(&rig, "one", 1);
    rig.balanced(&[&one]).await;
    sleep(10 * SECOND).await;
    one.stop.stop();
    let two = Replica::busy(&rig, "two", 2);
    sleep(3 * SECOND).await;
    takes_over(&two, &one).await;
    assert_eq!(two.lease.status().seat, Some(1));
    one.ended().await;
    rig.balanced(&[&two]).await;
    rig.observer.check();

    // More leave than stay.
    let rig = Rig::start(30).await;
    let (one, two) = (Replica::busy(&rig, "one", 1), Replica::busy(&rig, "two", 2));
    let three = Replica::busy(&rig, "three", 3);
    rig.balanced(&[&one, &two, &three]).await;
    sleep(10 * SECOND).await;
    one.stop.stop();
    sleep(SECOND).await;
    let four = Replica::busy(&rig, "four", 4);
    sleep(SECOND).await;
    assert_eq!(four.lease.status().seat, None, "two and three stay");
    two.stop.stop();
    sleep(SECOND).await;
    assert_eq!(four.lease.status().seat, Some(3));
    rig.balanced(&[&three, &four]).await;
    rig.observer.check();

    // The last one that stays crashes.
    let rig = Rig::start(30).await;
    let (one, two) = (Replica::busy(&rig, "one", 1), Replica::busy(&rig, "two", 2));
    rig.balanced(&[&one, &two]).await;
    one.stop.stop();
    sleep(SECOND).await;
    rig.cut_off("one", FaultAction::Hang);
    let three = Replica::busy(&rig, "three", 3);
    sleep(SECOND).await;
    let crashed = Instant::now();
    two.crash().await;
    rig.balanced(&[&three]).await;
    // After a crash, the caches catch up with the server.
    assert!(crashed.elapsed() < LEASE + 3 * RETRY, "{:?}", crashed.elapsed());
    rig.observer.check();
}

#[tokio::test(start_paused = true)]
async fn c11_the_wait_for_a_seat_is_limited() {
    let rig = Rig::start(30).await;
    let stuck = {
        let lease = lease(&rig, "stuck", 1);
        let reconcile = async |_: Context, _: Key| std::future::pending::<Result<Action, Error>>().await;
        let builder = Controller::builder("maps", &maps(&rig, "stuck", &lease)).concurrency(100);
        let builder = builder.grace(600 * SECOND).shared(&lease);
        Replica::run("stuck", lease, builder.build((), reconcile).unwrap())
    };
    rig.balanced(&[&stuck]).await;
    sleep(SECOND).await;
    let two = Replica::start(&rig, "two", 2);
    sleep(3 * SECOND).await;
    assert_eq!(two.lease.status().seat, Some(1));
    stuck.stop.stop();
    sleep(SECOND).await;
    let three = {
        let lease = lease(&rig, "three", 3);
        let data = Data { replica: "three", observer: rig.observer.clone() };
        let builder = Controller::builder("maps", &maps(&rig, "three", &lease)).grace(5 * SECOND);
        Replica::run("three", lease.clone(), builder.shared(&lease).build(data, reconcile).unwrap())
    };
    let began = Instant::now();
    while three.lease.status().seat.is_none() {
        sleep(SECOND / 10).await;
    }
    let limit = LEASE + 5 * SECOND;
    assert!((limit..limit + SECOND).contains(&began.elapsed()), "{:?}", began.elapsed());
    assert_eq!(three.lease.status().seat, Some(2));
}

#[tokio::test(start_paused = true)]
async fn c11_each_hand_over_begins_a_new_term() {
    let rig = Rig::start(30).await;
    let one = Replica::start(&rig, "one", 1);
    rig.balanced(&[&one]).await;
    rig.settled().await;
    let token_of =
        |acts: &[Act]| acts.iter().map(|act| (act.slot, act.token.clone())).collect::<BTreeMap<_, _>>();
    let first = token_of(&rig.observer.acts());
    rig.observer.clear();
    let two = Replica::start(&rig, "two", 2);
    rig.balanced(&[&one, &two]).await;
    one.end().await;
    rig.balanced(&[&two]).await;
    for n in 0..30 {
        rig.change(&format!("m{n}"), 1).await;
    }
    rig.settled().await;
    let acts = rig.observer.acts();
    let second = token_of(&acts.into_iter().filter(|act| act.replica == "two").collect::<Vec<_>>());
    assert_eq!(first.keys().collect::<Vec<_>>(), second.keys().collect::<Vec<_>>());
    for (slot, token) in &first {
        assert_ne!(second[slot], *token);
        assert!(token.contains(&format!("/{slot}/1/one_")), "{token}");
        assert!(second[slot].contains(&format!("/{slot}/2/two_")), "{}", second[slot]);
    }
    rig.observer.check();
}

#[tokio::test(start_paused = true)]
async fn c11_a_request_of_a_stale_term_is_not_sent() {
    let rig = Rig::start(1).await;
    let lease = lease(&rig, "one", 1);
    let maps = maps(&rig, "one", &lease);
    let answers = Arc::<Mutex<Vec<String>>>::default();
    let noted = answers.clone();
    let reconcile = move |ctx: Context, key: Key| {
        let noted = noted.clone();
        async move {
            let patch = Patch::Merge(json!({"metadata": {"annotations": {"late": "yes"}}}));
            let api = Api::<ConfigMap>::namespaced(ctx.client(), key.namespace());
            // It outlives its reconcile, and keeps its client.
            tokio::spawn(async move {
                sleep(RENEW + RETRY).await;
                let answer = api.patch(key.name(), &PatchParams::default(), &patch).await;
                noted.lock().push(format!("{:?}", answer.map(drop).map_err(|error| error.to_string())));
            });
            Ok::<_, Error>(Action::Done)
        }
    };
    let controller = Controller::builder("maps", &maps).shared(&lease).build((), reconcile).unwrap();
    let one = Replica::run("one", lease, controller);
    rig.balanced(&[&one]).await;
    // Its seat cannot be renewed; everything else works.
    let seats = Match::verb(Verb::Update).resource("leases").user_agent("one");
    rig.server.faults().arm(Fault::new(FaultAction::Hang).on(seats));
    let patches =
        rig.server.faults().arm(Fault::new(FaultAction::Delay(Duration::ZERO)).on(Match::verb(Verb::Patch)));
    sleep(RENEW + 2 * RETRY).await;
    let answers = answers.lock().clone();
    assert!(!answers.is_empty() && answers.iter().all(|answer| answer.contains("is over")), "{answers:?}");
    assert_eq!(rig.server.faults().fired(patches), Some(0));
}

#[tokio::test(start_paused = true)]
async fn c11_no_reconcile_begins_after_a_live_read_that_outlasts_the_slot() {
    for is_released in [true, false] {
        let rig = Rig::start(30).await;
        let lease = lease(&rig, "one", 1);
        let maps = maps(&rig, "one", &lease);
        let begun = Arc::<Mutex<Vec<(Instant, bool)>>>::default();
        let reconcile = {
            let (lease, begun) = (lease.clone(), begun.clone());
            move |ctx: Context, key: Key| {
                let term = ctx.term().unwrap();
                let is_working = lease.status().working.contains(&term.token().slot.unwrap());
                begun.lock().push((Instant::now(), is_working && term.is_current()));
                async move {
                    let patch = Patch::Merge(json!({"metadata": {"annotations": {"note": "x"}}}));
                    let api = Api::<ConfigMap>::namespaced(ctx.client(), key.namespace());
                    let _ = api.patch(key.name(), &PatchParams::default(), &patch).await;
                    let number: u32 = key.name().trim_start_matches('m').parse().unwrap();
                    Ok::<_, Error>(Action::RequeueAfter(number * SECOND / 4))
                }
            }
        };
        // The answers to all writes are lost, so a live read precedes each reconcile.
        let on = |verb| Match::verb(verb).resource("configmaps").user_agent("one");
        rig.server.faults().arm(Fault::new(FaultAction::CutAfterBytes(0)).on(on(Verb::Patch)));
        rig.server.faults().arm(Fault::new(FaultAction::Delay(4 * SECOND)).on(on(Verb::Get)));
        let builder = Controller::builder("maps", &maps).concurrency(100).shared(&lease);
        let one = Replica::run("one", lease, builder.build((), reconcile).unwrap());
        rig.balanced(&[&one]).await;
        sleep(20 * SECOND).await;
        let (before, changed) = (begun.lock().len(), Instant::now());
        let two = is_released.then(|| Replica::start(&rig, "two", 2));
        if !is_released {
            let seats = Match::verb(Verb::Update).resource("leases").user_agent("one").name("web-seat-0");
            rig.server.faults().arm(Fault::new(FaultAction::Hang).on(seats));
        }
        sleep(20 * SECOND).await;
        let begun = begun.lock().clone();
        assert!(begun.len() > before, "reconciles begin until the slots change");
        let late = begun.iter().filter(|(_, may_begin)| !may_begin);
        let late = late.map(|(at, _)| at.saturating_duration_since(changed)).collect::<Vec<_>>();
        assert!(late.is_empty(), "released: {is_released}: {late:?}");
        drop(two);
    }
}

#[tokio::test(start_paused = true)]
async fn c11_a_reconcile_is_cancelled_at_the_grace_deadline_of_a_hand_over() {
    let rig = Rig::start(30).await;
    let hanging = {
        let lease = lease(&rig, "one", 1);
        let maps = maps(&rig, "one", &lease);
        let data = Data { replica: "one", observer: rig.observer.clone() };
        let reconcile = async |ctx: Context<Data>, key: Key| -> Result<Action, Error> {
            let Data { replica, observer } = ctx.data();
            let _acting = observer.begin(replica, &key, false, ctx.term().unwrap().token());
            std::future::pending().await
        };
        let builder = Controller::builder("maps", &maps).concurrency(100).grace(5 * SECOND).shared(&lease);
        Replica::run("one", lease, builder.build(data, reconcile).unwrap())
    };
    rig.balanced(&[&hanging]).await;
    sleep(SECOND).await;
    let began = Instant::now();
    let two = Replica::start(&rig, "two", 2);
    rig.balanced(&[&hanging, &two]).await;
    assert!((5 * SECOND..8 * SECOND).contains(&began.elapsed()), "{:?}", began.elapsed());
    rig.observer.check();
    assert_eq!(hanging.owned().len(), 32);
}

/// Creates one secret per config map, with a generated name, unless the cache has one.
async fn with_child(ctx: Context<Informer<Secret>>, key: Key) -> Result<Action, Error> {
    let Some(map) = ctx.object::<ConfigMap>() else { return Ok(Action::Done) };
    sleep(WORK).await;
    if children(&ctx.data().lister(), map.uid()).map_err(Error::new)?.is_empty() {
        let owner = json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": map.name(), "uid": map.uid()}]);
        let metadata = ObjectMeta {
            generate_name: Some("child-".to_owned()),
            owner_references: serde_json::from_value(owner).unwrap(),
            ..ObjectMeta::default()
        };
        let secret = Secret { metadata, ..Secret::default() };
        let api = Api::<Secret>::namespaced(ctx.client(), key.namespace());
        api.create(&PostParams::default(), &secret).await?;
    }
    Ok(Action::Done)
}

#[tokio::test(start_paused = true)]
async fn c11_the_next_owner_sees_what_the_last_one_wrote() {
    let rig = Rig::start(40).await;
    let start = |name, seed| {
        let lease = lease(&rig, name, seed);
        let secrets = Informer::<Secret>::builder(rig.client(name)).start().unwrap();
        let builder = Controller::builder("children", &maps(&rig, name, &lease)).concurrency(4);
        let builder = builder.owns(&secrets).shared(&lease);
        Replica::run(name, lease, builder.build(secrets, with_child).unwrap())
    };
    let one = start("one", 1);
    rig.balanced(&[&one]).await;
    let two = start("two", 2);
    rig.balanced(&[&one, &two]).await;
    // The second replica's cache of secrets falls behind.
    let secrets_of_two = Match::default().resource("secrets").user_agent("two");
    let behind = rig.server.faults().arm(Fault::new(FaultAction::Disconnect).on(secrets_of_two));
    rig.server.disconnect_all();
    sleep(3 * SECOND).await;
    rig.balanced(&[&one, &two]).await;
    for n in 40..80 {
        rig.create(&format!("m{n}")).await;
    }
    sleep(5 * SECOND).await;
    one.end().await;
    sleep(10 * SECOND).await;
    assert!(!two.lease.status().catching_up.is_empty(), "{:?}", two.lease.status());
    rig.server.faults().disarm(behind);
    rig.balanced(&[&two]).await;
    sleep(60 * SECOND).await;
    let secrets = Api::<Secret>::default_namespaced(rig.client("test"));
    assert_eq!(secrets.list(&ListParams::default()).await.unwrap().items.len(), 80, "one per config map");
}

/// Keeps a secret with the data of each config map.
async fn mirror(ctx: Context, key: Key) -> Result<Action, Error> {
    let Some(map) = ctx.object::<ConfigMap>() else { return Ok(Action::Done) };
    sleep(WORK).await;
    let map = map.decode()?;
    let data = ByteString(wanted(&map).into());
    let metadata = ObjectMeta { name: Some(key.name().to_owned()), ..ObjectMeta::default() };
    let data = Some(BTreeMap::from([("n".to_owned(), data)]));
    ctx.apply(&Secret { metadata, data, ..Secret::default() }).await?;
    Ok(Action::Done)
}

/// Waits until each config map owns a secret with its data.
async fn mirrored(rig: &Rig) {
    let secrets = Api::<Secret>::default_namespaced(rig.client("test"));
    let is_mirrored = async || {
        let maps = rig.maps().list(&ListParams::default().labels("test")).await.unwrap().items;
        let all = secrets.list(&ListParams::default()).await.unwrap().items;
        maps.iter().all(|map| {
            let of_map = |secret: &&Secret| secret.metadata.name == map.metadata.name;
            all.iter().find(of_map).is_some_and(|secret| {
                let owners = secret.metadata.owner_references.iter().flatten();
                let is_owned = owners.map(|owner| &owner.uid).eq(&map.metadata.uid);
                is_owned && secret.data.as_ref().unwrap()["n"].0 == wanted(map).as_bytes()
            })
        })
    };
    let mirrored = async {
        while !is_mirrored().await {
            sleep(SECOND / 10).await;
        }
    };
    assert!(timeout(60 * SECOND, mirrored).await.is_ok(), "a secret is missing or differs");
}

/// Checks that each replica has exactly the secrets of the config maps in its slots.
async fn cached_by_owner(rig: &Rig, replicas: &[&(Replica, Informer<Secret>)]) {
    let maps = rig.maps().list(&ListParams::default().labels("test")).await.unwrap().items;
    // The watches may be behind.
    sleep(SECOND).await;
    for (replica, secrets) in replicas {
        secrets.shard_synced().await.unwrap();
        let owned = replica.owned();
        let is_ours = |map: &&ConfigMap| {
            owned.contains(&replica.lease.shard().get().slot("default", map.metadata.uid.as_ref().unwrap()))
        };
        let ours = maps.iter().filter(is_ours).map(|map| map.metadata.name.clone().unwrap());
        let cached =
            secrets.lister().list().iter().map(|secret| secret.name().to_owned()).collect::<BTreeSet<_>>();
        assert_eq!(cached, ours.collect(), "{}", replica.name);
        assert!(
            !cached.is_empty() && cached.len() < maps.len() / 4 * 3,
            "{}: {}",
            replica.name,
            cached.len()
        );
    }
}

#[tokio::test(start_paused = true)]
async fn c1_c11_children_follow_the_slot_of_their_owner() {
    for supports_shards in [true, false] {
        let rig = Rig::on(Server::builder().sharded_list_and_watch(supports_shards), 60).await;
        let start = |name, seed| {
            let lease = lease(&rig, name, seed);
            let secrets = Informer::<Secret>::builder(rig.client(name));
            let secrets = secrets.shard(lease.shard().by_owner()).start().unwrap();
            let builder = Controller::builder("mirror", &maps(&rig, name, &lease)).concurrency(4);
            let builder = builder.owns(&secrets).shared(&lease);
            (Replica::run(name, lease, builder.build((), mirror).unwrap()), secrets)
        };
        let secrets = Api::<Secret>::default_namespaced(rig.client("test"));
        let unowned = serde_json::from_value(json!({"metadata": {"name": "unowned"}})).unwrap();
        secrets.create(&PostParams::default(), &unowned).await.unwrap();
        let damage = async || {
            for n in 0..60 {
                let name = format!("m{n}");
                let patch = match n % 3 {
                    0 => {
                        secrets.delete(&name, &DeleteParams::default()).await.unwrap();
                        continue;
                    }
                    1 => json!({"data": {"n": ByteString(b"damaged".into())}}),
                    _ => json!({"metadata": {"ownerReferences": null}}),
                };
                secrets.patch(&name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
            }
        };
        let [one, two, three] = [start("one", 1), start("two", 2), start("three", 3)];
        rig.balanced(&[&one.0, &two.0, &three.0]).await;
        mirrored(&rig).await;
        cached_by_owner(&rig, &[&one, &two, &three]).await;
        damage().await;
        mirrored(&rig).await;
        cached_by_owner(&rig, &[&one, &two, &three]).await;

        three.0.end().await;
        rig.balanced(&[&one.0, &two.0]).await;
        cached_by_owner(&rig, &[&one, &two]).await;
        damage().await;
        mirrored(&rig).await;
        cached_by_owner(&rig, &[&one, &two]).await;
    }
}

#[tokio::test(start_paused = true)]
async fn c11_a_deletion_is_reconciled_by_the_owner_of_the_slot() {
    let rig = Rig::start(40).await;
    let (one, two) = (Replica::start(&rig, "one", 1), Replica::start(&rig, "two", 2));
    rig.balanced(&[&one, &two]).await;
    rig.settled().await;
    rig.observer.clear();
    for n in 0..40 {
        rig.maps().delete(&format!("m{n}"), &DeleteParams::default()).await.unwrap();
    }
    sleep(5 * SECOND).await;
    let gone: Vec<Act> = rig.observer.acts().into_iter().filter(|act| act.gone).collect();
    let keys = gone.iter().map(|act| act.key.clone()).collect::<BTreeSet<_>>();
    assert_eq!((gone.len(), keys.len()), (40, 40), "each once");
    assert!(
        gone.iter().all(|act| if act.replica == "one" { &one } else { &two }.owned().contains(&act.slot))
    );
    rig.observer.check();
}

#[tokio::test(start_paused = true)]
async fn c11_deleted_leases_do_not_cause_two_owners() {
    for name in ["web-seat-1", "web-slots-0"] {
        let rig = Rig::start(40).await;
        let (one, two) = (Replica::start(&rig, "one", 1), Replica::start(&rig, "two", 2));
        rig.balanced(&[&one, &two]).await;
        rig.settled().await;
        let leases = Api::<Lease>::default_namespaced(rig.client("test"));
        leases.delete(name, &DeleteParams::default()).await.unwrap();
        sleep(LEASE).await;
        rig.balanced(&[&one, &two]).await;
        for n in 0..40 {
            rig.change(&format!("m{n}"), 1).await;
        }
        rig.settled().await;
        rig.observer.check();
    }
}

/// Waits, and checks all the time that no slot has two owners.
async fn apart(replicas: &[&Replica], time: Duration) {
    let began = Instant::now();
    while began.elapsed() < time {
        let owned = replicas.iter().map(|replica| replica.owned()).collect::<Vec<_>>();
        let all = owned.iter().flatten().collect::<BTreeSet<_>>();
        let sum = owned.iter().map(BTreeSet::len).sum::<usize>();
        assert_eq!(all.len(), sum, "a slot has two owners after {:?}: {owned:?}", began.elapsed());
        sleep(Duration::from_millis(20)).await;
    }
}

/// A replica's watch of leases ends, and does not work again until the faults are disarmed.
fn cut_lease_watch(rig: &Rig, name: &str, how: &FaultAction) -> Vec<embedded_apiserver::FaultId> {
    let faults = [Verb::Watch, Verb::List].map(|verb| {
        let reads = Match::verb(verb).resource("leases").user_agent(name);
        rig.server.faults().arm(Fault::new(how.clone()).on(reads))
    });
    rig.server.disconnect_all();
    faults.into()
}

#[tokio::test(start_paused = true)]
async fn c11_a_key_is_not_lost_while_a_renewal_is_late() {
    let rig = Rig::start(20).await;
    let timing = LeaseTiming { retry_period: SECOND, ..LeaseTiming::default() };
    let lease = lease(&rig, "one", 1).timing(timing);
    let maps = maps(&rig, "one", &lease);
    let reconciled = Arc::<Mutex<BTreeSet<String>>>::default();
    let noted = reconciled.clone();
    let reconcile = move |_: Context, key: Key| {
        noted.lock().insert(key.to_string());
        async { Ok::<_, Error>(Action::RequeueAfter(SECOND / 10)) }
    };
    let builder = Controller::builder("maps", &maps).concurrency(4).shared(&lease);
    let one = Replica::run("one", lease, builder.build((), reconcile).unwrap());
    rig.balanced(&[&one]).await;
    let renewals = || Match::verb(Verb::Update).resource("leases").name("web-seat-0");
    let counter = rig.server.faults().arm(Fault::new(FaultAction::Delay(Duration::ZERO)).on(renewals()));
    while rig.server.faults().fired(counter) == Some(0) {
        sleep(Duration::from_millis(1)).await;
    }
    // No renewal succeeds for 8.5 s.
    let fault = rig.server.faults().arm(Fault::new(FaultAction::Html { code: 503 }).on(renewals()));
    sleep(SECOND / 2 * 17).await;
    rig.server.faults().disarm(fault);
    rig.server.faults().arm(Fault::new(FaultAction::Delay(SECOND / 2)).on(renewals()));
    // The next one is sent after 9 s. Before its answer, the process is suspended until the terms are not valid any more.
    sleep(SECOND / 10 * 7).await;
    tokio::time::advance(SECOND / 10 * 34).await;
    sleep(10 * SECOND).await;
    reconciled.lock().clear();
    sleep(2 * SECOND).await;
    assert_eq!(reconciled.lock().len(), 20);
}

#[tokio::test(start_paused = true)]
async fn c11_a_replica_whose_watch_is_stale_leaves_its_slots_to_others() {
    for how in [FaultAction::Overloaded { retry_after_seconds: 1 }, FaultAction::Hang] {
        let rig = Rig::start(40).await;
        let (one, two) = (Replica::start(&rig, "one", 1), Replica::start(&rig, "two", 2));
        let three = Replica::start(&rig, "three", 3);
        rig.balanced(&[&one, &two, &three]).await;
        let faults = cut_lease_watch(&rig, "two", &how);
        three.crash().await;
        rig.balanced(&[&one]).await;
        for n in 0..40 {
            rig.change(&format!("m{n}"), 1).await;
        }
        rig.settled().await;
        // It does not take a seat again before its watch works.
        apart(&[&one, &two], 60 * SECOND).await;
        assert_eq!((one.owned().len(), one.lease.status().members), (64, 1));
        faults.into_iter().for_each(|fault| rig.server.faults().disarm(fault));
        rig.balanced(&[&one, &two]).await;
        rig.observer.check();
    }
}

#[tokio::test(start_paused = true)]
async fn c11_a_replica_whose_first_watch_is_stuck_joins() {
    for is_new in [true, false] {
        let rig = Rig::start(10).await;
        let one = Replica::start(&rig, "one", 1);
        if !is_new {
            rig.balanced(&[&one]).await;
        }
        let faults =
            is_new.then(Vec::new).unwrap_or_else(|| cut_lease_watch(&rig, "two", &FaultAction::Hang));
        let two = Replica::start(&rig, "two", 2);
        sleep(SECOND).await;
        let late = cut_lease_watch(&rig, "two", &FaultAction::Hang);
        sleep(30 * SECOND).await;
        faults.into_iter().chain(late).for_each(|fault| rig.server.faults().disarm(fault));
        // Requests that hang stay so.
        rig.balanced(&[&one, &two]).await;
        rig.observer.check();
    }
}

#[tokio::test(start_paused = true)]
async fn c11_a_slow_watch_does_not_lose_slots() {
    let rig = Rig::start(10).await;
    let (one, two) = (Replica::start(&rig, "one", 1), Replica::start(&rig, "two", 2));
    rig.balanced(&[&one, &two]).await;
    for _ in 0..10 {
        let faults = cut_lease_watch(&rig, "two", &FaultAction::Hang);
        sleep(4 * SECOND).await;
        faults.into_iter().for_each(|fault| rig.server.faults().disarm(fault));
        rig.server.disconnect_all();
        sleep(6 * SECOND).await;
    }
    assert_eq!((one.lease.status().lost, two.lease.status().lost), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn c11_a_deletion_that_a_replica_does_not_see_ends_its_terms() {
    let rig = Rig::start(40).await;
    let (one, two) = (Replica::start(&rig, "one", 1), Replica::start(&rig, "two", 2));
    rig.balanced(&[&one, &two]).await;
    cut_lease_watch(&rig, "two", &FaultAction::Hang);
    let leases = Api::<Lease>::default_namespaced(rig.client("test"));
    leases.delete("web-slots-0", &DeleteParams::default()).await.unwrap();
    apart(&[&one, &two], 60 * SECOND).await;
    rig.balanced(&[&one]).await;
    for n in 0..40 {
        rig.change(&format!("m{n}"), 1).await;
    }
    rig.settled().await;
    rig.observer.check();
}

#[tokio::test(start_paused = true)]
async fn c11_a_group_whose_leases_are_deleted_has_no_two_owners() {
    for restarts in [false, true] {
        let rig = Rig::start(40).await;
        let (mut one, two) = (Replica::start(&rig, "one", 1), Replica::start(&rig, "two", 2));
        rig.balanced(&[&one, &two]).await;
        rig.cut_off("two", FaultAction::Hang);
        rig.server.disconnect_all();
        if restarts {
            one.task.abort();
            sleep(SECOND).await;
        }
        let leases = Api::<Lease>::default_namespaced(rig.client("test"));
        let all = ListParams::default().labels("kube-informer/sharded-lease=web");
        leases.delete_collection(&DeleteParams::default(), &all).await.unwrap();
        if restarts {
            // It knows nothing about the deleted leases.
            one = Replica::start(&rig, "one", 3);
        }
        apart(&[&one, &two], 40 * SECOND).await;
        rig.balanced(&[&one]).await;
        rig.settled().await;
        rig.observer.check();
    }
}

#[tokio::test(start_paused = true)]
async fn c11_records_that_are_deleted_twice_have_no_two_owners() {
    let rig = Rig::start(20).await;
    let (one, two) = (Replica::start(&rig, "one", 1), Replica::start(&rig, "two", 2));
    rig.balanced(&[&one, &two]).await;
    let three = Replica::start(&rig, "three", 3);
    rig.balanced(&[&one, &two, &three]).await;
    let seat = format!("web-seat-{}", three.lease.status().seat.unwrap());
    let seat = Match::verb(Verb::Update).resource("leases").name(&*seat).user_agent("one");
    let freed = rig.server.faults().arm(Fault::new(FaultAction::Hang).on(seat));
    three.crash().await;
    sleep(SECOND).await;
    let leases = Api::<Lease>::default_namespaced(rig.client("test"));
    leases.delete("web-slots-0", &DeleteParams::default()).await.unwrap();
    // The first replica frees the seat, and gets no answer. The second creates the records meanwhile, and takes slots.
    let began = Instant::now();
    while two.lease.status().lost == 0 || two.owned().is_empty() {
        assert!(began.elapsed() < 2 * LEASE, "{:?}", two.lease.status());
        sleep(SECOND / 20).await;
    }
    assert_eq!((rig.server.faults().fired(freed), one.owned().len()), (Some(1), 0), "{:?}", began.elapsed());
    rig.cut_off("two", FaultAction::Hang);
    rig.server.disconnect_all();
    leases.delete("web-slots-0", &DeleteParams::default()).await.unwrap();
    // It should get slots on which the second still works.
    let four = Replica::start(&rig, "four", 4);
    apart(&[&one, &two, &four], 40 * SECOND).await;
    rig.balanced(&[&one, &four]).await;
    rig.observer.check();
}

#[tokio::test(start_paused = true)]
async fn c11_owners_catch_up_after_all_leases_were_deleted() {
    let rig = Rig::start(40).await;
    let start = |name, seed| {
        let lease = lease(&rig, name, seed);
        let secrets = Informer::<Secret>::builder(rig.client(name)).start().unwrap();
        let builder = Controller::builder("children", &maps(&rig, name, &lease)).concurrency(4);
        let builder = builder.owns(&secrets).shared(&lease);
        Replica::run(name, lease, builder.build(secrets, with_child).unwrap())
    };
    let (one, two) = (start("one", 1), start("two", 2));
    rig.balanced(&[&one, &two]).await;
    // The second replica's cache of secrets falls behind.
    let secrets_of_two = Match::default().resource("secrets").user_agent("two");
    let behind = rig.server.faults().arm(Fault::new(FaultAction::Disconnect).on(secrets_of_two));
    rig.server.disconnect_all();
    sleep(3 * SECOND).await;
    for n in 40..80 {
        rig.create(&format!("m{n}")).await;
    }
    sleep(5 * SECOND).await;
    one.crash().await;
    let leases = Api::<Lease>::default_namespaced(rig.client("test"));
    leases.delete_collection(&DeleteParams::default(), &ListParams::default()).await.unwrap();
    sleep(40 * SECOND).await;
    assert_eq!(two.lease.status().catching_up.len(), 64, "{:?}", two.lease.status());
    rig.server.faults().disarm(behind);
    rig.balanced(&[&two]).await;
    sleep(60 * SECOND).await;
    let secrets = Api::<Secret>::default_namespaced(rig.client("test"));
    assert_eq!(secrets.list(&ListParams::default()).await.unwrap().items.len(), 80, "one per config map");
}

#[tokio::test(start_paused = true)]
async fn c11_a_seat_is_taken_although_the_answer_was_lost() {
    let rig = Rig::start(10).await;
    let one = Replica::start(&rig, "one", 1);
    rig.balanced(&[&one]).await;
    let create = Match::verb(Verb::Create).resource("leases").user_agent("two");
    rig.server.faults().arm(Fault::new(FaultAction::CutAfterBytes(0)).on(create).times(1));
    let began = Instant::now();
    let two = Replica::start(&rig, "two", 2);
    rig.balanced(&[&one, &two]).await;
    assert!(began.elapsed() < 8 * SECOND, "{:?}", began.elapsed());
    assert_eq!(two.lease.status().seat, Some(1));
    rig.observer.check();
}

#[tokio::test(start_paused = true)]
async fn c11_a_replica_that_is_stopped_while_it_joins_leaves_no_seat() {
    for how in [FaultAction::Delay(2 * SECOND), FaultAction::CutAfterBytes(0)] {
        let rig = Rig::start(10).await;
        let one = Replica::start(&rig, "one", 1);
        rig.balanced(&[&one]).await;
        let create = Match::verb(Verb::Create).resource("leases").user_agent("two");
        let fault = rig.server.faults().arm(Fault::new(how.clone()).on(create).times(1));
        let two = Replica::start(&rig, "two", 2);
        while rig.server.faults().fired(fault) == Some(0) {
            sleep(Duration::from_millis(10)).await;
        }
        sleep(SECOND / 10).await;
        two.end().await;
        let leases = Api::<Lease>::default_namespaced(rig.client("test"));
        let seat = leases.get_opt("web-seat-1").await.unwrap().and_then(|lease| lease.spec);
        assert_eq!(seat.and_then(|seat| seat.holder_identity).unwrap_or_default(), "", "{how:?}");
        rig.balanced(&[&one]).await;
    }
}

/// A client whose patches are sent only after a while, as if a connection or credentials had to be established.
fn slow_patches(rig: &Rig, name: &'static str, wait: Duration) -> Client {
    let inner = rig.client(name);
    let service = tower::service_fn(move |request: http::Request<kube_client::client::Body>| {
        let inner = inner.clone();
        async move {
            if request.method() == http::Method::PATCH {
                sleep(wait).await;
            }
            inner.send(request).await
        }
    });
    Client::new(service, "default")
}

#[tokio::test(start_paused = true)]
async fn c11_a_request_that_waits_for_its_connection_is_not_sent_after_the_term() {
    for watched in [true, false] {
        let rig = Rig::start(1).await;
        rig.maps()
            .create(
                &PostParams::default(),
                &serde_json::from_value(json!({"metadata": {"name": "other"}})).unwrap(),
            )
            .await
            .unwrap();
        let lease = lease(&rig, "one", 1);
        let maps = maps(&rig, "one", &lease);
        let answers = Arc::<Mutex<Vec<String>>>::default();
        let noted = answers.clone();
        let reconcile = move |ctx: Context, key: Key| {
            let noted = noted.clone();
            async move {
                let patch = Patch::Merge(json!({"metadata": {"annotations": {"late": "yes"}}}));
                let client = ctx.client();
                let answer = match watched {
                    true => {
                        let api = Api::<ConfigMap>::namespaced(client, key.namespace());
                        api.patch(key.name(), &PatchParams::default(), &patch).await.map(drop)
                    }
                    false => {
                        let api = Api::<Secret>::namespaced(client, key.namespace());
                        api.patch(key.name(), &PatchParams::default(), &patch).await.map(drop)
                    }
                };
                noted.lock().push(format!("{:?}", answer.map_err(|error| error.to_string())));
                Ok::<_, Error>(Action::Done)
            }
        };
        let builder = Controller::builder("maps", &maps).client(slow_patches(&rig, "one", RENEW - SECOND));
        let controller = builder.shared(&lease).build((), reconcile).unwrap();
        // The first renewal of its seat already fails; everything else works.
        let seats = Match::verb(Verb::Update).resource("leases").user_agent("one").name("web-seat-0");
        rig.server.faults().arm(Fault::new(FaultAction::Hang).on(seats));
        let patches = Fault::new(FaultAction::Delay(Duration::ZERO)).on(Match::verb(Verb::Patch));
        let patches = rig.server.faults().arm(patches);
        let one = Replica::run("one", lease, controller);
        while answers.lock().is_empty() {
            sleep(SECOND / 10).await;
        }
        let answers = answers.lock().clone();
        assert!(answers.iter().all(|answer| answer.contains("is over")), "{watched}: {answers:?}");
        assert_eq!(rig.server.faults().fired(patches), Some(0), "{watched}");
        drop(one);
    }
}

#[tokio::test(start_paused = true)]
async fn c11_a_request_without_an_answer_does_not_keep_a_slot() {
    let rig = Rig::start(10).await;
    let lease = lease(&rig, "one", 1);
    let maps = maps(&rig, "one", &lease);
    let reconcile = async |ctx: Context, key: Key| -> Result<Action, Error> {
        let api = Api::<Secret>::namespaced(ctx.client(), key.namespace());
        // It outlives its reconcile.
        tokio::spawn(async move { api.get("none").await });
        Ok(Action::Done)
    };
    let builder = Controller::builder("maps", &maps).grace(5 * SECOND).shared(&lease);
    rig.server.faults().arm(Fault::new(FaultAction::Hang).on(Match::default().resource("secrets")));
    let one = Replica::run("one", lease, builder.build((), reconcile).unwrap());
    rig.balanced(&[&one]).await;
    sleep(SECOND).await;
    let began = Instant::now();
    let two = Replica::start(&rig, "two", 2);
    rig.balanced(&[&one, &two]).await;
    assert!(began.elapsed() < 10 * SECOND, "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn c11_a_replica_that_cannot_list_releases_its_slots() {
    let forbidden = FaultAction::Status {
        code: 403,
        reason: "Forbidden".to_owned(),
        message: "config maps are forbidden".to_owned(),
        retry_after_seconds: 0,
    };
    for how in [forbidden, FaultAction::Html { code: 500 }] {
        let rig = Rig::start(40).await;
        let (one, two) = (Replica::start(&rig, "one", 1), Replica::start(&rig, "two", 2));
        let three = Replica::start(&rig, "three", 3);
        rig.balanced(&[&one, &two, &three]).await;
        let reads = Match::default().resource("configmaps").user_agent("two");
        let fault = rig.server.faults().arm(Fault::new(how.clone()).on(reads));
        three.end().await;
        sleep(20 * SECOND).await;
        assert_eq!(one.owned().len(), 32, "{how:?}");
        assert!(!two.lease.status().catching_up.is_empty(), "{how:?}");
        rig.balanced(&[&one]).await;
        for n in 0..40 {
            rig.change(&format!("m{n}"), 1).await;
        }
        rig.settled().await;
        rig.server.faults().disarm(fault);
        rig.balanced(&[&one, &two]).await;
        rig.settled().await;
        rig.observer.check();
    }
}

#[tokio::test(start_paused = true)]
async fn c11_a_slow_list_with_one_error_keeps_its_slots() {
    let rig = Rig::start(60).await;
    let one = Replica::start(&rig, "one", 1);
    rig.balanced(&[&one]).await;
    let list = || Match::verb(Verb::List).resource("configmaps").user_agent("two");
    rig.server.faults().arm(Fault::new(FaultAction::Delay(3 * SECOND)).on(list()));
    let error = Fault::new(FaultAction::Html { code: 500 }).on(list());
    let error = rig.server.faults().arm(error.schedule(Schedule::After { matches: 22, times: 1 }));

    let lease = lease(&rig, "two", 2);
    let mut reflector = ReflectorConfig::default();
    (reflector.page_size, reflector.watch_list, reflector.seed) = (Some(1), WatchList::Off, Some(2));
    let maps = Informer::<ConfigMap>::builder(rig.client("two")).labels("test").shard(lease.shard());
    let maps = maps.reflector(reflector).start().unwrap();
    let data = Data { replica: "two", observer: rig.observer.clone() };
    let controller = Controller::builder("maps", &maps).shared(&lease).build(data, reconcile).unwrap();
    let (two, began) = (Replica::run("two", lease, controller), Instant::now());
    sleep(10 * SECOND).await;
    let identity = two.lease.status().identity;
    while rig.server.faults().fired(error) == Some(0) {
        sleep(SECOND / 10).await;
    }
    let failed = Instant::now();
    assert!(failed > began + 60 * SECOND, "{:?}", failed - began);
    rig.balanced(&[&one, &two]).await;
    assert!(failed.elapsed() > 60 * SECOND, "the second list is slow, too: {:?}", failed.elapsed());
    assert_eq!((two.lease.status().identity, two.lease.status().released), (identity, 0));
    rig.observer.check();
}

#[tokio::test(start_paused = true)]
async fn c11_a_replica_whose_informer_has_stopped_releases_its_slots() {
    let rig = Rig::start(20).await;
    let one = Replica::start(&rig, "one", 1);
    let lease = lease(&rig, "two", 2);
    let maps = maps(&rig, "two", &lease);
    let data = Data { replica: "two", observer: rig.observer.clone() };
    let controller = Controller::builder("maps", &maps).shared(&lease).build(data, reconcile).unwrap();
    let two = Replica::run("two", lease, controller);
    rig.balanced(&[&one, &two]).await;
    maps.shutdown().await;
    rig.balanced(&[&one]).await;
    for n in 0..20 {
        rig.change(&format!("m{n}"), 1).await;
    }
    rig.settled().await;
    assert_eq!(two.lease.status().seat, None);
    two.end().await;
}

#[tokio::test(start_paused = true)]
async fn c11_slots_whose_records_cannot_be_read_are_lost_and_a_stop_ends_the_run() {
    let rig = Rig::start(10).await;
    let (one, two) = (Replica::start(&rig, "one", 1), Replica::start(&rig, "two", 2));
    rig.balanced(&[&one, &two]).await;
    let patch = Patch::Merge(json!({"metadata": {"annotations": {"kube-informer/slots": "?"}}}));
    let leases = Api::<Lease>::default_namespaced(rig.client("test"));
    leases.patch("web-slots-0", &PatchParams::default(), &patch).await.unwrap();
    sleep(2 * SECOND).await;
    assert_eq!((one.owned().len(), two.owned().len()), (0, 0));
    assert!(timeout(10 * SECOND, two.end()).await.is_ok(), "it has nothing to release");
    // It is created again after it was deleted.
    leases.delete("web-slots-0", &DeleteParams::default()).await.unwrap();
    rig.balanced(&[&one]).await;
}

#[tokio::test(start_paused = true)]
async fn c11_a_stop_ends_the_run_although_slots_cannot_be_released() {
    for (stops, limit) in [(1, 15 * SECOND), (2, SECOND)] {
        let rig = Rig::start(10).await;
        let (mut one, two) = (Replica::start(&rig, "one", 1), Replica::start(&rig, "two", 2));
        rig.balanced(&[&one, &two]).await;
        let tables = Match::verb(Verb::Update).resource("leases").name("web-slots-0").user_agent("one");
        rig.server.faults().arm(Fault::new(FaultAction::Html { code: 500 }).on(tables));
        one.stop.stop();
        sleep(5 * SECOND).await;
        assert!(!one.task.is_finished(), "it tries to release its slots");
        (1..stops).for_each(|_| one.stop.stop());
        let ended = timeout(limit, &mut one.task).await;
        assert!(ended.is_ok(), "{stops}: {:?}", one.lease.status());
        let began = Instant::now();
        rig.balanced(&[&two]).await;
        assert!(began.elapsed() < 5 * SECOND, "{stops}: its seat is free: {:?}", began.elapsed());
    }
}

/// What happens to the replicas.
#[derive(Clone, Copy, Debug)]
enum Disturbance {
    Start,
    End { replica: usize },
    Crash { replica: usize },
    CutOff { replica: usize, how: usize, seconds: u32 },
    StaleWatch { replica: usize, how: usize, seconds: u32 },
    DeleteLeases { which: usize },
    Quiet { seconds: u32 },
    Change { maps: usize },
}

fn disturbances() -> impl Strategy<Value = Vec<Disturbance>> {
    let disturbance = prop_oneof![
        3 => Just(Disturbance::Start),
        2 => (0..4_usize).prop_map(|replica| Disturbance::End { replica }),
        2 => (0..4_usize).prop_map(|replica| Disturbance::Crash { replica }),
        3 => (0..4_usize, 0..3_usize, 1..40_u32)
            .prop_map(|(replica, how, seconds)| Disturbance::CutOff { replica, how, seconds }),
        2 => (0..4_usize, 0..3_usize, 1..40_u32)
            .prop_map(|(replica, how, seconds)| Disturbance::StaleWatch { replica, how, seconds }),
        1 => (0..4_usize).prop_map(|which| Disturbance::DeleteLeases { which }),
        2 => (0..30_u32).prop_map(|seconds| Disturbance::Quiet { seconds }),
        4 => (1..10_usize).prop_map(|maps| Disturbance::Change { maps }),
    ];
    prop::collection::vec(disturbance, 1..12)
}

/// Runs replicas through disturbances, and checks that every change is reconciled in the end.
async fn disturb(disturbances: Vec<Disturbance>, seed: u64) {
    const NAMES: [&str; 4] = ["one", "two", "three", "four"];
    let rig = Rig::start(20).await;
    let mut replicas: BTreeMap<usize, Replica> = BTreeMap::new();
    let (mut changes, mut started) = (0, 0);
    let hows = [FaultAction::Hang, FaultAction::Disconnect, FaultAction::Html { code: 500 }];
    let start = |replicas: &mut BTreeMap<usize, Replica>, started: &mut u64| {
        let Some(number) = (0..NAMES.len()).find(|number| !replicas.contains_key(number)) else { return };
        *started += 1;
        replicas.insert(number, Replica::start(&rig, NAMES[number], seed * 100 + *started));
    };
    start(&mut replicas, &mut started);
    for disturbance in disturbances {
        match disturbance {
            Disturbance::Start => start(&mut replicas, &mut started),
            Disturbance::End { replica } => {
                if let Some(replica) = replicas.remove(&replica) {
                    replica.end().await;
                }
            }
            Disturbance::Crash { replica } => {
                if let Some(replica) = replicas.remove(&replica) {
                    replica.crash().await;
                }
            }
            Disturbance::CutOff { replica, how, seconds } => {
                let fault = rig.cut_off(NAMES[replica], hows[how].clone());
                sleep(seconds * SECOND).await;
                rig.server.faults().disarm(fault);
            }
            Disturbance::StaleWatch { replica, how, seconds } => {
                let faults = cut_lease_watch(&rig, NAMES[replica], &hows[how]);
                sleep(seconds * SECOND).await;
                faults.into_iter().for_each(|fault| rig.server.faults().disarm(fault));
            }
            Disturbance::DeleteLeases { which } => {
                let leases = Api::<Lease>::default_namespaced(rig.client("test"));
                let (all, now) = (ListParams::default(), DeleteParams::default());
                if let Some(name) = ["web-seat-0", "web-seat-1", "web-slots-0"].get(which) {
                    // It may not exist.
                    let _ = leases.delete(name, &now).await;
                } else {
                    leases.delete_collection(&now, &all).await.unwrap();
                }
            }
            Disturbance::Quiet { seconds } => sleep(seconds * SECOND).await,
            Disturbance::Change { maps } => {
                for _ in 0..maps {
                    changes += 1;
                    rig.change(&format!("m{}", changes % 20), changes).await;
                }
            }
        }
        rig.observer.check();
    }
    start(&mut replicas, &mut started);
    rig.balanced(&replicas.values().collect::<Vec<_>>()).await;
    rig.settled().await;
    rig.observer.check();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn c11_no_slot_has_two_owners_and_no_change_is_lost(disturbances in disturbances(), seed in 0..1000_u64) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        runtime.block_on(disturb(disturbances, seed));
    }
}

#[tokio::test(start_paused = true)]
async fn weights_and_namespaces_divide_the_slots() {
    let rig = Rig::start(10).await;
    let one = Replica::with(&rig, "one", lease(&rig, "one", 1).by_namespace());
    let two = Replica::with(&rig, "two", lease(&rig, "two", 2).by_namespace().weight(3));
    sleep(30 * SECOND).await;
    assert_eq!((one.owned().len(), two.owned().len()), (16, 48));
    rig.settled().await;
    let acts = rig.observer.acts();
    let slots = acts.iter().map(|act| act.slot).collect::<BTreeSet<_>>();
    assert_eq!(slots.len(), 1, "all objects are in one namespace");
    rig.observer.check();
}

#[tokio::test(start_paused = true)]
async fn replicas_with_other_slots_are_refused() {
    let rig = Rig::start(1).await;
    let one = Replica::start(&rig, "one", 1);
    rig.balanced(&[&one]).await;
    let mut two = Replica::with(&rig, "two", lease(&rig, "two", 2).slots(32).unwrap());
    let error = (&mut two.task).await.unwrap().unwrap_err().to_string();
    assert_eq!(
        error,
        "cannot share the work under lease default/web: its replicas use 64 slots by uid, and this one 32 slots by uid; \
         use the same number of slots, or another name"
    );
    let invalid = lease(&rig, "three", 3).slots(0).unwrap_err().to_string();
    assert_eq!(invalid, "invalid number of slots 0: it must be 1 to 4096");
}

#[tokio::test(start_paused = true)]
async fn a_refused_lease_ends_the_run() {
    let rig = Rig::start(1).await;
    let forbidden = FaultAction::Status {
        code: 403,
        reason: "Forbidden".to_owned(),
        message: "leases are forbidden".to_owned(),
        retry_after_seconds: 0,
    };
    rig.server.faults().arm(Fault::new(forbidden).on(Match::verb(Verb::Create).resource("leases")));
    let mut one = Replica::start(&rig, "one", 1);
    let error = (&mut one.task).await.unwrap().unwrap_err();
    assert!(matches!(&error, RunError::Lease(refused) if refused.code == 403), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_lease_is_shared_once() {
    let rig = Rig::start(1).await;
    let one = Replica::start(&rig, "one", 1);
    rig.balanced(&[&one]).await;
    let mut again = Replica::with(&rig, "one", one.lease.clone());
    let error = (&mut again.task).await.unwrap().unwrap_err().to_string();
    assert!(error.contains("it already runs in this process"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_controller_that_cannot_be_shared_is_not_built() {
    let rig = Rig::start(1).await;
    let (lease, other) = (lease(&rig, "one", 1), lease(&rig, "one", 1));
    let nothing = async |_: Context, _: Key| Ok::<_, Error>(Action::Done);
    let reason = |built: Result<Controller, BuildError>| match built.unwrap_err() {
        BuildError::Sharing { reason, .. } => reason,
        error => panic!("{error}"),
    };
    let maps = maps(&rig, "one", &other);
    let built = Controller::builder("maps", &maps).shared(&lease).build((), nothing);
    assert!(reason(built).contains("the shard of another lease"));
    let built = Controller::of_clusters("maps").shared(&lease).build((), nothing);
    assert!(reason(built).contains("several clusters"));
    let client = || rig.client("one");
    let by_label =
        Informer::<ConfigMap>::builder(client()).shard(lease.shard().by_label("owner")).start().unwrap();
    let built = Controller::builder("maps", &by_label).shared(&lease).build((), nothing);
    assert!(reason(built).contains("by owner, label or field"));
    let secrets = Informer::<Secret>::builder(client()).shard(lease.shard()).start().unwrap();
    let main = Informer::<ConfigMap>::builder(client()).shard(lease.shard()).start().unwrap();
    let built = Controller::builder("maps", &main).owns(&secrets).shared(&lease).build((), nothing);
    assert!(reason(built).contains("lease.shard().by_owner()"));
    let election = LeaderElection::new(rig.client("one"), "default", "leader");
    let built = Controller::builder("maps", &maps).shared(&other).leader(election).build((), nothing);
    assert!(reason(built).contains("leader election"));
    let whole = Informer::<ConfigMap>::builder(rig.client("one")).start().unwrap();
    let two = [("a", &lease), ("b", &other)]
        .map(|(name, lease)| Controller::builder(name, &whole).shared(lease).build((), nothing).unwrap());
    let [one, two] = two;
    let error = Manager::new().controller(one).controller(two).run(&Stop::new()).await.unwrap_err();
    assert!(matches!(error, RunError::Elections { leases } if leases == ["default/web", "default/web"]));
}

#[tokio::test(start_paused = true)]
async fn controllers_of_one_manager_share_the_slots_and_whole_informers_work_too() {
    let rig = Rig::start(20).await;
    let start = |name: &'static str, seed| {
        let lease = lease(&rig, name, seed);
        let maps = Informer::<ConfigMap>::builder(rig.client(name)).labels("test").start().unwrap();
        let controller = |part: &str| {
            let data = Data { replica: name, observer: rig.observer.clone() };
            Controller::builder(part, &maps).shared(&lease).build(data, reconcile).unwrap()
        };
        let manager = Manager::new().controller(controller("a")).controller(controller("b"));
        let stop = Stop::new();
        let task = tokio::spawn({
            let stop = stop.clone();
            async move { manager.run(&stop).await }
        });
        Replica { name, lease, stop, task }
    };
    let (one, two) = (start("one", 1), start("two", 2));
    rig.balanced(&[&one, &two]).await;
    rig.settled().await;
    one.end().await;
    rig.balanced(&[&two]).await;
    for n in 0..20 {
        rig.change(&format!("m{n}"), 1).await;
    }
    rig.settled().await;
    rig.observer.check();
}

#[tokio::test(start_paused = true)]
async fn status_and_metrics_count_hand_overs() {
    let rig = Rig::start(5).await;
    let mut registry = Registry::default();
    let metrics = ShardMetrics::register(&mut registry);
    let timing = LeaseTiming { retry_period: SECOND, ..LeaseTiming::default() };
    let one = Replica::with(&rig, "one", lease(&rig, "one", 1).timing(timing).metrics(&metrics));
    rig.balanced(&[&one]).await;
    let two = Replica::start(&rig, "two", 2);
    rig.balanced(&[&one, &two]).await;
    let status = one.lease.status();
    assert_eq!((status.seat, status.members, status.slots), (Some(0), 2, 64));
    assert_eq!((status.gained, status.released, status.lost), (64, 32, 0));
    let mut text = String::new();
    encode(&mut text, &registry).unwrap();
    for line in [
        r#"shard_slots_owned{name="web"} 32"#,
        r#"shard_members{name="web"} 2"#,
        r#"shard_hand_overs_total{name="web",direction="gained"} 64"#,
        r#"shard_hand_overs_total{name="web",direction="released"} 32"#,
        r#"shard_unowned_seconds_total{name="web"} "#,
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
    one.end().await;
}

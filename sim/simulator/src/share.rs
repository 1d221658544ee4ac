//! One replica of a controller that shares the work: a process with its own link. It copies the value of every ConfigMap into an
//! annotation.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use http::{Method, Request};
use k8s_openapi::api::core::v1::ConfigMap;
use kube_client::api::{Patch, PatchParams};
use kube_client::client::Body;
use kube_client::{Api, Client};
use kube_informer::building_blocks::ReflectorConfig;
use kube_informer::{Informer, Key};
use kube_informer_controller::{Action, Context, Controller, Error, ShardedLease, Stop};
use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use serde_json::json;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

use crate::link::Link;
use crate::ownership::{Ownership, SEEN, SENT, SlotToken, Start};
use crate::plan::{NAMESPACES, ReplicaPlan, SharingPlan};
use crate::process::{CAN_SUSPEND, Process};
use crate::replica::timing;
use crate::wall_clock::WallClock;
use crate::world::World;

/// The category of what is counted here.
pub(crate) const SHARE: &str = "share";
/// The name of the sharded lease.
pub(crate) const LEASE: &str = "share";
/// The pause before a replica that ended restarts.
const RESTART_AFTER: Duration = Duration::from_secs(1);
/// The time limit of a request.
const REQUEST_MAX: Duration = Duration::from_secs(10);

/// How often a reconcile leaves its write to a task that outlives it.
const LEAKED: f64 = 0.1;
/// The longest pause before such a write.
const LEAKED_FOR_MS: u64 = 25_000;

/// The checks that all replicas share.
pub(crate) struct Arbiter {
    pub(crate) world: Arc<World>,
    pub(crate) ownership: Mutex<Ownership>,
    began: Instant,
}

/// One process of a replica.
pub(crate) struct Share {
    pub(crate) name: String,
    pub(crate) link: Link,
    pub(crate) clock: WallClock,
    /// Unique to this process.
    pub(crate) number: u64,
    pub(crate) is_suspended: bool,
    process: Process,
    stop: Stop,
    lease: Arc<Mutex<Option<ShardedLease>>>,
    running: JoinHandle<()>,
    arbiter: Arc<Arbiter>,
}

/// The settings and the state of a process.
struct ShareState {
    arbiter: Arc<Arbiter>,
    name: String,
    number: u64,
    seed: u64,
    link: Link,
    rate: f64,
    clock: WallClock,
    plan: SharingPlan,
    chance: Mutex<StdRng>,
    process: Process,
    sent: AtomicU64,
    lease: Arc<Mutex<Option<ShardedLease>>>,
}

/// A running reconcile.
struct RunningReconcile {
    arbiter: Arc<Arbiter>,
    number: u64,
}

// === impl Arbiter ===

impl Arbiter {
    pub(crate) fn new(world: Arc<World>, ownership: Ownership) -> Self {
        Self { world, ownership: Mutex::new(ownership), began: Instant::now() }
    }

    pub(crate) fn now(&self) -> u64 {
        self.began.elapsed().as_millis() as u64
    }

    /// Reads the new records of slots.
    pub(crate) fn catch_up(&self) {
        let now = self.now();
        let taken = self.world.judge_leases(|leases| self.ownership.lock().catch_up(leases, now));
        match taken {
            Ok(taken) => {
                for from in taken {
                    let how = if from.is_some() { "taken from an owner" } else { "taken after a release" };
                    self.world.trace.count(SHARE, how);
                }
            }
            Err(violation) => self.world.trace.fail(&violation),
        }
    }

    fn begins(self: &Arc<Self>, start: &Start<'_>) -> RunningReconcile {
        self.catch_up();
        self.world.trace.count(SHARE, "reconcile begun");
        let begun = self.world.judge(|maps| self.ownership.lock().begins(start, maps));
        let number = begun.unwrap_or_else(|violation| {
            self.world.trace.fail(&violation);
            0
        });
        RunningReconcile { arbiter: self.clone(), number }
    }

    /// Checks a request that is handed to the socket, if it is a write of a reconcile.
    fn sends(&self, request: &Request<Body>) {
        let manager = request.uri().query().into_iter().flat_map(|query| query.split('&'));
        let manager = manager.filter_map(|pair| pair.strip_prefix("fieldManager=")).next();
        let token = manager.and_then(|manager| SlotToken::read(&manager.replace("%2F", "/")));
        match token {
            _ if request.method() != Method::PATCH => {}
            Some(token) => {
                self.catch_up();
                self.world.trace.count(SHARE, "write sent");
                if let Err(violation) = self.ownership.lock().sends(&token) {
                    self.world.trace.fail(&violation);
                }
            }
            None => self.world.trace.fail(&format!("a write without a token: {}", request.uri())),
        }
    }
}

impl Drop for RunningReconcile {
    fn drop(&mut self) {
        self.arbiter.ownership.lock().ends(self.number);
    }
}

// === impl Share ===

impl Share {
    pub(crate) fn start(
        arbiter: &Arc<Arbiter>,
        (name, number): (String, u64),
        seed: u64,
        replica: ReplicaPlan,
        plan: &SharingPlan,
    ) -> Self {
        let trace = arbiter.world.trace.clone();
        trace.note(format_args!("{name}: starts as process {number}"));
        let link = Link::new(arbiter.world.server.service(), name.clone(), seed, trace);
        let judge = arbiter.clone();
        link.through_socket(move |request| judge.sends(request));
        let rate = f64::from(replica.clock_percent) / 100.0;
        let clock = WallClock::new(rate);
        let (process, stop, lease) = (Process::default(), Stop::new(), Arc::default());
        let state = Arc::new(ShareState {
            arbiter: arbiter.clone(),
            name: name.clone(),
            number,
            seed,
            link: link.clone(),
            rate,
            clock: clock.clone(),
            plan: plan.clone(),
            chance: Mutex::new(StdRng::seed_from_u64(seed)),
            process: process.clone(),
            sent: AtomicU64::new(0),
            lease: Arc::clone(&lease),
        });
        let running = tokio::spawn(process.run(keep_running(state, stop.clone())));
        let arbiter = arbiter.clone();
        Self { name, link, clock, number, is_suspended: false, process, stop, lease, running, arbiter }
    }

    /// Whether it has ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.running.is_finished()
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stop.is_stopping()
    }

    /// The slots that it works on.
    pub(crate) fn working(&self) -> Vec<u32> {
        self.lease.lock().as_ref().map(|lease| lease.status().working).unwrap_or_default()
    }

    /// Ends it as SIGTERM does.
    pub(crate) fn terminate(&self) {
        self.note("SIGTERM");
        self.stop.stop();
    }

    /// Ends it as SIGKILL does. Requests that it has sent can still reach the server.
    pub(crate) fn kill(&self) {
        self.note("ends");
        self.process.suspend();
        self.running.abort();
        self.arbiter.ownership.lock().halts(self.number);
    }

    pub(crate) fn suspend(&mut self) {
        if CAN_SUSPEND {
            self.note("SIGSTOP");
            self.process.suspend();
            self.is_suspended = true;
            self.arbiter.ownership.lock().halts(self.number);
        }
    }

    pub(crate) fn resume(&mut self) {
        self.note("SIGCONT");
        self.is_suspended = false;
        self.process.resume();
    }

    fn note(&self, what: &str) {
        self.arbiter.world.trace.note(format_args!("{}: {what} (process {})", self.name, self.number));
    }
}

/// Restarts the controller as a Deployment would. It ends with an error if the server refuses its informers or its lease.
async fn keep_running(state: Arc<ShareState>, stop: Stop) {
    let mut seed = state.seed;
    while !stop.is_stopping() {
        match run_once(&state, seed, &stop).await {
            Ok(()) => state.note("stopped"),
            Err(error) => state.note(&error.to_string()),
        }
        // Another identity.
        seed = seed.wrapping_add(1_000_003);
        tokio::select! {
            biased;
            () = sleep(RESTART_AFTER) => {}
            () = stop.stopping() => {}
        }
    }
}

async fn run_once(
    state: &Arc<ShareState>,
    seed: u64,
    stop: &Stop,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let ShareState { plan, link, rate, clock, .. } = &**state;
    let client = Client::new(link.clone(), "default");
    let clock = clock.clone();
    let lease = ShardedLease::new(client.clone(), NAMESPACES[0], LEASE)
        .identity(&state.name)
        .seed(seed)
        .timing(timing(*rate))
        .clock(move || clock.now())
        .slots(plan.slots.into())?;
    let lease = if plan.by_namespace { lease.by_namespace() } else { lease };
    let mut config = ReflectorConfig::default();
    config.seed = Some(seed);
    let maps = Informer::<ConfigMap>::builder(client).reflector(config);
    let maps = if plan.split { maps.shard(lease.shard()) } else { maps }.start()?;
    *state.lease.lock() = Some(lease.clone());
    let controller = Controller::builder("share", &maps)
        .concurrency(plan.concurrency.into())
        .grace(Duration::from_millis(plan.grace_ms.into()))
        .shared(&lease)
        .build(state.clone(), |context, key| async move { reconcile(&context, &key).await })?;
    let ended = controller.run(stop).await;
    *state.lease.lock() = None;
    maps.shutdown().await;
    Ok(ended?)
}

/// Copies the value of a ConfigMap into an annotation.
async fn reconcile(context: &Context<Arc<ShareState>>, key: &Key) -> Result<Action, Error> {
    let state = context.data();
    let term = context.term().ok_or_else(|| Error::new("no term"))?;
    let text = term.token().to_string();
    let token = SlotToken::read(&text).ok_or_else(|| Error::new("no slot"))?;
    let cached = context.object::<ConfigMap>().and_then(|map| map.resource_version().parse().ok());
    let _running = state.arbiter.begins(&Start {
        process: state.number,
        token: &token,
        key: key.as_str(),
        cached: cached.unwrap_or_default(),
        now: state.arbiter.now(),
    });
    let pause = state.chance.lock().random_range(0..=u64::from(state.plan.work_max_ms));
    sleep(Duration::from_millis(pause)).await;
    let Some(map) = context.object::<ConfigMap>() else { return Ok(Action::Done) };
    let map = map.decode()?;
    let value = map.data.as_ref().and_then(|data| data.get("value"));
    let seen = map.metadata.annotations.as_ref().and_then(|all| all.get(SEEN));
    if seen == value {
        return Ok(Action::Done);
    }
    let write = write(context, key, &text, value.map(String::as_str));
    let is_leaked = state.chance.lock().random_bool(LEAKED);
    if is_leaked {
        // A task that outlives its reconcile.
        let delay = Duration::from_millis(state.chance.lock().random_range(0..LEAKED_FOR_MS));
        drop(tokio::spawn(state.process.run(async move {
            sleep(delay).await;
            write.await
        })));
        return Ok(Action::RequeueAfter(delay));
    }
    write.await?;
    Ok(Action::Done)
}

/// Writes the annotations of a ConfigMap.
fn write(
    context: &Context<Arc<ShareState>>,
    key: &Key,
    token: &str,
    value: Option<&str>,
) -> impl Future<Output = Result<(), Error>> + Send + use<> {
    let state = context.data();
    let sent = format!("{token}#{}", state.sent.fetch_add(1, Ordering::Relaxed));
    let what = format!("{}: writes {key}, {SENT}: {sent}", state.name);
    let patch = Patch::Merge(json!({"metadata": {"annotations": {SEEN: value, SENT: sent}}}));
    let parameters = PatchParams { field_manager: Some(token.to_owned()), ..PatchParams::default() };
    let api = Api::<ConfigMap>::namespaced(context.client(), key.namespace());
    let (trace, name) = (state.arbiter.world.trace.clone(), key.name().to_owned());
    async move {
        trace.note(format_args!("{what}"));
        let answered = timeout(REQUEST_MAX, api.patch(&name, &parameters, &patch)).await;
        answered.map_err(|_| Error::new("timed out waiting for a response"))??;
        Ok(())
    }
}

impl ShareState {
    fn note(&self, what: &str) {
        self.arbiter.world.trace.note(format_args!("{}: {what}", self.name));
    }
}

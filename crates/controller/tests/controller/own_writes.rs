//! A property: with automatic tracking, no reconcile acts on a cache that lacks one of its own writes or deletions.
//!
//! One controller writes the children of each key; nothing else does. So at the start of a reconcile, the cached children of its key
//! must equal the live ones. The same reconcile over a client without tracking must violate that, or the test proves nothing.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use embedded_apiserver::{Action as FaultAction, Fault, Match, Server, Verb};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube_client::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube_client::{Api, Client};
use kube_core::{ObjectMeta, ResourceExt};
use kube_informer::building_blocks::ReflectorConfig;
use kube_informer::{Informer, Key, StoredObject};
use kube_informer_controller::testing;
use kube_informer_controller::{Action, Context, Controller, Error, Manager};
use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::tracking::tagged;

/// Reconciles per run; `OWN_WRITES_STEPS` overrides it.
const STEPS: usize = 1_000;

/// Keys that are reconciled.
const KEYS: usize = 5;

const FINALIZER: &str = "example.com/tidy";

/// Remembered steps per key.
const HISTORY: usize = 20;

/// Overridden by `OWN_WRITES_SEED`.
const SEED: u64 = 7;

/// The longest time between two outages, in milliseconds.
const OUTAGE_PAUSE_MS: u64 = 1_000;

/// The longest outage, in milliseconds.
const OUTAGE_MS: u64 = 200;

/// How long a key can be without a reconcile: several back-offs of an informer in a row, of up to a minute each.
const STALL_MAX: Duration = Duration::from_secs(600);

/// How many reconciles a run checks.
fn steps() -> usize {
    std::env::var("OWN_WRITES_STEPS").ok().and_then(|steps| steps.parse().ok()).unwrap_or(STEPS)
}

fn seed() -> u64 {
    std::env::var("OWN_WRITES_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(SEED)
}

#[derive(Clone, Copy, PartialEq)]
enum Tracking {
    Automatic,
    /// The same writes over another client, not reported.
    Absent,
}

struct Data {
    maps: Informer<ConfigMap>,
    secrets: Informer<Secret>,
    /// Without faults.
    observer: Client,
    /// With faults.
    untracked: Client,
    tracking: Tracking,
    random: Mutex<StdRng>,
    steps: AtomicUsize,
    /// When each key was reconciled last.
    reconciled: Mutex<BTreeMap<Key, Instant>>,
    /// How often a write removed the last finalizer of a deleted child, and so the child.
    finalized: AtomicUsize,
    /// The last steps of each key.
    history: Mutex<BTreeMap<Key, VecDeque<String>>>,
    /// The steps that led to each violation.
    explained: Mutex<Vec<String>>,
}

/// Name, uid and resourceVersion of a key's ConfigMap and of its children.
type States = BTreeMap<String, (String, String)>;

impl Data {
    fn cached(&self, key: &Key) -> States {
        let children = self.secrets.lister().labels(format!("owner={}", key.name())).unwrap();
        let mut states: States = children.list().iter().map(|child| cached_state(child)).collect();
        states.extend(self.maps.lister().get(key).iter().map(|map| cached_state(map)));
        states
    }

    async fn live(&self, key: &Key) -> States {
        let secrets = Api::<Secret>::default_namespaced(self.observer.clone());
        let maps = Api::<ConfigMap>::default_namespaced(self.observer.clone());
        let owner = ListParams::default().labels(&format!("owner={}", key.name()));
        loop {
            if let (Ok(children), Ok(map)) = (secrets.list(&owner).await, maps.get(key.name()).await) {
                return children.iter().map(live_state).chain([live_state(&map)]).collect();
            }
            // An outage. No other client changes these objects meanwhile.
            sleep(Duration::from_millis(1)).await;
        }
    }

    /// Remembers a step of a key, to explain a violation.
    fn note(&self, key: &Key, step: String) {
        let mut history = self.history.lock();
        let steps = history.entry(key.clone()).or_default();
        if steps.len() == HISTORY {
            steps.pop_front();
        }
        steps.push_back(step);
    }

    /// Counts a child that was written without finalizers, if that has deleted it.
    fn count_finalized(&self, child: &Secret) {
        let is_gone = child.metadata.deletion_timestamp.is_some();
        self.finalized.fetch_add(usize::from(is_gone), Ordering::Relaxed);
    }

    fn draw(&self, upper: u32) -> u32 {
        self.random.lock().random_range(0..upper)
    }
}

fn cached_state(object: &StoredObject) -> (String, (String, String)) {
    (object.name().to_owned(), (object.uid().to_owned(), object.resource_version().to_owned()))
}

fn live_state(object: &impl ResourceExt) -> (String, (String, String)) {
    (object.name_any(), (object.uid().unwrap(), object.resource_version().unwrap()))
}

/// Checks the cache, then makes a few random writes to the key's children and to its ConfigMap.
async fn reconcile(ctx: Context<Arc<Data>>, key: Key) -> Result<Action, Error> {
    let data = ctx.data().clone();
    let (cached, live) = (data.cached(&key), data.live(&key).await);
    data.steps.fetch_add(1, Ordering::Relaxed);
    data.reconciled.lock().insert(key.clone(), Instant::now());
    data.note(&key, format!("reconcile: cached {cached:?}"));
    if cached != live {
        let history = data.history.lock().get(&key).cloned().unwrap_or_default();
        let history = Vec::from(history).join("\n  ");
        data.explained.lock().push(format!("{key} acts on a stale cache; live: {live:?}\n  {history}"));
    }
    for _ in 0..=data.draw(2) {
        write(&ctx, &key).await?;
    }
    // Sooner than the watch may be back.
    Ok(Action::RequeueAfter(Duration::from_millis(data.draw(50).into())))
}

async fn write(ctx: &Context<Arc<Data>>, key: &Key) -> Result<(), Error> {
    let data = ctx.data();
    let is_tracked = data.tracking == Tracking::Automatic;
    let client = if is_tracked { ctx.client() } else { data.untracked.clone() };
    let api = Api::<Secret>::default_namespaced(client.clone());
    let name = format!("{}-{}", key.name(), data.draw(3));
    let labels = Some(BTreeMap::from([("owner".to_owned(), key.name().to_owned())]));
    let named = ObjectMeta { name: Some(name.clone()), labels: labels.clone(), ..ObjectMeta::default() };
    let finalizers = Some(vec![FINALIZER.to_owned()]);
    let finalized = ObjectMeta { finalizers, ..named.clone() };
    let generated =
        ObjectMeta { generate_name: Some(format!("{}-", key.name())), labels, ..ObjectMeta::default() };
    let secret = |metadata| Secret { metadata, ..Secret::default() };
    let value = data.draw(1000).to_string();
    let (post, merge) = (PostParams::default(), PatchParams::default());
    let kind = data.draw(22);
    let written = match kind {
        0..=2 => {
            let mut applied = secret(named);
            applied.string_data = Some(BTreeMap::from([("value".to_owned(), value)]));
            api.patch(&name, &PatchParams::apply("t").force(), &Patch::Apply(&applied)).await.map(drop)
        }
        3..=4 => {
            let patch = Patch::Merge(json!({"stringData": {"value": value}}));
            // A client that loses patience: the outcome is unknown.
            match tokio::time::timeout(Duration::from_millis(20), api.patch(&name, &merge, &patch)).await {
                Ok(patched) => patched.map(drop),
                Err(_) => Ok(()),
            }
        }
        5 => api.create(&post, &secret(named)).await.map(drop),
        6 => api.create(&post, &secret(generated)).await.map(drop),
        7..=9 => api.delete(&name, &DeleteParams::default()).await.map(drop),
        10 => {
            let owner = ListParams::default().labels(&format!("owner={}", key.name()));
            api.delete_collection(&DeleteParams::default(), &owner).await.map(drop)
        }
        11 => api.delete(&name, &DeleteParams::default().dry_run()).await.map(drop),
        // Its deletion by the steps above only begins.
        12..=13 => api.create(&post, &secret(finalized)).await.map(drop),
        14..=15 => {
            let patch = Patch::Merge(json!({"metadata": {"finalizers": null}}));
            api.patch(&name, &merge, &patch).await.map(|child| data.count_finalized(&child))
        }
        16..=17 => {
            let patch = Patch::Merge(json!({"data": {"value": value}}));
            Api::<ConfigMap>::default_namespaced(client).patch(key.name(), &merge, &patch).await.map(drop)
        }
        18..=19 if is_tracked => {
            let mut child = secret(named);
            child.string_data = Some(BTreeMap::from([("value".to_owned(), value)]));
            ctx.apply(&child).await.map(drop)?;
            Ok(())
        }
        _ => match api.get(&name).await {
            Ok(mut child) => {
                child.metadata.finalizers = None;
                child.string_data = Some(BTreeMap::from([("value".to_owned(), value)]));
                api.replace(&name, &post, &child).await.map(|child| data.count_finalized(&child))
            }
            Err(error) => Err(error),
        },
    };
    data.note(key, format!("{kind} {name}: {written:?}"));
    match written {
        // It is not there, or already.
        Err(kube_client::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(()),
        written => Ok(written?),
    }
}

fn arm(server: &Server) {
    let controller = || Match::default().user_agent("controller");
    let watch = || Match::verb(Verb::Watch).resource("secrets").user_agent("controller");
    for (action, on, probability) in [
        (FaultAction::CutAfterBytes(0), controller().resource("secrets"), 0.05),
        (FaultAction::Disconnect, controller(), 0.02),
        (FaultAction::Html { code: 502 }, controller(), 0.02),
        (FaultAction::Overloaded { retry_after_seconds: 1 }, controller(), 0.01),
        (
            FaultAction::Delay(Duration::from_millis(30)),
            Match::verb(Verb::Patch).user_agent("controller"),
            0.1,
        ),
        (FaultAction::CutAfterEvents(5), watch(), 0.6),
        (FaultAction::Expired, watch(), 0.1),
        (FaultAction::DuplicateEvent(2), watch(), 0.2),
    ] {
        server.faults().arm(Fault::new(action).on(on).probability(probability));
    }
}

/// Breaks all connections, and refuses new ones for a while. Sometimes compacts the history, so that watches cannot resume.
async fn outage(server: &Server, random: &mut StdRng) {
    server.refuse_connections().await;
    sleep(Duration::from_millis(random.random_range(0..OUTAGE_MS))).await;
    if random.random_bool(0.3) {
        server.compact();
    }
    server.accept_connections().await.unwrap();
}

/// Runs until so many reconciles were checked; returns what led to each violation of the property.
async fn run(tracking: Tracking, steps: usize) -> Vec<String> {
    let seed = seed();
    let map = |number: usize| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("m{number}"), "namespace": "default"}});
    let maps = (0..KEYS).map(map).collect::<Vec<_>>();
    let server = Server::builder().without_socket().seed(seed).objects(maps).start().await.unwrap();
    let client = tagged(&server, "controller");
    let mut reflector = ReflectorConfig::default();
    reflector.seed = Some(seed);
    let maps =
        Informer::<ConfigMap>::builder(client.clone()).reflector(reflector.clone()).namespaces(["default"]);
    let maps = maps.labels("!owner").start().unwrap();
    let secrets = Informer::<Secret>::builder(client.clone()).reflector(reflector).start().unwrap();
    let data = Arc::new(Data {
        maps: maps.clone(),
        secrets: secrets.clone(),
        observer: server.client().unwrap(),
        untracked: client,
        tracking,
        random: Mutex::new(StdRng::seed_from_u64(seed)),
        steps: AtomicUsize::new(0),
        reconciled: Mutex::default(),
        finalized: AtomicUsize::new(0),
        history: Mutex::default(),
        explained: Mutex::default(),
    });
    let controller = Controller::builder("t", &maps)
        .owns(&secrets)
        .concurrency(2)
        .backoff(kube_workqueue::PerItemExponential::new(Duration::from_millis(1), Duration::from_secs(1)))
        .build(data.clone(), reconcile)
        .unwrap();
    let manager = testing::start(Manager::new().controller(controller));
    maps.synced().await.unwrap();
    secrets.synced().await.unwrap();
    arm(&server);
    let mut random = StdRng::seed_from_u64(seed);
    while data.steps.load(Ordering::Relaxed) < steps {
        sleep(Duration::from_millis(random.random_range(0..OUTAGE_PAUSE_MS))).await;
        outage(&server, &mut random).await;
        for (key, last) in &*data.reconciled.lock() {
            assert!(last.elapsed() < STALL_MAX, "{key} is stuck: {:?}", data.history.lock().get(key));
        }
    }
    let reconciled = data.reconciled.lock().len();
    assert!(reconciled == KEYS, "only {reconciled} keys were reconciled");
    assert!(data.finalized.load(Ordering::Relaxed) > 0, "no write has removed a last finalizer");
    server.faults().clear();
    manager.stop_handle().stop();
    std::mem::take(&mut data.explained.lock())
}

#[tokio::test(start_paused = true)]
async fn c6_no_reconcile_acts_on_a_cache_without_its_own_writes() {
    let violations = run(Tracking::Automatic, steps()).await;
    assert!(violations.is_empty(), "{} violations; the first: {}", violations.len(), violations[0]);
}

#[tokio::test(start_paused = true)]
async fn c6_without_tracking_reconciles_act_on_stale_caches() {
    assert!(!run(Tracking::Absent, STEPS).await.is_empty(), "the property test cannot fail");
}

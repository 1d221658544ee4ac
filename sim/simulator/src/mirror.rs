//! The controller of a run: it mirrors every ConfigMap as a Secret with the same name, and repairs broken mirrors. In some
//! runs it adds a finalizer to each ConfigMap, and deletes the mirror as its cleanup.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube_client::api::{DeleteParams, PostParams, Preconditions};
use kube_client::{Api, Client};
use kube_informer::building_blocks::ReflectorConfig;
use kube_informer::{Informer, Key, Object, Scope};
use kube_informer_controller::{Action, Context, Controller, Error, Stage, Stop, finalize};
use kube_informer_oracle::{Controller as Judge, Selection, Trust, check_state};
use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use serde::Serialize;
use serde_json::Value;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

use crate::client::value;
use crate::link::Link;
use crate::plan::MirrorPlan;
use crate::served::Served;
use crate::world::World;

/// The longest time that a key waits for its own write.
const WRITE_WAIT_MAX: Duration = Duration::from_secs(30);
/// The time limit of a request.
const REQUEST_MAX: Duration = Duration::from_secs(10);
/// The pause before a controller that ended restarts.
const RESTART_AFTER: Duration = Duration::from_secs(1);

/// The controller, its informers and its checks.
pub(crate) struct Mirror {
    pub(crate) link: Link,
    shared: Arc<Mirroring>,
    stop: Stop,
    running: JoinHandle<()>,
}

/// The state that its reconciles share.
struct Mirroring {
    world: Arc<World>,
    client: Client,
    maps: Informer<ConfigMap>,
    secrets: Informer<Secret>,
    finalizes: bool,
    selection: Selection,
    /// For each informer, the rollbacks that it cannot notice.
    trust: Arc<Mutex<Trusts>>,
    judge: Mutex<Judge>,
    /// The stop of the running controller.
    stop: Mutex<Stop>,
    began: Instant,
    chance: Mutex<StdRng>,
}

#[derive(Default)]
struct Trusts {
    maps: Trust,
    secrets: Trust,
}

impl Mirror {
    pub(crate) fn start(world: &Arc<World>, plan: &MirrorPlan, seed: u64) -> io::Result<Self> {
        let link = Link::new(world.server.service(), "mirror".to_owned(), seed, world.trace.clone());
        let client = Client::new(link.clone(), "default");
        let mut config = ReflectorConfig::default();
        config.seed = Some(seed);
        let namespaces = || plan.namespaces.iter().copied();
        let maps = Informer::builder(client.clone()).reflector(config.clone()).namespaces(namespaces());
        let secrets = Informer::builder(client.clone()).reflector(config).namespaces(namespaces());
        let selection =
            Selection { namespaces: namespaces().map(str::to_owned).collect(), ..Selection::default() };
        let trust = Arc::<Mutex<Trusts>>::default();
        link.observe(observer(world, &trust, &selection));
        let shared = Arc::new(Mirroring {
            world: world.clone(),
            client,
            maps: maps.start().map_err(io::Error::other)?,
            secrets: secrets.start().map_err(io::Error::other)?,
            finalizes: plan.finalizes,
            judge: Mutex::new(Judge::new(selection.clone())),
            stop: Mutex::new(Stop::new()),
            selection,
            trust,
            began: Instant::now(),
            chance: Mutex::new(StdRng::seed_from_u64(seed)),
        });
        let stop = Stop::new();
        let running = tokio::spawn(keep_running(shared.clone(), plan.concurrency.into(), stop.clone()));
        Ok(Self { link, shared, stop, running })
    }

    /// Stops the controller, which starts again.
    pub(crate) fn restart(&self) {
        self.shared.world.trace.note(format_args!("mirror: restarts"));
        self.shared.stop.lock().stop();
    }

    /// Records that another client deleted a mirror.
    pub(crate) fn was_deleted(&self, key: &str) {
        self.shared.judge.lock().wrote(key, 0, 0);
    }

    /// Describes how the mirrors differ from the objects; `None` if they do not.
    pub(crate) async fn differs(&self) -> io::Result<Option<String>> {
        let secrets = self.shared.world.secrets().await?;
        let why = self.shared.judge_mirrors(&secrets).err();
        Ok(why.map(|why| format!("mirror: {why}; state: {:?}", self.shared.maps.state())))
    }

    pub(crate) async fn stop(self) {
        self.stop.stop();
        self.restart();
        let _ = self.running.await;
        self.shared.maps.shutdown().await;
        self.shared.secrets.shutdown().await;
    }
}

/// Restarts the controller as a Deployment would. It ends with an error if the server refuses its informers.
async fn keep_running(shared: Arc<Mirroring>, concurrency: usize, stop: Stop) {
    while !stop.is_stopping() {
        shared.judge.lock().starts();
        let run = Stop::new();
        *shared.stop.lock() = run.clone();
        let controller = Controller::builder("mirror", &shared.maps)
            .watches(&shared.secrets, |secret: &Object<Secret>| [secret.key()])
            .concurrency(concurrency)
            .write_wait_max(WRITE_WAIT_MAX)
            .build(shared.clone(), |context, key| async move { reconcile(&context, &key).await });
        match controller {
            Ok(controller) => {
                if let Err(error) = controller.run(&run).await {
                    shared.world.trace.note(format_args!("mirror: {error}"));
                }
            }
            Err(error) => shared.world.trace.fail(&format!("cannot build the controller: {error}")),
        }
        // No reconcile may begin from now on.
        run.stop();
        tokio::select! {
            biased;
            () = sleep(RESTART_AFTER) => {}
            () = stop.stopping() => {}
        }
    }
}

async fn reconcile(context: &Context<Arc<Mirroring>>, key: &Key) -> Result<Action, Error> {
    let shared = context.data();
    let _running = shared.begin(key);
    let (map, mirror) = (shared.maps.lister().get(key), shared.secrets.lister().get(key));
    let pause = shared.chance.lock().random_range(0..800);
    sleep(Duration::from_millis(pause)).await;
    match map {
        None => remove_mirror(context, key, mirror).await?,
        Some(map) if !shared.finalizes => {
            let map = map.decode()?;
            write_mirror(context, key, &map, mirror).await?;
        }
        Some(map) => {
            let api = Api::<ConfigMap>::namespaced(context.client(), key.namespace());
            let stage = |stage| apply_or_clean_up(context, key, stage, mirror);
            return finalize(context, &api, Judge::FINALIZER, map.decode()?, stage).await;
        }
    }
    shared.world.trace.note(format_args!("mirror: reconciled {key}"));
    Ok(Action::Done)
}

async fn apply_or_clean_up(
    context: &Context<Arc<Mirroring>>,
    key: &Key,
    stage: Stage<ConfigMap>,
    mirror: Option<Object<Secret>>,
) -> Result<Action, Error> {
    let shared = context.data();
    let judged = match &stage {
        Stage::Apply(map) => {
            let applied = serde_json::to_value(&**map).map_err(Error::new)?;
            let judged = shared.world.judge(|history| shared.judge.lock().applies(&applied, history));
            write_mirror(context, key, map, mirror).await?;
            judged
        }
        Stage::Cleanup(map) => {
            remove_mirror(context, key, mirror).await?;
            shared.world.trace.note(format_args!("mirror: cleaned up {key}"));
            shared.world.trace.count("reconcile", "cleaned up");
            let map = serde_json::to_value(&**map).map_err(Error::new)?;
            shared.world.judge(|history| shared.judge.lock().cleans_up(&map, history))
        }
    };
    if let Err(violation) = judged {
        shared.world.trace.fail(&format!("mirror: {violation}"));
    }
    Ok(Action::Done)
}

/// Creates the mirror of an object, or updates it if it differs.
async fn write_mirror(
    context: &Context<Arc<Mirroring>>,
    key: &Key,
    map: &ConfigMap,
    before: Option<Object<Secret>>,
) -> Result<(), Error> {
    let shared = context.data();
    let api = Api::<Secret>::namespaced(shared.client.clone(), key.namespace());
    let wanted = mirror_of(map, before.as_ref());
    let written = match before {
        None => limited(api.create(&PostParams::default(), &wanted)).await?,
        Some(before) => {
            let found = before.decode()?;
            if wanted.metadata.annotations == found.metadata.annotations && wanted.data == found.data {
                return Ok(());
            }
            limited(api.replace(key.name(), &PostParams::default(), &wanted)).await?
        }
    };
    shared.wrote(context, key, &written);
    Ok(())
}

/// Deletes a mirror, if there is one.
async fn remove_mirror(
    context: &Context<Arc<Mirroring>>,
    key: &Key,
    mirror: Option<Object<Secret>>,
) -> Result<(), Error> {
    let Some(mirror) = mirror else { return Ok(()) };
    let shared = context.data();
    let api = Api::<Secret>::namespaced(shared.client.clone(), key.namespace());
    let of_uid = Preconditions { uid: Some(mirror.uid().to_owned()), resource_version: None };
    let parameters = DeleteParams { preconditions: Some(of_uid), ..DeleteParams::default() };
    limited(api.delete(key.name(), &parameters)).await?;
    shared.judge.lock().wrote(key.as_str(), 0, 0);
    context.deleted(&*mirror.decode()?);
    Ok(())
}

/// Limits the time of a request. Over a silent connection it would never complete.
async fn limited<T>(request: impl Future<Output = Result<T, kube_client::Error>>) -> Result<T, Error> {
    let answered = timeout(REQUEST_MAX, request).await;
    Ok(answered.map_err(|_| Error::new("timed out waiting for a response"))??)
}

/// The mirror of an object. It replaces the mirror `before`, if there is one.
fn mirror_of(map: &ConfigMap, before: Option<&Object<Secret>>) -> Secret {
    let version = map.metadata.resource_version.clone().unwrap_or_default();
    let annotations = BTreeMap::from([(Judge::VERSION_OF.to_owned(), version)]);
    let data = map.data.iter().flatten();
    let data = data.map(|(name, value)| (name.clone(), ByteString(value.clone().into_bytes())));
    Secret {
        metadata: ObjectMeta {
            name: map.metadata.name.clone(),
            namespace: map.metadata.namespace.clone(),
            resource_version: before.map(|before| before.resource_version().to_owned()),
            annotations: Some(annotations),
            ..ObjectMeta::default()
        },
        data: Some(data.collect()),
        ..Secret::default()
    }
}

/// Passes the answered lists and watches of the informers to the oracle.
fn observer(
    world: &Arc<World>,
    trust: &Arc<Mutex<Trusts>>,
    selection: &Selection,
) -> impl Fn(&Served) + Send + Sync + use<> {
    let (world, trust, selection) = (world.clone(), trust.clone(), selection.clone());
    move |served: &Served| {
        let mut trust = trust.lock();
        let excused = match served.resource.as_str() {
            "configmaps" => world.judge(|history| served.record(&mut trust.maps, &selection, history)),
            _ => world.judge_secrets(|history| served.record(&mut trust.secrets, &selection, history)),
        };
        world.trace.excused(&excused);
    }
}

/// Whether the store has a complete list of each scope.
fn is_complete<K: Send + Sync + 'static>(informer: &Informer<K>, selection: &Selection) -> bool {
    let view = informer.lister().view();
    let scopes = selection.namespaces.len().max(1) as u16;
    (0..scopes).all(|scope| !view.resource_version(Scope(scope)).is_empty())
}

fn values<K: Serialize + Send + Sync + 'static>(informer: &Informer<K>) -> Result<Vec<Value>, String> {
    informer.lister().list().iter().map(value).collect()
}

impl Mirroring {
    /// Compares the informers with the server, and the mirrors with their objects. A key of which an informer has an
    /// excused state cannot be expected to be reconciled.
    fn judge_mirrors(&self, secrets: &[Value]) -> Result<(), String> {
        let (maps, mirrors) = (values(&self.maps)?, values(&self.secrets)?);
        let (trust, selection) = (self.trust.lock(), &self.selection);
        let mut excused = self.world.judge(|history| check_state(&maps, selection, &trust.maps, history))?;
        excused.extend(
            self.world.judge_secrets(|history| check_state(&mirrors, selection, &trust.secrets, history))?,
        );
        let judge = self.judge.lock();
        self.world.judge(|history| judge.converged(secrets, &excused, history))
    }

    /// Checks the start of a reconcile. Dropping the result records its end.
    fn begin(self: &Arc<Self>, key: &Key) -> Running {
        let cached = self.secrets.lister().get(key).and_then(|secret| secret.resource_version().parse().ok());
        let now = self.began.elapsed().as_millis() as u64;
        self.world.trace.count("reconcile", "begun");
        let unsynced =
            !is_complete(&self.maps, &self.selection) || !is_complete(&self.secrets, &self.selection);
        for (is_broken, why) in [
            (unsynced, "C3 is broken: an informer is not synced"),
            (self.stop.lock().is_stopping(), "C7 is broken: the controller was stopped"),
        ] {
            if is_broken {
                self.world.trace.fail(&format!("mirror: promise {why} when {key} is reconciled"));
            }
        }
        let judged = self.world.judge_secrets(|history| {
            self.judge.lock().begins(key.as_str(), cached.unwrap_or_default(), now, history)
        });
        if let Err(violation) = judged {
            self.world.trace.fail(&format!("mirror: {violation}"));
        }
        Running { shared: self.clone(), key: key.clone() }
    }

    fn wrote(&self, context: &Context<Arc<Self>>, key: &Key, written: &Secret) {
        let version = written.metadata.resource_version.as_deref().and_then(|text| text.parse().ok());
        let until = self.began.elapsed() + WRITE_WAIT_MAX;
        self.judge.lock().wrote(key.as_str(), version.unwrap_or_default(), until.as_millis() as u64);
        context.wrote(written);
    }
}

/// A running reconcile.
struct Running {
    shared: Arc<Mirroring>,
    key: Key,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.shared.judge.lock().ends(self.key.as_str());
    }
}

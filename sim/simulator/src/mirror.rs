//! The controller of a run: it mirrors every ConfigMap as a Secret with the same name, and repairs broken mirrors.

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
use kube_informer::{Informer, Key, Object};
use kube_informer_controller::{Action, Context, Controller, Error, Stop};
use kube_informer_oracle::{Controller as Judge, Selection};
use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

use crate::link::Link;
use crate::plan::MirrorPlan;
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
    judge: Mutex<Judge>,
    began: Instant,
    chance: Mutex<StdRng>,
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
        let shared = Arc::new(Mirroring {
            world: world.clone(),
            client,
            maps: maps.start().map_err(io::Error::other)?,
            secrets: secrets.start().map_err(io::Error::other)?,
            judge: Mutex::new(Judge::new(selection)),
            began: Instant::now(),
            chance: Mutex::new(StdRng::seed_from_u64(seed)),
        });
        let stop = Stop::new();
        let running = tokio::spawn(keep_running(shared.clone(), plan.concurrency.into(), stop.clone()));
        Ok(Self { link, shared, stop, running })
    }

    /// Records that another client deleted a mirror.
    pub(crate) fn was_deleted(&self, key: &str) {
        self.shared.judge.lock().wrote(key, 0, 0);
    }

    /// Describes how the mirrors differ from the objects; `None` if they do not.
    pub(crate) async fn differs(&self) -> io::Result<Option<String>> {
        let secrets = self.shared.world.secrets().await?;
        let judge = self.shared.judge.lock();
        let judged = self.shared.world.judge(|history| judge.converged(&secrets, history));
        Ok(judged.err().map(|why| format!("mirror: {why}; state: {:?}", self.shared.maps.state())))
    }

    pub(crate) async fn stop(self) {
        self.stop.stop();
        let _ = self.running.await;
        self.shared.maps.shutdown().await;
        self.shared.secrets.shutdown().await;
    }
}

/// Restarts the controller as a Deployment would. It ends with an error if the server refuses its informers.
async fn keep_running(shared: Arc<Mirroring>, concurrency: usize, stop: Stop) {
    while !stop.is_stopping() {
        let controller = Controller::builder("mirror", &shared.maps)
            .watches(&shared.secrets, |secret: &Object<Secret>| [secret.key()])
            .concurrency(concurrency)
            .write_wait_max(WRITE_WAIT_MAX)
            .build(shared.clone(), |context, key| async move { reconcile(&context, &key).await });
        match controller {
            Ok(controller) => {
                if let Err(error) = controller.run(&stop).await {
                    shared.world.trace.note(format_args!("mirror: {error}"));
                }
            }
            Err(error) => shared.world.trace.fail(&format!("cannot build the controller: {error}")),
        }
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
    let (map, secret) = (shared.maps.lister().get(key), shared.secrets.lister().get(key));
    let pause = shared.chance.lock().random_range(0..800);
    sleep(Duration::from_millis(pause)).await;
    let api = Api::<Secret>::namespaced(shared.client.clone(), key.namespace());
    match (map, secret) {
        (Some(map), None) => {
            let mirror = mirror_of(&map, None)?;
            let created = limited(api.create(&PostParams::default(), &mirror)).await?;
            shared.wrote(context, key, &created);
        }
        (Some(map), Some(secret)) => {
            let (wanted, found) = (mirror_of(&map, Some(&secret))?, secret.decode()?);
            if wanted.metadata.annotations != found.metadata.annotations || wanted.data != found.data {
                let replaced = limited(api.replace(key.name(), &PostParams::default(), &wanted)).await?;
                shared.wrote(context, key, &replaced);
            }
        }
        (None, Some(secret)) => {
            let of_uid = Preconditions { uid: Some(secret.uid().to_owned()), resource_version: None };
            let parameters = DeleteParams { preconditions: Some(of_uid), ..DeleteParams::default() };
            limited(api.delete(key.name(), &parameters)).await?;
            shared.judge.lock().wrote(key.as_str(), 0, 0);
            context.deleted(&*secret.decode()?);
        }
        (None, None) => {}
    }
    shared.world.trace.note(format_args!("mirror: reconciled {key}"));
    Ok(Action::Done)
}

/// Limits the time of a request. Over a silent connection it would never complete.
async fn limited<T>(request: impl Future<Output = Result<T, kube_client::Error>>) -> Result<T, Error> {
    let answered = timeout(REQUEST_MAX, request).await;
    Ok(answered.map_err(|_| Error::new("timed out waiting for a response"))??)
}

/// The mirror of an object. It replaces the mirror `before`, if there is one.
fn mirror_of(map: &Object<ConfigMap>, before: Option<&Object<Secret>>) -> Result<Secret, Error> {
    let value = map.decode()?;
    let annotations = [(Judge::VERSION_OF.to_owned(), map.resource_version().to_owned())];
    let data = value
        .data
        .iter()
        .flatten()
        .map(|(name, value)| (name.clone(), ByteString(value.clone().into_bytes())));
    Ok(Secret {
        metadata: ObjectMeta {
            name: Some(map.name().to_owned()),
            namespace: Some(map.namespace().to_owned()),
            resource_version: before.map(|before| before.resource_version().to_owned()),
            annotations: Some(BTreeMap::from(annotations)),
            ..ObjectMeta::default()
        },
        data: Some(data.collect()),
        ..Secret::default()
    })
}

impl Mirroring {
    /// Checks the start of a reconcile. Dropping the result records its end.
    fn begin(self: &Arc<Self>, key: &Key) -> Running {
        let cached = self.secrets.lister().get(key).and_then(|secret| secret.resource_version().parse().ok());
        let now = self.began.elapsed().as_millis() as u64;
        self.world.trace.count("reconcile", "begun");
        let judged = self.world.judge(|history| {
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

//! The demo's controller: it keeps the status of every Deployment equal to what the pods report.
//!
//! Three replicas share its work through a [`ShardedLease`], as replicas in three pods would. Each has an informer for its part of the
//! Deployments, and all read ReplicaSets and pods from the mirrors. They write over a connection of their own, so the page can show
//! queue, reconciles, failures and slots.

use std::sync::Arc;
use std::time::Duration;

use embedded_apiserver::Server;
use k8s_openapi::api::apps::v1::Deployment;
use kube_client::api::{Patch, PatchParams};
use kube_client::{Api, Client};
use kube_informer::building_blocks::ListWatch;
use kube_informer::{Index, Informer, Key, Lister, StoredObject};
use kube_informer_controller::{
    Action, BuildError, Context, Controller, ControllerMetrics, Error, LeaseTiming, OWNER_INDEX,
    ShardMetrics, ShardedLease, Stop, children,
};
use kube_wire::path::PathReader;
use prometheus_client::registry::Registry;
use serde_json::Value;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::{manifests, world};
use crate::failure::Failure;
use crate::mirror::Mirror;

/// The name of the controller, and of the Leases that its replicas share.
const NAME: &str = "availability";
/// The namespace of the Leases.
const NAMESPACE: &str = "platform";
/// The name of its requests.
pub(super) const USER_AGENT: &str = "controller";
const REPLICAS: [&str; 3] = ["replica-1", "replica-2", "replica-3"];
/// The replica that a switch of the page stops.
pub(super) const SWITCHED: &str = REPLICAS[2];
/// Shorter than the default: the group begins to work after the lease duration. Watches that are delayed by a second, as in `--chaos`,
/// must not cost a replica its slots.
const TIMING: LeaseTiming = LeaseTiming {
    lease_duration: Duration::from_secs(4),
    renew_deadline: Duration::from_secs(3),
    retry_period: Duration::from_millis(500),
};

/// The metrics of all replicas together, and of the slots of each.
pub(super) struct ReplicaMetrics {
    controller: ControllerMetrics,
    slots: [ShardMetrics; REPLICAS.len()],
}

/// The running replicas.
pub(super) struct RunningReplicas {
    stop: Stop,
    tasks: Vec<JoinHandle<()>>,
}

/// One replica, which can run several times.
struct Replica {
    lease: ShardedLease,
    client: Client,
    metrics: ControllerMetrics,
    /// Its part of the Deployments.
    deployments: Informer<Value>,
    replica_sets: Informer<Value>,
    pods: Informer<Value>,
    readers: Arc<FieldReaders>,
}

/// Where a reconcile reads.
struct Caches {
    deployments: Lister<Value>,
    replica_sets: Lister<Value>,
    pods: Lister<Value>,
    readers: Arc<FieldReaders>,
}

/// The fields that a reconcile reads.
struct FieldReaders {
    /// Of Deployments and ReplicaSets.
    image: [PathReader; 2],
    is_ready: PathReader,
    /// How many pods a Deployment should have.
    wanted: PathReader,
    reported: [PathReader; 3],
    /// The condition, and since when it has its status.
    available: [PathReader; 2],
}

/// How many pods a Deployment has: all, those of the current template, and those that are ready.
type PodCounts = [usize; 3];

impl ReplicaMetrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let controller = ControllerMetrics::register(registry);
        // The leases of all replicas have the same name, so a label distinguishes them.
        let slots = REPLICAS.map(|name| {
            ShardMetrics::register(registry.sub_registry_with_label(("replica".into(), name.into())))
        });
        Self { controller, slots }
    }
}

impl RunningReplicas {
    /// Starts them on the mirrors of Deployments, ReplicaSets and pods. One replica runs while `switch` is true.
    pub(super) fn start(
        server: &Server,
        mirrors: &[Mirror],
        metrics: &ReplicaMetrics,
        switch: &watch::Receiver<bool>,
    ) -> Result<Self, Failure> {
        let failed =
            |error: &dyn std::error::Error| Failure::other("cannot start the demo's controller", error);
        let mirror = |plural: &str| {
            let mut known = mirrors.iter().filter(|mirror| mirror.selected.kind.resource.plural == plural);
            known.next().ok_or_else(|| {
                Failure::Other(format!("cannot start the demo's controller: {plural} are not mirrored"))
            })
        };
        let (deployments, replica_sets, pods) =
            (mirror("deployments")?, mirror("replicasets")?, mirror("pods")?);
        pods.informer.add_index(&Index::owner(OWNER_INDEX)).map_err(|error| failed(&error))?;
        let readers = FieldReaders::new(deployments, replica_sets, pods).map_err(|error| failed(&error))?;
        let readers = Arc::new(readers);
        let client = super::client(server, USER_AGENT)?;
        let (stop, mut tasks) = (Stop::new(), Vec::new());
        for (name, metrics_of_slots) in REPLICAS.into_iter().zip(&metrics.slots) {
            let lease = ShardedLease::new(client.clone(), NAMESPACE, NAME)
                .identity(name)
                .timing(TIMING)
                .metrics(metrics_of_slots);
            let source = ListWatch::new(client.clone(), deployments.selected.kind.resource.clone());
            let share = Informer::<Value>::from_source(Arc::new(source)).shard(lease.shard());
            let replica = Replica {
                deployments: share.start()?,
                lease,
                client: client.clone(),
                metrics: metrics.controller.clone(),
                replica_sets: replica_sets.informer.clone(),
                pods: pods.informer.clone(),
                readers: readers.clone(),
            };
            let controller = replica.controller().map_err(|error| failed(&error))?;
            let switch = (name == SWITCHED).then(|| switch.clone());
            tasks.push(tokio::spawn(replica.run(controller, switch, stop.clone())));
        }
        Ok(Self { stop, tasks })
    }

    /// Lets the running reconciles finish, and releases the slots.
    pub(super) async fn shutdown(self) {
        self.stop.stop();
        for task in self.tasks {
            // A reconcile that does not finish in time is cancelled; the demo ends either way.
            let _ = task.await;
        }
    }
}

impl Replica {
    fn controller(&self) -> Result<Controller, BuildError> {
        let sets = self.replica_sets.lister();
        let caches = Caches {
            deployments: self.deployments.lister(),
            replica_sets: sets.clone(),
            pods: self.pods.lister(),
            readers: self.readers.clone(),
        };
        Controller::builder(NAME, &self.deployments)
            .client(self.client.clone())
            .shared(&self.lease)
            .owns(&self.replica_sets)
            .watches(&self.pods, move |pod| {
                let set = pod.owners().controller()?;
                let set = sets.get(&Key::new(pod.namespace(), &set.name))?;
                let deployment = set.owners().controller()?;
                Some(Key::new(pod.namespace(), &deployment.name))
            })
            .metrics(&self.metrics)
            .build(caches, reconcile)
    }

    /// Runs while the switch is on, until the end of the demo.
    async fn run(self, controller: Controller, mut switch: Option<watch::Receiver<bool>>, end: Stop) {
        let mut next = Some(controller);
        loop {
            tokio::select! {
                biased;
                () = end.stopping() => break,
                () = until(&mut switch, true) => {}
            }
            let Some(controller) = next.take().or_else(|| self.controller().ok()) else { break };
            let stop = Stop::new();
            let stopping = async {
                tokio::select! {
                    () = end.stopping() => {}
                    () = until(&mut switch, false) => {}
                }
                stop.stop();
            };
            // A replica that fails runs again when it is switched off and on.
            let ((), _) = tokio::join!(stopping, controller.run(&stop));
        }
        self.deployments.shutdown().await;
    }
}

/// Waits until a switch is on or off. Without a switch, it is always on.
async fn until(switch: &mut Option<watch::Receiver<bool>>, on: bool) {
    let has_turned = match switch {
        Some(switch) => switch.wait_for(|is_on| *is_on == on).await.is_ok(),
        None => on,
    };
    if !has_turned {
        std::future::pending::<()>().await;
    }
}

impl FieldReaders {
    fn new(deployments: &Mirror, replica_sets: &Mirror, pods: &Mirror) -> Result<Self, kube_wire::Error> {
        let reader = |mirror: &Mirror, path: &str| {
            PathReader::new(&path.parse()?, &mirror.selected.kind.resource.type_meta())
        };
        let image = "spec.template.spec.containers[*].image";
        Ok(Self {
            image: [reader(deployments, image)?, reader(replica_sets, image)?],
            is_ready: reader(pods, "status.conditions[?type=Ready].status")?,
            wanted: reader(deployments, "spec.replicas")?,
            reported: [
                reader(deployments, "status.replicas")?,
                reader(deployments, "status.updatedReplicas")?,
                reader(deployments, "status.readyReplicas")?,
            ],
            available: [
                reader(deployments, "status.conditions[?type=Available].status")?,
                reader(deployments, "status.conditions[?type=Available].lastTransitionTime")?,
            ],
        })
    }
}

impl Caches {
    /// What the pods of a Deployment report.
    fn count(&self, deployment: &StoredObject) -> Result<PodCounts, Error> {
        let image = text(deployment, &self.readers.image[0])?;
        let [mut all, mut updated, mut ready] = PodCounts::default();
        for set in children(&self.replica_sets, deployment.uid())? {
            let is_current = text(&set, &self.readers.image[1])? == image;
            for pod in children(&self.pods, set.uid())? {
                all += 1;
                updated += usize::from(is_current);
                ready += usize::from(text(&pod, &self.readers.is_ready)? == "True");
            }
        }
        Ok([all, updated, ready])
    }

    /// What the Deployment's status says.
    fn reported(&self, deployment: &StoredObject) -> Result<PodCounts, Error> {
        let mut counts = PodCounts::default();
        for (number, reader) in counts.iter_mut().zip(&self.readers.reported) {
            *number = text(deployment, reader)?.parse().unwrap_or(0);
        }
        Ok(counts)
    }
}

async fn reconcile(context: Context<Caches>, key: Key) -> Result<Action, Error> {
    let caches = context.data();
    let Some(deployment) = caches.deployments.get(&key) else { return Ok(Action::Done) };
    let counts = caches.count(&deployment)?;
    let [.., ready] = counts;
    let wanted = text(&deployment, &caches.readers.wanted)?.parse().unwrap_or(0);
    let available = manifests::availability(wanted, ready);
    let [reported, since] = &caches.readers.available;
    let (reported, mut since) = (text(&deployment, reported)?, text(&deployment, since)?);
    let has_changed = reported != available;
    if has_changed || counts != caches.reported(&deployment)? {
        if has_changed || since.is_empty() {
            since = world::now();
        }
        let status = Patch::Merge(manifests::deployment_status(counts, available, &since));
        let api = Api::<Deployment>::namespaced(context.client(), key.namespace());
        api.patch_status(key.name(), &PatchParams::default(), &status).await?;
    }
    Ok(Action::Done)
}

/// The last value at a path as text; empty if there is no value.
fn text(object: &StoredObject, reader: &PathReader) -> Result<String, Error> {
    let mut text = String::new();
    let read = object.for_each_field(reader, |value| {
        if let Some(value) = value.text() {
            text = value.into_owned();
        }
    });
    read.map_err(Error::new)?;
    Ok(text)
}

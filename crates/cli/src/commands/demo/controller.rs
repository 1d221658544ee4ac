//! The demo's controller: it keeps the status of every Deployment equal to what the pods report.
//!
//! It reads the mirrors and writes over a connection of its own, so the page can show its queue, reconciles and failures.

use embedded_apiserver::Server;
use k8s_openapi::api::apps::v1::Deployment;
use kube_client::Api;
use kube_client::api::{Patch, PatchParams};
use kube_informer::{Index, Key, Lister, StoredObject};
use kube_informer_controller::{
    Action, Context, Controller, ControllerMetrics, Error, OWNER_INDEX, RunError, Stop, children,
};
use kube_wire::path::PathReader;
use serde_json::Value;
use tokio::task::JoinHandle;

use super::{manifests, world};
use crate::failure::Failure;
use crate::mirror::Mirror;

const NAME: &str = "availability";
/// The name of its requests.
pub(super) const USER_AGENT: &str = "controller";

/// A controller that runs.
pub(super) struct RunningController {
    stop: Stop,
    task: JoinHandle<Result<(), RunError>>,
}

/// Where a reconcile reads.
struct Caches {
    deployments: Lister<Value>,
    replica_sets: Lister<Value>,
    pods: Lister<Value>,
    image: [PathReader; 2],
    is_ready: PathReader,
    reported: [PathReader; 3],
    /// The condition, and since when it has its status.
    available: [PathReader; 2],
}

/// How many pods a Deployment has: all, those of the current template, and those that are ready.
type Replicas = [usize; 3];

impl RunningController {
    /// Starts it on the mirrors of Deployments, ReplicaSets and pods.
    pub(super) fn start(
        server: &Server,
        mirrors: &[Mirror],
        metrics: &ControllerMetrics,
    ) -> Result<Self, Failure> {
        let failed = |error: &dyn std::error::Error| Failure::other("starting the demo's controller", error);
        let mirror = |plural: &str| {
            let mut known = mirrors.iter().filter(|mirror| mirror.selected.kind.resource.plural == plural);
            known.next().ok_or_else(|| {
                Failure::Other(format!("starting the demo's controller: {plural} are not mirrored"))
            })
        };
        let (deployments, replica_sets, pods) =
            (mirror("deployments")?, mirror("replicasets")?, mirror("pods")?);
        pods.informer.add_index(&Index::owner(OWNER_INDEX)).map_err(|error| failed(&error))?;
        let caches = Caches::new(deployments, replica_sets, pods).map_err(|error| failed(&error))?;
        let sets = replica_sets.informer.lister();
        let controller = Controller::builder(NAME, &deployments.informer)
            .client(super::client(server, USER_AGENT)?)
            .owns(&replica_sets.informer)
            .watches(&pods.informer, move |pod| {
                let set = pod.owners().controller()?;
                let set = sets.get(&Key::new(pod.namespace(), &set.name))?;
                let deployment = set.owners().controller()?;
                Some(Key::new(pod.namespace(), &deployment.name))
            })
            .metrics(metrics)
            .build(caches, reconcile)
            .map_err(|error| failed(&error))?;
        let stop = Stop::new();
        let stopped = stop.clone();
        Ok(Self { stop, task: tokio::spawn(async move { controller.run(&stopped).await }) })
    }

    /// Lets the running reconcile finish.
    pub(super) async fn shutdown(self) {
        self.stop.stop();
        // A reconcile that does not finish in time is cancelled; the demo ends either way.
        let _ = self.task.await;
    }
}

impl Caches {
    fn new(deployments: &Mirror, replica_sets: &Mirror, pods: &Mirror) -> Result<Self, kube_wire::Error> {
        let reader = |mirror: &Mirror, path: &str| {
            PathReader::new(&path.parse()?, &mirror.selected.kind.resource.type_meta())
        };
        let image = "spec.template.spec.containers[*].image";
        Ok(Self {
            image: [reader(deployments, image)?, reader(replica_sets, image)?],
            is_ready: reader(pods, "status.conditions[?type=Ready].status")?,
            reported: [
                reader(deployments, "status.replicas")?,
                reader(deployments, "status.updatedReplicas")?,
                reader(deployments, "status.readyReplicas")?,
            ],
            available: [
                reader(deployments, "status.conditions[?type=Available].status")?,
                reader(deployments, "status.conditions[?type=Available].lastTransitionTime")?,
            ],
            deployments: deployments.informer.lister(),
            replica_sets: replica_sets.informer.lister(),
            pods: pods.informer.lister(),
        })
    }

    /// What the pods of a Deployment report.
    fn count(&self, deployment: &StoredObject) -> Result<Replicas, Error> {
        let image = text(deployment, &self.image[0])?;
        let [mut all, mut updated, mut ready] = Replicas::default();
        for set in children(&self.replica_sets, deployment.uid())? {
            let is_current = text(&set, &self.image[1])? == image;
            for pod in children(&self.pods, set.uid())? {
                all += 1;
                updated += usize::from(is_current);
                ready += usize::from(text(&pod, &self.is_ready)? == "True");
            }
        }
        Ok([all, updated, ready])
    }

    /// What the Deployment's status says.
    fn reported(&self, deployment: &StoredObject) -> Result<Replicas, Error> {
        let mut replicas = Replicas::default();
        for (number, reader) in replicas.iter_mut().zip(&self.reported) {
            *number = text(deployment, reader)?.parse().unwrap_or(0);
        }
        Ok(replicas)
    }
}

async fn reconcile(context: Context<Caches>, key: Key) -> Result<Action, Error> {
    let caches = context.data();
    let Some(deployment) = caches.deployments.get(&key) else { return Ok(Action::Done) };
    let replicas = caches.count(&deployment)?;
    if replicas != caches.reported(&deployment)? {
        let available = manifests::availability(replicas);
        let [reported, since] = &caches.available;
        let (reported, mut since) = (text(&deployment, reported)?, text(&deployment, since)?);
        if reported != available || since.is_empty() {
            since = world::now();
        }
        let status = Patch::Merge(manifests::deployment_status(replicas, available, &since));
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

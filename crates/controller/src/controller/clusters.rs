//! The clusters of a controller: added and removed while it runs.
//!
//! Each cluster brings its own informers and client, and shares the controller's queue and workers. The keys of a named cluster carry
//! its name. A cluster is warm when its informers are synced; its keys are held back until then, so a cluster that cannot be reached
//! delays no other.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures::future::{pending, select_all};
use kube_informer::{Key, SyncError};
use parking_lot::{Mutex, RwLock};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio_util::sync::CancellationToken;

use super::cluster_triggers::{AttachError, ClusterTriggers, Plan};
use super::feed::Added;
use super::intake::Intake;
use super::tools::Tools;
use super::trigger::Listening;
use crate::BuildError;

/// The clusters of a controller: add and remove them before and while it runs. From
/// [`Controller::clusters`](crate::Controller::clusters). Cheap to clone.
///
/// ```no_run
/// # use k8s_openapi::api::{apps::v1::Deployment, core::v1::ConfigMap};
/// # use kube_informer::{Informer, Key};
/// # use kube_informer_controller::{Action, ClusterTriggers, Context, Controller, Error, Stop};
/// async fn reconcile(ctx: Context, key: Key) -> Result<Action, Error> {
///     let Some(deployment) = ctx.object::<Deployment>() else { return Ok(Action::Done) }; // it was deleted
///     println!("{:?} has {}", key.cluster(), deployment.name());
///     Ok(Action::Done)
/// }
///
/// # async fn example(east: kube_client::Client, stop: Stop) -> Result<(), Box<dyn std::error::Error>> {
/// let controller = Controller::of_clusters("audit").concurrency(8).build((), reconcile)?;
/// let clusters = controller.clusters();
/// let running = tokio::spawn(async move { controller.run(&stop).await });
///
/// let deployments = Informer::<Deployment>::builder(east).start()?;
/// clusters.add("east", ClusterTriggers::on(&deployments))?; // keys are `east//namespace/name`
/// clusters.remove("east");
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Clusters {
    name: Arc<str>,
    members: Weak<Members>,
}

/// All clusters of a controller.
pub(super) struct Members {
    name: Arc<str>,
    pub(super) intake: Arc<Intake>,
    field_manager: String,
    /// By name. The cluster without a name has the empty string as its key.
    clusters: RwLock<BTreeMap<String, Arc<Member>>>,
    /// The number of informers so far, which is the number of the next one. Numbers are never reused.
    informers: AtomicUsize,
    /// Sends each added cluster to the task that waits until it is synced.
    added: UnboundedSender<Arc<Member>>,
}

/// One cluster.
pub(super) struct Member {
    /// Its name, if it has one.
    #[cfg(feature = "testing")]
    pub(super) cluster: Option<Arc<str>>,
    pub(super) tools: Arc<Tools>,
    pub(super) listening: Vec<Listening>,
    /// The keys of its main informer.
    pub(super) keys: Box<dyn Fn() -> Vec<Key> + Send + Sync>,
    /// Keys that a worker took before the cluster was warm, with their priorities; `None` once it is warm.
    held: Mutex<Option<HashMap<Key, i16>>>,
}

/// The pause before a retry, after a cluster has refused an informer.
const REFUSED_PAUSE: Duration = Duration::from_secs(5);

// === impl Clusters ===

impl Clusters {
    /// Adds a cluster: its main informer, and what else triggers reconciles. Reconciles get keys with the cluster's name
    /// ([`Key::cluster`]), a [client](crate::Context::client) of that cluster, and its [informers](crate::Context::informer).
    ///
    /// No key of the cluster is reconciled before its informers are synced. If the server refuses an informer, a warning is logged,
    /// and the cluster is tried again. Other clusters are not affected. If a cluster of this name exists, it is removed first.
    ///
    /// # Errors
    /// Returns an error if an informer has stopped, an index cannot be added, a filter is invalid, the name is empty, the controller has
    /// ended, or replicas [share](crate::ControllerBuilder::shared) its work.
    pub fn add<M: Send + Sync + 'static>(
        &self,
        name: &str,
        triggers: ClusterTriggers<M>,
    ) -> Result<(), BuildError> {
        if name.is_empty() {
            return Err(BuildError::Cluster { controller: self.name.to_string() });
        }
        let ended = || BuildError::Ended { controller: self.name.to_string() };
        let members = self.members.upgrade().ok_or_else(ended)?;
        if members.intake.slot_keys.is_some() {
            let reason = "a controller of several clusters cannot be shared".to_owned();
            return Err(BuildError::Sharing { controller: self.name.to_string(), reason });
        }
        members.add(Some(name), triggers.into_plan())
    }

    /// Removes a cluster; returns whether it existed. Its queued keys are dropped. Running reconciles finish.
    ///
    /// The informers belong to the caller: they continue unless they are dropped.
    pub fn remove(&self, name: &str) -> bool {
        self.members.upgrade().is_some_and(|members| members.remove(name))
    }

    /// The names of the clusters, sorted.
    pub fn names(&self) -> Vec<String> {
        let members = self.members.upgrade();
        members.map(|members| members.clusters.read().keys().cloned().collect()).unwrap_or_default()
    }

    /// Whether the informers of a cluster are synced and its keys are reconciled.
    pub fn is_synced(&self, name: &str) -> bool {
        let member = self.members.upgrade().and_then(|members| members.get(Some(name)));
        member.is_some_and(|member| member.is_warm())
    }
}

impl fmt::Debug for Clusters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Clusters").field("controller", &self.name).field("names", &self.names()).finish()
    }
}

// === impl Members ===

impl Members {
    pub(super) fn new(name: Arc<str>, intake: Arc<Intake>, field_manager: String) -> (Arc<Self>, Added) {
        let (added, receiver) = unbounded_channel();
        let (clusters, informers) = (RwLock::default(), AtomicUsize::new(0));
        (Arc::new(Self { name, intake, field_manager, clusters, informers, added }), receiver)
    }

    pub(super) fn handle(self: &Arc<Self>) -> Clusters {
        Clusters { name: self.name.clone(), members: Arc::downgrade(self) }
    }

    /// Registers the listeners of a cluster, after removing an earlier cluster of this name. The cluster without a name is warm from the
    /// start: no worker runs before it is synced.
    pub(super) fn add(&self, cluster: Option<&str>, plan: Plan) -> Result<(), BuildError> {
        let first = self.informers.fetch_add(plan.attach.len(), Ordering::Relaxed);
        let name = cluster.map(Arc::<str>::from);
        let of_controller = |error: AttachError| error.of(&self.name);
        let prepared = plan.attach.into_iter().map(|attach| attach()).collect::<Result<Vec<_>, _>>();
        let prepared = prepared.map_err(of_controller)?;
        let place = cluster.unwrap_or_default();
        // A worker drops a key whose cluster it does not find, so it must wait until all listeners are registered.
        let mut clusters = self.clusters.write();
        if let Some(earlier) = clusters.remove(place) {
            self.end(place, &earlier);
        }
        let (mut listening, mut watched) = (Vec::new(), Vec::new());
        for (number, listen) in (first..).zip(prepared) {
            let (listens, erased) = listen(number, &name, &self.intake).map_err(of_controller)?;
            listening.push(listens);
            watched.push(erased);
        }
        let tools = Tools {
            name: self.name.clone(),
            intake: self.intake.clone(),
            watched,
            has_main: true,
            first,
            admits: plan.admits,
            client: plan.client,
            field_manager: self.field_manager.clone(),
            removed: CancellationToken::new(),
        };
        let keys = match name.clone() {
            None => plan.keys,
            Some(cluster) => {
                Box::new(move || (plan.keys)().into_iter().map(|key| key.in_cluster(&cluster)).collect())
            }
        };
        let held = Mutex::new(cluster.map(|_| HashMap::new()));
        let member = Arc::new(Member {
            #[cfg(feature = "testing")]
            cluster: name,
            tools: Arc::new(tools),
            listening,
            keys,
            held,
        });
        clusters.insert(place.to_owned(), member.clone());
        drop(clusters);
        if cluster.is_some() {
            // The receiver is dropped when the controller has ended.
            let _ = self.added.send(member);
        }
        Ok(())
    }

    fn remove(&self, name: &str) -> bool {
        let Some(member) = self.clusters.write().remove(name) else { return false };
        self.end(name, &member);
        true
    }

    /// Ends the listeners of a removed cluster, and everything that waits for it. Drops its keys.
    fn end(&self, name: &str, member: &Member) {
        member.tools.removed.cancel();
        member.listening.iter().for_each(Listening::remove);
        let is_of_cluster = |key: &Key| key.cluster() == Some(name);
        self.intake.forget(is_of_cluster, |number| member.tools.has_number(number));
    }

    pub(super) fn get(&self, cluster: Option<&str>) -> Option<Arc<Member>> {
        self.clusters.read().get(cluster.unwrap_or_default()).cloned()
    }

    pub(super) fn all(&self) -> Vec<Arc<Member>> {
        self.clusters.read().values().cloned().collect()
    }

    /// Waits until the cluster without a name is synced. The controller waits for named clusters while it runs.
    pub(super) async fn synced(&self) -> Result<(), SyncError> {
        match self.get(None) {
            Some(member) => member.synced().await,
            None => Ok(()),
        }
    }

    /// Waits until an informer of the cluster without a name has stopped.
    pub(super) async fn stopped(&self) {
        let Some(member) = self.get(None) else { return pending().await };
        select_all(member.tools.watched.iter().map(|watched| watched.stopped())).await;
    }

    pub(super) fn is_synced(&self) -> bool {
        self.get(None).is_none_or(|member| member.is_synced())
    }
}

impl Drop for Members {
    fn drop(&mut self) {
        self.intake.queue.shutdown();
    }
}

// === impl Member ===

impl Member {
    /// Waits until all informers are synced and the keys of their initial lists are queued.
    async fn synced(&self) -> Result<(), SyncError> {
        for watched in &self.tools.watched {
            watched.synced().await?;
        }
        for listening in &self.listening {
            listening.synced().await?;
        }
        Ok(())
    }

    fn is_synced(&self) -> bool {
        self.tools.watched.iter().all(|watched| watched.is_synced())
            && self.listening.iter().all(Listening::is_synced)
    }

    pub(super) fn is_warm(&self) -> bool {
        self.held.lock().is_none()
    }

    /// Holds a key back if the cluster is not warm; returns whether it does.
    pub(super) fn holds(&self, key: &Key, priority: i16) -> bool {
        let mut held = self.held.lock();
        let Some(held) = &mut *held else { return false };
        let known = held.entry(key.clone()).or_insert(priority);
        *known = priority.max(*known);
        true
    }

    /// Waits until the cluster is synced, and queues the keys that were held back. Ends if the cluster is removed.
    pub(super) async fn warm(&self) {
        let synced = async {
            loop {
                match self.synced().await {
                    Ok(()) => return true,
                    Err(error @ SyncError::Stopped(_)) => {
                        let controller = &*self.tools.name;
                        tracing::warn!(controller, %error, "the keys of a cluster are not reconciled");
                        return false;
                    }
                    Err(error) => {
                        tracing::warn!(controller = %self.tools.name, %error, "a cluster refuses an informer; retrying");
                        tokio::time::sleep(REFUSED_PAUSE).await;
                    }
                }
            }
        };
        tokio::select! {
            biased;
            () = self.tools.removed.cancelled() => return,
            synced = synced => if !synced { return },
        }
        for (key, priority) in self.held.lock().take().into_iter().flatten() {
            self.tools.intake.add(key, priority);
        }
    }
}

//! Informers shared by all callers that request the same.
//!
//! A large program requests informers in many places. All requests to a factory for the same resource, namespaces,
//! selectors, fields and encoding get a handle to the same informer. The factory itself does not keep informers running.

use std::any::{Any, TypeId};
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, Weak};

use educe::Educe;
use futures::future::join_all;
use kube_client::Client;
use kube_core::{ApiResource, ClusterResourceScope, DynamicObject, Resource as KubeResource};
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use tokio::sync::Semaphore;
use tokio_util::task::TaskTracker;

use super::builder::InformerBuilder;
use super::core::{Core, Owner};
use super::decoder::Decoder;
use super::defaults::Defaults;
use super::settings::{InformerSource, Settings, Wanted};
use super::{Informer, InformerState, StartError, SyncError};
use crate::budget::Budget;
use crate::source::ServerIsNewer;

/// Starts informers and shares them.
///
/// ```no_run
/// # use kube_informer::InformerFactory;
/// # use k8s_openapi::api::core::v1::{Node, Pod};
/// # async fn example(client: kube_client::Client) -> Result<(), Box<dyn std::error::Error>> {
/// let factory = InformerFactory::new(client);
/// let pods = factory.informer::<Pod>().namespaces(["web"]).start()?;
/// let same = factory.informer::<Pod>().namespaces(["web"]).start()?;     // one watch for both
/// let nodes = factory.informer::<Node>().start()?;
/// factory.wait_for_sync().await?;                                        // an error names the refused ones, and why
/// factory.shutdown().await;
/// # Ok(()) }
/// ```
///
/// Requests for the same resource, namespaces, selectors, fields and encoding share one informer. If they differ in other
/// settings: the indexes of all requests are added (two indexes of one name are an error), each handle has its own resync, and
/// everything else is as in the first request. An informer stops when its last handle is dropped; the next request starts another.
#[derive(Clone, Educe)]
#[educe(Debug)]
pub struct InformerFactory {
    #[educe(Debug(ignore))]
    client: Client,
    /// In the order in which they were started.
    #[educe(Debug(method(count_shared)))]
    shared: Arc<Mutex<Vec<SharedInformer>>>,
    starts: Arc<Semaphore>,
    pub(super) server_is_newer: ServerIsNewer,
    #[educe(Debug(ignore))]
    pub(super) budget: Option<Arc<Budget>>,
    #[educe(Debug(ignore))]
    defaults: Option<Defaults>,
    /// The factories of other clusters, by name.
    #[educe(Debug(ignore))]
    clusters: Arc<Mutex<BTreeMap<String, Self>>>,
}

/// An informer that has or had handles.
struct SharedInformer {
    /// `None` if it cannot be shared.
    wanted: Option<Wanted>,
    owner: Weak<Owner>,
    /// Its tasks are awaited even after the last handle is dropped.
    tasks: TaskTracker,
    /// The decoders, by the type they decode to.
    decoders: HashMap<TypeId, Weak<dyn Any + Send + Sync>>,
}

/// Some informers are not synced: the server refuses their lists, or their objects exceed the memory budget.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[error("{} not synced: {}", count(.missing.len()), .missing.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
pub struct NotSynced {
    /// One reason per informer.
    pub missing: Vec<SyncError>,
}

fn count(informers: usize) -> String {
    match informers {
        1 => "1 informer".to_owned(),
        informers => format!("{informers} informers"),
    }
}

// === impl InformerFactory ===

impl InformerFactory {
    /// How many watches fetch their initial list at the same time, unless [configured](Self::starts_max).
    pub(super) const STARTS_MAX: usize = 20;

    /// A factory over [`Cluster`](crate::Cluster), or any `kube` client.
    pub fn new(client: impl Into<Client>) -> Self {
        let starts = Arc::new(Semaphore::new(Self::STARTS_MAX));
        let (shared, server_is_newer, budget, defaults, clusters) = Default::default();
        Self { client: client.into(), shared, starts, server_is_newer, budget, defaults, clusters }
    }

    /// Sets what every informer begins with, for informers requested after this call. The function makes the settings on a builder, with
    /// the same methods.
    ///
    /// A setting of one informer replaces the default: namespaces (by `namespaces`, `namespace_with` or `namespaces_matching`),
    /// fields (by `drop_fields` or `keep_fields`), and everything that is set once. Indexes are added.
    ///
    /// Types without a namespace ignore default namespaces. A dynamic informer of such a resource must reset them:
    /// `.namespaces([""; 0])`. Default fields need not exist in every kind.
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # use kube_informer::InformerFactory;
    /// # use k8s_openapi::api::core::v1::{Node, Pod, Secret};
    /// # fn example(client: kube_client::Client) -> Result<(), kube_informer::StartError> {
    /// let factory = InformerFactory::new(client).defaults(|informer| {
    ///     informer.namespaces(["web"]).labels("tier=backend").resync(Duration::from_secs(600)).drop_fields(["status"])
    /// });
    /// let pods = factory.informer::<Pod>().start()?;
    /// let secrets = factory.informer::<Secret>().namespaces(["web", "api"]).labels("").start()?;   // other namespaces, all labels
    /// let nodes = factory.informer::<Node>().labels("").keep_fields(["status.conditions"]).start()?;
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn defaults(
        mut self,
        set: impl Fn(InformerBuilder<DynamicObject>) -> InformerBuilder<DynamicObject> + Send + Sync + 'static,
    ) -> Self {
        self.defaults = Some(Defaults::new(set));
        self
    }

    /// How many watches may fetch their initial list at the same time. Default: 20. Applies to informers started after this
    /// call.
    #[must_use]
    pub fn starts_max(mut self, watches: usize) -> Self {
        self.starts = Arc::new(Semaphore::new(watches.clamp(1, Semaphore::MAX_PERMITS)));
        self
    }

    /// How many bytes the objects of all informers may take together: in stores, in queues, and in lists that are being received.
    /// Each object counts with what the store holds of it, packed or not, and 200 B. Default: no limit. Applies to informers
    /// started after this call.
    ///
    /// An informer whose next object would exceed the budget does not store it. [`Informer::synced`] fails with
    /// [`SyncError::OverBudget`]; a synced informer becomes [degraded](InformerState::Degraded) and keeps its objects. Both try
    /// again with back-off, so they recover when memory is free. Decoded values and the backlogs of listeners do not count.
    ///
    /// ```no_run
    /// # use kube_informer::InformerFactory;
    /// # use k8s_openapi::api::core::v1::Pod;
    /// # async fn example(client: kube_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// let factory = InformerFactory::new(client).memory_max(256 << 20);
    /// let pods = factory.informer::<Pod>().start()?;
    /// pods.synced().await?;   // an error if the pods take more than 256 MiB
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn memory_max(mut self, bytes: usize) -> Self {
        self.budget = Some(Budget::new(bytes));
        self
    }

    /// An informer for a type with a static resource; shared once [started](InformerBuilder::start).
    pub fn informer<K>(&self) -> InformerBuilder<K>
    where
        K: KubeResource<DynamicType = ()> + DeserializeOwned + Send + Sync + 'static,
        K::Scope: 'static,
    {
        let is_namespaced = TypeId::of::<K::Scope>() != TypeId::of::<ClusterResourceScope>();
        self.prepare(Informer::builder(self.client.clone()), is_namespaced)
    }

    /// An informer for a resource known only at run time; shared once [started](InformerBuilder::start).
    pub fn dynamic(&self, resource: &ApiResource) -> InformerBuilder<DynamicObject> {
        self.prepare(Informer::dynamic(self.client.clone(), resource), true)
    }

    /// An informer without the defaults.
    pub(super) fn bare(&self, resource: &ApiResource) -> InformerBuilder<DynamicObject> {
        Informer::dynamic(self.client.clone(), resource).shared_by(self)
    }

    fn prepare<K>(&self, mut builder: InformerBuilder<K>, is_namespaced: bool) -> InformerBuilder<K>
    where
        K: DeserializeOwned + Send + Sync + 'static,
    {
        if let Some(defaults) = &self.defaults {
            builder = builder.with_defaults(defaults, is_namespaced);
        }
        builder.shared_by(self)
    }

    /// Adds another cluster; returns its factory. It has the defaults of this factory, and shares its limits: the initial lists of all
    /// clusters count for [`starts_max`](Self::starts_max), and their objects for [`memory_max`](Self::memory_max). A cluster that had
    /// the name is removed; its informers stop.
    ///
    /// ```no_run
    /// # use kube_informer::{Cluster, InformerFactory};
    /// # use k8s_openapi::api::core::v1::Pod;
    /// # async fn example(home: Cluster, east: Cluster) -> Result<(), Box<dyn std::error::Error>> {
    /// let factory = InformerFactory::new(home).memory_max(256 << 20);
    /// let pods = factory.add_cluster("east", east).informer::<Pod>().start()?;
    /// pods.synced().await?;
    /// assert!(factory.cluster("east").is_some());
    /// factory.remove_cluster("east").await;   // `pods` has stopped
    /// # Ok(()) }
    /// ```
    pub fn add_cluster(&self, name: &str, client: impl Into<Client>) -> Self {
        let (client, shared, server_is_newer, clusters) =
            (client.into(), Default::default(), Default::default(), Default::default());
        let added = Self { client, shared, server_is_newer, clusters, ..self.clone() };
        let replaced = self.clusters.lock().insert(name.to_owned(), added.clone());
        replaced.iter().for_each(Self::stop);
        added
    }

    /// The factory of a cluster that was added.
    pub fn cluster(&self, name: &str) -> Option<Self> {
        self.clusters.lock().get(name).cloned()
    }

    /// Removes a cluster: stops its informers, and waits until their tasks have ended. Returns whether there was one. The caller may
    /// still have clones of its factory: they must not start informers any more.
    ///
    /// # Cancel safety
    /// May be dropped at any point; the informers stop anyway.
    pub async fn remove_cluster(&self, name: &str) -> bool {
        let removed = self.clusters.lock().remove(name);
        let Some(removed) = removed else { return false };
        removed.shutdown().await;
        true
    }

    /// Waits until every informer that has handles is synced, or has a reason not to be. The informers of an
    /// [added cluster](Self::add_cluster) are awaited with that cluster's factory.
    ///
    /// # Errors
    /// Returns an error that names the informers whose list the server [refuses](SyncError::Refused) or that exceed the
    /// [memory budget](SyncError::OverBudget), and why. They keep trying.
    ///
    /// # Cancel safety
    /// May be dropped at any point; [`unsynced`](Self::unsynced) returns what is missing.
    pub async fn wait_for_sync(&self) -> Result<(), NotSynced> {
        let synced = join_all(self.cores().iter().map(|core| core.synced())).await;
        let refused =
            |result: Result<(), SyncError>| result.err().filter(|why| !matches!(why, SyncError::Stopped(_)));
        let missing = synced.into_iter().filter_map(refused).collect::<Vec<_>>();
        if missing.is_empty() { Ok(()) } else { Err(NotSynced { missing }) }
    }

    /// The informers that have handles and are not synced: the resource of each, and its state.
    pub fn unsynced(&self) -> Vec<(String, InformerState)> {
        let cores = self.cores();
        let missing = cores.iter().filter(|core| !core.is_stopped() && !*core.listeners.synced().borrow());
        missing.map(|core| (core.describe(), core.state())).collect()
    }

    /// Stops every informer, also of added clusters, and waits until all their tasks have ended. Handler calls in progress finish.
    ///
    /// # Cancel safety
    /// May be dropped at any point; the informers stop anyway.
    pub async fn shutdown(&self) {
        let mut all = self.clusters.lock().values().cloned().collect::<Vec<_>>();
        all.push(self.clone());
        all.iter().for_each(Self::stop);
        join_all(all.iter().map(Self::stopped)).await;
    }

    /// Stops the informers of this cluster.
    fn stop(&self) {
        self.cores().iter().for_each(|core| core.stop());
    }

    /// Waits until the tasks of this cluster's informers have ended.
    async fn stopped(&self) {
        let tasks = self.shared.lock().iter().map(|running| running.tasks.clone()).collect::<Vec<_>>();
        join_all(tasks.iter().map(TaskTracker::wait)).await;
    }

    /// The matching running informer, or a new one. Without `wanted`, always a new one.
    pub(super) fn share<K: Send + Sync + 'static>(
        &self,
        wanted: Option<Wanted>,
        decoder: Decoder<K>,
        settings: Settings,
        source: InformerSource,
    ) -> Result<(Arc<Owner>, Arc<Decoder<K>>), StartError> {
        let mut shared = self.shared.lock();
        // Forget informers that have ended.
        shared.retain(|running| running.owner.strong_count() > 0 || !running.tasks.is_empty());
        for running in shared.iter_mut().filter(|running| wanted.is_some() && running.wanted == wanted) {
            if let Some(owner) = running.owner.upgrade().filter(|owner| !owner.0.is_stopped()) {
                owner.0.ensure_indexes(&settings.indexes)?;
                let decoder = running.decoder(decoder.of_store(&owner.0.store));
                return Ok((owner, decoder));
            }
        }
        let owner = settings.start(source, self.starts.clone())?;
        let tasks = owner.0.tasks.clone();
        let mut running =
            SharedInformer { wanted, owner: Arc::downgrade(&owner), tasks, decoders: HashMap::new() };
        let decoder = running.decoder(decoder.of_store(&owner.0.store));
        shared.push(running);
        Ok((owner, decoder))
    }

    /// The informers that have handles.
    fn cores(&self) -> Vec<Arc<Core>> {
        self.shared.lock().iter().filter_map(|running| Some(running.owner.upgrade()?.0.clone())).collect()
    }
}

impl SharedInformer {
    /// The decoder that is already in use for a type, or else the new one.
    fn decoder<K: Send + Sync + 'static>(&mut self, new: Decoder<K>) -> Arc<Decoder<K>> {
        let known = self.decoders.get(&TypeId::of::<K>()).and_then(Weak::upgrade);
        if let Some(known) = known.and_then(|known| known.downcast().ok()) {
            return known;
        }
        let new = Arc::new(new);
        let erased: Arc<dyn Any + Send + Sync> = new.clone();
        self.decoders.insert(TypeId::of::<K>(), Arc::downgrade(&erased));
        new
    }
}

fn count_shared(shared: &Arc<Mutex<Vec<SharedInformer>>>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(f, "{} informers", shared.lock().len())
}

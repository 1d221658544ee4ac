//! The settings of a controller.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::time::Duration;

use futures::stream::BoxStream;
use futures::{FutureExt, Stream, StreamExt};
use kube_client::Client;
use kube_informer::{Index, Key, Object};
use kube_workqueue::{RateLimiter, WorkQueue};

use super::cluster_triggers::{ClusterTriggers, Plan};
use super::clusters::Members;
use super::context::Context;
use super::expected::{Expected, Progress};
use super::feed::{Feed, Wanted};
use super::intake::Intake;
use super::report::Reports;
use super::slot_keys::SlotKeys;
use super::trigger::Trigger;
use super::worker::{Job, Policy};
use super::writes::Writes;
use super::{Controller, Team};
use crate::action::{Action, Error, Failure, Retry};
use crate::error::BuildError;
use crate::leader::LeaderElection;
use crate::shards::ShardedLease;

/// The name of the index that [`ControllerBuilder::owns`] adds: children by the uids of their owners.
pub const OWNER_INDEX: &str = "owner-uid";

/// Settings of a [`Controller`]; see there for an example. `M` is the main kind, whose keys are reconciled.
#[must_use = "a controller does nothing until it is built and run"]
pub struct ControllerBuilder<M> {
    name: String,
    /// `None`: all clusters are added later.
    triggers: Option<ClusterTriggers<M>>,
    field_manager: Option<String>,
    deadline: Option<Duration>,
    feeds: Vec<BoxStream<'static, Wanted>>,
    limiter: Option<Box<dyn RateLimiter<Key>>>,
    policy: Policy,
    concurrency: usize,
    queue_capacity: Option<usize>,
    aging: Option<Duration>,
    grace: Duration,
    write_wait_max: Duration,
    leader: Option<LeaderElection>,
    shared: Option<ShardedLease>,
    #[cfg(feature = "metrics")]
    metrics: Option<crate::ControllerMetrics>,
}

/// Stands for the main kind of a controller whose clusters are all added while it runs: see
/// [`Controller::of_clusters`]. Each cluster brings its own triggers.
#[derive(Debug)]
pub struct EachCluster(
    /// Not `Send`: this hides the builder's methods for triggers, which require `Send`. Such a trigger would have no cluster.
    std::marker::PhantomData<*const ()>,
);

// === impl ControllerBuilder ===

impl<M: Send + Sync + 'static> ControllerBuilder<M> {
    pub(super) fn on(name: String, main: Trigger<M>) -> Self {
        Self { triggers: Some(ClusterTriggers::on(main)), ..Self::new(name) }
    }

    /// Reconciles an owner when an object of an owned kind changes. Owners are found by owner references of the main kind, in
    /// the old and the new state of a child. This includes children that were deleted while the watch was down.
    ///
    /// Children can be looked up by their owner's uid: see [`children`](crate::children).
    pub fn owns<K: Send + Sync + 'static>(self, children: impl Into<Trigger<K>>) -> Self {
        self.with(|triggers| triggers.owns(children))
    }

    /// As [`owns`](Self::owns), for children whose owner reference marks the owner as the managing controller
    /// (`controller: true`), as controller-runtime's `Owns`. [`Context::apply`] sets such a reference.
    pub fn controls<K: Send + Sync + 'static>(self, children: impl Into<Trigger<K>>) -> Self {
        self.with(|triggers| triggers.controls(children))
    }

    /// Reconciles the keys that a function returns when an object of another kind changes. For an update, both states are
    /// mapped, and no intermediate state is skipped.
    ///
    /// The function runs for every change and must not block: a function that cannot keep up with the changes delays its informer
    /// for all listeners. A panic is reported and counted as a handler's panic.
    pub fn watches<K, Keys>(
        self,
        informer: impl Into<Trigger<K>>,
        keys: impl Fn(&Object<K>) -> Keys + Send + Sync + 'static,
    ) -> Self
    where
        K: Send + Sync + 'static,
        Keys: IntoIterator<Item = Key>,
    {
        self.with(|triggers| triggers.watches(informer, keys))
    }

    /// Reconciles main objects that are related to a changed object. `values` returns index values for the changed object; the
    /// main objects with one of these values in `index` are reconciled. The index is added to the main informer if it is missing.
    ///
    /// An object in a namespace maps to main objects of that namespace and to cluster-scoped ones. A cluster-scoped object maps
    /// to main objects in all namespaces. For references across namespaces, use [`watches`](Self::watches).
    ///
    /// ```no_run
    /// # use k8s_openapi::api::{apps::v1::Deployment, core::v1::Secret};
    /// # use kube_informer::{Index, Informer};
    /// # use kube_informer_controller::Controller;
    /// # fn example(deployments: Informer<Deployment>, secrets: Informer<Secret>) {
    /// let by_secret = Index::field("secret", "spec.template.spec.volumes[*].secret.secretName");
    /// let controller = Controller::builder("restarter", &deployments)
    ///     .watches_related(&secrets, &by_secret, |secret| [secret.name().to_owned()]);
    /// # }
    /// ```
    pub fn watches_related<K, V>(
        self,
        informer: impl Into<Trigger<K>>,
        index: &Index,
        values: impl Fn(&Object<K>) -> V + Send + Sync + 'static,
    ) -> Self
    where
        K: Send + Sync + 'static,
        V: IntoIterator<Item = String>,
    {
        self.with(|triggers| triggers.watches_related(informer, index, values))
    }

    /// Reconciles the main objects that name a changed object in a field: `watches_referenced(&secrets, "spec.configSecret")`. The
    /// path leads to a name, or with `[*]` to several. An index on the field is added to the main informer.
    ///
    /// A namespaced object can only be named from its own namespace, or by a cluster-scoped main object.
    ///
    /// ```no_run
    /// # use k8s_openapi::api::{apps::v1::Deployment, core::v1::Secret};
    /// # use kube_informer::Informer;
    /// # use kube_informer_controller::Controller;
    /// # fn example(deployments: Informer<Deployment>, secrets: Informer<Secret>) {
    /// let controller = Controller::builder("restarter", &deployments)
    ///     .watches_referenced(&secrets, "spec.template.spec.volumes[*].secret.secretName");
    /// # }
    /// ```
    pub fn watches_referenced<K>(self, informer: impl Into<Trigger<K>>, path: &str) -> Self
    where
        K: Send + Sync + 'static,
    {
        self.with(|triggers| triggers.watches_referenced(informer, path))
    }

    /// Sets the client that [`Context::client`] uses. Default: the client of the main informer.
    pub fn client(self, client: impl Into<Client>) -> Self {
        self.with(|triggers| triggers.client(client))
    }

    fn with(mut self, change: impl FnOnce(ClusterTriggers<M>) -> ClusterTriggers<M>) -> Self {
        self.triggers = self.triggers.map(change);
        self
    }
}

impl<M> ControllerBuilder<M> {
    pub(super) fn new(name: String) -> Self {
        Self {
            name,
            triggers: None,
            field_manager: None,
            deadline: None,
            feeds: Vec::new(),
            limiter: None,
            policy: Box::new(|_| Retry::Backoff),
            concurrency: 1,
            queue_capacity: None,
            aging: None,
            grace: Duration::from_secs(30),
            write_wait_max: Duration::from_secs(30),
            leader: None,
            shared: None,
            #[cfg(feature = "metrics")]
            metrics: None,
        }
    }

    /// Reconciles the keys that a stream yields. Use it for sources outside Kubernetes.
    pub fn reconcile_on(mut self, keys: impl Stream<Item = Key> + Send + 'static) -> Self {
        self.feeds.push(keys.map(Wanted::One).boxed());
        self
    }

    /// Reconciles every key whenever a stream yields an item, at low priority.
    pub fn reconcile_all_on<T>(mut self, signals: impl Stream<Item = T> + Send + 'static) -> Self {
        self.feeds.push(signals.map(|_| Wanted::All).boxed());
        self
    }

    /// Sets the field manager of [`Context::apply`] and [`Context::patch_status`]. Default: the controller's name.
    pub fn field_manager(mut self, name: impl Into<String>) -> Self {
        self.field_manager = Some(name.into());
        self
    }

    /// Sets the time limit of one reconcile. A reconcile that exceeds it is dropped; the key fails and is retried with back-off.
    /// Default: no limit.
    pub fn deadline(mut self, limit: Duration) -> Self {
        self.deadline = Some(limit);
        self
    }

    /// Sets how many reconciles can run concurrently, each of a different key. Default: 1.
    pub fn concurrency(mut self, workers: usize) -> Self {
        self.concurrency = workers;
        self
    }

    /// Sets the back-off of failed keys. Default: [`kube_workqueue::default_limiter`], which is 5 ms × 2ⁿ up to 1,000 s per key,
    /// and ten retries per second for all keys together after a burst of 100. Success resets a key's back-off.
    pub fn backoff(mut self, limiter: impl RateLimiter<Key> + 'static) -> Self {
        self.limiter = Some(Box::new(limiter));
        self
    }

    /// Sets the policy for failures that are not terminal. Default: always [`Retry::Backoff`]. A panic in the policy counts as
    /// [`Retry::Backoff`].
    pub fn on_error(mut self, policy: impl Fn(Failure<'_>) -> Retry + Send + Sync + 'static) -> Self {
        self.policy = Box::new(policy);
        self
    }

    /// Sets how long running reconciles can take to finish after a stop. Default: 30 s.
    pub fn grace(mut self, limit: Duration) -> Self {
        self.grace = limit;
        self
    }

    /// Sets how long a key is deferred at most until the cache has its own writes, counted from the server's answer to the last
    /// write: see [`Context::wrote`]. Default: 30 s. Times over 30 years count as 30 years.
    ///
    /// While an informer that should receive the write is [degraded](kube_informer::InformerState::Degraded), the key is deferred
    /// regardless of this limit, unless the informer's only error is a silent watch.
    ///
    /// While a write is unanswered, the key is deferred regardless of this limit. An unanswered write fails 300 s after it was sent,
    /// or 60 s after its caller dropped it if that is earlier.
    pub fn write_wait_max(mut self, limit: Duration) -> Self {
        self.write_wait_max = limit;
        self
    }

    /// Sets how many keys can be queued before streams of keys ([`reconcile_on`](Self::reconcile_on)) wait. Default:
    /// [`kube_workqueue::Builder::CAPACITY`]. Keys from informers are always queued: each is queued once, so their number is
    /// limited by the number of objects.
    pub fn queue_capacity(mut self, keys: usize) -> Self {
        self.queue_capacity = Some(keys);
        self
    }

    /// Sets the waiting time after which a key's priority is raised by one point. Default: [`kube_workqueue::Builder::AGING`]. Keys
    /// of the initial list and of resyncs start with priority −100, all others with 0.
    pub fn aging(mut self, a_point: Duration) -> Self {
        self.aging = Some(a_point);
        self
    }

    /// Reconciles only while this replica leads. Informers are synced before, so failover is quick. For several controllers
    /// under one lease see [`Manager`](crate::Manager).
    pub fn leader(mut self, election: LeaderElection) -> Self {
        self.leader = Some(election);
        self
    }

    /// Reconciles only the keys of this replica's slots, so that several replicas work at the same time. The main informer should have
    /// the lease's [shard](ShardedLease::shard): then its memory is divided too. Informers of owned kinds can follow their owners:
    /// `.shard(lease.shard().by_owner())`. Informers without a shard are whole on every replica.
    ///
    /// ```no_run
    /// # use k8s_openapi::api::core::v1::ConfigMap;
    /// # use kube_informer::{Informer, Key};
    /// # use kube_informer_controller::{Action, Context, Controller, Error, ShardedLease};
    /// # fn example(client: kube_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// let lease = ShardedLease::new(client.clone(), "operators", "maps");
    /// let maps = Informer::<ConfigMap>::builder(client).shard(lease.shard()).start()?;
    /// let controller = Controller::builder("maps", &maps)
    ///     .shared(&lease)
    ///     .build((), async |ctx: Context, key: Key| {
    ///         println!("{key} under {:?}", ctx.term().map(|term| term.token().to_string()));
    ///         Ok::<_, Error>(Action::Done)
    ///     })?;
    /// # Ok(()) }
    /// ```
    pub fn shared(mut self, lease: &ShardedLease) -> Self {
        self.shared = Some(lease.clone());
        self
    }

    /// Reports to these metrics, labelled with the controller's name.
    #[cfg(feature = "metrics")]
    pub fn metrics(mut self, metrics: &crate::ControllerMetrics) -> Self {
        self.metrics = Some(metrics.clone());
        self
    }

    /// Checks the settings and registers listeners on the informers; nothing is reconciled before `run`. Every reconcile gets
    /// `data`, and returns [`Error`] or any error that converts into it.
    ///
    /// # Errors
    /// Returns an error if an informer has stopped, an index cannot be added, a filter is invalid, the concurrency is 0, or the work
    /// cannot be [shared](Self::shared).
    pub fn build<D, F, R, E>(self, data: D, reconcile: F) -> Result<Controller, BuildError>
    where
        D: Send + Sync + 'static,
        F: Fn(Context<D>, Key) -> R + Send + Sync + 'static,
        R: Future<Output = Result<Action, E>> + Send + 'static,
        E: Into<Error> + 'static,
    {
        let name = self.name;
        if self.concurrency == 0 {
            return Err(BuildError::NoWorkers { controller: name });
        }
        let mut queue = WorkQueue::builder().capacity(usize::MAX);
        if let Some(limiter) = self.limiter {
            queue = queue.rate_limiter(limiter);
        }
        if let Some(aging) = self.aging {
            queue = queue.aging(aging);
        }
        let reports = Reports::default();
        #[cfg(feature = "metrics")]
        let reports = match &self.metrics {
            Some(metrics) => {
                queue = queue.metrics(name.clone(), metrics.queues());
                metrics.reports(&name, self.concurrency)
            }
            None => reports,
        };
        let capacity = self.queue_capacity.unwrap_or(kube_workqueue::Builder::<Key>::CAPACITY).max(1);
        let plan = self.triggers.map(ClusterTriggers::into_plan);
        if let Some(lease) = &self.shared
            && let Err(reason) = can_share(lease, plan.as_ref(), self.leader.is_some())
        {
            return Err(BuildError::Sharing { controller: name, reason: reason.to_owned() });
        }
        let slot_keys = self.shared.as_ref().map(|lease| SlotKeys::new(lease.local_slots().clone()));
        let writes = Writes::new(self.write_wait_max);
        let intake = Arc::new(Intake::new(queue.build(), capacity, writes, slot_keys));
        let name = Arc::<str>::from(name);
        let field_manager = self.field_manager.unwrap_or_else(|| name.to_string());
        let (members, added) = Members::new(name.clone(), intake.clone(), field_manager);
        if let Some(plan) = plan {
            members.add(None, plan)?;
        }
        let keys = {
            let members = Arc::downgrade(&members);
            move || {
                let members = members.upgrade().map(|members| members.all()).unwrap_or_default();
                members.iter().flat_map(|member| (member.keys)()).collect()
            }
        };
        let progress = {
            let members = Arc::downgrade(&members);
            move |key: &Key, expected: &Expected| {
                let member = members.upgrade().and_then(|members| members.get(key.cluster()));
                member.map_or(Progress::Pending, |member| member.tools.progress(expected))
            }
        };
        let is_failing = {
            let members = Arc::downgrade(&members);
            move |key: &Key, expected: &Expected| {
                let member = members.upgrade().and_then(|members| members.get(key.cluster()));
                member.is_some_and(|member| member.tools.fails_to_receive(expected))
            }
        };
        let (keys, progress, is_failing) = (Box::new(keys), Box::new(progress), Box::new(is_failing));
        let feed = Feed { intake: intake.clone(), keys, progress, is_failing, streams: self.feeds, added };
        let job = Job {
            name,
            data: Arc::new(data),
            intake,
            members,
            reconcile: Box::new(move |context, key| {
                reconcile(context, key).map(|done| done.map_err(Into::into)).boxed()
            }),
            policy: self.policy,
            reports,
            deadline: self.deadline,
            reconciles: AtomicU64::new(0),
            cut_short: AtomicUsize::new(0),
        };
        let (concurrency, grace) = (self.concurrency, self.grace);
        let team = Team { job: Arc::new(job), concurrency, grace };
        let (leader, shared) = (self.leader, self.shared);
        Ok(Controller { managed: Box::new(team), feed: feed.run().boxed(), leader, shared })
    }
}

/// Whether replicas can share the work of a controller.
fn can_share(lease: &ShardedLease, plan: Option<&Plan>, has_leader: bool) -> Result<(), &'static str> {
    let Some(plan) = plan else { return Err("a controller of several clusters cannot be shared") };
    if has_leader {
        return Err("it has a leader election; use either of them");
    }
    if plan.shard.as_ref().is_some_and(|shard| shard != lease.shard()) {
        return Err(
            "its main informer has the shard of another lease, or one by owner, label or field; start it with `ShardedLease::shard` of this one, after all settings",
        );
    }
    if !lease.is_by_namespace() && plan.owned_shards.contains(lease.shard()) {
        return Err(
            "the informer of an owned kind is divided by the uids of its own objects, so it lacks most children; start it with `lease.shard().by_owner()`",
        );
    }
    Ok(())
}

impl<M> fmt::Debug for ControllerBuilder<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ControllerBuilder")
            .field("name", &self.name)
            .field("triggers", &self.triggers)
            .field("concurrency", &self.concurrency)
            .finish_non_exhaustive()
    }
}

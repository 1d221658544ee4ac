//! The settings of replicas that share the work, and the handle to this replica's part of it.

use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use kube_client::Client;
use kube_informer::{AssignedShard, InvalidShard, Shard};

use super::seat::LeaseClock;
use super::slots::Slots;
use super::status::{RunningShare, ShardStatus, StatusCell};
use crate::RunError;
use crate::leader::LeaseTiming;

/// Lets all replicas of a controller work at the same time, each on its part of the objects. Cheap to clone.
///
/// The objects are divided into slots by the hash of their uid. Each slot has one owner; the slots of a replica that ends or crashes
/// go to the others. Every reconcile has the fencing token of its slot: see [`Context::term`](crate::Context::term).
///
/// ```no_run
/// # use k8s_openapi::api::apps::v1::Deployment;
/// # use kube_informer::{Informer, Key};
/// # use kube_informer_controller::{Action, Context, Controller, Error, ShardedLease, Stop};
/// # async fn reconcile(_: Context, _: Key) -> Result<Action, Error> { Ok(Action::Done) }
/// # async fn example(client: kube_client::Client, stop: Stop) -> Result<(), Box<dyn std::error::Error>> {
/// let lease = ShardedLease::new(client.clone(), "operators", "restarter");
/// let deployments = Informer::<Deployment>::builder(client).shard(lease.shard()).start()?;
/// Controller::builder("restarter", &deployments)
///     .shared(&lease)
///     .build((), reconcile)?
///     .run(&stop)
///     .await?;
/// # Ok(()) }
/// ```
///
/// All objects are Leases in one namespace, with the label `kube-informer/sharded-lease`: one per replica (`NAME-seat-0`, …), and
/// one per 256 slots (`NAME-slots-0`, …). The account needs `get`, `list`, `watch`, `create` and `update` on them. The guide is
/// `docs/scaling.md` of the repository.
#[derive(Clone)]
#[must_use = "a lease does nothing until a controller with it is run"]
pub struct ShardedLease {
    pub(super) client: Client,
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) identity: String,
    pub(super) weight: u32,
    pub(super) timing: LeaseTiming,
    pub(super) seed: Option<u64>,
    pub(super) clock: LeaseClock,
    pub(super) status: Arc<StatusCell>,
    #[cfg(feature = "metrics")]
    metrics: Vec<super::ShardMetrics>,
}

// === impl ShardedLease: settings ===

impl ShardedLease {
    /// Replicas with the same namespace and name share the work. Nothing is sent before a controller with this lease runs.
    pub fn new(client: impl Into<Client>, namespace: &str, name: &str) -> Self {
        // In a pod, this is the pod's name.
        let identity = std::env::var("HOSTNAME").unwrap_or_else(|_| "replica".to_owned());
        Self {
            client: client.into(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            identity,
            weight: 1,
            timing: LeaseTiming::default(),
            seed: None,
            clock: Arc::new(SystemTime::now),
            status: StatusCell::new(name, Slots::default()),
            #[cfg(feature = "metrics")]
            metrics: Vec::new(),
        }
    }

    /// Sets the number of slots. Default: 64, enough for about 16 replicas. All replicas must use the same number; `run` fails if they do
    /// not. Call this before [`shard`](Self::shard).
    ///
    /// # Errors
    /// Returns an error if the number is 0 or more than [`Shard::SLOTS_MAX`].
    pub fn slots(self, number: u32) -> Result<Self, InvalidShard> {
        let slots = Slots::new(number)?;
        let slots = if self.is_by_namespace() { slots.by_namespace() } else { slots };
        Ok(self.with_slots(slots))
    }

    /// Divides the objects by namespace instead of by uid: all objects of a namespace have the same owner. All replicas must do the
    /// same. Call this before [`shard`](Self::shard).
    pub fn by_namespace(self) -> Self {
        let slots = self.status.slots().by_namespace();
        self.with_slots(slots)
    }

    fn with_slots(self, slots: Slots) -> Self {
        let lease = Self { status: StatusCell::new(&self.name, slots), ..self };
        #[cfg(feature = "metrics")]
        lease.metrics.iter().for_each(|metrics| metrics.add(&lease.status));
        lease
    }

    /// Sets the times. All replicas should use the same ones. A crashed replica's slots are unowned for at most the lease duration, 2.2
    /// retry periods, and the time that the caches of the next owner need. A new group begins to work after the lease duration.
    pub fn timing(mut self, timing: LeaseTiming) -> Self {
        self.timing = timing.consistent();
        self
    }

    /// Sets the first part of the replica's identity. Default: the environment variable `HOSTNAME`, in a pod the pod's name. The
    /// second part is random.
    pub fn identity(mut self, name: &str) -> Self {
        name.clone_into(&mut self.identity);
        self
    }

    /// Sets this replica's share of the slots relative to others: 2 for twice as many as a replica of weight 1, 0 for none. Default: 1.
    pub fn weight(mut self, weight: u32) -> Self {
        self.weight = weight;
        self
    }

    /// Makes identities and waits reproducible. Each replica needs its own seed.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Sets the clock whose time is written into leases. That time is informational. Default: the system clock.
    pub fn clock(mut self, now: impl Fn() -> SystemTime + Send + Sync + 'static) -> Self {
        self.clock = Arc::new(now);
        self
    }

    /// Reports to these metrics, labelled with the lease's name.
    #[cfg(feature = "metrics")]
    pub fn metrics(mut self, metrics: &super::ShardMetrics) -> Self {
        metrics.add(&self.status);
        self.metrics.push(metrics.clone());
        self
    }
}

// === impl ShardedLease: this replica's part ===

impl ShardedLease {
    /// This replica's slots, for [`InformerBuilder::shard`](kube_informer::InformerBuilder::shard) of the controller's main informer.
    /// It has none until the controller runs. Only the controller changes it.
    ///
    /// For an informer of a kind that the controller owns, pass [`shard().by_owner()`](AssignedShard::by_owner): this replica then keeps
    /// only the children of its own objects. For a related kind, pass [`shard().by_label(…)`](AssignedShard::by_label) if a label has
    /// the uid of the main kind's object.
    pub fn shard(&self) -> &AssignedShard {
        self.status.slots().assigned()
    }

    /// What this replica does now.
    pub fn status(&self) -> ShardStatus {
        self.status.get()
    }

    pub(crate) fn local_slots(&self) -> &Arc<Slots> {
        self.status.slots()
    }

    /// Whether the slots are by namespace.
    pub(crate) fn is_by_namespace(&self) -> bool {
        self.status.slots().division().by_namespace
    }

    /// The lease, as `namespace/name`.
    pub(crate) fn full_name(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }

    /// Whether both are handles to the same part.
    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.status, &other.status)
    }

    pub(super) fn error(&self, reason: &impl fmt::Display) -> RunError {
        RunError::Sharing { lease: self.full_name(), reason: reason.to_string() }
    }

    /// Ensures that one manager runs it.
    pub(super) fn begin(&self) -> Result<RunningShare, RunError> {
        let running = self.status.clone().begin();
        running.ok_or_else(|| {
            self.error(&"it already runs in this process; use one manager for all its controllers")
        })
    }
}

impl fmt::Debug for ShardedLease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ShardedLease")
            .field("lease", &self.full_name())
            .field("identity", &self.identity)
            .field("weight", &self.weight)
            .field("timing", &self.timing)
            .field("shard", &self.shard().get())
            .finish_non_exhaustive()
    }
}

/// 64 slots by uid.
impl Default for Slots {
    fn default() -> Self {
        // The default number is valid.
        Self::new(Shard::SLOTS).unwrap_or_else(|error| unreachable!("{error}"))
    }
}

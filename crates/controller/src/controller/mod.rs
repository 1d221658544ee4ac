//! Controllers: informers fill a work queue, and workers take keys from it.
//!
//! Every change becomes keys of the main kind ([`trigger`], [`feed`]). Each key is queued once ([`intake`]) and reconciled by one
//! worker at a time ([`worker`]). A reconcile receives only the key of an object, not the changes, so missed, repeated or reordered
//! events make no difference.

#[cfg(feature = "testing")]
pub(crate) mod activity;
mod apply;
mod builder;
mod cluster_triggers;
mod clusters;
mod context;
mod expect;
mod expected;
mod feed;
mod filter;
mod intake;
mod live_read;
mod predicate;
mod report;
mod request;
mod sharing;
mod slot_keys;
#[cfg(feature = "testing")]
pub(crate) mod test_context;
mod tools;
mod tracking;
mod trigger;
mod unsettled;
mod worker;
mod writes;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use kube_informer::internals::in_process;
use kube_informer::{IndexError, Lister, Object};
use tokio::task::JoinSet;

pub use apply::{WriteError, retry_on_conflict};
pub use builder::{ControllerBuilder, EachCluster, OWNER_INDEX};
pub use cluster_triggers::ClusterTriggers;
pub use clusters::Clusters;
pub use context::Context;
pub use filter::Filter;
pub use predicate::{Predicate, Update};
#[cfg(feature = "metrics")]
pub use report::ControllerMetrics;
pub use trigger::Trigger;

use crate::leader::{LeaderElection, Term};
pub(crate) use sharing::CannotCatchUp;

use crate::shards::{ShardedLease, WrittenVersions};
use crate::{Manager, RunError, Stop};
use tracking::SentWrites;
use worker::Job;

/// Watches the objects of one kind and everything that belongs to them, and calls your reconcile function with the key of each
/// object that may need work.
///
/// ```
/// # use std::sync::Arc;
/// # use k8s_openapi::api::core::v1::ConfigMap;
/// # use kube_informer::{Informer, Key, testing::ScriptedSource};
/// # use serde_json::json;
/// use kube_informer_controller::{Action, Context, Controller, Error, Stop};
///
/// struct Data { maps: Informer<ConfigMap>, stop: Stop }
///
/// async fn reconcile(ctx: Context<Data>, key: Key) -> Result<Action, Error> {
///     let Some(map) = ctx.data().maps.lister().get(&key) else { return Ok(Action::Done) }; // it was deleted
///     println!("{} has {} entries", key, map.decode()?.data.iter().flatten().count());
///     # ctx.data().stop.stop();
///     Ok(Action::Done)
/// }
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = ScriptedSource::new("v1", "ConfigMap");
/// # server.put(json!({"metadata": {"namespace": "web", "name": "settings"}}));
/// let maps = Informer::<ConfigMap>::from_source(Arc::new(server)).start()?;
/// let stop = Stop::new();
/// let data = Data { maps: maps.clone(), stop: stop.clone() };
/// Controller::builder("maps", &maps).concurrency(4).build(data, reconcile)?.run(&stop).await?;
/// # Ok(()) }
/// ```
///
/// The same key is never reconciled twice concurrently. Changes from before `run` wait in the queue. Dropping the controller,
/// built or running, stops everything immediately.
#[must_use = "a controller does nothing until it is run"]
pub struct Controller {
    managed: Box<dyn Managed>,
    feed: BoxFuture<'static, ()>,
    leader: Option<LeaderElection>,
    shared: Option<ShardedLease>,
}

/// The parts of a controller.
pub(crate) struct ControllerParts {
    pub(crate) managed: Box<dyn Managed>,
    pub(crate) feed: BoxFuture<'static, ()>,
    pub(crate) leader: Option<LeaderElection>,
    pub(crate) shared: Option<ShardedLease>,
}

/// A controller with the type of its data erased.
pub(crate) trait Managed: Send + Sync {
    fn name(&self) -> &Arc<str>;

    /// Waits until all informers are synced and the keys of their initial lists are queued.
    fn synced(&self) -> BoxFuture<'_, Result<(), RunError>>;

    /// Returns a function that reports whether it is synced; false after the controller has ended.
    fn probe(&self) -> Box<dyn Fn() -> bool + Send + Sync>;

    /// Returns a function that reports why the controller has not settled at these revisions of its servers; `None` if it has.
    #[cfg(feature = "testing")]
    fn unsettled(&self) -> activity::SettledCheck;

    /// The clusters of the controller.
    fn clusters(&self) -> Clusters;

    /// Reconciles until stopped and drained, or until leadership is lost. Returns the number of cancelled reconciles.
    fn work<'a>(&'a self, stop: &'a Stop, term: Option<Term>) -> BoxFuture<'a, usize>;

    /// Whether replicas share its work.
    fn is_shared(&self) -> bool;

    /// How long running reconciles can take to finish.
    fn grace(&self) -> Duration;

    /// The server's current resourceVersion of each watched resource.
    fn server_versions(&self) -> BoxFuture<'_, Result<WrittenVersions, CannotCatchUp>>;

    /// Waits until the caches have the assigned shard, and everything up to these resourceVersions.
    fn caught_up<'a>(&'a self, needed: &'a WrittenVersions) -> BoxFuture<'a, Result<(), CannotCatchUp>>;

    /// Whether an informer has stopped, so that nothing can be reconciled any more.
    fn is_stopped(&self) -> bool;

    /// Waits until an informer has stopped. Named clusters do not count.
    fn stopped(&self) -> BoxFuture<'_, ()>;

    /// Queues all keys of slots.
    fn queue_slots(&self, slots: &[u32]);
}

struct Team<D> {
    job: Arc<Job<D>>,
    concurrency: usize,
    grace: Duration,
}

// === impl Controller ===

impl Controller {
    /// Configures a controller of the objects of this informer. The name appears in logs and metrics.
    pub fn builder<M: Send + Sync + 'static>(
        name: impl Into<String>,
        main: impl Into<Trigger<M>>,
    ) -> ControllerBuilder<M> {
        ControllerBuilder::on(name.into(), main.into())
    }

    /// Configures a controller of several clusters. It has none at first: add them with [`clusters`](Self::clusters), before or while
    /// it runs. See [`Clusters`] for an example.
    pub fn of_clusters(name: impl Into<String>) -> ControllerBuilder<EachCluster> {
        ControllerBuilder::new(name.into())
    }

    /// Adds and removes clusters. A controller that was built with a main informer can have others in addition.
    pub fn clusters(&self) -> Clusters {
        self.managed.clusters()
    }

    /// The name.
    pub fn name(&self) -> &str {
        self.managed.name()
    }

    /// Runs until stopped. Waits until the informers are synced and, with a leader election, until this replica leads; then
    /// reconciles. With a [sharded lease](ControllerBuilder::shared), it reconciles the keys of its slots, and hands its slots over when it
    /// is stopped.
    ///
    /// If the server refuses an informer, because its definition is not installed or a role is missing, `run` returns an error.
    /// The informer itself keeps retrying. To wait for a definition that is installed later, wait for its informer first:
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use kube_informer::{Informer, SyncError};
    /// async fn served<K: Send + Sync + 'static>(informer: &Informer<K>) -> Result<(), SyncError> {
    ///     loop {
    ///         match informer.synced().await {
    ///             Err(SyncError::Refused { status, .. }) if status.code == 404 => {
    ///                 tokio::time::sleep(Duration::from_secs(5)).await;
    ///             }
    ///             ended => return ended,
    ///         }
    ///     }
    /// }
    /// ```
    ///
    /// # Errors
    /// Returns an error if the server refuses an informer's initial list, if an informer has stopped, or if reconciles were
    /// cancelled at the end. After losing leadership, the controller waits to lead again instead.
    ///
    /// # Cancel safety
    /// Dropping it stops everything immediately, running reconciles included. A held lease is left to expire, and its
    /// [term](Term) is lost.
    pub async fn run(self, stop: &Stop) -> Result<(), RunError> {
        Manager::new().controller(self).run(stop).await
    }

    pub(crate) fn into_parts(self) -> ControllerParts {
        let Self { managed, feed, leader, shared } = self;
        ControllerParts { managed, feed, leader, shared }
    }
}

impl fmt::Debug for Controller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Controller").field("name", &self.name()).finish_non_exhaustive()
    }
}

/// The children of an owner, of a kind that some controller [`owns`](ControllerBuilder::owns).
///
/// # Errors
/// Returns an error if no controller owns the kind: the index is missing.
pub fn children<K>(lister: &Lister<K>, owner_uid: &str) -> Result<Vec<Object<K>>, IndexError> {
    lister.by_index(OWNER_INDEX, owner_uid)
}

// === impl Team ===

impl<D: Send + Sync + 'static> Managed for Team<D> {
    fn name(&self) -> &Arc<str> {
        &self.job.name
    }

    fn synced(&self) -> BoxFuture<'_, Result<(), RunError>> {
        let error = |source| RunError::Sync { controller: self.job.name.to_string(), source };
        self.job.members.synced().map(move |synced| synced.map_err(error)).boxed()
    }

    fn probe(&self) -> Box<dyn Fn() -> bool + Send + Sync> {
        let members = Arc::downgrade(&self.job.members);
        Box::new(move || members.upgrade().is_some_and(|members| members.is_synced()))
    }

    #[cfg(feature = "testing")]
    fn unsettled(&self) -> activity::SettledCheck {
        let job = Arc::downgrade(&self.job);
        Box::new(move |revisions| job.upgrade().and_then(|job| job.unsettled(revisions)))
    }

    fn clusters(&self) -> Clusters {
        self.job.members.handle()
    }

    fn work<'a>(&'a self, stop: &'a Stop, term: Option<Term>) -> BoxFuture<'a, usize> {
        let sent = SentWrites::default();
        let worker = {
            let (term, sent) = (term.clone(), sent.clone());
            move || self.job.clone().work(stop.clone(), term.clone(), sent.clone())
        };
        let mut workers = JoinSet::new();
        for _ in 0..self.concurrency {
            workers.spawn(in_process(worker()));
        }
        let work = async move {
            let _sent = sent.guard();
            let cut_short = async {
                tokio::select! {
                    biased;
                    () = lost(term.as_ref()) => "leadership was lost",
                    () = stop.aborting() => "stopped twice",
                    () = async { stop.stopping().await; tokio::time::sleep(self.grace).await } => "the grace period ended",
                }
            };
            let all_done = async {
                while let Some(ended) = workers.join_next().await {
                    // The worker calls the user's rate limiter and the main trigger's filter directly. `Taken` queues its key again.
                    if let Err(error) = ended
                        && error.is_panic()
                    {
                        tracing::error!(controller = %self.job.name, %error, "a worker panicked; starting another");
                        workers.spawn(in_process(worker()));
                    }
                }
                sent.finished().await;
            };
            tokio::select! {
                biased;
                why = cut_short => {
                    tracing::info!(controller = %self.job.name, why, "cancelling reconciles");
                    workers.abort_all();
                    // Wait for the cancelled workers: each can still act until its next await.
                    while workers.join_next().await.is_some() {}
                    sent.cancel().await;
                    self.job.cut_short.swap(0, Ordering::Relaxed)
                }
                () = all_done => 0,
            }
        };
        work.boxed()
    }

    fn is_shared(&self) -> bool {
        self.job.intake.slot_keys.is_some()
    }

    fn grace(&self) -> Duration {
        self.grace
    }

    fn server_versions(&self) -> BoxFuture<'_, Result<WrittenVersions, CannotCatchUp>> {
        self.read_versions().boxed()
    }

    fn caught_up<'a>(&'a self, needed: &'a WrittenVersions) -> BoxFuture<'a, Result<(), CannotCatchUp>> {
        self.catch_up(needed).boxed()
    }

    fn is_stopped(&self) -> bool {
        self.has_stopped_informer()
    }

    fn stopped(&self) -> BoxFuture<'_, ()> {
        self.job.members.stopped().boxed()
    }

    fn queue_slots(&self, slots: &[u32]) {
        self.queue_keys(slots);
    }
}

async fn lost(term: Option<&Term>) {
    match term {
        Some(term) => term.lost().await,
        None => futures::future::pending().await,
    }
}

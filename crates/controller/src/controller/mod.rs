//! Controllers: informers in front, a queue in the middle, workers behind.
//!
//! Whatever happens is turned into keys of the main kind ([`trigger`], [`feed`]), which are queued once ([`intake`]) and
//! reconciled one worker a key ([`worker`]). A reconcile is told *which* object to look at and never what has happened to
//! it, so that a missed, repeated or reordered event makes no difference.

mod builder;
mod context;
mod feed;
mod intake;
mod predicate;
mod report;
mod trigger;
mod worker;
mod writes;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use kube_informer::{IndexError, Lister, Object};
use tokio::task::JoinSet;

pub use builder::{ControllerBuilder, OWNER_INDEX};
pub use context::Context;
pub use predicate::{Predicate, Update};
#[cfg(feature = "metrics")]
pub use report::ControllerMetrics;
pub use trigger::Trigger;

use crate::leader::{LeaderElection, Term};
use crate::{Manager, RunError, Stop};
use trigger::Listening;
use worker::Job;

/// Keeps the world as the objects of one kind say it should be: watches them and what belongs to them, and calls a
/// function with the key of each that may need something done.
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
///     let Some(map) = ctx.data().maps.lister().get(&key) else { return Ok(Action::Done) }; // it is gone
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
/// The same key is never reconciled twice at the same time. Events from before the controller runs wait in its queue.
/// Dropping it, built or running, stops everything at once.
#[must_use = "a controller does nothing until it is run"]
pub struct Controller {
    managed: Box<dyn Managed>,
    feed: BoxFuture<'static, ()>,
    leader: Option<LeaderElection>,
}

/// A controller without the type of its data.
pub(crate) trait Managed: Send + Sync {
    fn name(&self) -> &Arc<str>;

    /// Waits until all informers are synced and the keys of their initial states are queued.
    fn synced(&self) -> BoxFuture<'_, Result<(), RunError>>;

    /// Looks whether that is so, from anywhere; no longer when it has ended.
    fn probe(&self) -> Box<dyn Fn() -> bool + Send + Sync>;

    /// Works until told to stop and done, or leadership is lost. Gives the number of reconciles that were cut short.
    fn work<'a>(&'a self, stop: &'a Stop, term: Option<Term>) -> BoxFuture<'a, usize>;
}

struct Team<D> {
    job: Arc<Job<D>>,
    listening: Arc<Vec<Listening>>,
    concurrency: usize,
    grace: Duration,
}

// === impl Controller ===

impl Controller {
    /// Settings for a controller of the objects of this informer, with a name for logs and metrics.
    pub fn builder<M: Send + Sync + 'static>(
        name: impl Into<String>,
        main: impl Into<Trigger<M>>,
    ) -> ControllerBuilder<M> {
        ControllerBuilder::new(name.into(), main.into())
    }

    /// The name.
    pub fn name(&self) -> &str {
        self.managed.name()
    }

    /// Runs until told to stop: waits until the informers are synced, then (as soon as it leads, if there is a leader
    /// election) reconciles.
    ///
    /// An informer that the server refuses, because its definition is not installed or its role is missing, ends it: whoever
    /// starts the program should hear of that. The informer itself goes on trying. To wait for a definition that somebody
    /// else will install, wait for its informer first:
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
    /// If an informer is refused its first state or stopped before, or reconciles were cut short in the end. Losing
    /// leadership is no error: it waits to lead again.
    ///
    /// # Cancel safety
    /// Dropping it stops everything at once, running reconciles included; a lease it holds is left to expire,
    /// its [term](Term) is lost.
    pub async fn run(self, stop: &Stop) -> Result<(), RunError> {
        Manager::new().controller(self).run(stop).await
    }

    pub(crate) fn into_parts(self) -> (Box<dyn Managed>, BoxFuture<'static, ()>, Option<LeaderElection>) {
        (self.managed, self.feed, self.leader)
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
/// If no controller owns the kind: the index is not there.
pub fn children<K>(lister: &Lister<K>, owner_uid: &str) -> Result<Vec<Object<K>>, IndexError> {
    lister.by_index(OWNER_INDEX, owner_uid)
}

// === impl Team ===

impl<D: Send + Sync + 'static> Managed for Team<D> {
    fn name(&self) -> &Arc<str> {
        &self.job.name
    }

    fn synced(&self) -> BoxFuture<'_, Result<(), RunError>> {
        let synced = async {
            for watched in &self.job.tools.watched {
                watched.synced().await?;
            }
            for listening in &*self.listening {
                listening.synced().await?;
            }
            Ok(())
        };
        let error = |source| RunError::Sync { controller: self.job.name.to_string(), source };
        synced.map(move |synced| synced.map_err(error)).boxed()
    }

    fn probe(&self) -> Box<dyn Fn() -> bool + Send + Sync> {
        let (listening, tools) = (Arc::downgrade(&self.listening), Arc::downgrade(&self.job.tools));
        Box::new(move || {
            let (Some(listening), Some(tools)) = (listening.upgrade(), tools.upgrade()) else { return false };
            tools.watched.iter().all(|watched| watched.is_synced())
                && listening.iter().all(Listening::is_synced)
        })
    }

    fn work<'a>(&'a self, stop: &'a Stop, term: Option<Term>) -> BoxFuture<'a, usize> {
        let worker = {
            let term = term.clone();
            move || self.job.clone().work(stop.clone(), term.clone())
        };
        let mut workers = JoinSet::new();
        for _ in 0..self.concurrency {
            workers.spawn(worker());
        }
        let work = async move {
            let cut_short = async {
                tokio::select! {
                    biased;
                    () = lost(term.as_ref()) => "leadership is lost",
                    () = stop.aborting() => "stopped a second time",
                    () = async { stop.stopping().await; tokio::time::sleep(self.grace).await } => "the grace period is over",
                }
            };
            let all_done = async {
                while let Some(ended) = workers.join_next().await {
                    // Of what users have given, the rate limiter is called by the worker itself. Its key is queued again.
                    if let Err(error) = ended
                        && error.is_panic()
                    {
                        tracing::error!(controller = %self.job.name, %error, "a worker panicked; another takes its place");
                        workers.spawn(worker());
                    }
                }
            };
            tokio::select! {
                biased;
                why = cut_short => {
                    tracing::info!(controller = %self.job.name, why, "cutting reconciles short");
                    workers.abort_all();
                    // Each ends at its next await; until then it may still act.
                    while workers.join_next().await.is_some() {}
                    self.job.cut_short.swap(0, Ordering::Relaxed)
                }
                () = all_done => 0,
            }
        };
        work.boxed()
    }
}

async fn lost(term: Option<&Term>) {
    match term {
        Some(term) => term.lost().await,
        None => futures::future::pending().await,
    }
}

//! Several controllers in one program: synced together, run under one lease, stopped together.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures::future::{BoxFuture, join, join_all, pending, try_join_all};
use kube_informer::{Stopped, SyncError};
use parking_lot::Mutex;

use crate::controller::{ControllerParts, Managed};
use crate::deliberate_bug::deliberate_bug;
use crate::leader::{LeaderElection, Outcome, Term};
use crate::runnables::{LeaderRunnable, Runnable};
use crate::shards::{ShardedLease, share};
use crate::{Controller, Error, RunError, Stop};

/// Runs controllers together, under one lease if there is a leader election, with everything else that the program runs.
///
/// | order | start | stop |
/// |---|---|---|
/// | 1 | [runnables](Self::runnable), in the order of the calls | controllers and leader runnables finish |
/// | 2 | informers sync | the lease is released |
/// | 3 | with a leader election, this replica acquires the lease | runnables stop, the last one first |
/// | 4 | controllers and [leader runnables](Self::leader_runnable) | |
///
/// ```no_run
/// # use kube_informer_controller::{Controller, LeaderElection, Manager, Stop};
/// # async fn example(websites: Controller, certificates: Controller, client: kube_client::Client)
/// # -> Result<(), Box<dyn std::error::Error>> {
/// let stop = Stop::new();
/// Manager::new()
///     .controller(websites)
///     .controller(certificates)
///     .leader(LeaderElection::new(client, "operators", "web"))
///     .run(&stop)
///     .await?;
/// # Ok(()) }
/// ```
#[derive(Default)]
#[must_use = "a manager does nothing until it is run"]
pub struct Manager {
    controllers: Vec<Box<dyn Managed>>,
    feeds: Vec<BoxFuture<'static, ()>>,
    /// At most one, or `run` fails.
    elections: Vec<LeaderElection>,
    /// At most one, or `run` fails.
    shared: Vec<ShardedLease>,
    runnables: Vec<Runnable>,
    leader_runnables: Vec<LeaderRunnable>,
    grace: Option<Duration>,
}

/// How long runnables can take to end after a stop, unless set.
const GRACE: Duration = Duration::from_secs(30);

/// Reports whether the informers and handlers of a controller are synced.
#[derive(Clone)]
pub struct SyncProbe {
    name: Arc<str>,
    synced: Arc<dyn Fn() -> bool + Send + Sync>,
}

// === impl Manager ===

impl Manager {
    /// A manager without controllers.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a controller. Its leader election, if it has one, applies to all controllers of the manager. Controllers that are
    /// [shared](crate::ControllerBuilder::shared) have the same sharded lease; the others work on every replica.
    pub fn controller(mut self, controller: Controller) -> Self {
        let ControllerParts { managed, feed, leader, shared } = controller.into_parts();
        self.controllers.push(managed);
        self.feeds.push(feed);
        self.elections.extend(leader);
        let new = shared.filter(|lease| !self.shared.iter().any(|known| known.is(lease)));
        self.shared.extend(new);
        self
    }

    /// Runs all controllers only while this replica leads. A manager has at most one leader election, its controllers' included:
    /// a second one is an error of [`run`](Self::run).
    pub fn leader(mut self, election: LeaderElection) -> Self {
        self.elections.push(election);
        self
    }

    /// Runs a future as long as the manager: a server, an [`EventRecorder`](crate::EventRecorder), a periodic job. It starts before
    /// the informers are synced, on every replica, and is stopped after all controllers have finished. Several stop one after another,
    /// the last one first. It should end soon after its [`Stop`] is stopped; it may end earlier.
    ///
    /// If it fails or panics, everything is stopped, and [`run`](Self::run) returns the error.
    ///
    /// ```no_run
    /// # use kube_informer_controller::{Controller, Error, EventRecorder, Manager, Stop};
    /// # use std::time::Duration;
    /// # async fn example(websites: Controller, recorder: EventRecorder, stop: Stop) -> Result<(), Box<dyn std::error::Error>> {
    /// let events = recorder.clone();
    /// Manager::new()
    ///     .controller(websites)
    ///     .runnable("events", async move |stop| {
    ///         tokio::select! {
    ///             () = events.run() => {}
    ///             () = stop.stopping() => {}
    ///         }
    ///         events.flush(Duration::from_secs(5)).await; // what the controllers recorded at the end
    ///         Ok::<_, Error>(())
    ///     })
    ///     .run(&stop)
    ///     .await?;
    /// # Ok(()) }
    /// ```
    pub fn runnable<R, E>(
        mut self,
        name: impl Into<String>,
        run: impl FnOnce(Stop) -> R + Send + 'static,
    ) -> Self
    where
        R: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<Error> + 'static,
    {
        self.runnables.push(Runnable::new(name.into(), run));
        self
    }

    /// Runs a future while this replica leads, next to the controllers: started in each term, cancelled when leadership is lost. Without
    /// a leader election it runs once, from when the informers are synced. Otherwise as [`runnable`](Self::runnable).
    pub fn leader_runnable<R, E>(
        mut self,
        name: impl Into<String>,
        run: impl Fn(Stop, Option<Term>) -> R + Send + Sync + 'static,
    ) -> Self
    where
        R: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<Error> + 'static,
    {
        self.leader_runnables.push(LeaderRunnable::new(name.into(), run));
        self
    }

    /// Sets how long runnables can take to end after they are stopped; then they are cancelled. Default: 30 s. Controllers have
    /// [their own](crate::ControllerBuilder::grace).
    pub fn grace(mut self, limit: Duration) -> Self {
        self.grace = Some(limit);
        self
    }

    /// Sync probes of all controllers, for a health endpoint.
    pub fn sync_probes(&self) -> Vec<SyncProbe> {
        let mut probes = Vec::new();
        for controller in &self.controllers {
            probes.push(SyncProbe { name: controller.name().clone(), synced: controller.probe().into() });
        }
        probes
    }

    /// Functions that report why a controller has not settled.
    #[cfg(feature = "testing")]
    pub(crate) fn unsettled(&self) -> Vec<crate::controller::activity::SettledCheck> {
        self.controllers.iter().map(|controller| controller.unsettled()).collect()
    }

    /// Runs until stopped. Waits until all informers are synced and, with a leader election, until this replica leads; then all
    /// controllers reconcile. At the end the lease is released.
    ///
    /// # Errors
    /// As [`Controller::run`].
    ///
    /// # Cancel safety
    /// As [`Controller::run`].
    pub async fn run(self, stop: &Stop) -> Result<(), RunError> {
        let coordination = only(self.elections, self.shared)?;
        let grace = self.grace.unwrap_or(GRACE);
        let mut runnables = Runnable::start_all(self.runnables);
        let feeds = async {
            join_all(self.feeds).await;
            pending::<()>().await;
        };
        // The user's stop, and a failing runnable, stop this child.
        let own = stop.child();
        let work = Working { controllers: &self.controllers, runnables: &self.leader_runnables, grace };
        let work = work.run(coordination, &own);
        tokio::pin!(work, feeds);
        let mut failed = None;
        let ended = loop {
            tokio::select! {
                biased;
                ended = &mut work => break ended,
                error = runnables.failed(), if failed.is_none() => {
                    tracing::error!(%error, "stopping");
                    failed = Some(error);
                    own.drain();
                }
                () = &mut feeds => {}
            }
        };
        let stopped = runnables.stop(stop, grace).await;
        failed.map_or(Ok(()), Err).and(ended).and(stopped)
    }
}

/// How replicas divide the work.
enum Coordination {
    /// Every replica does all of it.
    Apart,
    /// One replica does it.
    Lead(Box<LeaderElection>),
    /// Each replica does a part.
    Share(Box<ShardedLease>),
}

/// The leader election or the sharded lease, if there is one.
fn only(mut elections: Vec<LeaderElection>, mut shared: Vec<ShardedLease>) -> Result<Coordination, RunError> {
    if elections.len() + shared.len() > 1 {
        let elections = elections.iter().map(LeaderElection::lease);
        return Err(RunError::Elections {
            leases: elections.chain(shared.iter().map(ShardedLease::full_name)).collect(),
        });
    }
    Ok(match (elections.pop(), shared.pop()) {
        (Some(election), _) => Coordination::Lead(Box::new(election)),
        (_, Some(lease)) => Coordination::Share(Box::new(lease)),
        _ => Coordination::Apart,
    })
}

/// The controllers and leader runnables, which work once the informers are synced.
struct Working<'a> {
    controllers: &'a [Box<dyn Managed>],
    runnables: &'a [LeaderRunnable],
    grace: Duration,
}

impl Working<'_> {
    async fn run(&self, coordination: Coordination, stop: &Stop) -> Result<(), RunError> {
        tokio::select! {
            biased;
            () = async {}, if deliberate_bug("work-before-sync") => {}
            synced = try_join_all(self.controllers.iter().map(|controller| controller.synced())) => drop(synced?),
            () = stop.stopping() => return Ok(()),
        }
        tracing::info!(controllers = self.controllers.len(), "all informers are synced");
        // The first error of a leader runnable or of a stopped informer. It ends everything.
        let failed = Mutex::new(None);
        let work = |term: Option<Term>| {
            let failed = &failed;
            let controllers = {
                let term = term.clone();
                self.controllers.iter().map(move |controller| {
                    let term = term.clone();
                    async move {
                        let work = controller.work(stop, term);
                        tokio::pin!(work);
                        tokio::select! {
                            biased;
                            unfinished = &mut work => return unfinished,
                            // A shared lease gives its slots to other replicas.
                            () = controller.stopped(), if !controller.is_shared() => {}
                        }
                        if !stop.is_stopping() {
                            let controller = controller.name().to_string();
                            let error = RunError::Sync { controller, source: SyncError::Stopped(Stopped) };
                            tracing::error!(%error, "stopping");
                            failed.lock().get_or_insert(error);
                            stop.drain();
                        }
                        work.await
                    }
                })
            };
            let runnables = self.runnables.iter().map(move |runnable| {
                let term = term.clone();
                async move {
                    if let Err(error) = runnable.lead(stop, term, self.grace).await {
                        tracing::error!(%error, "stopping");
                        failed.lock().get_or_insert(error);
                        stop.drain();
                    }
                }
            });
            async {
                let (unfinished, _) = join(join_all(controllers), join_all(runnables)).await;
                if self.controllers.is_empty() && self.runnables.is_empty() {
                    stop.stopping().await;
                }
                unfinished.iter().sum::<usize>()
            }
        };
        let unfinished = match coordination {
            Coordination::Apart => work(None).await,
            Coordination::Lead(election) => lead(*election, stop, |term| work(Some(term))).await?,
            Coordination::Share(lease) => {
                let shared = self.controllers.iter().filter(|controller| controller.is_shared());
                let shared = shared.map(|controller| &**controller).collect();
                share(&lease, shared, stop, work(None)).await?
            }
        };
        if let Some(error) = failed.into_inner() {
            return Err(error);
        }
        if unfinished == 0 { Ok(()) } else { Err(RunError::CutShort { unfinished }) }
    }
}

/// Runs the work in each term of leadership, until it finishes.
///
/// A refusal before the first term is an error, like an informer's refusal before its initial list: the program cannot work.
/// After the first term, refusals are retried.
async fn lead<Done: Future<Output = usize>>(
    mut election: LeaderElection,
    stop: &Stop,
    work: impl Fn(Term) -> Done,
) -> Result<usize, RunError> {
    let mut led = false;
    loop {
        let identity = election.stand();
        let acquired = async {
            loop {
                match election.acquire(&identity).await {
                    Err(_) if led => election.pause().await,
                    acquired => break acquired,
                }
            }
        };
        let held = tokio::select! {
            biased;
            () = stop.stopping() => return Ok(0),
            acquired = acquired => acquired?,
        };
        led = true;
        match election.hold(held, &work).await {
            Outcome::Finished(unfinished) => return Ok(unfinished),
            Outcome::Lost => {}
        }
    }
}

impl fmt::Debug for Manager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.controllers.iter().map(|controller| controller.name()).collect::<Vec<_>>();
        f.debug_struct("Manager")
            .field("controllers", &names)
            .field("elections", &self.elections)
            .field("shared", &self.shared)
            .field("runnables", &self.runnables)
            .field("leader_runnables", &self.leader_runnables)
            .finish_non_exhaustive()
    }
}

// === impl SyncProbe ===

impl SyncProbe {
    /// The controller's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether all informers and handlers of the controller are synced; false after the controller has ended.
    pub fn is_synced(&self) -> bool {
        (self.synced)()
    }
}

impl fmt::Debug for SyncProbe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SyncProbe({}: {})", self.name, self.is_synced())
    }
}

//! Several controllers in one program: warmed up together, led under one lease, stopped together.

use std::fmt;
use std::sync::Arc;

use futures::future::{BoxFuture, join_all, pending, try_join_all};

use crate::controller::Managed;
use crate::leader::{LeaderElection, Outcome, Term};
use crate::{Controller, RunError, Stop};

/// Runs controllers together, under one lease if there is a leader election.
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
}

/// Looks whether the informers and handlers of a controller are synced.
#[derive(Clone)]
pub struct SyncProbe {
    name: Arc<str>,
    synced: Arc<dyn Fn() -> bool + Send + Sync>,
}

// === impl Manager ===

impl Manager {
    /// Nothing to run yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// With a controller. A leader election that it has is the manager's, for all of its controllers.
    pub fn controller(mut self, controller: Controller) -> Self {
        let (managed, feed, leader) = controller.into_parts();
        self.controllers.push(managed);
        self.feeds.push(feed);
        self.elections.extend(leader);
        self
    }

    /// All controllers work only while this replica leads. There can be one leader election: a second one, also of a
    /// controller, is an error of [`run`](Self::run).
    pub fn leader(mut self, election: LeaderElection) -> Self {
        self.elections.push(election);
        self
    }

    /// Probes of all controllers, for a health endpoint.
    pub fn sync_probes(&self) -> Vec<SyncProbe> {
        let mut probes = Vec::new();
        for controller in &self.controllers {
            probes.push(SyncProbe { name: controller.name().clone(), synced: controller.probe().into() });
        }
        probes
    }

    /// Runs until told to stop: waits until all informers are synced, then (as soon as it leads, if there is a leader
    /// election) lets all controllers work. When they are done, the lease is released.
    ///
    /// # Errors
    /// As [`Controller::run`].
    ///
    /// # Cancel safety
    /// As [`Controller::run`].
    pub async fn run(self, stop: &Stop) -> Result<(), RunError> {
        let leader = only(self.elections)?;
        let feeds = async {
            join_all(self.feeds).await;
            pending().await
        };
        tokio::select! {
            biased;
            ended = run(&self.controllers, leader, stop) => ended,
            never = feeds => never,
        }
    }
}

/// The leader election, if there is one.
fn only(mut elections: Vec<LeaderElection>) -> Result<Option<LeaderElection>, RunError> {
    match &elections[..] {
        [] | [_] => Ok(elections.pop()),
        several => Err(RunError::Elections { leases: several.iter().map(LeaderElection::lease).collect() }),
    }
}

async fn run(
    controllers: &[Box<dyn Managed>],
    leader: Option<LeaderElection>,
    stop: &Stop,
) -> Result<(), RunError> {
    tokio::select! {
        biased;
        synced = try_join_all(controllers.iter().map(|controller| controller.synced())) => drop(synced?),
        () = stop.stopping() => return Ok(()),
    }
    tracing::info!(controllers = controllers.len(), "all informers are synced");
    let work = |term: Option<Term>| {
        let working = controllers.iter().map(move |controller| controller.work(stop, term.clone()));
        async { join_all(working).await.iter().sum::<usize>() }
    };
    let unfinished = match leader {
        None => work(None).await,
        Some(election) => lead(election, stop, |term| work(Some(term))).await?,
    };
    if unfinished == 0 { Ok(()) } else { Err(RunError::CutShort { unfinished }) }
}

/// Works in each term of leadership, until the work is finished.
///
/// A lease that is refused before the first term is an error, as for an informer before its first state: the program cannot
/// do what it was started for. Later it is tried again.
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
        f.debug_struct("Manager").field("controllers", &names).field("elections", &self.elections).finish()
    }
}

// === impl SyncProbe ===

impl SyncProbe {
    /// The controller's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether all of its informers and handlers are synced; false again when it has ended.
    pub fn is_synced(&self) -> bool {
        (self.synced)()
    }
}

impl fmt::Debug for SyncProbe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SyncProbe({}: {})", self.name, self.is_synced())
    }
}

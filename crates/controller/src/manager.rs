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
    leader: Option<LeaderElection>,
}

/// Looks whether the informers and handlers of a controller are synced, or its queue is full: what does not fit in is
/// told when somebody works, which a standby does not.
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

    /// With a controller. A leader election that it has is the manager's, unless there is one already.
    pub fn controller(mut self, controller: Controller) -> Self {
        let (managed, feed, leader) = controller.into_parts();
        self.controllers.push(managed);
        self.feeds.push(feed);
        self.leader = self.leader.or(leader);
        self
    }

    /// Work is done only while this replica leads.
    pub fn leader(mut self, election: LeaderElection) -> Self {
        self.leader = Some(election);
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
        let feeds = async {
            join_all(self.feeds).await;
            pending().await
        };
        tokio::select! {
            biased;
            ended = run(&self.controllers, self.leader, stop) => ended,
            never = feeds => never,
        }
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
        Some(mut election) => loop {
            let held = tokio::select! {
                biased;
                () = stop.stopping() => break 0,
                held = election.acquire() => held,
            };
            match election.hold(held, |term| work(Some(term))).await {
                Outcome::Finished(unfinished) => break unfinished,
                Outcome::Lost => {}
            }
        },
    };
    if unfinished == 0 { Ok(()) } else { Err(RunError::CutShort { unfinished }) }
}

impl fmt::Debug for Manager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.controllers.iter().map(|controller| controller.name()).collect::<Vec<_>>();
        f.debug_struct("Manager").field("controllers", &names).field("leader", &self.leader).finish()
    }
}

// === impl SyncProbe ===

impl SyncProbe {
    /// The controller's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether all of its informers and handlers are synced, or its informers are and its queue was full; false again when it
    /// has ended.
    pub fn is_synced(&self) -> bool {
        (self.synced)()
    }
}

impl fmt::Debug for SyncProbe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SyncProbe({}: {})", self.name, self.is_synced())
    }
}

//! Testing reconciles and controllers; with the feature `testing`.
//!
//! - [`Context::for_test`](crate::Context::for_test) calls a reconcile directly, and records its writes.
//! - [`EventRecorder::for_test`](crate::EventRecorder::for_test) records Events that can be read back.
//! - [`start`] and [`settle`] run controllers on an embedded API server and wait until they have nothing left to do.
//!
//! The guide is `docs/testing.md` of the repository.

use std::fmt;
use std::time::Duration;

use embedded_apiserver::Server;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use crate::controller::activity::SettledCheck;
pub use crate::controller::test_context::{RecordedWrite, TestContext};
use crate::{Manager, RunError, Stop};

/// A manager that runs in a task. Dropping it cancels everything.
#[must_use = "dropping it stops the manager"]
pub struct RunningManager {
    stop: Stop,
    task: JoinHandle<Result<(), RunError>>,
    unsettled: Vec<SettledCheck>,
}

/// A manager did not settle.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error("timed out after {SETTLE_MAX:?} waiting for the manager to settle: {reason}")]
#[non_exhaustive]
pub struct NotSettled {
    /// What was left to do.
    pub reason: String,
}

/// How long [`settle`] waits.
const SETTLE_MAX: Duration = Duration::from_secs(300);

/// The pause between two checks. With paused time, all tasks that can make progress do so during a pause.
const CHECK_PAUSE: Duration = Duration::from_millis(1);

/// How often the server is asked to send bookmarks while an informer lags.
const BOOKMARK_PAUSE: Duration = Duration::from_millis(200);

/// Runs a manager in a task.
///
/// # Panics
/// Outside of a tokio runtime.
pub fn start(manager: Manager) -> RunningManager {
    let stop = Stop::new();
    let unsettled = manager.unsettled();
    let task = tokio::spawn({
        let stop = stop.clone();
        async move { manager.run(&stop).await }
    });
    RunningManager { stop, task, unsettled }
}

/// Waits until a manager has settled: its informers have everything that the server has, its queues are empty, nothing runs, no key
/// fails or waits for its own writes, and no key is due within a second.
///
/// ```
/// # use embedded_apiserver::Server;
/// # use k8s_openapi::api::core::v1::ConfigMap;
/// # use kube_informer::{Informer, Key};
/// # use kube_informer_controller::{Action, Context, Controller, Error, Manager, testing};
/// # use serde_json::json;
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings", "namespace": "web"}});
/// let server = Server::builder().without_socket().objects([map]).start().await?;
/// let maps = Informer::<ConfigMap>::builder(server.client()?).start()?;
/// let controller = Controller::builder("maps", &maps).build((), async |_: Context, _: Key| Ok::<_, Error>(Action::Done))?;
///
/// let manager = testing::start(Manager::new().controller(controller));
/// testing::settle(&server, &manager).await?;
/// manager.stop().await?;
/// # Ok(()) }
/// ```
///
/// # Errors
/// Returns an error that names what is left to do if that takes more than 300 s (of tokio's time), or if the manager has ended.
///
/// # Cancel safety
/// Can be dropped at any point.
pub async fn settle(server: &Server, manager: &RunningManager) -> Result<(), NotSettled> {
    settle_at(&[(None, server)], manager).await
}

/// As [`settle`], for a controller of several clusters: each name with its server.
///
/// The informers and the failing keys of other clusters are ignored, and so are those of clusters that were removed. But all
/// clusters share the queue and the workers: no key of any cluster may be queued, running, waiting for its own writes, or due within
/// a second.
///
/// # Errors
/// As [`settle`].
///
/// # Cancel safety
/// Can be dropped at any point.
pub async fn settle_clusters(
    servers: &[(&str, &Server)],
    manager: &RunningManager,
) -> Result<(), NotSettled> {
    let servers = servers.iter().map(|(name, server)| (Some(*name), *server)).collect::<Vec<_>>();
    settle_at(&servers, manager).await
}

async fn settle_at(servers: &[(Option<&str>, &Server)], manager: &RunningManager) -> Result<(), NotSettled> {
    let deadline = Instant::now() + SETTLE_MAX;
    let (mut settled_at, mut bookmarked_at) = (None, None::<(Vec<u64>, Instant)>);
    loop {
        if manager.task.is_finished() {
            return Err(NotSettled { reason: "the manager has ended; `stop` returns why".to_owned() });
        }
        let at = servers.iter().map(|(_, server)| server.revision()).collect::<Vec<_>>();
        let revision = |cluster: Option<&str>| {
            let mut named = servers.iter().zip(&at);
            named.find(|((name, _), _)| *name == cluster).map(|(_, revision)| *revision)
        };
        let reason = manager.unsettled.iter().find_map(|unsettled| unsettled(&revision));
        match &reason {
            // Require two checks in a row: an event, or a key whose write has arrived, may be on its way from one part to the next.
            None if settled_at.as_ref() == Some(&at) => return Ok(()),
            None => settled_at = Some(at.clone()),
            Some(_) => settled_at = None,
        }
        // An informer of a quiet resource learns the revision from a bookmark.
        let is_recent = |(known, when): &(Vec<u64>, Instant)| *known == at && when.elapsed() < BOOKMARK_PAUSE;
        if reason.is_some() && !bookmarked_at.as_ref().is_some_and(is_recent) {
            servers.iter().for_each(|(_, server)| server.send_bookmarks());
            bookmarked_at = Some((at, Instant::now()));
        }
        if let Some(reason) = reason.filter(|_| Instant::now() >= deadline) {
            return Err(NotSettled { reason });
        }
        sleep(CHECK_PAUSE).await;
    }
}

impl RunningManager {
    /// Stops the manager, and waits until it has ended.
    ///
    /// # Errors
    /// As [`Manager::run`].
    ///
    /// # Panics
    /// If the manager has panicked.
    pub async fn stop(mut self) -> Result<(), RunError> {
        self.stop.stop();
        match (&mut self.task).await {
            Ok(ended) => ended,
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        }
    }

    /// The manager's stop handle.
    pub fn stop_handle(&self) -> &Stop {
        &self.stop
    }
}

impl Drop for RunningManager {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl fmt::Debug for RunningManager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunningManager").field("ended", &self.task.is_finished()).finish_non_exhaustive()
    }
}

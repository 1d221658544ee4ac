//! The way in: whatever tells that a key needs work ends here.

use std::time::Duration;

use kube_informer::{Key, Origin};
use kube_workqueue::{AddError, AddOptions, WorkQueue};
use tokio_util::sync::CancellationToken;

use super::writes::Writes;

/// Priority of what is merely looked at once more: the initial state, resyncs, signals to reconcile everything.
pub(crate) const BACKGROUND: i16 = -100;

/// How long to wait for room in a full queue before looking again.
const FULL_WAIT: Duration = Duration::from_millis(100);

/// Where keys come in.
#[derive(Debug)]
pub(crate) struct Intake {
    pub(crate) queue: WorkQueue<Key>,
    pub(crate) writes: Writes,
    /// The queue was full once.
    pub(crate) filled: CancellationToken,
}

impl Intake {
    /// Queues a key. While the queue is full it waits, and whoever calls with it: so a full queue slows its sources down
    /// instead of losing keys.
    pub(crate) async fn add(&self, mut key: Key, priority: i16) {
        loop {
            match self.queue.add_with(key, AddOptions::new().priority(priority)) {
                Err(AddError::Full { item, limit }) => {
                    if !self.filled.is_cancelled() {
                        tracing::warn!(key = %item, limit, "the work queue is full; events wait for room");
                        self.filled.cancel();
                    }
                    tokio::time::sleep(FULL_WAIT).await;
                    key = item;
                }
                // Shut down: nothing more is wanted.
                _ => return,
            }
        }
    }
}

/// What came live goes before what was only looked at once more.
pub(crate) fn priority_of(origin: Origin) -> i16 {
    match origin {
        Origin::Initial | Origin::Resync => BACKGROUND,
        _ => 0,
    }
}

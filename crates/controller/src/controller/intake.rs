//! The way in: every trigger ends here as a key that needs work.

use std::time::Duration;

use kube_informer::{Key, Origin};
use kube_workqueue::{AddOptions, WorkQueue};

use super::writes::Writes;

/// Priority of what is merely looked at once more: the initial state, resyncs, signals to reconcile everything.
pub(crate) const BACKGROUND: i16 = -100;

/// How long to wait for capacity in a full queue before looking again.
const FULL_WAIT: Duration = Duration::from_millis(100);

/// Where keys come in.
#[derive(Debug)]
pub(crate) struct Intake {
    /// It holds each key once, so informers' keys are bounded by the objects that there are: it never refuses them.
    pub(crate) queue: WorkQueue<Key>,
    /// Keys in the queue from which on streams wait.
    pub(crate) capacity: usize,
    pub(crate) writes: Writes,
}

impl Intake {
    /// Queues a key.
    pub(crate) fn add(&self, key: Key, priority: i16) {
        // Refused only when shut down: then nothing more is wanted.
        let _ = self.queue.add_with(key, AddOptions::new().priority(priority));
    }

    /// Queues a key of a stream, which waits while the queue is full: what a stream returns is not bounded by anything.
    pub(crate) async fn add_when_there_is_capacity(&self, key: Key, priority: i16) {
        let mut warned = false;
        while self.queue.len() >= self.capacity && !self.queue.is_shutting_down() {
            if !std::mem::replace(&mut warned, true) {
                tracing::warn!(%key, capacity = self.capacity, "the work queue is full; streams of keys wait");
            }
            tokio::time::sleep(FULL_WAIT).await;
        }
        self.add(key, priority);
    }
}

/// Live changes go before what was only looked at once more.
pub(crate) fn priority_of(origin: Origin) -> i16 {
    match origin {
        Origin::Initial | Origin::Resync => BACKGROUND,
        _ => 0,
    }
}

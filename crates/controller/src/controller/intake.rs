//! Every trigger ends here as a key that needs work.

use std::collections::HashSet;
use std::time::Duration;

use kube_informer::{Key, Origin};
use kube_workqueue::{AddOptions, WorkQueue};
use parking_lot::Mutex;

use super::writes::Writes;

/// Priority of the initial list, resyncs, and requests to reconcile everything.
pub(crate) const BACKGROUND: i16 = -100;

/// How often a full queue is checked for capacity.
const FULL_WAIT: Duration = Duration::from_millis(100);

/// Where keys enter the controller.
#[derive(Debug)]
pub(crate) struct Intake {
    /// It holds each key once, so informers' keys are bounded by the number of objects and never rejected.
    pub(crate) queue: WorkQueue<Key>,
    /// Streams wait while the queue has this many keys.
    pub(crate) capacity: usize,
    pub(crate) writes: Writes,
    /// Keys whose objects no longer pass the main trigger's filter, and were not reconciled since.
    leaving: Mutex<HashSet<Key>>,
}

impl Intake {
    pub(crate) fn new(queue: WorkQueue<Key>, capacity: usize, writes: Writes) -> Self {
        Self { queue, capacity, writes, leaving: Mutex::default() }
    }

    /// Forgets the keys of a cluster, and the informers of these numbers.
    pub(crate) fn forget(&self, key: impl Fn(&Key) -> bool, informer: impl Fn(usize) -> bool) {
        self.leaving.lock().retain(|leaving| !key(leaving));
        // Parked keys are queued. A worker drops the keys of a cluster that is not there.
        for (key, priority) in self.writes.forget_all(key, informer) {
            self.add(key, priority);
        }
    }

    /// The object of a key no longer passes the main trigger's filter.
    pub(crate) fn leaves(&self, key: Key) {
        self.leaving.lock().insert(key);
    }

    /// Whether the object of a key has left and the key was not reconciled since. Asked once, when its reconcile begins.
    pub(crate) fn take_leaving(&self, key: &Key) -> bool {
        self.leaving.lock().remove(key)
    }

    /// Queues a key.
    pub(crate) fn add(&self, key: Key, priority: i16) {
        // Rejected only after shutdown.
        let _ = self.queue.add_with(key, AddOptions::new().priority(priority));
    }

    /// Queues a key of a stream. Waits while the queue is full, because streams are unbounded.
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

/// Live changes go before the initial list and resyncs.
pub(crate) fn priority_of(origin: Origin) -> i16 {
    match origin {
        Origin::Initial | Origin::Resync => BACKGROUND,
        _ => 0,
    }
}

//! Every trigger ends here as a key that needs work.

use std::collections::HashSet;
use std::time::Duration;

use kube_informer::{Key, Origin};
use kube_workqueue::{AddOptions, WorkQueue};
use parking_lot::Mutex;

use super::slot_keys::SlotKeys;
use super::writes::Writes;

/// Priority of the initial list, resyncs, and requests to reconcile everything.
pub(crate) const BACKGROUND: i16 = -100;

/// How often a full queue is checked for capacity.
const FULL_WAIT: Duration = Duration::from_millis(100);

/// Where keys enter the controller.
#[derive(Debug)]
pub(crate) struct Intake {
    /// The queue. It holds each key once, so keys from informers are bounded by the number of objects and are never rejected.
    pub(crate) queue: WorkQueue<Key>,
    /// The number of queued keys from which on streams wait.
    pub(crate) capacity: usize,
    pub(crate) writes: Writes,
    /// Which keys this replica may work on; `None` if all.
    pub(crate) slot_keys: Option<SlotKeys>,
    #[cfg(feature = "testing")]
    pub(super) activity: super::activity::Activity,
    /// Keys whose objects no longer pass the main trigger's filter or were deleted, and that were not reconciled since. Each is queued,
    /// so a worker takes it soon. Exception: if replicas share the work, another one may reconcile it. This one then keeps it until the
    /// object is deleted, because it may get the key's slot before that. `slot_keys` then remembers deletions.
    leaving: Mutex<HashSet<Key>>,
}

impl Intake {
    pub(crate) fn new(
        queue: WorkQueue<Key>,
        capacity: usize,
        writes: Writes,
        slot_keys: Option<SlotKeys>,
    ) -> Self {
        Self {
            queue,
            capacity,
            writes,
            slot_keys,
            #[cfg(feature = "testing")]
            activity: super::activity::Activity::default(),
            leaving: Mutex::default(),
        }
    }

    /// Forgets the keys of a cluster, and the informers of these numbers.
    pub(crate) fn forget(&self, key: impl Fn(&Key) -> bool, informer: impl Fn(usize) -> bool) {
        self.leaving.lock().retain(|leaving| !key(leaving));
        #[cfg(feature = "testing")]
        self.activity.forget(&key);
        // Queue the parked keys: the worker that takes them finds that their cluster was removed, and drops them.
        for (key, priority) in self.writes.forget_all(key, informer) {
            self.add(key, priority);
        }
    }

    /// Records that the object of a key no longer passes the main trigger's filter, or was deleted.
    pub(crate) fn leaves(&self, key: Key) {
        self.leaving.lock().insert(key);
    }

    /// Whether the object of a key stopped passing the filter or was deleted, and the key has not been reconciled since. Removes the
    /// record: call it once, when the reconcile begins.
    pub(crate) fn take_leaving(&self, key: &Key) -> bool {
        self.leaving.lock().remove(key)
    }

    #[cfg(test)]
    pub(super) fn leaving(&self) -> usize {
        self.leaving.lock().len()
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

/// The priority of a change: live changes go before the initial list and resyncs.
pub(crate) fn priority_of(origin: Origin) -> i16 {
    match origin {
        Origin::Initial | Origin::Resync => BACKGROUND,
        _ => 0,
    }
}

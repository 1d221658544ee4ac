//! The guard that a worker holds. While it lives, no other worker gets the key.

use std::{fmt, ops::Deref, sync::Arc};

use crate::{core::Taken, queue::Inner, slots::SlotId};

/// A key from [`WorkQueue::get`](crate::WorkQueue::get). Dropping it, also in a panic, marks the key as done. If the key was added
/// in the meantime, it is queued again then.
#[must_use = "dropping it marks the key as done"]
pub struct Work<T> {
    key: T,
    priority: i16,
    slot: SlotId,
    queue: Arc<Inner<T>>,
}

impl<T> Work<T> {
    pub(crate) fn new(queue: Arc<Inner<T>>, Taken { key, slot, priority, .. }: Taken<T>) -> Self {
        Self { key, priority, slot, queue }
    }

    /// Returns the priority with which the key was queued, so that it can be added again with the same one.
    pub fn priority(&self) -> i16 {
        self.priority
    }

    /// Marks the key as done. The same as dropping it.
    pub fn done(self) {}
}

impl<T> Deref for Work<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.key
    }
}

impl<T> Drop for Work<T> {
    fn drop(&mut self) {
        let now = || self.queue.clock.now();
        drop(self.queue.shared.with(|core| core.done(self.slot, now)));
    }
}

impl<T: fmt::Debug> fmt::Debug for Work<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Work")
            .field("key", &self.key)
            .field("priority", &self.priority)
            .finish_non_exhaustive()
    }
}

//! The guard a worker holds: while it lives, nobody else gets the key.

use std::{fmt, ops::Deref, sync::Arc};

use crate::{core::Taken, queue::Inner, slots::SlotId};

/// A key that was handed out by [`WorkQueue::get`](crate::WorkQueue::get). Dropping it, also in a panic, says that
/// the key is done; if it was added meanwhile, it is queued again then.
#[must_use = "dropping it says that the key is done"]
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

    /// The priority with which the key was queued, for adding it again with the same.
    pub fn priority(&self) -> i16 {
        self.priority
    }

    /// Says that the key is done: a name for dropping it.
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

//! Those who wait for a change of a store or a queue, and how they hear of it without missing one.
//!
//! Kept apart from what is waited for so that every interleaving can be tried (see `tests/loom.rs`).

use std::sync::atomic::Ordering;

use crate::sync::{AtomicUsize, Notify};

/// Those who wait. As long as there are none, a write pays one look at a counter.
#[derive(Debug, Default)]
pub(crate) struct Waiters {
    count: AtomicUsize,
    changed: Notify,
}

/// One who waits; counted until dropped.
struct Waiting<'a>(&'a Waiters);

impl Waiters {
    /// Something has changed. Called after the change can be seen, under the lock through which it is looked at: so either
    /// whoever waits is counted before, or sees the change.
    pub(crate) fn wake(&self) {
        if self.count.load(Ordering::SeqCst) > 0 {
            self.changed.notify_waiters();
        }
    }

    /// Waits until `check` gives something.
    ///
    /// # Cancel safety
    /// `check` is called between waits only: dropping the future while it waits leaves everything as it is.
    pub(crate) async fn until_some<T>(&self, mut check: impl FnMut() -> Option<T>) -> T {
        if let Some(found) = check() {
            return found;
        }
        let waiting = Waiting::new(self);
        loop {
            // Listening begins before looking, so that nothing is missed in between.
            let changed = waiting.0.changed.notified();
            let mut changed = std::pin::pin!(changed);
            changed.as_mut().enable();
            if let Some(found) = check() {
                return found;
            }
            changed.await;
        }
    }
}

impl<'a> Waiting<'a> {
    fn new(waiters: &'a Waiters) -> Self {
        waiters.count.fetch_add(1, Ordering::SeqCst);
        Self(waiters)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.count.fetch_sub(1, Ordering::SeqCst);
    }
}

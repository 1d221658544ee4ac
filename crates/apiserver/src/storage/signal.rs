//! Wakes the readers of a collection when something was written.
//!
//! A reader that has nothing to read leaves its waker in a slot of its own; a writer takes all wakers and wakes them
//! after it has let go of the storage's lock. Readers that are busy cost the writer nothing.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;
use slab::Slab;

/// See the module's text.
#[derive(Debug, Default)]
pub(super) struct Signal {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    version: u64,
    wakers: Slab<Option<Waker>>,
}

/// A reader's place at a [`Signal`].
#[derive(Debug)]
pub(super) struct Listener {
    signal: Arc<Signal>,
    slot: usize,
    seen: u64,
}

impl Signal {
    /// Lets every listener know.
    pub(super) fn notify(&self) {
        let wakers: Vec<Waker> = {
            let mut state = self.state.lock();
            state.version += 1;
            state.wakers.iter_mut().filter_map(|(_, waker)| waker.take()).collect()
        };
        for waker in wakers {
            waker.wake();
        }
    }

    pub(super) fn listen(self: &Arc<Self>) -> Listener {
        let mut state = self.state.lock();
        let slot = state.wakers.insert(None);
        Listener { signal: self.clone(), slot, seen: state.version }
    }
}

impl Listener {
    /// Takes note that everything up to now is known: call it before reading.
    pub(super) fn acknowledge(&mut self) {
        self.seen = self.signal.state.lock().version;
    }

    /// Ready once the signal was given after the last [`acknowledge`](Self::acknowledge).
    pub(super) fn poll_changed(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let mut state = self.signal.state.lock();
        if state.version != self.seen {
            return Poll::Ready(());
        }
        match &mut state.wakers[self.slot] {
            Some(waker) => waker.clone_from(context.waker()),
            empty => *empty = Some(context.waker().clone()),
        }
        Poll::Pending
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.signal.state.lock().wakers.remove(self.slot);
    }
}

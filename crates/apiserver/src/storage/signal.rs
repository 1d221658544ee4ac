//! Wakes the readers of a collection after a write, and tracks the events they have not read yet.
//!
//! An idle reader leaves its waker in its own slot. A writer takes all wakers and wakes them after it has released the
//! storage's lock. Busy readers cost the writer nothing.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;
use slab::Slab;

/// The signal of one collection; see the module documentation.
#[derive(Debug, Default)]
pub(super) struct Signal {
    state: Mutex<SignalState>,
}

#[derive(Debug, Default)]
struct SignalState {
    version: u64,
    readers: Slab<Reader>,
}

#[derive(Debug)]
struct Reader {
    waker: Option<Waker>,
    /// Sequence number of the first event that the reader may still request.
    unread: u64,
}

/// A reader's registration at a [`Signal`].
#[derive(Debug)]
pub(super) struct Listener {
    signal: Arc<Signal>,
    slot: usize,
    seen: u64,
}

impl Signal {
    /// Wakes every listener.
    pub(super) fn notify(&self) {
        let wakers: Vec<Waker> = {
            let mut state = self.state.lock();
            state.version += 1;
            state.readers.iter_mut().filter_map(|(_, reader)| reader.waker.take()).collect()
        };
        for waker in wakers {
            waker.wake();
        }
    }

    /// Sequence number of the first event that some reader may still request; `u64::MAX` without readers.
    pub(super) fn first_unread(&self) -> u64 {
        let state = self.state.lock();
        state.readers.iter().map(|(_, reader)| reader.unread).min().unwrap_or(u64::MAX)
    }

    /// Registers a reader whose next event is `unread`.
    pub(super) fn listen(self: &Arc<Self>, unread: u64) -> Listener {
        let mut state = self.state.lock();
        let slot = state.readers.insert(Reader { waker: None, unread });
        Listener { signal: self.clone(), slot, seen: state.version }
    }
}

impl Listener {
    /// Marks everything before `unread` as read and clears the signal: call it before reading.
    pub(super) fn acknowledge(&mut self, unread: u64) {
        let mut state = self.signal.state.lock();
        self.seen = state.version;
        state.readers[self.slot].unread = unread;
    }

    /// Ready if the signal was raised after the last [`acknowledge`](Self::acknowledge).
    pub(super) fn poll_changed(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let mut state = self.signal.state.lock();
        if state.version != self.seen {
            return Poll::Ready(());
        }
        match &mut state.readers[self.slot].waker {
            Some(waker) => waker.clone_from(context.waker()),
            empty => *empty = Some(context.waker().clone()),
        }
        Poll::Pending
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let mut state = self.signal.state.lock();
        state.readers.remove(self.slot);
        if state.readers.is_empty() {
            // A slab never shrinks by itself.
            state.readers = Slab::new();
        }
    }
}

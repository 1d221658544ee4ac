//! Wakes the readers of a collection when something was written, and keeps track of what they have yet to read.
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
    /// Sequence number of the first event that the reader may still ask for.
    unread: u64,
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
            state.readers.iter_mut().filter_map(|(_, reader)| reader.waker.take()).collect()
        };
        for waker in wakers {
            waker.wake();
        }
    }

    /// Sequence number of the first event that some reader may still ask for; the largest number without readers.
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
    /// Everything before `unread` is read, and everything up to now will be: call it before reading.
    pub(super) fn acknowledge(&mut self, unread: u64) {
        let mut state = self.signal.state.lock();
        self.seen = state.version;
        state.readers[self.slot].unread = unread;
    }

    /// Ready once the signal was given after the last [`acknowledge`](Self::acknowledge).
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

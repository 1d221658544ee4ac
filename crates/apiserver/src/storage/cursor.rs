//! Readers of the storage: a place in one collection's events, and the wait for a revision.

use std::task::{Context, Poll};

use super::CollectionId;
use super::signal::Listener;

/// A place in a collection's stream of events.
#[derive(Debug)]
pub(crate) struct Cursor {
    pub(super) collection: CollectionId,
    /// Sequence number of the next event.
    pub(super) next: u64,
    /// Events up to this revision are not delivered: a watch may start in the future.
    pub(super) after: u64,
    pub(super) listener: Listener,
    /// Events the reader may be behind: more than the buffer only while it catches up with where it began.
    pub(super) behind_max: u64,
}

/// Waits for the storage's revision, which writes to any collection move.
#[derive(Debug)]
pub(crate) struct Progress(pub(super) Listener);

// === impl Cursor ===

impl Cursor {
    /// Ready once something happened that the last [`Storage::read`] may not have seen.
    pub(crate) fn poll_changed(&mut self, context: &mut Context<'_>) -> Poll<()> {
        self.listener.poll_changed(context)
    }
}

//! Readers of the storage: a position in one collection's events, and waiting for a revision.

use std::task::{Context, Poll};

use super::CollectionId;
use super::signal::Listener;

/// A position in a collection's stream of events.
#[derive(Debug)]
pub(crate) struct Cursor {
    pub(super) collection: CollectionId,
    /// Sequence number of the next event.
    pub(super) next: u64,
    /// Events up to this revision are skipped: a watch may start in the future.
    pub(super) after: u64,
    pub(super) listener: Listener,
    /// How many events the reader may lag. Exceeds the buffer size only while the reader catches up with its start.
    pub(super) behind_max: u64,
}

/// Waits for the storage's revision, which a write to any collection advances.
#[derive(Debug)]
pub(crate) struct Progress(pub(super) Listener);

// === impl Cursor ===

impl Cursor {
    /// Ready if something happened that the last [`Storage::read`] may have missed.
    pub(crate) fn poll_changed(&mut self, context: &mut Context<'_>) -> Poll<()> {
        self.listener.poll_changed(context)
    }
}

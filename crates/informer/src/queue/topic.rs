//! What callers of a queue wait for.

use crate::scope::Scope;

/// A reason to wait, by which callers are woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum QueueTopic {
    /// There is something to take, or the queue is closed.
    Ready,
    /// There is space for a delta, or the queue is closed.
    Space,
    /// Everything queued for this scope was processed, its first list was, or the queue is closed.
    Processed(Scope),
    /// Nothing waits or is being processed, or the queue is closed.
    Idle,
}

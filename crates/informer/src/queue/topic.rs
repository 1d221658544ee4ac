//! What callers of a queue wait for.

use crate::scope::Scope;

/// What a caller waits for, and is woken by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum QueueTopic {
    /// Something can be taken, or the queue is closed.
    Ready,
    /// There is capacity for a delta, or the queue is closed.
    Space,
    /// Everything queued for this scope was processed, its first list was, or the queue is closed.
    Processed(Scope),
    /// Nothing is pending or being processed, or the queue is closed.
    Idle,
}

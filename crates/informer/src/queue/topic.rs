//! The conditions that callers of a queue wait for.

use crate::scope::Scope;

/// A condition that a caller waits for; the caller is woken when it may be met.
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

//! The two ways in which a call on the queue can fail. An item that was not taken is handed back.

/// A key was not added. It is in the error: see [`AddError::into_item`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AddError<T> {
    /// The queue was shut down before.
    #[error("not added: the queue is shut down; stop adding, or make a new queue")]
    ShutDown(T),
    /// The queue holds as many keys as it may, and this is not one of them.
    #[error(
        "not added: the queue holds its limit of {limit} keys; let the workers catch up and add again, or raise the limit"
    )]
    Full {
        /// The key that was not added.
        item: T,
        /// How many keys the queue holds at most.
        limit: usize,
    },
}

impl<T> AddError<T> {
    /// The key that was not added.
    pub fn into_item(self) -> T {
        match self {
            Self::ShutDown(item) | Self::Full { item, .. } => item,
        }
    }
}

/// Draining was cut short by a plain [`shutdown`](crate::WorkQueue::shutdown).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "draining the queue was cut short by a plain shutdown with {unfinished} keys unfinished; they stay with their workers"
)]
#[non_exhaustive]
pub struct DrainAborted {
    /// How many keys were queued or with a worker at that moment.
    pub unfinished: usize,
}

//! The errors of queue operations. An error of an add returns the key to the caller.

/// A key was not added. [`AddError::into_item`] returns the key.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AddError<T> {
    /// The queue is shut down.
    #[error("cannot add key: the queue is shut down; stop adding, or create a new queue")]
    ShutDown(T),
    /// The queue is full, and the key is not in it.
    #[error(
        "cannot add key: the queue is full ({limit} keys); retry when workers have caught up, or raise the capacity"
    )]
    Full {
        /// The key that was not added.
        item: T,
        /// The queue's [capacity](crate::Builder::capacity).
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

/// A call of [`shutdown`](crate::WorkQueue::shutdown) ended a drain early.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot drain queue: shut down with {unfinished} keys unfinished; workers continue with them")]
#[non_exhaustive]
pub struct DrainAborted {
    /// The number of keys that were queued or with a worker at that moment.
    pub unfinished: usize,
}

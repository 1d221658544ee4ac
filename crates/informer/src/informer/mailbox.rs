//! A lock, one sleeping reader, and writers that wake it: the concurrent part of a listener's backlog.
//!
//! It is separate from its content so that loom can try every interleaving (see `tests/loom.rs`).

use std::task::{Context, Poll, Waker};

use crate::panic::wake;
use crate::sync::Mutex;

/// A value with many writers and one reader task.
#[derive(Debug)]
pub(crate) struct Mailbox<S>(Mutex<MailboxState<S>>);

#[derive(Debug)]
struct MailboxState<S> {
    content: S,
    closed: bool,
    reader: Option<Waker>,
}

impl<S: Default> Mailbox<S> {
    pub(crate) fn new(content: S) -> Self {
        Self(Mutex::new(MailboxState { content, closed: false, reader: None }))
    }

    /// Changes the content, unless closed. Returns the waker of a sleeping reader; wake it after all locks are released.
    pub(crate) fn put(&self, change: impl FnOnce(&mut S)) -> Option<Waker> {
        let mut inner = self.0.lock();
        if inner.closed {
            return None;
        }
        change(&mut inner.content);
        inner.reader.take()
    }

    /// Returns the result of `take`; pending while that is `None`. Returns `None` once closed.
    pub(crate) fn poll<T>(
        &self,
        context: &mut Context<'_>,
        take: impl FnOnce(&mut S) -> Option<T>,
    ) -> Poll<Option<T>> {
        let mut inner = self.0.lock();
        if inner.closed {
            return Poll::Ready(None);
        }
        if let Some(found) = take(&mut inner.content) {
            return Poll::Ready(Some(found));
        }
        let earlier = inner.reader.replace(context.waker().clone());
        drop(inner);
        // Drop the waker after the lock is released: it may drop its task.
        drop(earlier);
        Poll::Pending
    }

    /// Closes the mailbox and drops its content.
    pub(crate) fn close(&self) {
        let mut inner = self.0.lock();
        inner.closed = true;
        let content = std::mem::take(&mut inner.content);
        let reader = inner.reader.take();
        drop(inner);
        drop(content);
        if let Some(reader) = reader {
            wake(reader);
        }
    }

    /// Reads the content.
    pub(crate) fn look<T>(&self, look: impl FnOnce(&S) -> T) -> T {
        look(&self.0.lock().content)
    }
}

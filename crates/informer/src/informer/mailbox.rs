//! A lock, a reader that sleeps, and writers that wake it: the concurrent part of a listener's backlog, by itself.
//!
//! It is kept apart from what is in the mailbox so that every interleaving of it can be tried (see `tests/loom.rs`).

use std::task::{Context, Poll, Waker};

use crate::panic::wake;
use crate::sync::Mutex;

/// Something that many change and one reads from. One task reads it.
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

    /// Changes the content, unless closed. Gives the waker of a reader that sleeps: it is to be woken when no lock is held.
    pub(crate) fn put(&self, change: impl FnOnce(&mut S)) -> Option<Waker> {
        let mut inner = self.0.lock();
        if inner.closed {
            return None;
        }
        change(&mut inner.content);
        inner.reader.take()
    }

    /// What `take` finds; waits as long as it finds nothing. `None` once closed.
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
        // When no lock is held: the task that it wakes may go with it.
        drop(earlier);
        Poll::Pending
    }

    /// Nothing more is put or found; what is there is dropped.
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

    /// Looks at the content.
    pub(crate) fn look<T>(&self, look: impl FnOnce(&S) -> T) -> T {
        look(&self.0.lock().content)
    }
}

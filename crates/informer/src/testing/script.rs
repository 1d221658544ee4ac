//! Scripted answers, used before the server's own.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::source::SourceError;

/// The scripted answers, in order. After the last one, the server answers normally.
#[derive(Debug, Default)]
pub(super) struct Script {
    pub(super) lists: VecDeque<ListStep>,
    pub(super) watches: VecDeque<WatchStep>,
}

/// The answer to the next list.
#[derive(Debug)]
pub(super) enum ListStep {
    /// It fails immediately.
    Fail(SourceError),
    /// It breaks after this many items.
    BreakAfter(usize, SourceError),
    /// It returns a list of this kind.
    Kind(String),
    /// It returns this resourceVersion.
    Version(String),
    /// One of its items cannot be read.
    BadItem,
    /// One of its items has no name.
    NamelessItem,
    /// It has no items, and continues at this token.
    Token(String),
}

/// The answer to the next watch.
#[derive(Debug)]
pub(super) enum WatchStep {
    /// It fails immediately.
    Fail(SourceError),
    /// It is opened and closed without an event.
    Close,
}

/// A reset connection, as a source reports it.
pub(super) fn reset() -> SourceError {
    SourceError::Interrupted(Arc::new(std::io::Error::from(std::io::ErrorKind::ConnectionReset)))
}

/// A refused connection, as a source reports it.
pub(super) fn refused() -> SourceError {
    SourceError::ConnectionRefused(Arc::new(std::io::Error::from(std::io::ErrorKind::ConnectionRefused)))
}

/// An unreadable object; the rest of the stream is readable.
pub(super) fn unreadable() -> SourceError {
    let (what, why) = ("JSON object", "a value was expected");
    SourceError::Wire(kube_wire::Error::Malformed { what, at: 7, why })
}

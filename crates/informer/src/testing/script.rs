//! The script: answers that are played before the server's own.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::source::SourceError;

/// What the next requests meet, in order; when the script is empty, the server answers as it would.
#[derive(Debug, Default)]
pub(super) struct Script {
    pub(super) lists: VecDeque<ListStep>,
    pub(super) watches: VecDeque<WatchStep>,
}

/// What the next list meets.
#[derive(Debug)]
pub(super) enum ListStep {
    /// It fails at once.
    Fail(SourceError),
    /// It breaks after this many items.
    BreakAfter(usize, SourceError),
    /// It is answered with a list of this kind.
    Kind(String),
    /// It is answered with this resourceVersion.
    Version(String),
    /// One of its items cannot be read.
    BadItem,
    /// It has no items, and goes on at this token.
    Token(String),
}

/// What the next watch meets.
#[derive(Debug)]
pub(super) enum WatchStep {
    /// It fails at once.
    Fail(SourceError),
    /// It is opened and closed without an event.
    Close,
}

/// A connection that was reset, as a source reports it.
pub(super) fn reset() -> SourceError {
    SourceError::Interrupted(Arc::new(std::io::Error::from(std::io::ErrorKind::ConnectionReset)))
}

/// A connection that was refused, as a source reports it.
pub(super) fn refused() -> SourceError {
    SourceError::ConnectionRefused(Arc::new(std::io::Error::from(std::io::ErrorKind::ConnectionRefused)))
}

/// An object that cannot be read; what follows can.
pub(super) fn unreadable() -> SourceError {
    let (what, why) = ("JSON object", "a value was expected");
    SourceError::Wire(kube_wire::Error::Malformed { what, at: 7, why })
}

//! The errors of a reflector, and what it does about each.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::queue::SinkError;
use crate::source::SourceError;

/// An error, as the error handler receives it. The reflector goes on; [`ErrorReport::next`] is how.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ErrorReport {
    /// What is reflected, e.g. `pods in all namespaces`.
    pub resource: Arc<str>,
    /// What went wrong.
    pub error: Arc<ReflectorError>,
    /// What is done about it.
    pub next: NextStep,
}

/// What went wrong in a reflector.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReflectorError {
    /// A list failed.
    #[error("listing failed: {0}")]
    List(#[source] SourceError),
    /// A watch could not be opened.
    #[error("the watch could not be opened: {0}")]
    Open(#[source] SourceError),
    /// A watch ended with an error.
    #[error("the watch ended: {0}")]
    Watch(#[source] SourceError),
    /// A watch-list could not be opened, or ended before its initial state was complete.
    #[error("the watch-list ended before its initial state was complete: {0}")]
    WatchList(#[source] SourceError),
    /// A watch-list closed without the bookmark that ends its initial state.
    #[error("the watch-list closed without the bookmark that ends its initial state")]
    WatchListClosed,
    /// The bookmark that ends a watch-list's initial state did not come.
    #[error(
        "the bookmark that ends the watch-list's initial state did not come within {0:?} of the last event"
    )]
    WatchListUnending(Duration),
    /// A watch-list's initial state took too long in all.
    #[error("the watch-list's initial state was not complete after {0:?}")]
    WatchListTooLong(Duration),
    /// The server has not answered a watch; it is waited for.
    #[error("the server has not answered the watch for {0:?}")]
    Unanswered(Duration),
    /// Whether the server still has the cached state could not be verified after a broken connection.
    #[error("cannot verify the cached state after a broken connection: {0}")]
    Verify(#[source] SourceError),
    /// The server has another history than the cached state: it was restored from a backup.
    #[error(
        "the server was restored from a backup: at resourceVersion {version} it has another state than the cached one"
    )]
    Diverged {
        /// The resourceVersion at which both were compared.
        version: String,
    },
    /// A watch was closed within a second, without anything new.
    #[error("the watch was closed within a second without anything new")]
    VeryShortWatch,
    /// A watch has been silent for much longer than bookmarks take.
    #[error("nothing came for {0:?}, though bookmarks came more often before: the watch seems dead")]
    Silent(Duration),
    /// One object of a list or event of a watch could not be read.
    #[error("one object could not be read: {0}")]
    Object(#[source] SourceError),
    /// An event carried an object of another kind.
    #[error("an event carried {found} instead of {expected}")]
    UnexpectedKind {
        /// What is reflected.
        expected: String,
        /// What came.
        found: String,
    },
    /// An event of a type that is not known.
    #[error("an event of the unknown type `{0}`")]
    UnknownEvent(String),
    /// The queue did not take an object.
    #[error(transparent)]
    Sink(SinkError),
}

/// What a reflector does about an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NextStep {
    /// It leaves out this object or event and reads on.
    ReadOn,
    /// It goes on waiting.
    Wait,
    /// It watches on from the last resourceVersion, after this wait.
    Resume(Duration),
    /// It asks for the most recent state at once, because the resourceVersion is not available.
    AskForMostRecent,
    /// It uses a plain LIST, after this wait.
    ListInstead(Duration),
    /// It lists anew, after this wait.
    Relist(Duration),
}

// === impl ReflectorError ===

impl ReflectorError {
    /// The server's answer, where that is the error.
    pub fn status(&self) -> Option<&kube_wire::Status> {
        match self {
            Self::List(error)
            | Self::Open(error)
            | Self::Watch(error)
            | Self::WatchList(error)
            | Self::Verify(error)
            | Self::Object(error) => error.status(),
            _ => None,
        }
    }
}

// === impl NextStep ===

impl NextStep {
    /// Whether it is tried again only after a while: what was tried has failed, for now.
    pub(super) fn gives_up(self) -> bool {
        match self {
            Self::Relist(_) => true,
            Self::Resume(wait) | Self::ListInstead(wait) => !wait.is_zero(),
            Self::ReadOn | Self::Wait | Self::AskForMostRecent => false,
        }
    }
}

// === impl ErrorReport ===

impl fmt::Display for ErrorReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}; {}", self.resource, self.error, self.next)
    }
}

impl fmt::Display for NextStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ReadOn => f.write_str("left out, reading on"),
            Self::Wait => f.write_str("still waiting"),
            Self::Resume(Duration::ZERO) => f.write_str("watching on from the last resourceVersion"),
            Self::Resume(wait) => write!(f, "watching on from the last resourceVersion in {wait:.1?}"),
            Self::AskForMostRecent => f.write_str("asking for the most recent state instead"),
            Self::ListInstead(Duration::ZERO) => f.write_str("using a plain list instead"),
            Self::ListInstead(wait) => write!(f, "using a plain list instead, in {wait:.1?}"),
            Self::Relist(wait) => write!(f, "listing anew in {wait:.1?}"),
        }
    }
}

//! The errors of a reflector, and its reaction to each.

use std::fmt::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use super::VERSION_BYTES_MAX;
use crate::queue::SinkError;
use crate::source::SourceError;

/// An error, as the error handler receives it. The informer or reflector continues; the report prints how.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{resource}: {error}; {next}")]
#[non_exhaustive]
pub struct ErrorReport {
    /// What is reflected, such as `pods in all namespaces`.
    pub resource: Arc<str>,
    /// The error.
    pub error: WatchError,
    pub(super) next: NextStep,
}

/// Why listing or watching a resource failed. Prints the operation and the server's answer.
#[derive(Clone, Debug, thiserror::Error)]
#[error(transparent)]
pub struct WatchError(ShortError);

/// An error of a reflector.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReflectorError {
    /// A list failed.
    #[error("cannot list: {0}")]
    List(#[source] SourceError),
    /// A watch could not be opened.
    #[error("cannot open watch: {0}")]
    Open(#[source] SourceError),
    /// A watch ended with an error.
    #[error("watch failed: {0}")]
    Watch(#[source] SourceError),
    /// A watch-list could not be opened, or failed before its initial list was complete.
    #[error("cannot complete watch-list: {0}")]
    WatchList(#[source] SourceError),
    /// A watch-list closed without the bookmark that ends its initial list.
    #[error("cannot complete watch-list: closed without the bookmark that ends its initial list")]
    WatchListClosed,
    /// The bookmark that ends a watch-list's initial list did not arrive.
    #[error("timed out after {0:?} waiting for the bookmark that ends the watch-list's initial list")]
    WatchListUnending(Duration),
    /// A watch-list's initial list took too long in total.
    #[error("timed out after {0:?} waiting for the watch-list's initial list")]
    WatchListTooLong(Duration),
    /// The server has not answered a watch yet. The reflector keeps waiting.
    #[error("timed out after {0:?} waiting for the response to the watch")]
    Unanswered(Duration),
    /// After a broken connection, the reflector could not verify that the server still has the cached state.
    #[error("cannot verify the cached state after a broken connection: {0}")]
    Verify(#[source] SourceError),
    /// The server's history differs from the cached one: it was restored from a backup.
    #[error("cannot resume watch at resourceVersion {version}: the server was restored from a backup")]
    Diverged {
        /// The resourceVersion of the comparison.
        version: String,
    },
    /// A watch was closed within a second without a new event.
    #[error("cannot keep watch open: closed within 1s without a new event")]
    VeryShortWatch,
    /// A watch has been silent for much longer than the interval of bookmarks.
    #[error("timed out after {0:?} waiting for events or bookmarks")]
    Silent(Duration),
    /// One object of a list, or event of a watch, could not be read.
    #[error("cannot read one object: {0}")]
    Object(#[source] SourceError),
    /// An event contained an object of another kind.
    #[error("invalid event: expected {expected}, found {found}")]
    UnexpectedKind {
        /// The reflected kind.
        expected: String,
        /// The kind in the event.
        found: String,
    },
    /// An event has an unknown type.
    #[error("invalid event: unknown type `{0}`")]
    UnknownEvent(String),
    /// The queue rejected an object.
    #[error(transparent)]
    Sink(SinkError),
}

/// The longest text of an error. It may contain a message or a name of any length that the server sent.
const TEXT_BYTES_MAX: usize = 1 << 10;

/// An error that prints at most [`TEXT_BYTES_MAX`].
#[derive(Clone, Debug)]
struct ShortError(Arc<ReflectorError>);

/// Takes a text up to a number of bytes.
struct ShortText<'a, 'f> {
    formatter: &'a mut fmt::Formatter<'f>,
    left: usize,
}

/// A list that no server should return.
#[derive(Debug, thiserror::Error)]
pub(super) enum InvalidList {
    /// Its pages go in circles.
    #[error("invalid list: the server repeats a `continue` token")]
    TokenRepeated,
    /// Its pages never end.
    #[error("invalid list: {0} pages in a row without a new object")]
    PagesInVain(u32),
    /// A streamed object has no name.
    #[error("invalid list: an object has no name")]
    Nameless,
    /// Its resourceVersion is too long.
    #[error("invalid list: its resourceVersion has {0} bytes, at most {max} are accepted", max = VERSION_BYTES_MAX)]
    VersionTooLong(usize),
}

/// What a reflector does after an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NextStep {
    /// It skips this object or event and continues.
    ReadOn,
    /// It keeps waiting.
    Wait,
    /// It resumes the watch from the last resourceVersion, after this wait.
    Resume(Duration),
    /// It requests the most recent state immediately, because the resourceVersion is not available.
    AskForMostRecent,
    /// It uses an ordinary LIST, after this wait.
    ListInstead(Duration),
    /// It relists, after this wait.
    Relist(Duration),
}

// === impl ReflectorError ===

impl ReflectorError {
    /// The server's answer, if that is the error.
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

// === impl ShortError ===

impl std::error::Error for ShortError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        std::error::Error::source(&*self.0)
    }
}

impl fmt::Display for ShortError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = ShortText { formatter: f, left: TEXT_BYTES_MAX };
        match write!(text, "{}", self.0) {
            Err(_) if text.left == 0 => f.write_str("…"),
            written => written,
        }
    }
}

impl Write for ShortText<'_, '_> {
    /// Returns an error after the last character that fits, which ends the formatting.
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if text.len() <= self.left {
            self.left -= text.len();
            return self.formatter.write_str(text);
        }
        let end = (0..=self.left).rev().find(|end| text.is_char_boundary(*end)).unwrap_or_default();
        self.left = 0;
        self.formatter.write_str(&text[..end])?;
        Err(fmt::Error)
    }
}

// === impl InvalidList ===

impl InvalidList {
    /// Checks that a watch can begin at this resourceVersion of a list.
    pub(super) fn check_version(version: &str) -> Result<(), SourceError> {
        match version.len() {
            ..=VERSION_BYTES_MAX => Ok(()),
            len => Err(SourceError::Other(Arc::new(Self::VersionTooLong(len)))),
        }
    }
}

// === impl NextStep ===

impl NextStep {
    /// Whether the attempt failed: the next one follows only after a wait.
    pub(super) fn gives_up(self) -> bool {
        match self {
            Self::Relist(_) => true,
            Self::Resume(wait) | Self::ListInstead(wait) => !wait.is_zero(),
            Self::ReadOn | Self::Wait | Self::AskForMostRecent => false,
        }
    }
}

// === impl ErrorReport ===

#[cfg(feature = "building-blocks")]
impl ErrorReport {
    /// What the reflector does about the error.
    pub fn next(&self) -> NextStep {
        self.next
    }
}

// === impl WatchError ===

impl WatchError {
    pub(crate) fn new(error: Arc<ReflectorError>) -> Self {
        Self(ShortError(error))
    }

    /// The server's answer, if the server refused.
    pub fn status(&self) -> Option<&kube_wire::Status> {
        self.0.0.status()
    }

    /// The error as the reflector reports it.
    #[cfg(feature = "building-blocks")]
    pub fn reflector_error(&self) -> &ReflectorError {
        &self.0.0
    }
}

impl fmt::Display for NextStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ReadOn => f.write_str("skipped"),
            Self::Wait => f.write_str("still waiting"),
            Self::Resume(Duration::ZERO) => f.write_str("resuming from the last resourceVersion"),
            Self::Resume(wait) => write!(f, "resuming from the last resourceVersion in {wait:.1?}"),
            Self::AskForMostRecent => f.write_str("requesting the most recent state instead"),
            Self::ListInstead(Duration::ZERO) => f.write_str("listing instead"),
            Self::ListInstead(wait) => write!(f, "listing instead in {wait:.1?}"),
            Self::Relist(wait) => write!(f, "relisting in {wait:.1?}"),
        }
    }
}

//! What a reflector is doing, readable while it runs.

use std::fmt;
use std::sync::Arc;

use tokio::time::Instant;

use super::ReflectorError;

/// What a reflector is doing.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub enum ReflectorState {
    /// It has not begun.
    #[default]
    Pending,
    /// It reads a list.
    Listing,
    /// It reads the initial events of a watch-list.
    Streaming,
    /// It opens a watch.
    Opening,
    /// It follows the changes.
    Watching,
    /// It waits after an error.
    BackingOff {
        /// The error.
        error: Arc<ReflectorError>,
        /// When it will try again.
        until: Instant,
    },
    /// It follows the changes, but its streams keep breaking at the same resourceVersion, or the server does not answer: what
    /// it shows may be stale. It ends with progress, or once a watch has lived for
    /// [`BackoffConfig::reset_after`](super::BackoffConfig::reset_after).
    Degraded {
        /// What is wrong with them.
        error: Arc<ReflectorError>,
    },
    /// It has ended.
    Stopped,
}

/// The state of a reflector, and how far it has come.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ReflectorStatus {
    /// What it is doing.
    pub state: ReflectorState,
    /// Whether a first full state was handed to the sink.
    pub listed: bool,
    /// How often the server has gone back in time: see [`Committed::new_epoch`](crate::queue::Committed::new_epoch).
    pub epoch: u64,
    /// How many full states were handed to the sink.
    pub full_states: u64,
    /// How many lists and watch-lists did not give one.
    pub failed_lists: u64,
    /// How many watches were opened. (One goes on where a watch-list's initial state ends; that is not counted again.)
    pub watches: u64,
    /// How many could not be opened.
    pub failed_watches: u64,
    /// How many ended otherwise than by a normal close.
    pub broken_watches: u64,
    /// The last error since the last full state, if there was one.
    pub last_error: Option<Arc<ReflectorError>>,
    /// The last of them after which nothing else was tried at once.
    pub(crate) failure: Option<Arc<ReflectorError>>,
}

impl ReflectorStatus {
    /// Counts an error that was reported.
    pub(super) fn count(&mut self, error: &ReflectorError) {
        let counter = match error {
            ReflectorError::List(_)
            | ReflectorError::WatchList(_)
            | ReflectorError::WatchListClosed
            | ReflectorError::WatchListUnending(_)
            | ReflectorError::WatchListTooLong(_) => &mut self.failed_lists,
            ReflectorError::Open(_) => &mut self.failed_watches,
            ReflectorError::Watch(_)
            | ReflectorError::Verify(_)
            | ReflectorError::Diverged { .. }
            | ReflectorError::VeryShortWatch
            | ReflectorError::Silent(_) => &mut self.broken_watches,
            // The stream went on.
            ReflectorError::Object(_)
            | ReflectorError::Unanswered(_)
            | ReflectorError::UnexpectedKind { .. }
            | ReflectorError::UnknownEvent(_)
            | ReflectorError::Sink(_) => return,
        };
        *counter += 1;
    }
}

impl fmt::Display for ReflectorState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pending => f.write_str("pending"),
            Self::Listing => f.write_str("listing"),
            Self::Streaming => f.write_str("streaming the initial state"),
            Self::Opening => f.write_str("opening a watch"),
            Self::Watching => f.write_str("watching"),
            Self::BackingOff { error, .. } => write!(f, "backing off: {error}"),
            Self::Degraded { error } => write!(f, "degraded: {error}"),
            Self::Stopped => f.write_str("stopped"),
        }
    }
}

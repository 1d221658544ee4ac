//! The status of a reflector, readable while it runs.

use std::sync::Arc;

use tokio::time::Instant;

use super::ReflectorError;

/// The state of a reflector.
#[derive(Clone, Debug, derive_more::Display, Default)]
#[non_exhaustive]
pub enum ReflectorState {
    /// It has not started.
    #[default]
    #[display("pending")]
    Pending,
    /// It is reading a list.
    #[display("listing")]
    Listing,
    /// It is reading the initial events of a watch-list.
    #[display("streaming the initial list")]
    Streaming,
    /// It is opening a watch.
    #[display("opening a watch")]
    Opening,
    /// It is following changes.
    #[display("watching")]
    Watching,
    /// It is waiting after an error.
    #[display("backing off: {error}")]
    BackingOff {
        /// The error.
        error: Arc<ReflectorError>,
        /// When it will retry.
        until: Instant,
    },
    /// It is following changes, but its streams keep breaking at the same resourceVersion, or the server does not answer:
    /// the cached state may be stale. This ends with progress, or once a watch has lived for
    /// [`BackoffConfig::reset_after`](super::BackoffConfig::reset_after).
    #[display("degraded: {error}")]
    Degraded {
        /// The last error of its streams.
        error: Arc<ReflectorError>,
    },
    /// It has ended.
    #[display("stopped")]
    Stopped,
}

/// The state of a reflector, and its counters.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ReflectorStatus {
    /// The current state.
    pub state: ReflectorState,
    /// Whether the initial list was handed to the sink.
    pub listed: bool,
    /// How often the server regressed: see [`Committed::new_epoch`](crate::queue::Committed::new_epoch).
    pub epoch: u64,
    /// How many complete lists were handed to the sink.
    pub complete_lists: u64,
    /// How many of them arrived as a watch-list.
    pub streamed_lists: u64,
    /// How many lists and watch-lists failed.
    pub failed_lists: u64,
    /// How many watches were opened. (A watch-list that continues as a watch is not counted again.)
    pub watches: u64,
    /// How many watches could not be opened.
    pub failed_watches: u64,
    /// How many watches ended abnormally.
    pub broken_watches: u64,
    /// The last error since the last complete list, if any.
    pub last_error: Option<Arc<ReflectorError>>,
    /// The selection of the last complete list.
    pub(crate) selection: u64,
    /// The last error that was followed by a wait, until a list or a watch works again.
    pub(crate) failure: Option<Arc<ReflectorError>>,
}

impl ReflectorStatus {
    /// Counts a reported error.
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
            // The stream continued.
            ReflectorError::Object(_)
            | ReflectorError::Unanswered(_)
            | ReflectorError::UnexpectedKind { .. }
            | ReflectorError::UnknownEvent(_)
            | ReflectorError::Sink(_) => return,
        };
        *counter += 1;
    }
}

impl ReflectorState {
    /// The state without its details.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Listing => "listing",
            Self::Streaming => "streaming",
            Self::Opening => "opening",
            Self::Watching => "watching",
            Self::BackingOff { .. } => "backing off",
            Self::Degraded { .. } => "degraded",
            Self::Stopped => "stopped",
        }
    }
}

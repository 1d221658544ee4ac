//! What a list or a watch may ask for.

use std::time::Duration;

/// Options of a list request. An empty `resource_version` is not sent; `"0"` is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ListOptions {
    /// Label selector, as kubectl's `-l`; empty for all.
    pub label_selector: String,
    /// Field selector, in addition to the source's own; empty for all.
    pub field_selector: String,
    /// Only this namespace, of a source of all namespaces: a server finds one object there without looking at all.
    pub namespace: Option<String>,
    /// `""`: the most recent state. `"0"`: any state the server has at hand. Else: not older than this (see `version_match`).
    pub resource_version: String,
    /// How `resource_version` is meant.
    pub version_match: Option<VersionMatch>,
    /// Size of a page; `None` for all at once.
    pub limit: Option<u32>,
    /// Token of the page before; empty for the first.
    pub continue_token: String,
}

/// Options of a watch request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WatchOptions {
    /// Label selector, as kubectl's `-l`; empty for all.
    pub label_selector: String,
    /// Field selector; empty for all.
    pub field_selector: String,
    /// The watch begins after this; `""` and `"0"` begin with the present state as synthetic events.
    pub resource_version: String,
    /// How `resource_version` is meant; `NotOlderThan` is required beside `send_initial_events`.
    pub version_match: Option<VersionMatch>,
    /// Ask for the present state as events, ended by a bookmark: watch-list.
    pub send_initial_events: bool,
    /// A list would do instead: the source may answer [`SourceError::NoWatchList`](super::SourceError::NoWatchList) without
    /// asking a server on which watch-lists are known not to end.
    pub initial_events_optional: bool,
    /// Ask for bookmarks.
    pub allow_bookmarks: bool,
    /// When the server shall end the watch; whole seconds are sent.
    pub timeout: Option<Duration>,
}

/// How a resourceVersion in a request is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum VersionMatch {
    /// Exactly this state.
    Exact,
    /// This state or a newer one.
    NotOlderThan,
}

// === impl VersionMatch ===

impl VersionMatch {
    /// As the API spells it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Exact => "Exact",
            Self::NotOlderThan => "NotOlderThan",
        }
    }
}

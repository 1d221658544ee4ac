//! The options of list and watch requests.

use std::time::Duration;

/// Options of a list request. An empty `resource_version` is not sent; `"0"` is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ListOptions {
    /// Label selector, in the syntax of kubectl's `-l`; empty for all.
    pub label_selector: String,
    /// Field selector, in addition to the source's own; empty for all.
    pub field_selector: String,
    /// Shard selector ([`ShardSelector`](kube_wire::shard::ShardSelector)); empty for all. Servers without the feature ignore it.
    pub shard_selector: String,
    /// Only this namespace, for a source of all namespaces: the server then finds one object without scanning all.
    pub namespace: Option<String>,
    /// `""`: the most recent state. `"0"`: any state that the server has cached. Otherwise: not older than this (see
    /// `version_match`).
    pub resource_version: String,
    /// How to interpret `resource_version`.
    pub version_match: Option<VersionMatch>,
    /// Page size; `None` for no pages.
    pub limit: Option<u32>,
    /// Token from the previous page; empty for the first.
    pub continue_token: String,
}

/// Options of a watch request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WatchOptions {
    /// Label selector, in the syntax of kubectl's `-l`; empty for all.
    pub label_selector: String,
    /// Field selector; empty for all.
    pub field_selector: String,
    /// Shard selector, as in a list; empty for all.
    pub shard_selector: String,
    /// The watch begins after this; `""` and `"0"` begin with the current state as synthetic events.
    pub resource_version: String,
    /// How to interpret `resource_version`; `send_initial_events` requires `NotOlderThan`.
    pub version_match: Option<VersionMatch>,
    /// Requests the current state as events, ended by a bookmark: watch-list.
    pub send_initial_events: bool,
    /// A list would do instead: the source may return [`SourceError::NoWatchList`](super::SourceError::NoWatchList) without
    /// a request, if watch-lists are known not to end on the server.
    pub initial_events_optional: bool,
    /// Requests bookmarks.
    pub allow_bookmarks: bool,
    /// When the server should end the watch, in whole seconds.
    pub timeout: Option<Duration>,
}

/// How to interpret a resourceVersion in a request.
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
    /// The API's spelling.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Exact => "Exact",
            Self::NotOlderThan => "NotOlderThan",
        }
    }
}

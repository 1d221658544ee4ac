//! How a reflector goes about it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

#[cfg(doc)]
use super::ReflectorState;
use super::{BackoffConfig, ErrorReport};
use crate::source::ServerMemory;

/// Settings of a [`Reflector`](super::Reflector). The defaults are what a well-behaved client does.
#[derive(Clone)]
#[non_exhaustive]
pub struct ReflectorConfig {
    /// Size of a list's pages. Default: 500 where pages help, otherwise none, so that the server's cache can answer.
    pub page_size: Option<u32>,
    /// Whether the initial state is streamed.
    pub watch_list: WatchList,
    /// How long a watch-list may take to open, and how long it may be silent before its initial state is complete. (All in
    /// all that may take four times as long, and 20 ms for each object.) Default: 30 s.
    pub watch_list_quiet_max: Duration,
    /// How long a watch-list's initial state may take in all, however busy the stream is; then a list is used instead.
    /// Default: 10 minutes.
    pub watch_list_max: Duration,
    /// A watch is asked to last between this and twice this. Default, and at least: 5 minutes.
    pub watch_timeout_min: Duration,
    /// How far apart consecutive opens of a watch start at least. One that lasted longer is opened again immediately.
    /// Default: 0.8 s.
    pub watch_interval_min: Duration,
    /// How long the server may take to answer a watch before the state is [degraded](ReflectorState::Degraded). The reflector goes
    /// on waiting: some proxies hold the answer back until the first event. Default: 10 s.
    pub watch_answer_max: Duration,
    /// How long a watch that is resumed after a normal close may be silent until the server is asked whether it knows the
    /// resourceVersion at all: one restored from a backup may not, and answers such a watch with silence. (After a broken
    /// or refused connection this is verified immediately, by content.) Default: 5 s.
    pub resume_check_after: Duration,
    /// How long internal errors in a watch are answered by watching on at once. Default: not at all.
    pub internal_error_retry_max: Duration,
    /// How often everything is delivered again. Default: never.
    pub resync_period: Option<Duration>,
    /// Asked each time before that; `None` for always.
    pub should_resync: Option<Arc<dyn Fn() -> bool + Send + Sync>>,
    /// How long to wait after an error.
    pub backoff: BackoffConfig,
    /// Receives every error, and what is done about it.
    pub on_error: Option<ErrorHandler>,
    /// What was learned about the server; shared by all reflectors that talk to it. Those that use one
    /// [`Cluster`](crate::Cluster) share what they learned anyway.
    pub server: Arc<ServerMemory>,
    /// Seed of the random choices (jitter); `None` for one of the system's.
    pub seed: Option<u64>,
}

/// Receives errors.
pub type ErrorHandler = Arc<dyn Fn(&ErrorReport) + Send + Sync>;

/// Whether the initial state comes as a stream of events (watch-list) or as a list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum WatchList {
    /// As a stream, unless that was found not to work on this server.
    #[default]
    Auto,
    /// As a stream; a list stands in for one cycle when it does not work.
    On,
    /// As a list.
    Off,
}

// === impl ReflectorConfig ===

impl ReflectorConfig {
    /// The shortest time a watch is asked to last.
    pub(super) const WATCH_TIMEOUT_MIN: Duration = Duration::from_secs(300);
    /// The size of pages where none was set and pages help.
    pub(super) const PAGE_SIZE: u32 = 500;
}

impl Default for ReflectorConfig {
    fn default() -> Self {
        Self {
            page_size: None,
            watch_list: WatchList::default(),
            watch_list_quiet_max: Duration::from_secs(30),
            watch_list_max: Duration::from_secs(600),
            watch_timeout_min: Self::WATCH_TIMEOUT_MIN,
            watch_interval_min: Duration::from_millis(800),
            watch_answer_max: Duration::from_secs(10),
            resume_check_after: Duration::from_secs(5),
            internal_error_retry_max: Duration::ZERO,
            resync_period: None,
            should_resync: None,
            backoff: BackoffConfig::default(),
            on_error: None,
            server: Arc::default(),
            seed: None,
        }
    }
}

impl fmt::Debug for ReflectorConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReflectorConfig")
            .field("page_size", &self.page_size)
            .field("watch_list", &self.watch_list)
            .field("watch_timeout_min", &self.watch_timeout_min)
            .field("resync_period", &self.resync_period)
            .field("backoff", &self.backoff)
            .finish_non_exhaustive()
    }
}

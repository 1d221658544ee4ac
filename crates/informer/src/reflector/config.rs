//! The configuration of a reflector.

use std::sync::Arc;
use std::time::Duration;

use educe::Educe;

#[cfg(doc)]
use super::ReflectorState;
use super::{BackoffConfig, ErrorReport};
use crate::source::ServerMemory;

/// Settings of a [`Reflector`](super::Reflector). The defaults suit a well-behaved client.
#[derive(Clone, Educe)]
#[educe(Debug, Default)]
#[non_exhaustive]
pub struct ReflectorConfig {
    /// Page size of lists. Default: 500 where pages help, otherwise unpaged, so that the server's cache can answer.
    pub page_size: Option<u32>,
    /// Whether to stream the initial list.
    pub watch_list: WatchList,
    /// How long a watch-list may take to open, and how long it may be silent before its initial list is complete. (In total
    /// the initial list may take four times as long, plus 20 ms per object.) Default: 30 s.
    #[educe(Default(expression = Duration::from_secs(30)))]
    pub watch_list_quiet_max: Duration,
    /// How long a watch-list's initial list may take in total, however busy the stream is; then an ordinary list is used.
    /// Default: 10 minutes.
    #[educe(Default(expression = Duration::from_secs(600)))]
    pub watch_list_max: Duration,
    /// Watches are requested to last between this and twice this. Default and minimum: 5 minutes.
    #[educe(Default(expression = Self::WATCH_TIMEOUT_MIN))]
    pub watch_timeout_min: Duration,
    /// Minimum interval between consecutive opens of a watch. One that lasted longer is reopened immediately. Default:
    /// 0.8 s.
    #[educe(Default(expression = Duration::from_millis(800)))]
    pub watch_interval_min: Duration,
    /// How long the server may take to answer a watch before the state is [degraded](ReflectorState::Degraded). The
    /// reflector keeps waiting: some proxies hold the answer back until the first event. Default: 10 s.
    #[educe(Default(expression = Duration::from_secs(10)))]
    pub watch_answer_max: Duration,
    /// How long a watch resumed after a normal close may be silent before the reflector asks whether the server knows the
    /// resourceVersion at all. A server restored from a backup may not, and would stay silent. (After a broken or refused
    /// connection this is verified immediately, by content.) Default: 5 s.
    #[educe(Default(expression = Duration::from_secs(5)))]
    pub resume_check_after: Duration,
    /// How long to answer internal errors in a watch by resuming immediately. Default: not at all.
    pub internal_error_retry_max: Duration,
    /// How often to deliver everything again. Default: never.
    pub resync_period: Option<Duration>,
    /// Called before each resync; `None` for always.
    #[educe(Debug(ignore))]
    pub should_resync: Option<Arc<dyn Fn() -> bool + Send + Sync>>,
    /// The back-off after errors.
    pub backoff: BackoffConfig,
    /// Called with every error, and the reflector's next step.
    #[educe(Debug(ignore))]
    pub on_error: Option<ErrorHandler>,
    /// What was learned about the server; shared by all reflectors that talk to it. Those that use one
    /// [`Cluster`](crate::Cluster) share what they learned anyway.
    #[doc(hidden)]
    #[educe(Debug(ignore))]
    pub server: Arc<ServerMemory>,
    /// Seed of the random choices (how long to back off, and how long a watch is requested to last); `None` for a random one.
    pub seed: Option<u64>,
}

/// Receives error reports.
pub type ErrorHandler = Arc<dyn Fn(&ErrorReport) + Send + Sync>;

/// Whether the initial list arrives as a stream of events (watch-list) or as an ordinary list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum WatchList {
    /// As a stream, unless that is known not to work on this server.
    #[default]
    Auto,
    /// As a stream; when it fails, as a list for one cycle.
    On,
    /// As a list.
    Off,
}

// === impl ReflectorConfig ===

impl ReflectorConfig {
    /// The shortest requested duration of a watch.
    pub(super) const WATCH_TIMEOUT_MIN: Duration = Duration::from_secs(300);
    /// The default page size where pages help.
    pub(super) const PAGE_SIZE: u32 = 500;
}

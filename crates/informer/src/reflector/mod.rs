//! The loop that keeps a sink equal to the server: list, watch, and list again when the watch cannot be resumed.
//!
//! A cycle gets the complete state (by LIST, or as the initial events of a watch-list), commits it to the [`Sink`] as one
//! replace, and follows the changes from its resourceVersion. It ends when the resourceVersion is in doubt; the next cycle
//! begins after a wait. One table maps errors to reactions ([`decide`]).
//!
//! Everything is one task without a lock. Dropping the future of [`Reflector::run`] at any point leaves the sink
//! consistent, because a replace takes effect only as a whole.

mod backoff;
mod config;
mod decide;
mod error;
mod list;
mod state;
mod verify;
mod watch;
mod watch_list;
mod watchdog;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use kube_wire::{RawObject, TypeMeta};
use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::sync::watch as channel;
use tokio::time::Instant;

pub use backoff::BackoffConfig;
pub use config::{ErrorHandler, ReflectorConfig, WatchList};
pub use error::{ErrorReport, NextStep, ReflectorError, WatchError};
pub use state::{ReflectorState, ReflectorStatus};

use crate::panic::guarded;
use crate::queue::{Scope, Sink, SinkError};
use crate::source::ListerWatcher;
use backoff::Backoff;
use error::InvalidList;
use watch::FailedWatches;
use watchdog::Watchdog;

/// The longest resourceVersion that a watch is resumed from. A server's has at most 20 digits; those of aggregated APIs may be
/// any text, but one of many kilobytes would make the request too long to send.
const VERSION_BYTES_MAX: usize = 1 << 10;

/// Keeps one scope of a sink equal to a source.
///
/// ```
/// use std::sync::Arc;
/// use kube_informer::Scope;
/// use kube_informer::building_blocks::{DeltaFifo, DeltaFifoConfig, Reflector, ReflectorConfig};
/// # use kube_informer::testing::ScriptedSource;
/// # use serde_json::json;
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let source = ScriptedSource::new("v1", "Pod");
/// # source.put(json!({"metadata": {"namespace": "web", "name": "api"}}));
/// let queue = Arc::new(DeltaFifo::new(DeltaFifoConfig::default()));
/// let reflector = Reflector::new(Arc::new(source), queue.clone(), Scope::default(), ReflectorConfig::default());
/// let mut status = reflector.status();
/// tokio::select! {
///     () = reflector.run() => {}
///     _ = status.wait_for(|status| status.listed) => assert_eq!(queue.len(), 1),
/// }
/// # Ok(()) }
/// ```
pub struct Reflector<S> {
    source: Arc<dyn ListerWatcher>,
    sink: Arc<S>,
    scope: Scope,
    config: ReflectorConfig,
    /// A description of the source, for messages.
    resource: Arc<str>,
    /// The type of its objects, cached.
    expected: Option<TypeMeta>,
    status: channel::Sender<ReflectorStatus>,
    /// The resourceVersion up to which the sink has received everything.
    last_version: LastVersion,
    /// The last resourceVersion has expired, is newer than the server, or is not accepted by it.
    version_unavailable: bool,
    /// The last list had an item without a key. Objects that were deleted before it may still be cached, so everything is
    /// listed again when the watch ends.
    incomplete: bool,
    /// A list at `"0"` was paginated: the server has no watch cache for this resource.
    paginated: bool,
    failed_watches: FailedWatches,
    watchdog: Watchdog,
    backoff: Backoff,
    /// The source's selection in this cycle; 0 for one that never changes.
    selection: u64,
    /// Since when no watch is open: since the last list was requested, or since the last watch ended.
    unwatched_since: Option<Instant>,
    /// When the last watch was requested, or the watch-list that continues as one.
    opened_at: Option<Instant>,
    /// How long it was requested to last.
    asked_to_last: Duration,
    /// Since the cached state was last verified, a connection broke, was refused or ended early, or no watch was open for a
    /// while: the server may have been restored from a backup meanwhile.
    unverified: bool,
    /// The final state of the most recently deleted object, since the last complete list.
    last_deletion: Option<RawObject>,
    /// The state in which an object most recently left the shard, since the last complete list.
    last_left: Option<RawObject>,
    /// The resourceVersion of the current event; a field to reuse the allocation.
    event_version: String,
    rng: StdRng,
}

/// The last resourceVersion that a reflector received, readable while it runs.
#[derive(Clone, Debug, Default)]
pub struct LastVersion(Arc<Mutex<ReceivedVersion>>);

#[derive(Debug, Default)]
struct ReceivedVersion {
    version: String,
    at: Option<Instant>,
    /// How many objects of other shards were received and dropped.
    foreign: u64,
}

/// Why a cycle, or the whole loop, ends.
enum CycleEnd {
    /// The cycle is over, because of this error.
    Cycle(Arc<ReflectorError>),
    /// The source has changed its encoding or selection, or the cached state cannot be verified: everything must be listed
    /// again.
    Outdated,
    /// The sink is closed.
    Closed,
}

// === impl Reflector ===

impl<S: Sink> Reflector<S> {
    /// A reflector that writes the objects of `source` into this scope of `sink`.
    pub fn new(source: Arc<dyn ListerWatcher>, sink: Arc<S>, scope: Scope, config: ReflectorConfig) -> Self {
        Self {
            resource: source.describe().into(),
            expected: source.expected_type(),
            backoff: Backoff::new(config.backoff.clone()),
            rng: config.seed.map_or_else(rand::make_rng, StdRng::seed_from_u64),
            source,
            sink,
            scope,
            config,
            status: channel::Sender::default(),
            last_version: LastVersion::default(),
            version_unavailable: false,
            incomplete: false,
            paginated: false,
            failed_watches: FailedWatches::default(),
            unwatched_since: None,
            opened_at: None,
            asked_to_last: Duration::ZERO,
            unverified: false,
            last_deletion: None,
            last_left: None,
            event_version: String::new(),
            watchdog: Watchdog::default(),
            selection: 0,
        }
    }

    /// The status of the reflector, as it changes.
    pub fn status(&self) -> channel::Receiver<ReflectorStatus> {
        self.status.subscribe()
    }

    /// The resourceVersion up to which the sink has received everything, as it advances.
    pub fn last_version(&self) -> LastVersion {
        self.last_version.clone()
    }

    /// Runs until the sink is closed or this future is dropped.
    ///
    /// # Cancel safety
    /// May be dropped at any point: the sink stays consistent.
    pub async fn run(mut self) {
        loop {
            match self.cycle().await {
                Err(CycleEnd::Closed) => break,
                // Not an error: the next list follows immediately.
                Err(CycleEnd::Outdated) => {}
                Err(CycleEnd::Cycle(error)) => {
                    let wait = self.backoff_wait(&error);
                    self.report(&error, NextStep::Relist(wait));
                    self.back_off(error, wait).await;
                }
                Ok(never) => match never {},
            }
        }
        self.status.send_modify(|status| status.state = ReflectorState::Stopped);
    }

    /// One cycle: the complete state, then the changes.
    async fn cycle(&mut self) -> Result<std::convert::Infallible, CycleEnd> {
        self.begin_selection().await?;
        let stream = match self.tries_watch_list() {
            true => self.watch_list().await?,
            false => None,
        };
        if stream.is_none() {
            self.list().await?;
        }
        let ended = self.watch(stream).await;
        if let Err(CycleEnd::Cycle(error)) = &ended
            && !matches!(**error, ReflectorError::Sink(_))
        {
            self.failed_watches.add(error);
        }
        ended
    }

    /// Fixes the source's selection for this cycle. If it has changed, the sink is incomplete until the next list.
    async fn begin_selection(&mut self) -> Result<(), CycleEnd> {
        let selection = self.source.begin_cycle();
        let before = std::mem::replace(&mut self.selection, selection);
        if before != selection && self.status.borrow().listed {
            // The other selection may have bookmarks at other times, or none.
            self.watchdog = Watchdog::default();
            self.sink.reselect(self.scope).await?;
        }
        Ok(())
    }

    // --- shared by all phases ---

    fn enter(&self, state: ReflectorState) {
        tracing::trace!(from = self.status.borrow().state.name(), to = state.name(), "reflector");
        self.status.send_modify(|status| {
            if let ReflectorState::Watching = state {
                status.failure = None;
            }
            status.state = state;
        });
    }

    /// A complete list was committed.
    fn listed(&mut self, version: &str, new_epoch: bool) {
        // After a restore, a new list may be older than the last version. It is accepted anyway.
        self.last_version.set(version, Instant::now());
        self.version_unavailable = false;
        self.incomplete = false;
        self.unverified = false;
        (self.last_deletion, self.last_left) = (None, None);
        self.status.send_modify(|status| {
            status.listed = true;
            status.selection = self.selection;
            status.complete_lists += 1;
            status.streamed_lists += u64::from(matches!(status.state, ReflectorState::Streaming));
            status.epoch += u64::from(new_epoch);
            (status.last_error, status.failure) = (None, None);
        });
    }

    /// Reports an error to the error handler, the log and the status.
    fn report(&self, error: &Arc<ReflectorError>, next: NextStep) {
        let report =
            ErrorReport { resource: self.resource.clone(), error: WatchError::new(error.clone()), next };
        tracing::debug!(%report, "list or watch failed");
        self.status.send_modify(|status| {
            status.last_error = Some(error.clone());
            if next.gives_up() {
                status.failure = status.last_error.clone();
            }
            status.count(error);
        });
        if let Some(on_error) = &self.config.on_error
            && let Err(panic) = guarded(|| on_error(&report))
        {
            tracing::error!(%report, %panic, "the error handler panicked");
        }
    }

    fn backoff_wait(&mut self, error: &ReflectorError) -> Duration {
        let retry_after = error.status().and_then(|status| status.retry_after);
        self.backoff.wait(retry_after, &mut self.rng)
    }

    /// Waits until a watch may be opened, so that one that keeps ending is not reopened in a tight loop.
    async fn pace_opening(&self) {
        let interval = self.config.watch_interval_min.min(backoff::LONGEST);
        if let Some(opened_at) = self.opened_at {
            tokio::time::sleep_until(opened_at + interval).await;
        }
    }

    async fn back_off(&self, error: Arc<ReflectorError>, wait: Duration) {
        let until = Instant::now() + wait;
        self.enter(ReflectorState::BackingOff { error, until });
        tokio::time::sleep_until(until).await;
    }

    /// The requested duration of a watch, randomized so that many do not end at the same time.
    fn watch_timeout(&mut self) -> Duration {
        let least = ReflectorConfig::WATCH_TIMEOUT_MIN;
        let least = self.config.watch_timeout_min.clamp(least, backoff::LONGEST).as_secs();
        self.asked_to_last = Duration::from_secs(self.rng.random_range(least..2 * least));
        self.asked_to_last
    }

    /// Skips an object that the sink rejected. A closed sink ends the loop, an exceeded memory budget the cycle.
    fn refused(&self, error: SinkError) -> Result<(), CycleEnd> {
        match error {
            // Without the object, the state would be incomplete.
            SinkError::Closed | SinkError::OverBudget(_) => Err(error.into()),
            rejected => {
                self.report(&Arc::new(ReflectorError::Sink(rejected)), NextStep::ReadOn);
                Ok(())
            }
        }
    }

    /// Whether an object belongs to another shard: the server does not select, or selects less exactly. Counts it.
    fn is_foreign(&self, object: &RawObject) -> bool {
        let foreign = !self.source.selects(object);
        if foreign {
            self.last_version.count_foreign();
        }
        foreign
    }

    /// Whether an object has the reflected kind; reports it otherwise.
    fn is_expected(&self, object: &RawObject) -> bool {
        let Some(expected) = &self.expected else { return true };
        if object.type_meta() == expected {
            return true;
        }
        let error = ReflectorError::UnexpectedKind {
            expected: expected.to_string(),
            found: object.type_meta().to_string(),
        };
        self.report(&Arc::new(error), NextStep::ReadOn);
        false
    }
}

impl<S> fmt::Debug for Reflector<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reflector")
            .field("resource", &self.resource)
            .field("scope", &self.scope)
            .field("status", &*self.status.borrow())
            .field("last_version", &self.last_version)
            .finish_non_exhaustive()
    }
}

// === impl LastVersion ===

impl LastVersion {
    /// The resourceVersion; empty before the initial list.
    pub fn get(&self) -> String {
        self.0.lock().version.clone()
    }

    /// When the last list, event or bookmark was received.
    pub fn received_at(&self) -> Option<Instant> {
        self.0.lock().at
    }

    /// How many objects of other shards were received and dropped.
    pub(crate) fn foreign(&self) -> u64 {
        self.0.lock().foreign
    }

    fn count_foreign(&self) {
        self.0.lock().foreign += 1;
    }

    fn set(&self, version: &str, now: Instant) {
        let mut seen = self.0.lock();
        version.clone_into(&mut seen.version);
        seen.at = Some(now);
    }

    /// Records an arrival. Advances to its `version`, unless it has no usable one or is older: a repeated event must not
    /// move the watch back. A version that is not a number counts: aggregated APIs may have such versions. If the server
    /// does not accept it, everything is listed again.
    ///
    /// Returns whether that was progress. Without comparable versions, every arrival is progress.
    fn advance(&self, version: Option<&str>, now: Instant) -> bool {
        let mut seen = self.0.lock();
        seen.at = Some(now);
        let newer = |version: &&str| {
            (1..=VERSION_BYTES_MAX).contains(&version.len())
                && !crate::version::is_older(version, &seen.version)
        };
        let incomparable = matches!(seen.version.as_str(), "" | "0");
        match version.filter(newer) {
            Some(version) if version != seen.version => {
                version.clone_into(&mut seen.version);
                true
            }
            _ => incomparable,
        }
    }
}

impl CycleEnd {
    fn because(error: ReflectorError) -> Self {
        Self::Cycle(Arc::new(error))
    }
}

impl From<SinkError> for CycleEnd {
    fn from(error: SinkError) -> Self {
        match error {
            SinkError::Closed => Self::Closed,
            rejected => Self::because(ReflectorError::Sink(rejected)),
        }
    }
}

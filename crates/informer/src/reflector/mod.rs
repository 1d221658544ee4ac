//! The loop that keeps a sink equal to the server: list, then watch, then begin again when that is no longer possible.
//!
//! A cycle gets the full state (by LIST, or as the initial events of a watch-list), hands it to the [`Sink`] as one
//! replace, and follows the changes from its resourceVersion. It ends when the resourceVersion has become doubtful; then
//! the next one begins, after a wait. What is done about which error is decided in one table ([`decide`]).
//!
//! Everything is one task without a lock: dropping the future of [`Reflector::run`] at any point leaves the sink whole,
//! because a replace takes effect only as a whole.

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
pub use error::{ErrorReport, NextStep, ReflectorError};
pub use state::{ReflectorState, ReflectorStatus};

use crate::panic::guarded;
use crate::queue::{Scope, Sink, SinkError};
use crate::source::ListerWatcher;
use backoff::Backoff;
use watch::Unsound;
use watchdog::Watchdog;

/// Keeps one scope of a sink equal to what a source shows.
///
/// ```no_run
/// # use std::sync::Arc;
/// # use kube_informer::{Scope, building_blocks::{ListerWatcher, Reflector, ReflectorConfig, Sink}};
/// # async fn example(source: Arc<dyn ListerWatcher>, queue: Arc<impl Sink>) {
/// let reflector = Reflector::new(source, queue, Scope::default(), ReflectorConfig::default());
/// let mut status = reflector.status();
/// tokio::select! {
///     () = reflector.run() => {}
///     _ = status.wait_for(|status| status.listed) => println!("the first full state is in the queue"),
/// }
/// # }
/// ```
pub struct Reflector<S> {
    source: Arc<dyn ListerWatcher>,
    sink: Arc<S>,
    scope: Scope,
    config: ReflectorConfig,
    /// What the source lists and watches, for messages.
    resource: Arc<str>,
    /// The type of its objects: asked for once, not with each of them.
    expected: Option<TypeMeta>,
    status: channel::Sender<ReflectorStatus>,
    /// The resourceVersion up to which the sink has received everything.
    last_version: LastVersion,
    /// The last resourceVersion was found expired, or newer than the server.
    version_unavailable: bool,
    /// A list at `"0"` came in pages: the server has no watch cache for this resource.
    paginated: bool,
    unsound: Unsound,
    watchdog: Watchdog,
    backoff: Backoff,
    /// When the last watch was asked for, or the watch-list that went on as one.
    opened_at: Option<Instant>,
    /// How long it was asked to last.
    asked_to_last: Duration,
    /// A connection broke, was refused or ended early since the cached state was last known to be the server's: it may have
    /// been restored from a backup meanwhile.
    unverified: bool,
    /// The last state of the object that was deleted last, since the last full state.
    last_deletion: Option<RawObject>,
    /// The resourceVersion of the event at hand; a field so that its room is used again.
    event_version: String,
    rng: StdRng,
}

/// The last resourceVersion a reflector has seen, readable while it runs.
#[derive(Clone, Debug, Default)]
pub struct LastVersion(Arc<Mutex<ReceivedVersion>>);

#[derive(Debug, Default)]
struct ReceivedVersion {
    version: String,
    at: Option<Instant>,
}

/// Why a cycle, or the whole loop, ends.
enum CycleEnd {
    /// The cycle is over, because of this.
    Cycle(Arc<ReflectorError>),
    /// The source would now give everything differently.
    Outdated,
    /// The sink is closed.
    Closed,
}

// === impl Reflector ===

impl<S: Sink> Reflector<S> {
    /// A reflector that will write what `source` shows into this scope of `sink`.
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
            paginated: false,
            unsound: Unsound::default(),
            opened_at: None,
            asked_to_last: Duration::ZERO,
            unverified: false,
            last_deletion: None,
            event_version: String::new(),
            watchdog: Watchdog::default(),
        }
    }

    /// What the reflector is doing, as it changes.
    pub fn status(&self) -> channel::Receiver<ReflectorStatus> {
        self.status.subscribe()
    }

    /// The resourceVersion up to which the sink has received everything, as it advances.
    pub fn last_version(&self) -> LastVersion {
        self.last_version.clone()
    }

    /// Reflects until the sink is closed, or this future is dropped.
    ///
    /// # Cancel safety
    /// It may be dropped at any point: what the sink holds stays whole.
    pub async fn run(mut self) {
        loop {
            match self.cycle().await {
                Err(CycleEnd::Closed) => break,
                // Nothing is wrong: the next full state follows at once.
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

    /// One cycle: the full state, then the changes.
    async fn cycle(&mut self) -> Result<std::convert::Infallible, CycleEnd> {
        let stream = match self.tries_watch_list() {
            true => self.watch_list().await?,
            false => None,
        };
        if stream.is_none() {
            self.list().await?;
        }
        self.watch(stream).await
    }

    // --- what all phases share ---

    fn enter(&self, state: ReflectorState) {
        self.status.send_modify(|status| status.state = state);
    }

    /// A full state was committed.
    fn listed(&mut self, version: &str, new_epoch: bool) {
        // A new full state may be older than what was seen before, after a restore: it counts all the same.
        self.last_version.set(version, Instant::now());
        self.version_unavailable = false;
        self.unverified = false;
        self.last_deletion = None;
        self.status.send_modify(|status| {
            status.listed = true;
            status.full_states += 1;
            status.epoch += u64::from(new_epoch);
            (status.last_error, status.failure) = (None, None);
        });
    }

    /// Reports an error to the error handler, the log and the status.
    fn report(&self, error: &Arc<ReflectorError>, next: NextStep) {
        let report = ErrorReport { resource: self.resource.clone(), error: error.clone(), next };
        tracing::debug!(%report, "reflector");
        self.status.send_modify(|status| {
            status.last_error = Some(report.error.clone());
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

    /// Waits until a watch may be opened: one that keeps ending must not be asked for without a pause.
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

    /// How long the server shall keep a watch: spread, so that many do not end at once.
    fn watch_timeout(&mut self) -> Duration {
        let least = ReflectorConfig::WATCH_TIMEOUT_MIN;
        let least = self.config.watch_timeout_min.clamp(least, backoff::LONGEST).as_secs();
        self.asked_to_last = Duration::from_secs(self.rng.random_range(least..2 * least));
        self.asked_to_last
    }

    /// An object that the sink refused is left out; a closed sink ends everything.
    fn refused(&self, error: SinkError) -> Result<(), CycleEnd> {
        match error {
            SinkError::Closed => Err(CycleEnd::Closed),
            rejected => {
                self.report(&Arc::new(ReflectorError::Sink(rejected)), NextStep::ReadOn);
                Ok(())
            }
        }
    }

    /// Whether an object is of the kind that is reflected; another is reported.
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
    /// The resourceVersion; empty before the first full state.
    pub fn get(&self) -> String {
        self.0.lock().version.clone()
    }

    /// When something was received last: a full state, an event or a bookmark.
    pub fn received_at(&self) -> Option<Instant> {
        self.0.lock().at
    }

    fn set(&self, version: &str, now: Instant) {
        let mut seen = self.0.lock();
        version.clone_into(&mut seen.version);
        seen.at = Some(now);
    }

    /// Something came. Advances to its `version`, unless it has none that counts, or one that is known to be older: a
    /// repeated event must not take the watch back.
    ///
    /// Returns whether that was progress. Where nothing can be compared, anything that comes is.
    fn advance(&self, version: Option<&str>, now: Instant) -> bool {
        let mut seen = self.0.lock();
        seen.at = Some(now);
        let newer = |version: &&str| !version.is_empty() && !crate::version::is_older(version, &seen.version);
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

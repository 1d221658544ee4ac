//! Follows changes: one watch after another, each from where the last one ended.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use kube_wire::{RawObject, WatchEvent};
use tokio::time::Instant;

use super::decide::{Decision, During, decide, is_version_in_doubt};
use super::{CycleEnd, NextStep, Reflector, ReflectorError, ReflectorState};
use crate::Key;
use crate::deadline::{after, until};
use crate::panic::guarded;
use crate::queue::{Sink, SinkError};
use crate::source::{ListOptions, SourceError, VersionMatch, WatchOptions, WatchStream};

/// A watch that ends within this time without a new event counts as an error, however it ended: the next one would end the
/// same way.
const VERY_SHORT: Duration = Duration::from_secs(1);

/// A watch that closes normally, but more than this before its time, may indicate a restart of the server.
const EARLY: Duration = Duration::from_secs(5);

/// While no watch is open, no connection shows that the server was restored. Within this time, it cannot be.
const RESTORED_AFTER: Duration = Duration::from_secs(1);

/// Internal errors further apart than this are separate incidents.
const INTERNAL_ERROR_RESET: Duration = Duration::from_secs(60);

/// After this many failed watches in a row without progress, the state is degraded.
const DEGRADED_AT: u32 = 3;

/// How a watch ended.
enum WatchEnd {
    /// The server closed it.
    Closed,
    /// It broke, or carried an error.
    Failed(SourceError),
    /// The server does not know the resourceVersion: it has regressed.
    FromTheFuture(SourceError),
    /// Nothing was received for too long.
    Silent(Duration),
    /// The source would now return everything differently.
    Outdated,
}

/// An event whose object cannot be read, but whose type and key can be.
pub(super) enum UnreadableEvent {
    /// The object was added or changed.
    Put(Key),
    /// It was deleted.
    Deleted(Key),
}

/// Consecutive failed watches without progress.
#[derive(Debug, Default)]
pub(super) struct FailedWatches {
    /// All of them.
    count: u32,
    /// Failures after which the watch resumes only once.
    broken: u32,
    error: Option<Arc<ReflectorError>>,
}

/// The resync timer. It runs only while watching, and restarts with each cycle.
struct ResyncTimer {
    period: Option<Duration>,
    due: Option<Instant>,
}

/// When internal errors began, and when the last one occurred.
#[derive(Default)]
struct InternalErrors {
    first: Option<Instant>,
    last: Option<Instant>,
}

impl<S: Sink> Reflector<S> {
    /// Watches until the resourceVersion is in doubt. `stream` is a watch-list that continues as the first watch.
    pub(super) async fn watch(&mut self, mut stream: Option<WatchStream>) -> Result<Infallible, CycleEnd> {
        let mut resync = ResyncTimer::new(self.config.resync_period);
        let mut internal_errors = InternalErrors::default();
        let mut resumed = false;
        loop {
            let version = self.last_version.get();
            // Start the clock before the request: some proxies hold the headers back until the first event.
            let mut started = Instant::now();
            let mut check_at = None;
            let mut opened = match stream.take() {
                Some(stream) => stream,
                None => match self.open_verified(&version).await? {
                    Ok((stream, verified)) => {
                        started = self.opened_at.unwrap_or(started);
                        // A version that was just listed or verified needs no check.
                        let comparable = !matches!(version.as_str(), "" | "0");
                        check_at = after(self.config.resume_check_after)
                            .filter(|_| resumed && comparable && !verified);
                        stream
                    }
                    Err(error) => {
                        self.after_failed_open(error).await?;
                        resumed = true;
                        continue;
                    }
                },
            };
            resumed = true;
            self.enter_watching();
            let mut events = 0;
            let watched_since = Instant::now();
            let ended = self.read_events(&mut opened, &version, check_at, &mut resync, &mut events).await?;
            drop(opened);
            self.unwatched_since = Some(Instant::now());
            if watched_since.elapsed() >= self.config.backoff.reset_after {
                self.backoff.reset();
            }
            // Events without a resourceVersion count as progress.
            let progressed = match version.as_str() {
                "" | "0" => events > 0,
                version => self.last_version.get() != version,
            };
            let in_vain = !progressed && started.elapsed() < VERY_SHORT;
            match ended {
                WatchEnd::Closed if in_vain => return Err(CycleEnd::because(ReflectorError::VeryShortWatch)),
                WatchEnd::Closed if self.incomplete => return Err(CycleEnd::Outdated),
                WatchEnd::Closed => self.unverified |= started.elapsed() + EARLY < self.asked_to_last,
                WatchEnd::FromTheFuture(error) => {
                    self.version_unavailable = true;
                    return Err(CycleEnd::because(ReflectorError::Watch(error)));
                }
                WatchEnd::Outdated => return Err(CycleEnd::Outdated),
                WatchEnd::Silent(silence) => {
                    self.unverified = true;
                    self.resume_once(ReflectorError::Silent(silence), false).await?;
                }
                WatchEnd::Failed(error) => {
                    self.unverified |= error.status().is_none();
                    let decision = decide(During::Stream, &error);
                    let error = ReflectorError::Watch(error);
                    match decision {
                        Decision::Resume if in_vain => self.resume_once(error, true).await?,
                        Decision::Resume => self.report(&error.into(), NextStep::Resume(Duration::ZERO)),
                        Decision::BackOffAndResume => self.back_off_and_resume(error).await,
                        Decision::ResumeOnce => self.resume_once(error, false).await?,
                        Decision::ResumeWithinDeadline
                            if internal_errors.may_retry(self.config.internal_error_retry_max) =>
                        {
                            self.report(&error.into(), NextStep::Resume(Duration::ZERO));
                        }
                        _ => return Err(CycleEnd::because(error)),
                    }
                }
            }
        }
    }

    /// Opens a watch whose events can be trusted. Returns it, and whether the cached state was compared with the server.
    async fn open_verified(
        &mut self,
        version: &str,
    ) -> Result<Result<(WatchStream, bool), ReflectorError>, CycleEnd> {
        let stream = match self.open_watch(version).await? {
            Ok(stream) => stream,
            Err(error) => {
                // An unreachable server may come back restored from a backup.
                self.unverified |= error.status().is_none_or(|status| status.code >= 500);
                self.version_unavailable |= is_version_in_doubt(version, &error);
                return Ok(Err(ReflectorError::Open(error)));
            }
        };
        let unwatched_since = self.unwatched_since.take();
        self.unverified |= unwatched_since.is_some_and(|since| since.elapsed() > RESTORED_AFTER);
        // Verify while the watch is open: a restore from now on breaks it.
        let verified = self.verify(version).await?;
        Ok(verified.map(|verified| (stream, verified)).map_err(ReflectorError::Verify))
    }

    async fn open_watch(&mut self, version: &str) -> Result<Result<WatchStream, SourceError>, CycleEnd> {
        self.enter(ReflectorState::Opening);
        self.pace_opening().await;
        self.opened_at = Some(Instant::now());
        let options = WatchOptions {
            resource_version: resume_version(version),
            allow_bookmarks: true,
            timeout: Some(self.watch_timeout()),
            ..WatchOptions::default()
        };
        let answer_max = self.config.watch_answer_max;
        let mut overdue_at = after(answer_max);
        let mut opening = self.source.watch(options);
        let opened = loop {
            tokio::select! {
                biased;
                opened = &mut opening => break opened,
                () = self.source.outdated() => return Err(CycleEnd::Outdated),
                () = until(overdue_at) => {
                    overdue_at = None;
                    let error = Arc::new(ReflectorError::Unanswered(answer_max));
                    self.report(&error, NextStep::Wait);
                    self.enter(ReflectorState::Degraded { error });
                }
            }
        };
        if opened.is_ok() {
            self.status.send_modify(|status| status.watches += 1);
        }
        Ok(opened)
    }

    async fn after_failed_open(&mut self, error: ReflectorError) -> Result<(), CycleEnd> {
        let decision = match &error {
            ReflectorError::Open(source) | ReflectorError::Verify(source) => decide(During::Open, source),
            _ => Decision::Relist,
        };
        match decision {
            Decision::BackOffAndResume => self.back_off_and_resume(error).await,
            Decision::ResumeOnce => self.resume_once(error, true).await?,
            _ => return Err(CycleEnd::because(error)),
        }
        Ok(())
    }

    async fn back_off_and_resume(&mut self, error: ReflectorError) {
        // The server may be restored from a backup in the meantime.
        self.unverified = true;
        let error = Arc::new(error);
        let wait = self.backoff_wait(&error);
        self.report(&error, NextStep::Resume(wait));
        self.back_off(error, wait).await;
    }

    /// Resumes the first time, immediately or after backing off. Ends the cycle the second time without progress.
    async fn resume_once(&mut self, error: ReflectorError, backs_off: bool) -> Result<(), CycleEnd> {
        let error = Arc::new(error);
        self.failed_watches.broken += 1;
        if self.failed_watches.broken != 1 {
            return Err(CycleEnd::Cycle(error));
        }
        self.failed_watches.add(&error);
        let wait = if backs_off { self.backoff_wait(&error) } else { Duration::ZERO };
        self.report(&error, NextStep::Resume(wait));
        if backs_off {
            self.back_off(error, wait).await;
        }
        Ok(())
    }

    fn enter_watching(&self) {
        self.enter(match &self.failed_watches {
            FailedWatches { count: DEGRADED_AT.., error: Some(error), .. } => {
                ReflectorState::Degraded { error: error.clone() }
            }
            _ => ReflectorState::Watching,
        });
    }

    /// Passes the events of one watch to the sink, and resyncs when the timer fires.
    async fn read_events(
        &mut self,
        stream: &mut WatchStream,
        version: &str,
        mut check_at: Option<Instant>,
        resync: &mut ResyncTimer,
        events: &mut u64,
    ) -> Result<WatchEnd, CycleEnd> {
        // Such a watch begins with existing objects, unordered: their resourceVersions mean nothing yet.
        let mut synthetic = matches!(version, "" | "0");
        self.watchdog.opened(Instant::now());
        let mut settled_at =
            after(self.config.backoff.reset_after).filter(|_| self.failed_watches.ends_with_time());
        let source = self.source.clone();
        let mut outdated = source.outdated();
        loop {
            let event = tokio::select! {
                biased;
                // Before the events: there may always be another one.
                () = &mut outdated => return Ok(WatchEnd::Outdated),
                event = stream.next() => event,
                () = resync.tick() => {
                    if self.should_resync() {
                        self.sink.resync(self.scope).await?;
                        self.watchdog.event(Instant::now());
                    }
                    continue;
                }
                () = until(check_at) => {
                    check_at = None;
                    if let Err(error) = self.check_version(version).await {
                        return Ok(WatchEnd::FromTheFuture(error));
                    }
                    continue;
                }
                () = until(settled_at) => {
                    settled_at = None;
                    self.recovered();
                    continue;
                }
                () = until(self.watchdog.deadline()) => {
                    return Ok(WatchEnd::Silent(self.watchdog.patience().unwrap_or_default()));
                }
            };
            let event = match event {
                None => return Ok(WatchEnd::Closed),
                Some(Ok(WatchEvent::Error(status))) => return Ok(WatchEnd::Failed(status.into())),
                Some(Ok(event)) => event,
                Some(Err(error)) => match self.take_unreadable(error).await? {
                    None => {
                        *events += 1;
                        continue;
                    }
                    Some(error) => return Ok(WatchEnd::Failed(error)),
                },
            };
            *events += 1;
            check_at = None;
            synthetic &= matches!(event, WatchEvent::Added(_));
            self.take_event(event, !synthetic).await?;
        }
    }

    fn should_resync(&self) -> bool {
        // A panic does not count as "no".
        self.config.should_resync.as_ref().is_none_or(|should| guarded(|| should()).unwrap_or(true))
    }

    /// Checks whether the server knows this resourceVersion: a list of one item must not be older. Only a definite "no"
    /// counts; other errors will show in the watch itself.
    async fn check_version(&self, version: &str) -> Result<(), SourceError> {
        let options = ListOptions {
            resource_version: version.to_owned(),
            version_match: Some(VersionMatch::NotOlderThan),
            limit: Some(1),
            ..ListOptions::default()
        };
        match self.source.list(options).await {
            Err(error) if error.status().is_some_and(kube_wire::Status::is_too_large_resource_version) => {
                Err(error)
            }
            _ => Ok(()),
        }
    }

    /// Passes one event to the sink and advances the last resourceVersion.
    async fn take_event(&mut self, event: WatchEvent, advances: bool) -> Result<(), CycleEnd> {
        let Some(object) = event.object() else { return Ok(()) };
        if !self.is_expected(object) {
            return Ok(());
        }
        object.head().resource_version().clone_into(&mut self.event_version);
        let taken = match event {
            WatchEvent::Added(object) | WatchEvent::Modified(object) if self.is_foreign(&object) => {
                self.take_foreign(object).await
            }
            WatchEvent::Deleted(object) if self.is_foreign(&object) && !self.may_be_cached(&object) => Ok(()),
            WatchEvent::Added(object) if self.is_reentry_missed(&object) => Ok(()),
            WatchEvent::Added(object) => self.sink.add(self.scope, object).await,
            WatchEvent::Deleted(_) if self.is_deletion_missed() => Ok(()),
            WatchEvent::Modified(object) => self.sink.update(self.scope, object).await,
            WatchEvent::Deleted(object) => {
                self.last_deletion = Some(object.clone());
                self.sink.delete(self.scope, object).await
            }
            WatchEvent::Bookmark(_) => {
                self.watchdog.bookmark(Instant::now());
                self.sink.bookmark(self.scope, &self.event_version).await
            }
            WatchEvent::Other { event_type, .. } => {
                self.report(&ReflectorError::UnknownEvent(event_type).into(), NextStep::ReadOn);
                Ok(())
            }
            _ => Ok(()),
        };
        if let Err(error) = taken {
            self.refused(error)?;
        }
        // Read the clock only now: waiting for the sink is not silence of the server.
        let now = Instant::now();
        let progressed = self.last_version.advance(advances.then_some(&*self.event_version), now);
        self.watchdog.event(now);
        if progressed && self.failed_watches.count > 0 {
            self.recovered();
        }
        Ok(())
    }

    /// Takes an event whose object cannot be read. If its type and key can be, it affects no other object: a deletion takes
    /// effect without a final state, and any other change is skipped and reported, so the cached state stays until the
    /// object is readable again or deleted. Returns the error otherwise: the change is lost and must be requested again.
    async fn take_unreadable(&mut self, error: SourceError) -> Result<Option<SourceError>, CycleEnd> {
        match UnreadableEvent::of(&error) {
            None => return Ok(Some(error)),
            Some(UnreadableEvent::Put(_)) => {
                self.report(&ReflectorError::Object(error).into(), NextStep::ReadOn);
            }
            Some(UnreadableEvent::Deleted(key)) => self.sink.delete_unread(self.scope, &key).await?,
        }
        // Its resourceVersion is unknown.
        let now = Instant::now();
        self.last_version.advance(None, now);
        self.watchdog.event(now);
        Ok(None)
    }

    /// Takes a state of an object that belongs to another shard. If the object was in this one before, it leaves.
    async fn take_foreign(&mut self, object: RawObject) -> Result<(), SinkError> {
        if !self.may_be_cached(&object) {
            return Ok(());
        }
        self.last_left = Some(object.clone());
        self.sink.leave(self.scope, object).await
    }

    /// Whether a foreign object may be cached, because an earlier state of it was not foreign.
    fn may_be_cached(&self, object: &RawObject) -> bool {
        self.source.selects_by_state() && self.sink.may_have(self.scope, &object.head())
    }

    /// A deliberate bug: an object that left the selection is not added when it comes back.
    fn is_reentry_missed(&self, object: &RawObject) -> bool {
        let is_same = |deleted: &RawObject| deleted.head().uid() == object.head().uid();
        deliberate_bug!("reentry-missed") && self.last_deletion.as_ref().is_some_and(is_same)
    }

    /// A deliberate bug: deletions count only until the first relist.
    fn is_deletion_missed(&self) -> bool {
        deliberate_bug!("deletion-missed-after-relist") && self.status.borrow().complete_lists > 1
    }

    /// The watch works again.
    fn recovered(&mut self) {
        self.failed_watches = FailedWatches::default();
        self.enter(ReflectorState::Watching);
    }
}

/// The resourceVersion to resume a watch from.
fn resume_version(last: &str) -> String {
    match last.parse::<u64>() {
        Ok(last) if deliberate_bug!("resume-one-too-far") => (last + 1).to_string(),
        _ => last.to_owned(),
    }
}

// === impl UnreadableEvent ===

impl UnreadableEvent {
    pub(super) fn of(error: &SourceError) -> Option<Self> {
        match error.event_type()? {
            "ADDED" | "MODIFIED" => error.key().map(Self::Put),
            "DELETED" => error.key().map(Self::Deleted),
            _ => None,
        }
    }
}

// === impl FailedWatches ===

impl FailedWatches {
    pub(super) fn add(&mut self, error: &Arc<ReflectorError>) {
        self.count += 1;
        self.error = Some(error.clone());
    }

    /// Whether a watch that lives for a while ends the degraded state. Not if the error is a silent or overdue watch: such a
    /// watch lives long, too.
    fn ends_with_time(&self) -> bool {
        let lives = matches!(
            self.error.as_deref(),
            Some(ReflectorError::Silent(_) | ReflectorError::Watch(SourceError::Overdue { .. }))
        );
        self.count > 0 && !lives
    }
}

// === impl ResyncTimer ===

impl ResyncTimer {
    fn new(period: Option<Duration>) -> Self {
        let period = period.filter(|period| !period.is_zero());
        Self { period, due: period.and_then(after) }
    }

    /// Completes each time the period has passed.
    async fn tick(&mut self) {
        until(self.due).await;
        self.due = self.period.and_then(after);
    }
}

// === impl InternalErrors ===

impl InternalErrors {
    /// Records an internal error. Returns whether the watch may resume immediately.
    fn may_retry(&mut self, at_most: Duration) -> bool {
        let now = Instant::now();
        if self.last.is_none_or(|last| now.duration_since(last) > INTERNAL_ERROR_RESET) {
            self.first = Some(now);
        }
        self.last = Some(now);
        !at_most.is_zero() && self.first.is_some_and(|first| now.duration_since(first) <= at_most)
    }
}

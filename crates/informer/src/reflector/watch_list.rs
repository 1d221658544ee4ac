//! Gets the complete state as a stream: a watch that begins with all objects, marks their end with a bookmark, and
//! continues as an ordinary watch.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use kube_wire::{TypeMeta, WatchEvent};
use tokio::time::Instant;

use super::decide::{Decision, During, decide};
use super::watch::UnreadableEvent;
use super::{CycleEnd, InvalidList, NextStep, Reflector, ReflectorError, ReflectorState, WatchList};
use crate::Key;
use crate::deadline::{after, until};
use crate::queue::{Replace, Sink};
use crate::source::{SourceError, VersionMatch, WatchOptions, WatchStream};

/// The limit for the whole initial list: this many quiet periods, plus this much per event.
const QUIETS_MAX: u32 = 4;
const PER_EVENT: Duration = Duration::from_millis(20);

/// How reading the initial list ended.
enum Initial<R> {
    /// It is complete, as of this resourceVersion.
    Complete(R, String),
    /// The stream broke.
    Broken(SourceError),
    /// The bookmark that ends it did not arrive, or will not.
    NoEnd(ReflectorError),
}

impl<S: Sink> Reflector<S> {
    pub(super) fn tries_watch_list(&self) -> bool {
        match self.config.watch_list {
            WatchList::On => true,
            WatchList::Auto => !self.config.server.is_watch_list_broken(self.group()),
            WatchList::Off => false,
        }
    }

    fn group(&self) -> &str {
        self.expected.as_ref().map_or("", TypeMeta::group)
    }

    /// Streams the complete state into a replace. Returns the stream, which continues as a watch, or `None` to use a list
    /// in this cycle.
    pub(super) async fn watch_list(&mut self) -> Result<Option<WatchStream>, CycleEnd> {
        loop {
            self.enter(ReflectorState::Streaming);
            let version = if self.version_unavailable { String::new() } else { self.last_version.get() };
            let options = WatchOptions {
                resource_version: version.clone(),
                version_match: Some(VersionMatch::NotOlderThan),
                send_initial_events: true,
                initial_events_optional: self.config.watch_list == WatchList::Auto,
                allow_bookmarks: true,
                timeout: Some(self.watch_timeout()),
                ..WatchOptions::default()
            };
            self.pace_opening().await;
            let asked_at = Instant::now();
            let quiet_max = self.config.watch_list_quiet_max;
            let opened = tokio::time::timeout(quiet_max, self.source.watch(options)).await;
            let error = match opened.unwrap_or(Err(SourceError::Idle(quiet_max))) {
                Ok(mut stream) => match self.initial_events(&mut stream).await? {
                    Initial::Complete(replace, version) => {
                        let committed = replace.commit(&version).await?;
                        self.listed(&version, committed.new_epoch);
                        self.opened_at = Some(asked_at);
                        return Ok(Some(stream));
                    }
                    Initial::NoEnd(error) => {
                        // The server does not support the request, and will not the next time either.
                        self.config.server.watch_list_is_broken(self.group());
                        self.source.watch_list_is_broken();
                        self.list_instead_after_a_wait(error).await;
                        return Ok(None);
                    }
                    Initial::Broken(error) => error,
                },
                // Another reflector has already found that watch-lists do not end on this server.
                Err(SourceError::NoWatchList) => return Ok(None),
                Err(error) => error,
            };
            match decide(During::WatchList, &error) {
                Decision::AskForMostRecent if !version.is_empty() => {
                    self.version_unavailable = true;
                    self.report(&ReflectorError::WatchList(error).into(), NextStep::AskForMostRecent);
                }
                Decision::BackOffAndResume => {
                    let error = Arc::new(ReflectorError::WatchList(error));
                    let wait = self.backoff_wait(&error);
                    self.report(&error, NextStep::Resume(wait));
                    self.back_off(error, wait).await;
                }
                _ => {
                    self.report(
                        &ReflectorError::WatchList(error).into(),
                        NextStep::ListInstead(Duration::ZERO),
                    );
                    return Ok(None);
                }
            }
        }
    }

    /// Reads events into a replace until the bookmark arrives.
    async fn initial_events(&self, stream: &mut WatchStream) -> Result<Initial<S::Replace>, CycleEnd> {
        let (quiet_max, in_all_max) = (self.config.watch_list_quiet_max, self.config.watch_list_max);
        let mut replace = self.begin_replace().await?;
        // If the server treats this as an ordinary watch, the stream may never be quiet, but it is slower than any
        // initial list.
        let mut limit = after(quiet_max.saturating_mul(QUIETS_MAX));
        // The stream may also be as busy as an initial list, and never end.
        let last = until(after(in_all_max));
        tokio::pin!(last);
        loop {
            // Let other tasks run, however many events have arrived.
            tokio::task::coop::consume_budget().await;
            limit = limit.and_then(|limit| limit.checked_add(PER_EVENT));
            let event = tokio::select! {
                biased;
                () = &mut last => {
                    return Ok(Initial::NoEnd(ReflectorError::WatchListTooLong(in_all_max)));
                }
                event = tokio::time::timeout(quiet_max, stream.next()) => event.ok(),
                () = until(limit) => None,
            };
            let event = match event {
                None => return Ok(Initial::NoEnd(ReflectorError::WatchListUnending(quiet_max))),
                Some(None) => return Ok(Initial::NoEnd(ReflectorError::WatchListClosed)),
                Some(Some(Ok(event))) => event,
                Some(Some(Err(error))) => {
                    match UnreadableEvent::of(&error) {
                        None => return Ok(Initial::Broken(error)),
                        Some(UnreadableEvent::Put(key)) => {
                            replace.keep(&key);
                            self.report(&ReflectorError::Object(error).into(), NextStep::ReadOn);
                        }
                        Some(UnreadableEvent::Deleted(key)) => replace.remove(&key),
                    }
                    continue;
                }
            };
            match event {
                WatchEvent::Error(status) => return Ok(Initial::Broken(status.into())),
                // It may be any cached object, which must not count as deleted. A list keeps them all.
                WatchEvent::Added(object) | WatchEvent::Modified(object)
                    if object.head().name().is_empty() =>
                {
                    return Ok(Initial::Broken(SourceError::Other(Arc::new(InvalidList::Nameless))));
                }
                WatchEvent::Added(object) | WatchEvent::Modified(object) if self.is_expected(&object) => {
                    self.put_or_leave(&mut replace, object)?;
                }
                WatchEvent::Deleted(object)
                    if self.is_expected(&object)
                        && (!self.is_foreign(&object) || self.source.selects_by_state()) =>
                {
                    replace.remove(&Key::of_head(&object.head()));
                }
                WatchEvent::Bookmark(object)
                    if self.is_expected(&object) && object.head().is_initial_events_end() =>
                {
                    let version = object.head().resource_version().to_owned();
                    return Ok(match InvalidList::check_version(&version) {
                        Ok(()) => Initial::Complete(replace, version),
                        Err(error) => Initial::Broken(error),
                    });
                }
                WatchEvent::Other { event_type, .. } => {
                    self.report(&ReflectorError::UnknownEvent(event_type).into(), NextStep::ReadOn);
                }
                _ => {}
            }
        }
    }

    async fn list_instead_after_a_wait(&mut self, error: ReflectorError) {
        let error = Arc::new(error);
        let wait = self.backoff_wait(&error);
        self.report(&error, NextStep::ListInstead(wait));
        self.back_off(error, wait).await;
    }
}

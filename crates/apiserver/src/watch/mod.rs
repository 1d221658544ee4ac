//! Watches: the stream of events that answers `?watch=1`.
//!
//! A watch is a cursor into its collection's history and a little state. It has no event queue and no copy of the
//! initial state, so a thousand watches cost a thousand cursors. Events are encoded once for all watches (see
//! [`Frames`](crate::storage::Frames)). The body's writer polls the watch: while the client does not read, the cursor
//! stays where it is. Once it has fallen behind the buffer, the stream ends without an error, as in a kube-apiserver.

mod initial;
mod select;

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use tokio::time::{Instant, Sleep, sleep_until};

use crate::api::Api;
use crate::clock;
use crate::codec;
use crate::http::{Representation, Status};
use crate::resources::Resource;
use crate::selector::Selection;
use crate::storage::{Cursor, Lagged, Progress};
use initial::Initial;

/// Bookmarks are sent this long before the deadline, regardless of the interval.
const BEFORE_DEADLINE: [Duration; 2] = [Duration::from_secs(2), Duration::from_secs(1)];

/// Events read from the history per call.
const BATCH: usize = 64;

/// Frames up to this size are sent together if several are ready. The HTTP/2 implementation keeps some 300 bytes per
/// queued chunk, and retains memory for the maximum ever queued.
const SMALL_FRAME_BYTES: usize = 1024;

/// Maximum size of small frames that are sent together, in bytes.
const CHUNK_BYTES: usize = 3 << 10;

/// Frames that an idle watch keeps capacity for.
const READY_IDLE: usize = 4;

/// The parameters of a watch.
#[derive(Debug)]
pub(crate) struct WatchRequest {
    pub(crate) resource: Arc<Resource>,
    pub(crate) prefix: String,
    pub(crate) selection: Selection,
    pub(crate) representation: Representation,
    pub(crate) bookmarks: bool,
    /// Fault: send no periodic bookmarks.
    pub(crate) skip_bookmarks: bool,
    pub(crate) timeout: Duration,
    pub(crate) start: Start,
    /// Fault: send no bookmark after the initial events.
    pub(crate) skip_initial_events_end: bool,
}

/// Where a watch starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Start {
    /// After this revision.
    After(u64),
    /// With the current state, which must not be older than the revision.
    State {
        /// 0 for any.
        not_older_than: u64,
    },
}

/// A running watch; see the module documentation.
#[derive(Debug)]
pub(crate) struct Watch {
    api: Arc<Api>,
    request: WatchRequest,
    phase: Phase,
    /// Frames ready to be sent.
    ready: VecDeque<Bytes>,
    /// Fires at the deadline or when a bookmark is due, whichever is earlier.
    timer: Pin<Box<Sleep>>,
    deadline: Instant,
    bookmark_at: Option<Instant>,
    /// Send a bookmark after all pending events.
    bookmark_due: bool,
    /// The request of [`Server::send_bookmarks`](crate::Server::send_bookmarks) that was answered last.
    bookmark_request: u64,
    /// The revision at which the client started, for which it needs no bookmark.
    started_at: u64,
}

#[derive(Debug)]
enum Phase {
    /// Waits until the server has reached the revision.
    Fresh {
        revision: u64,
        until: Instant,
        progress: Progress,
    },
    /// Sends the state at one revision, then continues from there.
    Initial {
        rest: Initial,
        revision: u64,
        cursor: Cursor,
    },
    Live {
        cursor: Cursor,
        revision: u64,
    },
    Ended,
}

// === impl Watch ===

impl Watch {
    /// Starts a watch. If the start has been compacted, the stream contains an `ERROR`.
    pub(crate) fn new(api: Arc<Api>, request: WatchRequest) -> Self {
        let now = Instant::now();
        let deadline = clock::deadline(now, request.timeout);
        let (storage, id) = (&api.storage, request.resource.collection);
        let mut ready = VecDeque::new();
        let (phase, started_at) = match request.start {
            Start::After(revision) => match storage.watch(id, revision) {
                Ok(cursor) => (Phase::Live { cursor, revision }, revision),
                Err(compacted) => {
                    let status = Status::expired_watch(revision, compacted.oldest);
                    ready.push_back(codec::status_event(&status, request.representation.encoding));
                    (Phase::Ended, revision)
                }
            },
            Start::State { not_older_than: revision } if revision > storage.revision(id) => {
                let until = clock::deadline(now, api.options.fresh_wait);
                (Phase::Fresh { revision, until, progress: storage.progress() }, revision)
            }
            Start::State { .. } => {
                let (cursor, revision) = storage.watch_from_now(id);
                (Phase::Initial { rest: Initial::default(), revision, cursor }, revision)
            }
        };
        let timer = Box::pin(sleep_until(deadline));
        let bookmark_request = api.bookmark_requests.load(Ordering::Relaxed);
        let mut watch = Self {
            api,
            request,
            phase,
            ready,
            timer,
            deadline,
            bookmark_at: None,
            bookmark_due: false,
            bookmark_request,
            started_at,
        };
        watch.schedule(now);
        watch
    }

    /// The next bytes to send: one frame, or several small ones; `None` at the end of the stream.
    pub(crate) fn poll_chunk(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let Some(first) = ready!(self.poll_frame(context)) else { return Poll::Ready(None) };
        let more = !self.ready.is_empty() || matches!(self.phase, Phase::Initial { .. });
        if !more || first.len() > SMALL_FRAME_BYTES {
            return Poll::Ready(Some(first));
        }
        let mut chunk = Vec::with_capacity(CHUNK_BYTES);
        chunk.extend_from_slice(&first);
        // The next poll sees again whatever ended the loop: the end of the stream or a pending read.
        while let Poll::Ready(Some(frame)) = self.poll_frame(context) {
            if frame.len() > SMALL_FRAME_BYTES || chunk.len() + frame.len() > CHUNK_BYTES {
                self.ready.push_front(frame);
                break;
            }
            chunk.extend_from_slice(&frame);
        }
        Poll::Ready(Some(chunk.into()))
    }

    /// The next frame; `None` at the end of the stream.
    pub(crate) fn poll_frame(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        loop {
            if let Some(frame) = self.ready.pop_front() {
                return Poll::Ready(Some(frame));
            }
            if matches!(self.phase, Phase::Ended) {
                return Poll::Ready(None);
            }
            if self.timer.as_mut().poll(context).is_ready() {
                self.on_timer();
                continue;
            }
            ready!(self.step(context));
        }
    }

    /// Produces frames or enters the next phase; pending if there is nothing to do.
    fn step(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let (storage, id) = (&self.api.storage, self.request.resource.collection);
        match &mut self.phase {
            Phase::Ended => {}
            Phase::Fresh { revision, progress, .. } => {
                ready!(storage.poll_reached(id, *revision, progress, context));
                let (cursor, revision) = storage.watch_from_now(id);
                self.started_at = revision;
                self.phase = Phase::Initial { rest: Initial::default(), revision, cursor };
                self.schedule(Instant::now());
            }
            Phase::Initial { rest, cursor, .. } => match rest.next(storage, cursor, &self.request) {
                Err(Lagged) => self.phase = Phase::Ended,
                // Encode one at a time: a client that does not read costs one frame.
                Ok(Some(object)) => self.ready.push_back(select::initial(&self.request, &object)),
                Ok(None) => self.go_live(),
            },
            Phase::Live { cursor, revision } => {
                let requests = self.api.bookmark_requests.load(Ordering::Relaxed);
                if std::mem::replace(&mut self.bookmark_request, requests) != requests {
                    self.bookmark_due |= self.request.bookmarks && !self.request.skip_bookmarks;
                }
                let mut events = Vec::new();
                match storage.read(cursor, BATCH, &mut events) {
                    Err(_lagged) => self.phase = Phase::Ended,
                    Ok(seen) => {
                        *revision = seen.max(*revision);
                        let (request, frames) = (&self.request, &storage.frames);
                        let frames = events.iter().filter_map(|event| select::live(request, event, frames));
                        self.ready.extend(frames);
                        if events.is_empty() && self.bookmark_due {
                            self.bookmark();
                        } else if events.is_empty() {
                            self.ready.shrink_to(READY_IDLE);
                            return cursor.poll_changed(context);
                        }
                    }
                }
            }
        }
        Poll::Ready(())
    }

    /// The initial state has been sent.
    fn go_live(&mut self) {
        let phase = std::mem::replace(&mut self.phase, Phase::Ended);
        let Phase::Initial { cursor, revision, .. } = phase else { return };
        if self.request.bookmarks && !self.request.skip_initial_events_end {
            let Self { request, ready, .. } = self;
            ready.push_back(codec::bookmark(&request.resource, revision, true, request.representation));
        }
        self.phase = Phase::Live { cursor, revision };
    }

    fn on_timer(&mut self) {
        let now = Instant::now();
        if let Phase::Fresh { revision, until, .. } = &self.phase {
            if now >= *until {
                let current = self.api.storage.revision(self.request.resource.collection);
                let status = Status::too_large_revision(*revision, current);
                self.ready.push_back(codec::status_event(&status, self.request.representation.encoding));
                self.phase = Phase::Ended;
            }
            return self.schedule(now);
        }
        if now >= self.deadline {
            self.phase = Phase::Ended;
            return;
        }
        self.bookmark_due |= self.bookmark_at.is_some_and(|at| now >= at);
        self.schedule(now);
    }

    /// Sends the client its current revision, unless it started there.
    fn bookmark(&mut self) {
        self.bookmark_due = false;
        let Phase::Live { revision, .. } = self.phase else { return };
        if revision > self.started_at {
            let request = &self.request;
            self.ready.push_back(codec::bookmark(&request.resource, revision, false, request.representation));
        }
    }

    /// Sets the timer for the next deadline or bookmark.
    fn schedule(&mut self, now: Instant) {
        let mut next = self.deadline;
        self.bookmark_at = None;
        if let Phase::Fresh { until, .. } = self.phase {
            next = next.min(until);
        } else if self.request.bookmarks && !self.request.skip_bookmarks {
            let before = BEFORE_DEADLINE.iter().filter_map(|time| self.deadline.checked_sub(*time));
            let periodic = clock::deadline(now, self.api.options.bookmark_interval);
            self.bookmark_at = before.chain([periodic]).filter(|at| *at > now).min();
            next = self.bookmark_at.map_or(next, |at| next.min(at));
        }
        self.timer.as_mut().reset(next);
    }
}

//! A source that counts its traffic.
//!
//! It wraps the source of an informer. It counts the objects of the initial list as they arrive, knows the age of the last
//! event and bookmark, enforces the limits of lists, and stops reading while the output is blocked.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt};
use futures::stream::{self, StreamExt};
use kube_informer::building_blocks::{
    ListOptions, ListPart, ListStream, ListWatch, ListerWatcher, SourceError, WatchOptions, WatchStream,
};
use kube_wire::WatchEvent;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::list_limit::{ListAmount, ListLimit};

/// The traffic of the sources of one kind.
#[derive(Debug)]
pub(crate) struct Traffic {
    started: Instant,
    objects: AtomicU64,
    events: AtomicU64,
    bookmarks: AtomicU64,
    /// In microseconds since the start, plus one; 0 for never.
    last_event: AtomicU64,
    last_bookmark: AtomicU64,
}

/// The watches of one source. A kind has a source per namespace, and an open watch in one says nothing about the others.
#[derive(Debug)]
pub(crate) struct Watches(Mutex<WatchesState>);

#[derive(Debug)]
struct WatchesState {
    open: usize,
    /// When the last watch was closed, or when the source was created.
    closed: Instant,
}

/// An open watch. It is counted until it is dropped.
struct OpenWatch(Arc<Watches>);

/// Stops the watches of several sources while closed.
#[derive(Debug)]
pub(crate) struct Gate(watch::Sender<bool>);

/// A source that counts its traffic.
pub(crate) struct Observed {
    source: ListWatch,
    traffic: Arc<Traffic>,
    watches: Arc<Watches>,
    gate: Option<watch::Receiver<bool>>,
    list_limit: ListLimit,
    listed: Arc<ListAmount>,
}

// === impl Traffic ===

impl Traffic {
    pub(crate) fn new() -> Self {
        let zero = AtomicU64::default;
        Self {
            started: Instant::now(),
            objects: zero(),
            events: zero(),
            bookmarks: zero(),
            last_event: zero(),
            last_bookmark: zero(),
        }
    }

    /// Objects received, in lists and in events.
    pub(crate) fn objects(&self) -> u64 {
        self.objects.load(Ordering::Relaxed)
    }

    /// Events of watches, without bookmarks.
    pub(crate) fn events(&self) -> u64 {
        self.events.load(Ordering::Relaxed)
    }

    pub(crate) fn bookmarks(&self) -> u64 {
        self.bookmarks.load(Ordering::Relaxed)
    }

    /// The time since the last event of a watch.
    pub(crate) fn last_event_age(&self) -> Option<Duration> {
        self.age(&self.last_event)
    }

    /// The time since the last bookmark.
    pub(crate) fn last_bookmark_age(&self) -> Option<Duration> {
        self.age(&self.last_bookmark)
    }

    fn age(&self, at: &AtomicU64) -> Option<Duration> {
        let at = at.load(Ordering::Relaxed).checked_sub(1)?;
        Some(self.started.elapsed().saturating_sub(Duration::from_micros(at)))
    }

    fn note(&self, at: &AtomicU64) {
        let now = u64::try_from(self.started.elapsed().as_micros()).unwrap_or(u64::MAX - 1);
        at.store(now + 1, Ordering::Relaxed);
    }

    fn received(&self, event: &Result<WatchEvent, SourceError>) {
        match event {
            Ok(WatchEvent::Bookmark(_)) => {
                self.bookmarks.fetch_add(1, Ordering::Relaxed);
                self.note(&self.last_bookmark);
            }
            Ok(WatchEvent::Added(_) | WatchEvent::Modified(_) | WatchEvent::Deleted(_)) => {
                self.objects.fetch_add(1, Ordering::Relaxed);
                self.events.fetch_add(1, Ordering::Relaxed);
                self.note(&self.last_event);
            }
            _ => {}
        }
    }
}

// === impl Watches ===

impl Watches {
    fn new() -> Self {
        Self(Mutex::new(WatchesState { open: 0, closed: Instant::now() }))
    }

    /// The time without an open watch, since the start if none was ever open. A dead connection counts as open until a ping
    /// fails.
    pub(crate) fn closed_for(&self) -> Duration {
        let state = self.state();
        if state.open > 0 { Duration::ZERO } else { state.closed.elapsed() }
    }

    fn state(&self) -> MutexGuard<'_, WatchesState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl OpenWatch ===

impl OpenWatch {
    fn new(watches: &Arc<Watches>) -> Self {
        watches.state().open += 1;
        Self(watches.clone())
    }
}

impl Drop for OpenWatch {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.open -= 1;
        state.closed = Instant::now();
    }
}

// === impl Gate ===

impl Gate {
    /// An open gate.
    pub(crate) fn new() -> Self {
        Self(watch::Sender::new(true))
    }

    /// Stops reading events until the gate is opened again.
    pub(crate) fn close(&self) {
        self.0.send_replace(false);
    }

    pub(crate) fn open(&self) {
        self.0.send_replace(true);
    }
}

// === impl Observed ===

impl Observed {
    pub(crate) fn new(
        source: ListWatch,
        traffic: &Arc<Traffic>,
        gate: Option<&Gate>,
        list_limit: ListLimit,
    ) -> Self {
        let gate = gate.map(|gate| gate.0.subscribe());
        let watches = Arc::new(Watches::new());
        Self { source, traffic: traffic.clone(), watches, gate, list_limit, listed: Arc::default() }
    }

    /// The watches of this source.
    pub(crate) fn watches(&self) -> &Arc<Watches> {
        &self.watches
    }

    /// The events of a watch-list. The limits of lists apply to its initial events.
    fn limited(&self, events: WatchStream) -> WatchStream {
        self.listed.reset();
        let (listed, limit) = (self.listed.clone(), self.list_limit);
        let mut is_list = true;
        let events = events.map(move |event| {
            let event = event?;
            match &event {
                WatchEvent::Bookmark(object) if object.head().is_initial_events_end() => is_list = false,
                WatchEvent::Added(object) if is_list => listed.add(1, object.bytes().len(), limit)?,
                _ => {}
            }
            Ok(event)
        });
        events.boxed()
    }
}

/// Delivers each event only while the gate is open.
fn gated(events: WatchStream, gate: watch::Receiver<bool>) -> WatchStream {
    let next = |(mut events, mut gate): (WatchStream, watch::Receiver<bool>)| async {
        // A dropped gate counts as open.
        let _ = gate.wait_for(|open| *open).await;
        let event = events.next().await?;
        Some((event, (events, gate)))
    };
    stream::unfold((events, gate), next).boxed()
}

impl ListerWatcher for Observed {
    fn list(&self, options: ListOptions) -> BoxFuture<'_, Result<ListStream, SourceError>> {
        async move {
            let (traffic, listed, limit) = (self.traffic.clone(), self.listed.clone(), self.list_limit);
            if options.continue_token.is_empty() {
                listed.reset();
            }
            let parts = self.source.list(options).await?;
            let counted = parts.map(move |part| {
                let part = part?;
                if let ListPart::Item(object) = &part {
                    traffic.objects.fetch_add(1, Ordering::Relaxed);
                    listed.add(1, object.bytes().len(), limit)?;
                }
                Ok(part)
            });
            Ok(counted.boxed())
        }
        .boxed()
    }

    fn watch(&self, options: WatchOptions) -> BoxFuture<'_, Result<WatchStream, SourceError>> {
        async move {
            let traffic = self.traffic.clone();
            let is_list = options.send_initial_events;
            let events = self.source.watch(options).await?;
            let events = if is_list { self.limited(events) } else { events };
            let events = match &self.gate {
                Some(gate) => gated(events, gate.clone()),
                None => events,
            };
            let open = OpenWatch::new(&self.watches);
            let count = move |event: &_| {
                let _is_open = &open;
                traffic.received(event);
            };
            Ok(events.inspect(count).boxed())
        }
        .boxed()
    }

    fn inner(&self) -> Option<&dyn ListerWatcher> {
        Some(&self.source)
    }

    fn describe(&self) -> String {
        self.source.describe()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube_client::Client;
    use kube_client::client::Body;
    use kube_informer::building_blocks::Resource;
    use kube_wire::{Encoding, Limits, ObjectReader, Projection};

    fn event() -> Result<WatchEvent, SourceError> {
        let pod = br#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"p","resourceVersion":"1"}}"#;
        let mut reader = ObjectReader::new(Projection::default(), Limits::default());
        Ok(WatchEvent::Added(reader.read(pod, Encoding::Json, None).unwrap()))
    }

    #[test]
    fn a_closed_gate_takes_no_event_from_the_server() {
        let taken = Arc::new(AtomicU64::new(0));
        let counted = stream::repeat_with({
            let taken = taken.clone();
            move || {
                taken.fetch_add(1, Ordering::Relaxed);
                event()
            }
        });
        let gate = Gate::new();
        let mut events = gated(counted.boxed(), gate.0.subscribe());
        assert!(events.next().now_or_never().is_some());
        gate.close();
        for _ in 0..100 {
            assert!(events.next().now_or_never().is_none());
        }
        assert_eq!(taken.load(Ordering::Relaxed), 1, "no event is read ahead");
        gate.open();
        assert!(events.next().now_or_never().is_some());
        gate.close();
        assert!(events.next().now_or_never().is_none());
        drop(gate);
        assert!(events.next().now_or_never().is_some(), "without a gate, nothing is blocked");
        assert_eq!(taken.load(Ordering::Relaxed), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn a_source_counts_as_closed_since_its_last_watch_or_its_start() {
        let watches = Arc::new(Watches::new());
        let second = Duration::from_secs(1);
        tokio::time::advance(second).await;
        assert_eq!(watches.closed_for(), second, "no watch was ever open");
        let (first, next) = (OpenWatch::new(&watches), OpenWatch::new(&watches));
        tokio::time::advance(second).await;
        assert_eq!(watches.closed_for(), Duration::ZERO);
        drop(first);
        assert_eq!(watches.closed_for(), Duration::ZERO, "another watch is open");
        drop(next);
        tokio::time::advance(second).await;
        assert_eq!(watches.closed_for(), second);
    }

    #[tokio::test]
    async fn a_switch_to_json_reaches_the_source_and_outdates_its_streams() {
        let refuse = tower::service_fn(async |_: http::Request<Body>| {
            http::Response::builder().status(404).body(Body::empty())
        });
        let pods = ListWatch::new(Client::new(refuse, "default"), Resource::new("", "v1", "pods", "Pod"));
        let source = Observed::new(pods, &Arc::new(Traffic::new()), None, ListLimit::default());
        assert!(source.list(ListOptions::default()).await.is_err());
        assert!(source.outdated().now_or_never().is_none());
        source.json_switch().expect("it can deliver JSON").turn();
        assert!(source.outdated().now_or_never().is_some());
    }
}

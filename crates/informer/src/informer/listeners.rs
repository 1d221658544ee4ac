//! Between the store and its listeners: what is applied, and who hears of it.
//!
//! A batch is applied and handed to all listeners under one lock, which joining takes too. So whoever joins sees the
//! state before a batch and hears of it, or sees the state after it and does not: no gap and no repeat. No listener's work
//! ever happens under that lock, nor decoding for one. What belongs to applying does: packing, now and then training a
//! dictionary, and the functions of indexes. So whoever joins or leaves waits until the batch is in, and such a function must
//! do neither.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, timeout};

use super::backlog::{Backlog, Segment};
use crate::calls::wake;
use crate::deadline::after;
use crate::queue::{Applied, Batch, Scope};
use crate::store::{Origin, Store};

/// Applies batches to a store and tells its listeners.
#[derive(Debug)]
pub(crate) struct Hub {
    store: Arc<Store>,
    state: Mutex<State>,
    synced: watch::Sender<bool>,
    /// A listener with a resync has joined.
    pub(super) timers: Notify,
}

/// How a listener wants to hear.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ListenerConfig {
    /// How many changes may wait before they are gathered per key. Default: 10,000.
    pub changes_max: usize,
    /// How many bytes their objects may hold before that. Default: 32 MiB.
    pub bytes_max: usize,
    /// Whether changes are coalesced per key past these limits. Default: yes.
    ///
    /// If not, the listener receives every change: past its limits the informer applies nothing more, for anyone, until the
    /// listener has caught up. It is for listeners that never wait, such as one that maps changes to keys. A listener that
    /// takes no change for [`STUCK_AFTER`](Self::STUCK_AFTER) is coalesced all the same, so that it cannot stop the informer.
    pub coalesce: bool,
    /// How often everything is told once more, as [`Origin::Resync`]: at least a second. Default: as the informer.
    pub resync: Option<Duration>,
    /// Whether it is told, too, when nothing has changed: a repeated event, and everything in a scope that was listed
    /// anew. Default: no.
    pub unchanged: bool,
}

#[derive(Debug)]
struct State {
    listeners: Vec<Listener>,
    /// Scopes whose first full state is not in the store.
    missing: BTreeSet<Scope>,
    closed: bool,
}

#[derive(Debug)]
struct Listener {
    backlog: Arc<Backlog>,
    /// How often, and when next.
    resync: Option<(Duration, Instant)>,
}

// === impl Hub ===

impl Hub {
    pub(super) fn new(store: Arc<Store>, scopes: impl IntoIterator<Item = Scope>) -> Self {
        let missing = scopes.into_iter().collect();
        let state = State { listeners: Vec::new(), missing, closed: false };
        Self { store, state: Mutex::new(state), synced: watch::Sender::default(), timers: Notify::new() }
    }

    /// Whether the first full state of every scope is in the store and was handed to the listeners.
    pub(crate) fn synced(&self) -> watch::Receiver<bool> {
        self.synced.subscribe()
    }

    /// A new listener, which hears the present state first.
    pub(super) fn join(&self, config: &ListenerConfig) -> Arc<Backlog> {
        let mut state = self.state.lock();
        let present = Segment::Present(self.store.snapshot().into_objects(), None, Origin::Initial);
        let backlog = Arc::new(Backlog::new(config, Some(present)));
        if state.closed {
            backlog.close();
            return backlog;
        }
        if state.missing.is_empty() {
            backlog.push(Segment::Synced);
        }
        let period = config.resync.map(|period| period.max(ListenerConfig::RESYNC_MIN));
        let resync = period.and_then(|period| Some((period, after(period)?)));
        state.listeners.push(Listener { backlog: backlog.clone(), resync });
        drop(state);
        self.timers.notify_one();
        backlog
    }

    /// The listener hears nothing more.
    pub(super) fn leave(&self, backlog: &Arc<Backlog>) {
        self.state.lock().listeners.retain(|listener| !Arc::ptr_eq(&listener.backlog, backlog));
        backlog.close();
    }

    /// Applies a batch; the store and its indexes show it before anybody hears of it.
    pub(super) fn apply(&self, batch: &Batch) {
        let mut state = self.state.lock();
        let applied = Arc::new(batch.apply(&self.store));
        let mut wakers = Vec::new();
        if !is_silent(&applied) {
            for listener in &state.listeners {
                wakers.extend(listener.backlog.push(Segment::Applied(applied.clone(), 0)));
            }
        }
        if let Applied::Replaced(set) = &*applied {
            if !set.is_initial() {
                for listener in state.listeners.iter().filter(|listener| listener.backlog.hears_unchanged) {
                    let objects = self.store.snapshot().into_objects();
                    let again = Segment::Present(objects, Some(set.scope()), Origin::Resync);
                    wakers.extend(listener.backlog.push(again));
                }
            }
            if state.missing.remove(&set.scope()) && state.missing.is_empty() {
                for listener in &state.listeners {
                    wakers.extend(listener.backlog.push(Segment::Synced));
                }
                self.synced.send_replace(true);
            }
        }
        drop(state);
        wakers.into_iter().for_each(wake);
    }

    /// Waits until no listener that receives every change is past its limits. One that is stuck is coalesced.
    pub(super) async fn caught_up(&self) {
        while let Some(backlog) = self.behind() {
            if timeout(ListenerConfig::STUCK_AFTER, backlog.taken()).await.is_err() {
                backlog.coalesce();
                let limit = ListenerConfig::STUCK_AFTER;
                tracing::warn!(
                    ?limit,
                    "a listener that receives every change is stuck; its changes are coalesced"
                );
            }
        }
    }

    fn behind(&self) -> Option<Arc<Backlog>> {
        let state = self.state.lock();
        state
            .listeners
            .iter()
            .find(|listener| listener.backlog.holds_up())
            .map(|listener| listener.backlog.clone())
    }

    /// When the next listener wants to hear everything once more.
    pub(super) fn next_resync(&self) -> Option<Instant> {
        self.state.lock().listeners.iter().filter_map(|listener| Some(listener.resync?.1)).min()
    }

    /// Tells everything once more to those whose time has come, if there is a whole state to tell.
    pub(super) fn resync(&self, now: Instant) {
        let mut state = self.state.lock();
        let complete = state.missing.is_empty();
        let mut wakers = Vec::new();
        for listener in &mut state.listeners {
            let Some((period, due)) = listener.resync else { continue };
            if due > now {
                continue;
            }
            listener.resync = now.checked_add(period).map(|due| (period, due));
            if complete {
                let objects = self.store.snapshot().into_objects();
                wakers.extend(listener.backlog.push(Segment::Present(objects, None, Origin::Resync)));
            }
        }
        drop(state);
        wakers.into_iter().for_each(wake);
    }

    /// How many listeners there are, and how far the slowest is behind.
    #[cfg(feature = "metrics")]
    pub(crate) fn listeners(&self) -> (usize, usize) {
        let state = self.state.lock();
        let lags = state.listeners.iter().map(|listener| listener.backlog.lag());
        (state.listeners.len(), lags.max().unwrap_or_default())
    }

    /// Nobody hears anything more.
    pub(super) fn close(&self) {
        let mut state = self.state.lock();
        state.closed = true;
        let listeners = std::mem::take(&mut state.listeners);
        drop(state);
        for listener in listeners {
            listener.backlog.close();
        }
    }
}

/// Whether there is nothing in it that anybody would hear.
fn is_silent(applied: &Applied) -> bool {
    match applied {
        Applied::Live(changes) => changes.is_empty(),
        Applied::Replaced(set) => set.places() == 0,
        Applied::Resynced { .. } => true,
    }
}

// === impl ListenerConfig ===

impl ListenerConfig {
    /// The shortest time between two resyncs.
    pub const RESYNC_MIN: Duration = Duration::from_secs(1);

    /// How long an informer waits for a listener that is not to be [coalesced](Self::coalesce) and takes no change.
    pub const STUCK_AFTER: Duration = Duration::from_secs(10);
}

impl Default for ListenerConfig {
    fn default() -> Self {
        Self { changes_max: 10_000, bytes_max: 32 << 20, coalesce: true, resync: None, unchanged: false }
    }
}

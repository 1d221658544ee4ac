//! The listeners of an informer: who joins sees a snapshot, and is notified of every later change.
//!
//! A batch is applied to the store and published under one lock, which joining takes too. So a new listener sees the state
//! before a batch and is notified of it, or sees the state after it and is not: no gap and no repeat. No listener's work ever
//! happens under that lock, nor decoding for one. What belongs to applying does: packing, now and then training a dictionary,
//! and index functions. So joining and leaving wait until the batch is in, and an index function must do neither.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, timeout};

use super::backlog::{Backlog, Cursor};
use crate::deadline::after;
use crate::panic::wake;
use crate::scope::Scope;
use crate::store::{ChangeBatch, FullList, Origin, Store};

/// The listeners of an informer, and whether it is synced.
#[derive(Debug)]
pub(crate) struct Listeners {
    store: Arc<Store>,
    joined: Mutex<Joined>,
    synced: watch::Sender<bool>,
    /// A listener with a resync has joined.
    pub(super) timers: Notify,
}

/// The lock under which a batch is applied and published.
pub(super) struct Publisher<'a> {
    listeners: &'a Listeners,
    joined: MutexGuard<'a, Joined>,
}

/// How a listener is notified.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ListenerConfig {
    /// How many changes may wait before they are coalesced per key. Default: 10,000.
    pub changes_max: usize,
    /// How many bytes their objects may hold before that. Default: 32 MiB.
    pub bytes_max: usize,
    /// Whether changes are coalesced per key past these limits. Default: yes.
    ///
    /// If not, the listener receives every change: past its limits the informer applies nothing more, for anyone, until the
    /// listener has caught up. It is for listeners that never wait, such as one that maps changes to keys. A listener that
    /// takes no change for [`STUCK_AFTER`](Self::STUCK_AFTER) is coalesced all the same, so that it cannot stop the informer.
    pub coalesce: bool,
    /// How often every object is delivered once more, as [`Origin::Resync`]: at least a second. Default: as the informer.
    pub resync: Option<Duration>,
    /// Whether it is also notified when nothing has changed: of a repeated event, and of every object in a scope that was
    /// relisted. Default: no.
    pub unchanged: bool,
}

#[derive(Debug)]
struct Joined {
    listeners: Vec<Listener>,
    /// Scopes whose first list is not in the store.
    missing: BTreeSet<Scope>,
    closed: bool,
}

#[derive(Debug)]
struct Listener {
    backlog: Arc<Backlog>,
    /// How often, and when next.
    resync: Option<(Duration, Instant)>,
}

// === impl Listeners ===

impl Listeners {
    pub(super) fn new(store: Arc<Store>, scopes: impl IntoIterator<Item = Scope>) -> Self {
        let missing = scopes.into_iter().collect();
        let joined = Mutex::new(Joined { listeners: Vec::new(), missing, closed: false });
        Self { store, joined, synced: watch::Sender::default(), timers: Notify::new() }
    }

    /// Whether the first list of every scope is in the store and was published.
    pub(crate) fn synced(&self) -> watch::Receiver<bool> {
        self.synced.subscribe()
    }

    /// A new listener, which receives the current state first.
    pub(super) fn join(&self, config: &ListenerConfig) -> Arc<Backlog> {
        let mut joined = self.joined.lock();
        let present = Cursor::Objects(self.store.snapshot().into_objects(), None, Origin::Initial);
        let backlog = Arc::new(Backlog::new(config, present));
        if joined.closed {
            backlog.close();
            return backlog;
        }
        if joined.missing.is_empty() {
            backlog.push(Cursor::Synced);
        }
        let period = config.resync.map(|period| period.max(ListenerConfig::RESYNC_MIN));
        let resync = period.and_then(|period| Some((period, after(period)?)));
        joined.listeners.push(Listener { backlog: backlog.clone(), resync });
        drop(joined);
        self.timers.notify_one();
        backlog
    }

    /// The listener receives nothing more.
    pub(super) fn leave(&self, backlog: &Arc<Backlog>) {
        self.joined.lock().listeners.retain(|listener| !Arc::ptr_eq(&listener.backlog, backlog));
        backlog.close();
    }

    /// Blocks joining and leaving until the next batch is published.
    pub(super) fn lock(&self) -> Publisher<'_> {
        Publisher { listeners: self, joined: self.joined.lock() }
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
        let joined = self.joined.lock();
        let behind = joined.listeners.iter().find(|listener| listener.backlog.holds_up());
        behind.map(|listener| listener.backlog.clone())
    }

    /// When the next resync of a listener is due.
    pub(super) fn next_resync(&self) -> Option<Instant> {
        self.joined.lock().listeners.iter().filter_map(|listener| Some(listener.resync?.1)).min()
    }

    /// Delivers every object once more to the listeners whose resync is due, if the informer is synced.
    pub(super) fn resync(&self, now: Instant) {
        let mut joined = self.joined.lock();
        let complete = joined.missing.is_empty();
        let mut wakers = Vec::new();
        for listener in &mut joined.listeners {
            let Some((period, due)) = listener.resync else { continue };
            if due > now {
                continue;
            }
            listener.resync = now.checked_add(period).map(|due| (period, due));
            if complete {
                let objects = self.store.snapshot().into_objects();
                wakers.extend(listener.backlog.push(Cursor::Objects(objects, None, Origin::Resync)));
            }
        }
        drop(joined);
        wakers.into_iter().for_each(wake);
    }

    /// How many listeners there are, and how far the slowest is behind.
    #[cfg(feature = "metrics")]
    pub(crate) fn count_and_lag(&self) -> (usize, usize) {
        let joined = self.joined.lock();
        let lags = joined.listeners.iter().map(|listener| listener.backlog.lag());
        (joined.listeners.len(), lags.max().unwrap_or_default())
    }

    /// No listener receives anything more.
    pub(super) fn close(&self) {
        let mut joined = self.joined.lock();
        joined.closed = true;
        let listeners = std::mem::take(&mut joined.listeners);
        drop(joined);
        for listener in listeners {
            listener.backlog.close();
        }
    }
}

// === impl Publisher ===

impl Publisher<'_> {
    /// Notifies the listeners of changes that the store and its indexes show already.
    pub(super) fn publish(mut self, changes: ChangeBatch) {
        let changes = Arc::new(changes);
        let mut wakers = Vec::new();
        if !changes.changes().is_empty() {
            for listener in &self.joined.listeners {
                wakers.extend(listener.backlog.push(Cursor::Changes(changes.clone(), 0)));
            }
        }
        if let ChangeBatch::List(list) = &*changes {
            self.publish_list(list, &mut wakers);
        }
        drop(self.joined);
        wakers.into_iter().for_each(wake);
    }

    /// A relist delivers unchanged objects to those who want them; the first lists end the initial state.
    fn publish_list(&mut self, list: &FullList, wakers: &mut Vec<Waker>) {
        if !list.initial {
            for listener in self.joined.listeners.iter().filter(|listener| listener.backlog.unchanged) {
                let objects = self.listeners.store.snapshot().into_objects();
                let again = Cursor::Objects(objects, Some(list.scope), Origin::Resync);
                wakers.extend(listener.backlog.push(again));
            }
        }
        if self.joined.missing.remove(&list.scope) && self.joined.missing.is_empty() {
            for listener in &self.joined.listeners {
                wakers.extend(listener.backlog.push(Cursor::Synced));
            }
            self.listeners.synced.send_replace(true);
        }
    }
}

// === impl ListenerConfig ===

impl ListenerConfig {
    /// The shortest time between two resyncs.
    pub(super) const RESYNC_MIN: Duration = Duration::from_secs(1);

    /// How long an informer waits for a listener that is not to be [coalesced](Self::coalesce) and takes no change.
    pub const STUCK_AFTER: Duration = Duration::from_secs(10);
}

impl Default for ListenerConfig {
    fn default() -> Self {
        Self { changes_max: 10_000, bytes_max: 32 << 20, coalesce: true, resync: None, unchanged: false }
    }
}

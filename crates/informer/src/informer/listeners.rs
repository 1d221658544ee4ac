//! The listeners of an informer. A new listener receives a snapshot, then every later change.
//!
//! A batch is applied to the store and published under one lock, and a listener joins under the same lock. Its snapshot therefore
//! shows the state before a batch, and the batch follows; or it shows the state after the batch. There is no gap and no repeat.
//! Listeners never run or decode under that lock, but packing, training a dictionary and index functions do. Joining and leaving
//! wait for the lock, so an index function must do neither.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use educe::Educe;
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
    /// Notified when a listener with a resync joins.
    pub(super) timers: Notify,
}

/// The lock under which a batch is applied and published.
pub(super) struct Publisher<'a> {
    listeners: &'a Listeners,
    joined: MutexGuard<'a, Joined>,
}

/// How a listener is notified.
#[derive(Clone, Debug, Educe)]
#[educe(Default)]
#[non_exhaustive]
pub struct ListenerConfig {
    /// How many changes may be pending before they are coalesced per key. Default: 10,000.
    #[educe(Default = 10_000)]
    pub changes_max: usize,
    /// How many bytes the objects of pending changes may take before the changes are coalesced. Default: 32 MiB.
    #[educe(Default(expression = 32 << 20))]
    pub bytes_max: usize,
    /// Whether to coalesce changes per key past these limits. Default: yes.
    ///
    /// If not, the listener receives every change: past its limits the informer applies nothing more, for any listener,
    /// until it has caught up. Use it for listeners that never block, such as one that maps changes to keys. A listener
    /// that takes no change for 10 s is coalesced anyway, so that it cannot stop the informer.
    #[educe(Default = true)]
    pub coalesce: bool,
    /// How often to deliver every object again, as [`Origin::Resync`]; at least 1 s. Default: the informer's setting.
    pub resync: Option<Duration>,
    /// Whether to notify of unchanged objects too: repeated events, and every object of a relisted scope. Default: no.
    pub unchanged: bool,
}

#[derive(Debug)]
struct Joined {
    listeners: Vec<Listener>,
    /// Scopes whose initial list is not in the store.
    missing: BTreeSet<Scope>,
    closed: bool,
}

#[derive(Debug)]
struct Listener {
    backlog: Arc<Backlog>,
    /// The period, and the next time.
    resync: Option<(Duration, Instant)>,
}

// === impl Listeners ===

impl Listeners {
    pub(super) fn new(store: Arc<Store>, scopes: impl IntoIterator<Item = Scope>) -> Self {
        let missing = scopes.into_iter().collect();
        let joined = Mutex::new(Joined { listeners: Vec::new(), missing, closed: false });
        Self { store, joined, synced: watch::Sender::default(), timers: Notify::new() }
    }

    /// Whether the initial list of every scope is in the store and published.
    pub(crate) fn synced(&self) -> watch::Receiver<bool> {
        self.synced.subscribe()
    }

    /// Adds a listener. It receives the current state first.
    pub(super) fn join(&self, config: &ListenerConfig) -> Arc<Backlog> {
        let mut joined = self.joined.lock();
        let present = Cursor::Objects(self.store.snapshot().into_objects(), None, Origin::Initial);
        let present = if deliberate_bug!("late-listener-starts-empty") { Cursor::End } else { present };
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

    /// Adds a scope. The initial list then also waits for that of the scope, unless its end has been reported.
    pub(super) fn expect(&self, scope: Scope) {
        let mut joined = self.joined.lock();
        if !joined.missing.is_empty() {
            joined.missing.insert(scope);
        }
    }

    /// Removes a listener. It receives nothing more.
    pub(super) fn leave(&self, backlog: &Arc<Backlog>) {
        self.joined.lock().listeners.retain(|listener| !Arc::ptr_eq(&listener.backlog, backlog));
        backlog.close();
    }

    /// Blocks joining and leaving until the next batch is published.
    pub(super) fn lock(&self) -> Publisher<'_> {
        Publisher { listeners: self, joined: self.joined.lock() }
    }

    /// Waits until every listener that must not be coalesced is within its limits. Coalesces stuck ones.
    pub(super) async fn caught_up(&self) {
        while let Some(backlog) = self.behind() {
            if timeout(ListenerConfig::STUCK_AFTER, backlog.taken()).await.is_err() {
                backlog.coalesce();
                let limit = ListenerConfig::STUCK_AFTER;
                tracing::warn!(?limit, "listener with `coalesce: false` is stuck; coalescing its changes");
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

    /// Delivers every object again to the listeners whose resync is due, if the informer is synced.
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

    /// The number of listeners, and the lag of the slowest.
    #[cfg(feature = "metrics")]
    pub(crate) fn count_and_lag(&self) -> (usize, usize) {
        let joined = self.joined.lock();
        let lags = joined.listeners.iter().map(|listener| listener.backlog.lag());
        (joined.listeners.len(), lags.max().unwrap_or_default())
    }

    /// Closes all listeners. They receive nothing more.
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
    /// Notifies the listeners of changes that the store and its indexes already show.
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

    /// After a relist, delivers unchanged objects to the listeners that requested them. After the first list of the last scope,
    /// reports that the informer is synced.
    fn publish_list(&mut self, list: &FullList, wakers: &mut Vec<Waker>) {
        if !list.initial {
            for listener in self.joined.listeners.iter().filter(|listener| listener.backlog.unchanged) {
                let objects = self.listeners.store.snapshot().into_objects();
                let again = Cursor::Objects(objects, Some(list.scope), Origin::Resync);
                wakers.extend(listener.backlog.push(again));
            }
        }
        if deliberate_bug!("synced-too-early") {
            self.joined.missing.retain(|scope| *scope == list.scope);
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

    /// How long an informer waits for a listener that must not be [coalesced](Self::coalesce) and takes no change.
    #[doc(hidden)]
    pub const STUCK_AFTER: Duration = Duration::from_secs(10);
}

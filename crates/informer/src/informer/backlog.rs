//! The changes that are pending for one listener.
//!
//! All listeners share each batch of changes: the apply loop pushes a cursor into it to every backlog. A listener that keeps up
//! receives everything in order, with uncompressed objects. Batches that stay pending hold objects in the store's form. Past the
//! listener's limits, its pending changes are coalesced per key ([`Coalesced`]), so the apply loop does not wait. It waits only for
//! listeners that must not be coalesced. The batch or snapshot that a listener is currently reading (first the initial list) is
//! never copied: it is shared, and the cursor is a position in it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};

use tokio::sync::Notify;
use tokio::task::coop;

use super::Event;
use super::coalesce::Coalesced;
use super::decoder::Decoder;
use super::listeners::ListenerConfig;
use super::mailbox::Mailbox;
use crate::scope::Scope;
use crate::store::{Change, ChangeBatch, Objects, Origin};

/// The queue of one listener. One task reads it.
#[derive(Debug)]
pub(crate) struct Backlog {
    state: Mailbox<Pending>,
    changes_max: usize,
    bytes_max: usize,
    coalesces: bool,
    /// Notified when the listener takes a change. Used for listeners that are not coalesced.
    taken: Notify,
    /// Whether the listener also receives resyncs of unchanged objects.
    pub(super) unchanged: bool,
}

/// A position in the pending changes.
#[derive(Debug)]
pub(super) enum Cursor {
    /// In a batch of changes.
    Changes(Arc<ChangeBatch>, usize),
    /// In a snapshot, of one scope or of all.
    Objects(Objects, Option<Scope>, Origin),
    /// Before the marker that the initial list is complete.
    Synced,
    /// At the end.
    End,
}

/// A change; `None` marks the end of the initial list.
pub(super) type Notification = Option<Change>;

#[derive(Debug, Default)]
struct Pending {
    /// Read first.
    reading: Option<Cursor>,
    /// Read second.
    coalesced: Coalesced,
    /// Read last, in order.
    queue: VecDeque<Waiting>,
    /// The total amount of `queue`.
    queued: Amount,
    /// How often changes were coalesced.
    coalesced_count: u64,
}

#[derive(Debug)]
struct Waiting {
    cursor: Cursor,
    amount: Amount,
}

/// The amount of pending changes.
#[derive(Clone, Copy, Debug, Default)]
struct Amount {
    changes: usize,
    /// The bytes of their objects.
    bytes: usize,
}

// === impl Backlog ===

impl Backlog {
    /// A backlog that begins with `present`, the current state.
    pub(super) fn new(config: &ListenerConfig, present: Cursor) -> Self {
        // Skip an empty cursor: later ones would queue behind it, and count against the limits.
        let reading = Some(present).filter(|present| present.len() > 0);
        let state = Pending { reading, ..Pending::default() };
        let ListenerConfig { changes_max, bytes_max, coalesce, unchanged, .. } = *config;
        let taken = Notify::new();
        Self { state: Mailbox::new(state), changes_max, bytes_max, coalesces: coalesce, taken, unchanged }
    }

    /// Pushes a cursor. Returns the waker of the reader; wake it after all locks are released.
    pub(super) fn push(&self, cursor: Cursor) -> Option<Waker> {
        self.state.put(|state| {
            if let Cursor::Objects(_, scope, Origin::Resync) = &cursor {
                // A later resync replaces an earlier one. Otherwise a listener that does not read would pin many snapshots.
                let is_earlier = |waiting: &Waiting| matches!(&waiting.cursor, Cursor::Objects(_, of, Origin::Resync) if of == scope);
                state.queue.retain(|waiting| !is_earlier(waiting));
            }
            if state.is_empty() {
                // The batch that is read next stays shared and is not limited.
                state.reading = Some(cursor);
                return;
            }
            let amount = cursor.amount();
            state.queued.add(amount);
            // The batch before this one stays pending: convert its objects to the store's form, which is smaller.
            if let Some(waiting) = state.queue.back_mut() {
                state.queued.take(waiting.amount);
                waiting.shrink();
                state.queued.add(waiting.amount);
            }
            state.queue.push_back(Waiting { cursor, amount });
            if self.coalesces && self.is_over(state) && !deliberate_bug!("backlog-unbounded") {
                state.coalesce(self.unchanged);
            }
        })
    }

    /// The next event; `None` when there will be no more. Consumes tokio's cooperative budget, so that other tasks on the thread
    /// make progress.
    pub(crate) fn poll_next<K>(
        &self,
        context: &mut Context<'_>,
        decoder: &Arc<Decoder<K>>,
    ) -> Poll<Option<Event<K>>> {
        let budget = ready!(coop::poll_proceed(context));
        let next = self.state.poll(context, |state| state.next(self.unchanged));
        if next.is_ready() {
            budget.made_progress();
        }
        if !self.coalesces {
            self.taken.notify_one();
        }
        next.map(|next| next.map(|notification| Event::new(notification, decoder)))
    }

    /// Drops all pending changes. The reader receives nothing more.
    pub(super) fn close(&self) {
        self.state.close();
        self.taken.notify_one();
    }

    /// Whether the apply loop has to wait for this listener: it is not coalesced, and past its limits.
    pub(super) fn holds_up(&self) -> bool {
        !self.coalesces && self.state.look(|state| self.is_over(state))
    }

    /// Waits until the listener takes a change or is closed.
    pub(super) async fn taken(&self) {
        self.taken.notified().await;
    }

    /// Coalesces the pending changes, even if the configuration forbids it.
    pub(super) fn coalesce(&self) {
        let reader = self.state.put(|state| state.coalesce(self.unchanged));
        reader.into_iter().for_each(Waker::wake);
    }

    fn is_over(&self, state: &Pending) -> bool {
        state.queued.changes > self.changes_max || state.queued.bytes > self.bytes_max
    }

    /// An upper bound on the number of pending changes.
    pub(crate) fn lag(&self) -> usize {
        self.state.look(|state| {
            state.queued.changes + state.coalesced.len() + state.reading.as_ref().map_or(0, Cursor::len)
        })
    }

    /// How often the listener's changes were coalesced per key because it fell behind.
    pub(crate) fn coalesced_count(&self) -> u64 {
        self.state.look(|state| state.coalesced_count)
    }
}

// === impl Pending ===

impl Pending {
    fn is_empty(&self) -> bool {
        self.reading.is_none() && self.coalesced.is_empty() && self.queue.is_empty()
    }

    fn next(&mut self, unchanged: bool) -> Option<Notification> {
        loop {
            if let Some(reading) = &mut self.reading {
                if let Some(next) = reading.next(unchanged) {
                    return Some(next);
                }
                self.reading = None;
            }
            if let Some(next) = self.coalesced.pop() {
                return Some(next);
            }
            let Waiting { cursor, amount } = self.queue.pop_front()?;
            self.queued.take(amount);
            self.reading = Some(cursor);
        }
    }

    /// Coalesces all pending changes. Drops resyncs: another one will follow.
    fn coalesce(&mut self, unchanged: bool) {
        self.coalesced_count += 1;
        self.queued = Amount::default();
        for Waiting { mut cursor, .. } in std::mem::take(&mut self.queue) {
            if matches!(cursor, Cursor::Objects(_, _, Origin::Resync)) {
                continue;
            }
            while let Some(next) = cursor.next(unchanged) {
                match next {
                    Some(Change::Deleted { .. }) if deliberate_bug!("coalesced-deletion-dropped") => {}
                    Some(change) => self.coalesced.push(&change),
                    None => self.coalesced.push_synced(),
                }
            }
        }
        debug_assert!(
            !self.coalesced.is_empty() || self.queue.is_empty(),
            "coalesced changes come before the queue"
        );
    }
}

// === impl Waiting ===

impl Waiting {
    /// Converts the objects to the store's form. Uncompressed, they are larger, and this backlog may be their last holder.
    fn shrink(&mut self) {
        if let Cursor::Changes(batch, _) = &mut self.cursor
            && let Some(stored) = batch.as_stored()
        {
            *batch = Arc::new(stored);
            self.amount = self.cursor.amount();
        }
    }
}

// === impl Amount ===

impl Amount {
    fn add(&mut self, other: Self) {
        self.changes += other.changes;
        self.bytes += other.bytes;
    }

    fn take(&mut self, other: Self) {
        self.changes -= other.changes;
        self.bytes -= other.bytes;
    }
}

// === impl Cursor ===

impl Cursor {
    /// An upper bound on the number of remaining changes.
    fn len(&self) -> usize {
        match self {
            Self::Changes(batch, at) => batch.changes().len() - at,
            Self::Objects(objects, ..) => objects.len(),
            Self::Synced => 1,
            Self::End => 0,
        }
    }

    /// The amount that counts against the limits. Resyncs do not count: they are dropped when the limits are reached.
    fn amount(&self) -> Amount {
        let bytes = match self {
            Self::Objects(_, _, Origin::Resync) => return Amount::default(),
            // A snapshot shares most of its memory with the store.
            Self::Objects(..) | Self::Synced | Self::End => 0,
            Self::Changes(batch, _) => batch.bytes(),
        };
        Amount { changes: self.len(), bytes }
    }

    fn next(&mut self, unchanged: bool) -> Option<Notification> {
        match self {
            Self::Changes(batch, at) => {
                // A resync in a batch is a repeated watch event.
                let is_due = |change: &Change| unchanged || change.origin() != Origin::Resync;
                let left = &batch.changes()[*at..];
                let skipped = left.iter().take_while(|change| !is_due(change)).count();
                let next = left.get(skipped);
                *at += skipped + usize::from(next.is_some());
                next.cloned().map(Some)
            }
            Self::Objects(objects, scope, origin) => {
                let object = objects.find(|object| scope.is_none_or(|scope| object.scope() == scope))?;
                Some(Some(match origin {
                    Origin::Resync => {
                        Change::Updated { old: object.clone(), new: object, origin: Origin::Resync }
                    }
                    origin => Change::Added { object, origin: *origin },
                }))
            }
            Self::Synced => {
                *self = Self::End;
                Some(None)
            }
            Self::End => None,
        }
    }
}

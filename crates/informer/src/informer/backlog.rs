//! What one listener has yet to hear.
//!
//! The apply loop never waits for a listener: it leaves what changed here, shared with all other listeners, and goes on.
//! A listener that keeps up hears everything in order, of objects as they came. What has to wait is held as the store keeps
//! it, and when more than its limits is waiting, it is coalesced per key ([`Folded`]), or the apply loop pauses for a listener
//! that is not to be coalesced. What it is reading at the moment (the
//! present state, for one that has just joined) is never copied: it is a pinned snapshot, or a shared change set, and a
//! place in it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};

use tokio::sync::Notify;
use tokio::task::coop;

use super::coalesce::Folded;
use super::listeners::ListenerConfig;
use super::mailbox::Mailbox;
use crate::queue::{Applied, Scope};
use crate::store::{Change, Objects, Origin};

/// The queue of one listener. One task reads it.
#[derive(Debug)]
pub(crate) struct Backlog {
    state: Mailbox<State>,
    changes_max: usize,
    bytes_max: usize,
    coalesces: bool,
    /// Something was taken. For listeners that are not coalesced.
    taken: Notify,
    /// Whether it hears that nothing has changed, too.
    pub(super) hears_unchanged: bool,
}

/// What a listener hears.
#[derive(Debug)]
pub(crate) enum Heard {
    Change(Change),
    /// The initial state is complete.
    Synced,
}

/// A stretch of what is to be heard.
#[derive(Debug)]
pub(super) enum Segment {
    /// What a batch has changed, from a place on.
    Applied(Arc<Applied>, usize),
    /// What there is: in one scope, or everywhere.
    Present(Objects, Option<Scope>, Origin),
    Synced,
}

#[derive(Debug, Default)]
struct State {
    /// Told first: this stretch is being read.
    reading: Option<Segment>,
    /// Then this.
    folded: Folded,
    /// Then these, in order.
    queue: VecDeque<Waiting>,
    /// What all of `queue` comes to.
    queued: Amount,
    /// How often changes were gathered per key.
    folds: u64,
}

#[derive(Debug)]
struct Waiting {
    segment: Segment,
    amount: Amount,
}

/// How much is waiting.
#[derive(Clone, Copy, Debug, Default)]
struct Amount {
    changes: usize,
    /// Of the objects that they hold.
    bytes: usize,
}

// === impl Backlog ===

impl Backlog {
    pub(super) fn new(config: &ListenerConfig, present: Option<Segment>) -> Self {
        // Nothing to be read must not stand before what comes: that would wait, and count.
        let reading = present.filter(|present| present.len() > 0);
        let state = State { reading, ..State::default() };
        let ListenerConfig { changes_max, bytes_max, coalesce, unchanged: hears_unchanged, .. } = *config;
        Self {
            state: Mailbox::new(state),
            changes_max,
            bytes_max,
            coalesces: coalesce,
            taken: Notify::new(),
            hears_unchanged,
        }
    }

    /// Adds a stretch. Gives the waker of the reader: it is woken when no lock is held.
    pub(super) fn push(&self, segment: Segment) -> Option<Waker> {
        self.state.put(|state| {
            if let Segment::Present(_, scope, Origin::Resync) = &segment {
                // The later resync stands for the earlier: one that is not read does not pin one snapshot after the other.
                let is_earlier =
                    |waiting: &Waiting| matches!(&waiting.segment, Segment::Present(_, of, Origin::Resync) if of == scope);
                state.queue.retain(|waiting| !is_earlier(waiting));
            }
            if state.is_empty() {
                // What will be read next is shared and stays so, however long it is and whatever follows.
                state.reading = Some(segment);
                return;
            }
            let amount = segment.amount();
            state.queued.add(amount);
            // What is not next will wait for a while.
            if let Some(waiting) = state.queue.back_mut() {
                state.queued.take(waiting.amount);
                waiting.rest();
                state.queued.add(waiting.amount);
            }
            state.queue.push_back(Waiting { segment, amount });
            if self.coalesces && self.is_over(state) {
                state.fold(self.hears_unchanged);
            }
        })
    }

    /// The next thing to be read; `None` when there will be nothing more. It spends the budget of the reader's task: however
    /// much there is to read, other tasks on the thread get their turn.
    pub(crate) fn poll_next(&self, context: &mut Context<'_>) -> Poll<Option<Heard>> {
        let budget = ready!(coop::poll_proceed(context));
        let next = self.state.poll(context, |state| state.next(self.hears_unchanged));
        if next.is_ready() {
            budget.made_progress();
        }
        if !self.coalesces {
            self.taken.notify_one();
        }
        next
    }

    /// Drops what is pending. The reader hears nothing more.
    pub(super) fn close(&self) {
        self.state.close();
        self.taken.notify_one();
    }

    /// Whether the informer has to wait for this listener, which is not coalesced and past its limits.
    pub(super) fn holds_up(&self) -> bool {
        !self.coalesces && self.state.look(|state| self.is_over(state))
    }

    /// Waits until something is taken, or there is nothing more to take.
    pub(super) async fn taken(&self) {
        self.taken.notified().await;
    }

    /// Coalesces what waits, whatever the configuration says.
    pub(super) fn coalesce(&self) {
        let reader = self.state.put(|state| state.fold(self.hears_unchanged));
        reader.into_iter().for_each(Waker::wake);
    }

    fn is_over(&self, state: &State) -> bool {
        state.queued.changes > self.changes_max || state.queued.bytes > self.bytes_max
    }

    /// How many changes are yet to be heard, at most.
    pub(crate) fn lag(&self) -> usize {
        self.state.look(|state| {
            state.queued.changes + state.folded.len() + state.reading.as_ref().map_or(0, Segment::len)
        })
    }

    /// How often the listener was so far behind that its changes were gathered per key.
    pub(crate) fn folds(&self) -> u64 {
        self.state.look(|state| state.folds)
    }
}

// === impl State ===

impl State {
    fn is_empty(&self) -> bool {
        self.reading.is_none() && self.folded.is_empty() && self.queue.is_empty()
    }

    fn next(&mut self, unchanged: bool) -> Option<Heard> {
        loop {
            if let Some(reading) = &mut self.reading {
                if let Some(heard) = reading.next(unchanged) {
                    return Some(heard);
                }
                self.reading = None;
            }
            if let Some(heard) = self.folded.pop() {
                return Some(heard);
            }
            let Waiting { segment, amount } = self.queue.pop_front()?;
            self.queued.take(amount);
            self.reading = Some(segment);
        }
    }

    /// Gathers everything that waits. A resync is left out: there will be another.
    fn fold(&mut self, unchanged: bool) {
        self.folds += 1;
        self.queued = Amount::default();
        for Waiting { mut segment, .. } in std::mem::take(&mut self.queue) {
            if matches!(segment, Segment::Present(_, _, Origin::Resync)) {
                continue;
            }
            while let Some(heard) = segment.next(unchanged) {
                match heard {
                    Heard::Change(change) => self.folded.push(change),
                    Heard::Synced => self.folded.push_synced(),
                }
            }
        }
        debug_assert!(
            !self.folded.is_empty() || self.queue.is_empty(),
            "what was gathered comes before the queue"
        );
    }
}

// === impl Waiting ===

impl Waiting {
    /// Holds the objects as the store keeps them: on their way they are larger, and nobody else may need them any more.
    fn rest(&mut self) {
        if let Segment::Applied(applied, _) = &mut self.segment
            && let Some(at_rest) = applied.at_rest()
        {
            *applied = Arc::new(at_rest);
            self.amount = self.segment.amount();
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

// === impl Segment ===

impl Segment {
    /// How many changes are left, at most.
    fn len(&self) -> usize {
        match self {
            Self::Applied(applied, at) => match &**applied {
                Applied::Live(changes) => changes.len() - at,
                Applied::Replaced(set) => set.places() - at,
                Applied::Resynced { .. } => 0,
            },
            Self::Present(objects, ..) => objects.len(),
            Self::Synced => 1,
        }
    }

    /// How much it counts against the limits: a resync, which is left out when they are reached, does not.
    fn amount(&self) -> Amount {
        let bytes = match self {
            Self::Present(_, _, Origin::Resync) => return Amount::default(),
            // What a snapshot pins is shared with the store, most of it.
            Self::Present(..) | Self::Synced => 0,
            Self::Applied(applied, _) => applied.bytes(),
        };
        Amount { changes: self.len(), bytes }
    }

    fn next(&mut self, unchanged: bool) -> Option<Heard> {
        loop {
            let change = match self {
                Self::Applied(applied, at) => match &**applied {
                    Applied::Live(changes) => {
                        *at += 1;
                        changes.get(*at - 1).cloned()?
                    }
                    Applied::Replaced(set) => return set.next_change(at).map(Heard::Change),
                    Applied::Resynced { .. } => return None,
                },
                Self::Present(objects, scope, origin) => {
                    let object = objects.find(|object| scope.is_none_or(|scope| object.scope() == scope))?;
                    return Some(Heard::Change(match origin {
                        Origin::Resync => Change::updated(object.clone(), object, Origin::Resync),
                        origin => Change::added(object, *origin),
                    }));
                }
                Self::Synced => {
                    *self = Self::Applied(Arc::new(Applied::Live(Vec::new())), 0);
                    return Some(Heard::Synced);
                }
            };
            // The same state once more, as a watch repeats it.
            if change.origin != Origin::Resync || unchanged {
                return Some(Heard::Change(change));
            }
        }
    }
}

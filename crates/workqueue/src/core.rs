//! What the queue knows, as plain data behind one lock: which keys are queued, with a worker, or
//! put off. No waker and no task, and the time is asked for only where it matters (reading the clock would take a
//! third of a call), so a run is a function of its calls and a model can be held against it.

use crate::{
    due::{Due, DueHeap},
    error::AddError,
    ready::{Rank, Ready},
    slots::{SlotId, Slots},
    stats::Stats,
};

/// The queue's state.
///
/// Putting off and working are independent: a key may be put off while it is queued or with a
/// worker. Becoming due is computed, not scheduled: every call that adds, takes or shows keys first moves over
/// what is due ([`Core::promote`]), in slices lest one call pay for a million keys that became due together.
pub(crate) struct Core<T> {
    /// Keys that are queued, with a worker, or both (to be queued again).
    held: Slots<T, Held>,
    /// The keys in `held` that are not with a worker, in the order in which they will be.
    ready: Ready,
    /// Keys put off, with their priority.
    delayed: Slots<T, i16>,
    due: DueHeap,
    /// How many keys with a worker are to be queued again.
    again: usize,
    /// Counts what was ever queued or put off: first come, first served among equals.
    arrivals: u64,
    /// Whether times matter. Until some key has a priority other than 0 they don't: the order is that of arrival.
    timed: bool,
    closed: bool,
    limits: Limits,
    stats: Option<Box<Stats>>,
}

/// How much a queue holds, and what waiting is worth.
#[derive(Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) capacity: usize,
    /// Nanoseconds of waiting that weigh as much as one point of priority.
    pub(crate) aging: u64,
}

impl Limits {
    /// A day. More would not fit a [`Rank`], and is as good as for ever.
    pub(crate) const AGING_MAX: u64 = 24 * 3600 * 1_000_000_000;

    /// The aging formula: a key of priority `p` stands where one of priority 0 would that was queued `p × aging` earlier.
    /// Both products fit: 2¹⁵ days and, for `since`, two centuries.
    #[inline]
    fn rank(self, held: &Held) -> Rank {
        let head_start = i64::from(held.priority) * self.aging as i64;
        ((held.since as i64).saturating_sub(head_start), held.arrival)
    }
}

/// Why a key is not taken.
#[derive(Clone, Copy)]
pub(crate) enum Refusal {
    ShutDown,
    Full { limit: usize },
}

impl Refusal {
    pub(crate) fn of<T>(self, key: T) -> AddError<T> {
        match self {
            Self::ShutDown => AddError::ShutDown(key),
            Self::Full { limit } => AddError::Full { item: key, limit },
        }
    }
}

/// A key that was handed out, and what is needed to finish it.
pub(crate) struct Taken<T> {
    pub(crate) key: T,
    pub(crate) slot: SlotId,
    pub(crate) priority: i16,
    pub(crate) arrival: u64,
}

/// A key that is queued or with a worker. The first three say how it is wanted, or was when it was handed out.
#[derive(Clone, Copy)]
struct Held {
    since: u64,
    arrival: u64,
    priority: i16,
    place: Place,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// In `ready`.
    Queued,
    /// With a worker.
    Running,
    /// With a worker, and to be queued again.
    Again,
}

impl<T> Core<T> {
    pub(crate) fn new(limits: Limits, stats: Option<Box<Stats>>) -> Self {
        let capacity = limits.capacity.min(Slots::<T, Held>::MAX);
        let aging = limits.aging.min(Limits::AGING_MAX);
        Self {
            held: Slots::new(),
            ready: Ready::default(),
            delayed: Slots::new(),
            due: DueHeap::new(),
            again: 0,
            arrivals: 0,
            timed: stats.is_some(),
            closed: false,
            limits: Limits { capacity, aging },
            stats,
        }
    }

    /// How many keys are queued.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.ready.len()
    }

    /// How many keys wait for a worker, those included that are with one and wanted again.
    #[inline]
    pub(crate) fn depth(&self) -> usize {
        self.ready.len() + self.again
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed
    }

    /// Nothing will ever be handed out again.
    #[inline]
    pub(crate) fn is_finished(&self) -> bool {
        self.closed && self.depth() == 0
    }

    /// Shut down, and every key that was queued is done.
    #[inline]
    pub(crate) fn is_drained(&self) -> bool {
        self.closed && self.held.len() == 0
    }

    /// How many keys are queued or with a worker.
    pub(crate) fn unfinished(&self) -> usize {
        self.held.len()
    }

    /// When the first of the keys put off is due.
    #[inline]
    pub(crate) fn next_due(&self) -> Option<u64> {
        self.due.first().map(|due| due.at)
    }

    #[cfg(feature = "metrics")]
    pub(crate) fn stats(&self) -> Option<&Stats> {
        self.stats.as_deref()
    }

    /// Counts a key that was added with a delay.
    pub(crate) fn count_retry(&mut self) {
        if let Some(stats) = &mut self.stats {
            stats.retries += 1;
        }
    }

    /// Finishes a key that was handed out; it is queued again if it was added meanwhile, as of then. If not, the queue's
    /// own key is handed out, to be dropped outside the lock.
    #[inline]
    pub(crate) fn done(&mut self, slot: SlotId, now: impl Fn() -> u64) -> Option<T> {
        if let Some(stats) = &mut self.stats {
            stats.finished(slot, now());
        }
        let held = self.held.value_mut(slot);
        if held.place == Place::Running {
            return Some(self.held.remove(slot).0);
        }
        held.place = Place::Queued;
        let rank = self.limits.rank(held);
        self.again -= 1;
        self.ready.insert(rank, slot);
        None
    }

    /// From now on new keys are refused; keys put off are dropped.
    pub(crate) fn close(&mut self) {
        self.closed = true;
        self.delayed = Slots::new();
        self.due = DueHeap::new();
    }

    #[inline]
    fn next_arrival(&mut self) -> u64 {
        self.arrivals += 1;
        self.arrivals
    }
}

impl<T: Eq> Core<T> {
    /// How many keys that are due one call moves over: about a tenth of a millisecond's work.
    pub(crate) const SLICE: usize = 512;

    /// Whether a key would be taken now.
    #[inline]
    pub(crate) fn admit(&self, key: &T, hash: u32) -> Result<(), Refusal> {
        if self.closed {
            return Err(Refusal::ShutDown);
        }
        let full = self.held.len() + self.delayed.len() >= self.limits.capacity;
        if full && self.held.find(key, hash).is_none() && self.delayed.find(key, hash).is_none() {
            return Err(Refusal::Full { limit: self.limits.capacity });
        }
        Ok(())
    }

    /// Queues a key, or marks it to be queued again if it is with a worker.
    #[inline]
    pub(crate) fn add(
        &mut self,
        key: T,
        hash: u32,
        priority: i16,
        now: impl Fn() -> u64,
    ) -> Result<(), AddError<T>> {
        if let Err(refusal) = self.admit(&key, hash) {
            return Err(refusal.of(key));
        }
        self.promote(&now);
        let known = self.held.find(&key, hash);
        self.timed |= priority != 0;
        let since = if self.timed { now() } else { 0 };
        self.want(key, hash, known, priority, since);
        Ok(())
    }

    /// Puts a key off until `at`. Of two times the earlier holds, of two priorities the higher.
    pub(crate) fn add_at(&mut self, key: T, hash: u32, priority: i16, at: u64) -> Result<(), AddError<T>> {
        if let Err(refusal) = self.admit(&key, hash) {
            return Err(refusal.of(key));
        }
        self.timed |= priority != 0;
        if let Some(slot) = self.delayed.find(&key, hash) {
            let known = self.delayed.value_mut(slot);
            *known = priority.max(*known);
            self.due.hurry(slot, at);
            return Ok(());
        }
        let slot = self.delayed.insert(key, hash, priority);
        let arrival = self.next_arrival() as u32;
        self.due.push(Due { at, arrival, slot });
        Ok(())
    }

    /// Queues keys whose time has come, each as of that time, the longest due first. Says whether there may be more.
    #[inline]
    pub(crate) fn promote(&mut self, now: impl Fn() -> u64) -> bool {
        self.due.first().is_some() && self.promote_until(now())
    }

    fn promote_until(&mut self, now: u64) -> bool {
        for _ in 0..Self::SLICE {
            let Some(Due { at, slot, .. }) = self.due.pop_until(now) else { return false };
            let (key, hash, priority) = self.delayed.remove(slot);
            let known = self.held.find(&key, hash);
            let since = if self.timed { at } else { 0 };
            self.want(key, hash, known, priority, since);
        }
        true
    }

    /// Hands out the key whose turn it is.
    #[inline]
    pub(crate) fn take(&mut self, now: impl Fn() -> u64) -> Option<Taken<T>>
    where
        T: Clone,
    {
        let slot = self.ready.first()?;
        let key = self.held.key(slot).clone(); // first, lest a panic in it lose the key
        self.ready.remove_first();
        let held = self.held.value_mut(slot);
        held.place = Place::Running;
        let Held { since, arrival, priority, .. } = *held;
        if let Some(stats) = &mut self.stats {
            stats.taken(slot, since, now());
        }
        Some(Taken { key, slot, priority, arrival })
    }

    #[inline]
    fn want(&mut self, key: T, hash: u32, known: Option<SlotId>, priority: i16, since: u64) {
        let new = Held { since, arrival: self.next_arrival(), priority, place: Place::Queued };
        let Some(slot) = known else {
            let slot = self.held.insert(key, hash, new);
            self.ready.insert(self.limits.rank(&new), slot);
            return self.count_add();
        };
        let held = self.held.value_mut(slot);
        if held.place == Place::Running {
            *held = Held { place: Place::Again, ..new };
            self.again += 1;
            return self.count_add();
        }
        let before = self.limits.rank(held);
        held.since = held.since.min(since);
        held.priority = held.priority.max(priority);
        let after = self.limits.rank(held);
        if held.place == Place::Queued && after != before {
            self.ready.advance(before, after);
        }
    }

    #[inline]
    fn count_add(&mut self) {
        if let Some(stats) = &mut self.stats {
            stats.adds += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_call_pays_for_all_keys_that_became_due_together_and_their_order_holds() {
        let keys = 3 * Core::<usize>::SLICE + 1;
        let mut core = Core::new(Limits { capacity: keys, aging: 1 }, None);
        for key in 0..keys {
            assert!(core.add_at(key, key as u32, 0, 10).is_ok());
        }
        assert!(core.promote(|| 10));
        assert_eq!(core.len(), Core::<usize>::SLICE);
        let mut taken = Vec::new();
        while core.promote(|| 10) || core.len() > 0 {
            taken.extend(core.take(|| 10).map(|taken| taken.key));
        }
        assert_eq!(taken, (0..keys).collect::<Vec<_>>());
    }
}

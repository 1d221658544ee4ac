//! The state of the queue as plain data behind one lock: which keys are queued, with a worker, or delayed. It has no wakers and no
//! tasks, so its behaviour depends on its calls alone and tests compare it with a model. It reads the clock only where times matter,
//! because reading it would take a third of a call.

use crate::{
    deliberate_bug::deliberate_bug,
    due::{Due, DueHeap},
    error::AddError,
    ready::{Rank, Ready},
    slots::{SlotId, Slots},
    stats::Stats,
};

/// The queue's state.
///
/// A key may be delayed and, at the same time, queued or with a worker. No timer moves delayed keys: every call that adds, takes or
/// counts keys first queues the keys that are due ([`Core::promote`]). One call moves a limited number of keys, so that it does not
/// pay for a million keys that are due at the same time.
pub(crate) struct Core<T> {
    /// Keys that are queued, with a worker, or both (to be queued again).
    held: Slots<T, Held>,
    /// The keys in `held` that are not with a worker, in the order in which workers get them.
    ready: Ready,
    /// Delayed keys with their priority.
    delayed: Slots<T, i16>,
    due: DueHeap,
    /// The number of keys with a worker that are to be queued again.
    again: usize,
    /// The number of keys queued or delayed so far. It makes equal priorities first come, first served.
    arrivals: u64,
    /// Whether times matter. They do not until a key has a priority other than 0: the order is that of arrival.
    timed: bool,
    closed: bool,
    limits: Limits,
    stats: Option<Box<Stats>>,
}

/// The capacity of a queue, and the weight of waiting.
#[derive(Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) capacity: usize,
    /// Nanoseconds of waiting that are worth one point of priority.
    pub(crate) aging: u64,
}

impl Limits {
    /// One day. More does not fit a [`Rank`].
    pub(crate) const AGING_MAX: u64 = 24 * 3600 * 1_000_000_000;

    /// The aging formula: a key of priority `p` has the place of a key of priority 0 that was queued `p × aging` earlier. Neither
    /// value overflows: the product is at most 2¹⁵ days, and `since` at most two centuries.
    #[inline]
    fn rank(self, held: &Held) -> Rank {
        let head_start = i64::from(held.priority) * self.aging as i64;
        ((held.since as i64).saturating_sub(head_start), held.arrival)
    }
}

/// Why a key is refused.
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

/// A key that a worker has, with what is needed to finish it.
pub(crate) struct Taken<T> {
    pub(crate) key: T,
    pub(crate) slot: SlotId,
    pub(crate) priority: i16,
    pub(crate) arrival: u64,
}

/// A key that is queued or with a worker. The first three fields describe the latest add, or the add that a worker handles now.
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

    /// The number of queued keys.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.ready.len()
    }

    /// The number of keys that wait for a worker, including those that a worker has and that were added again.
    #[inline]
    pub(crate) fn depth(&self) -> usize {
        self.ready.len() + self.again
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed
    }

    /// Whether no key can follow.
    #[inline]
    pub(crate) fn is_finished(&self) -> bool {
        self.closed && self.depth() == 0
    }

    /// Whether the queue is shut down and every key is done.
    #[inline]
    pub(crate) fn is_drained(&self) -> bool {
        self.closed && self.held.len() == 0
    }

    /// The number of keys that are queued or with a worker.
    pub(crate) fn unfinished(&self) -> usize {
        self.held.len()
    }

    /// When the first delayed key is due.
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

    /// Finishes a key. If it was added in the meantime, it is queued again, with the time of that add. Otherwise the queue's own copy
    /// of the key is returned, so that the caller drops it outside of the lock.
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

    /// Refuses new keys from now on and drops delayed keys.
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
    /// The maximum number of due keys that one call queues: about 0.1 ms of work.
    pub(crate) const SLICE: usize = 512;

    /// Checks that a key would be accepted now.
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

    /// Delays a key until `at`. The earlier of two times and the higher of two priorities apply.
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

    /// Queues the keys that are due, each with the time at which it was due, in the order of these times. Returns whether there may be
    /// more.
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

    /// Takes the next key.
    #[inline]
    pub(crate) fn take(&mut self, now: impl Fn() -> u64) -> Option<Taken<T>>
    where
        T: Clone,
    {
        let slot = self.ready.first()?;
        let key = self.held.key(slot).clone(); // before the removal, so that a panic in `clone` does not lose the key
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
        let is_free = |slot: &SlotId| self.held.value_mut(*slot).place != Place::Running;
        let known = if deliberate_bug("key-handed-out-twice") { known.filter(is_free) } else { known };
        let Some(slot) = known else {
            let slot = self.held.insert(key, hash, new);
            self.ready.insert(self.limits.rank(&new), slot);
            return self.count_add();
        };
        let held = self.held.value_mut(slot);
        if held.place == Place::Running {
            if deliberate_bug("key-lost-while-running") {
                return;
            }
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
    fn one_call_queues_a_limited_number_of_due_keys_in_order() {
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

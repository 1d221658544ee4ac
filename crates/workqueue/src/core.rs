//! What the queue knows, as plain data behind one lock: which keys are queued, with a worker, or
//! put off. No clock, no waker and no task: `now` is handed in (nanoseconds since the queue was
//! made), so a run is a function of its calls and a model can be held against it.

use crate::{
    error::AddError,
    heap::{Heap, Node},
    slots::{SlotId, Slots},
    stats::Stats,
};

/// The queue's state.
///
/// Putting off and working are independent: a key may be put off while it is queued or with a
/// worker. Becoming due is computed, not scheduled: every call that shows the queue or takes from
/// it first moves over what is due ([`Core::promote`]).
pub(crate) struct Core<T> {
    /// Keys that are queued, with a worker, or both (to be queued again).
    held: Slots<T, Held>,
    /// The keys in `held` that are not with a worker.
    ready: Heap<Ready>,
    /// Keys put off, with their priority.
    delayed: Slots<T, i32>,
    due: Heap<Due>,
    /// How many keys with a worker are to be queued again.
    again: usize,
    /// Counts what was ever queued or put off: first come, first served among equals.
    arrivals: u64,
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

/// A key that was handed out, and what is needed to finish it.
pub(crate) struct Taken<T> {
    pub(crate) key: T,
    pub(crate) slot: SlotId,
    pub(crate) priority: i32,
}

/// Invariant: `wanted` or `running_since` is set; the key is in `ready` iff it is not running.
struct Held {
    wanted: Option<Wanted>,
    running_since: Option<u64>,
}

#[derive(Clone, Copy)]
struct Wanted {
    priority: i32,
    since: u64,
}

/// A queued key. The rank is static although waiting raises priority, because it raises everyone's
/// at the same pace: who is ahead now stays ahead.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Ready {
    rank: i128,
    arrival: u64,
    slot: SlotId,
}

/// A key put off. 16 bytes, because there may be millions; should `arrival` wrap around, two
/// keys due at the same nanosecond may swap places.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Due {
    at: u64,
    arrival: u32,
    slot: SlotId,
}

impl<T> Core<T> {
    pub(crate) fn new(limits: Limits, stats: Option<Box<Stats>>) -> Self {
        let limits = Limits { capacity: limits.capacity.min(Slots::<T, Held>::MAX), ..limits };
        Self {
            held: Slots::new(),
            ready: Heap::new(),
            delayed: Slots::new(),
            due: Heap::new(),
            again: 0,
            arrivals: 0,
            closed: false,
            limits,
            stats,
        }
    }

    /// How many keys are queued.
    pub(crate) fn len(&self) -> usize {
        self.ready.len()
    }

    /// How many keys wait for a worker, those included that are with one and wanted again.
    pub(crate) fn depth(&self) -> usize {
        self.ready.len() + self.again
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed
    }

    /// Nothing will ever be handed out again.
    pub(crate) fn is_finished(&self) -> bool {
        self.closed && self.depth() == 0
    }

    /// Shut down, and every key that was queued is done.
    pub(crate) fn is_drained(&self) -> bool {
        self.closed && self.held.len() == 0
    }

    /// How many keys are queued or with a worker.
    pub(crate) fn unfinished(&self) -> usize {
        self.held.len()
    }

    /// When the first of the keys put off is due.
    pub(crate) fn next_due(&self) -> Option<u64> {
        self.due.peek().map(|due| due.at)
    }

    #[cfg(feature = "metrics")]
    pub(crate) fn stats(&self) -> Option<&Stats> {
        self.stats.as_deref()
    }

    /// Counts a key that was added with a delay.
    pub(crate) fn count_retry(&mut self) {
        if let Some(stats) = &mut self.stats
            && !self.closed
        {
            stats.retries += 1;
        }
    }

    /// Finishes a key that was handed out; it is queued again if it was added meanwhile.
    pub(crate) fn done(&mut self, slot: SlotId, now: u64) {
        let held = self.held.value_mut(slot);
        let started = held.running_since.take();
        if let (Some(stats), Some(started)) = (&mut self.stats, started) {
            stats.finished(slot, started, now);
        }
        match held.wanted {
            Some(wanted) => {
                self.again -= 1;
                self.enqueue(slot, wanted);
            }
            None => drop(self.held.remove(slot)),
        }
    }

    /// From now on new keys are refused; keys put off are dropped.
    pub(crate) fn close(&mut self) {
        self.closed = true;
        self.delayed = Slots::new();
        self.due = Heap::new();
    }

    fn enqueue(&mut self, slot: SlotId, wanted: Wanted) {
        let node = Ready { rank: self.rank(wanted), arrival: self.arrivals, slot };
        self.arrivals += 1;
        self.ready.push(node);
    }

    /// The aging formula: a key of priority `p` stands where one of priority 0 would that was queued `p × aging` earlier.
    fn rank(&self, wanted: Wanted) -> i128 {
        i128::from(wanted.since) - i128::from(wanted.priority) * i128::from(self.limits.aging)
    }

    fn is_full(&self) -> bool {
        self.held.len() + self.delayed.len() >= self.limits.capacity
    }
}

impl<T: Eq> Core<T> {
    /// Queues a key, or marks it to be queued again if it is with a worker.
    pub(crate) fn add(&mut self, key: T, hash: u32, priority: i32, now: u64) -> Result<(), AddError<T>> {
        if self.closed {
            return Err(AddError::ShutDown(key));
        }
        let known = self.held.find(&key, hash);
        if known.is_none() && self.is_full() && self.delayed.find(&key, hash).is_none() {
            return Err(AddError::Full { item: key, limit: self.limits.capacity });
        }
        self.want(key, hash, known, Wanted { priority, since: now });
        Ok(())
    }

    /// Puts a key off until `at`. Of two times the earlier holds, of two priorities the higher.
    pub(crate) fn add_at(&mut self, key: T, hash: u32, priority: i32, at: u64) -> Result<(), AddError<T>> {
        if self.closed {
            return Err(AddError::ShutDown(key));
        }
        if let Some(slot) = self.delayed.find(&key, hash) {
            let known = self.delayed.value_mut(slot);
            *known = priority.max(*known);
            let due = self.due.node(slot);
            self.due.advance(Due { at: at.min(due.at), ..due });
            return Ok(());
        }
        if self.is_full() && self.held.find(&key, hash).is_none() {
            return Err(AddError::Full { item: key, limit: self.limits.capacity });
        }
        let slot = self.delayed.insert(key, hash, priority);
        self.due.push(Due { at, arrival: self.arrivals as u32, slot });
        self.arrivals += 1;
        Ok(())
    }

    /// Queues every key whose time has come, each as of that time.
    pub(crate) fn promote(&mut self, now: u64) {
        while let Some(&Due { at, slot, .. }) = self.due.peek()
            && at <= now
        {
            self.due.pop();
            let (key, hash, priority) = self.delayed.remove(slot);
            let known = self.held.find(&key, hash);
            self.want(key, hash, known, Wanted { priority, since: at });
        }
    }

    /// Hands out the key whose turn it is.
    pub(crate) fn take(&mut self, now: u64) -> Option<Taken<T>>
    where
        T: Clone,
    {
        let slot = self.ready.peek()?.slot;
        let key = self.held.key(slot).clone(); // first, lest a panic in it lose the key
        self.ready.pop();
        let held = self.held.value_mut(slot);
        held.running_since = Some(now);
        let wanted = held.wanted.take().unwrap_or(Wanted { priority: 0, since: now }); // always set: it was in `ready`
        if let Some(stats) = &mut self.stats {
            stats.taken(slot, wanted.since, now);
        }
        Some(Taken { key, slot, priority: wanted.priority })
    }

    fn want(&mut self, key: T, hash: u32, known: Option<SlotId>, new: Wanted) {
        let Some(slot) = known else {
            let slot = self.held.insert(key, hash, Held { wanted: Some(new), running_since: None });
            self.enqueue(slot, new);
            return self.count_add();
        };
        let held = self.held.value_mut(slot);
        let running = held.running_since.is_some();
        let Some(old) = held.wanted else {
            held.wanted = Some(new);
            self.again += 1;
            return self.count_add();
        };
        let both = Wanted { priority: old.priority.max(new.priority), since: old.since.min(new.since) };
        held.wanted = Some(both);
        if !running {
            let node = Ready { rank: self.rank(both), ..self.ready.node(slot) };
            self.ready.advance(node);
        }
    }

    fn count_add(&mut self) {
        if let Some(stats) = &mut self.stats {
            stats.adds += 1;
        }
    }
}

impl Node for Ready {
    fn slot(&self) -> SlotId {
        self.slot
    }
}

impl Node for Due {
    fn slot(&self) -> SlotId {
        self.slot
    }
}

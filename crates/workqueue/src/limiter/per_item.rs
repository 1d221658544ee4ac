//! Limiters that count each item's failures, of a bounded number of items.

use std::{collections::HashMap, hash::Hash, mem, time::Duration};

use foldhash::fast::RandomState;

use super::RateLimiter;

/// Each failure of an item doubles its wait, from a first wait up to a longest one.
///
/// The default is 5 ms × 2ⁿ up to 1,000 s. An item is remembered until it is [forgotten](RateLimiter::forget), or so many
/// others fail that there is no [room](Self::remember): then those whose last failure is longest ago are forgotten.
#[derive(Clone, Debug)]
pub struct PerItemExponential<T> {
    failures: Failures<T>,
    base: Duration,
    max: Duration,
}

impl<T> PerItemExponential<T> {
    /// The n-th wait of an item is `base` × 2ⁿ⁻¹, but never more than `max`.
    pub fn new(base: Duration, max: Duration) -> Self {
        Self { failures: Failures::default(), base, max }
    }

    /// How many items are remembered at most, at least 2. Default: [`REMEMBERED`](Self::REMEMBERED).
    #[must_use]
    pub fn remember(mut self, items: usize) -> Self {
        self.failures.limit(items);
        self
    }

    /// How many items are remembered unless told otherwise: 2²⁰, about a million.
    pub const REMEMBERED: usize = 1 << 20;
}

impl<T> Default for PerItemExponential<T> {
    fn default() -> Self {
        Self::new(Duration::from_millis(5), Duration::from_secs(1000))
    }
}

impl<T: Clone + Eq + Hash + Send> RateLimiter<T> for PerItemExponential<T> {
    fn when(&mut self, item: &T) -> Duration {
        let doublings = self.failures.increment(item) - 1;
        // 94 doublings bring even a nanosecond to `Duration::MAX`.
        let wait = (0..doublings.min(94)).fold(self.base, |wait, _| wait.saturating_mul(2));
        wait.min(self.max)
    }

    fn forget(&mut self, item: &T) {
        self.failures.forget(item);
    }

    fn num_requeues(&self, item: &T) -> u32 {
        self.failures.of(item)
    }
}

/// An item's first tries come quickly, later ones slowly. Items are remembered as by [`PerItemExponential`].
#[derive(Clone, Debug)]
pub struct FastSlow<T> {
    failures: Failures<T>,
    fast: Duration,
    slow: Duration,
    fast_tries: u32,
}

impl<T> FastSlow<T> {
    /// `fast_tries` times a wait of `fast`, then `slow`.
    pub fn new(fast: Duration, slow: Duration, fast_tries: u32) -> Self {
        Self { failures: Failures::default(), fast, slow, fast_tries }
    }

    /// How many items are remembered at most, at least 2. Default: [`PerItemExponential::REMEMBERED`].
    #[must_use]
    pub fn remember(mut self, items: usize) -> Self {
        self.failures.limit(items);
        self
    }
}

impl<T: Clone + Eq + Hash + Send> RateLimiter<T> for FastSlow<T> {
    fn when(&mut self, item: &T) -> Duration {
        if self.failures.increment(item) <= self.fast_tries { self.fast } else { self.slow }
    }

    fn forget(&mut self, item: &T) {
        self.failures.forget(item);
    }

    fn num_requeues(&self, item: &T) -> u32 {
        self.failures.of(item)
    }
}

/// Failures by item, in two generations: an item that fails is among the recent ones, and when those are half of what may be
/// remembered, the ones before them are forgotten. So each call costs the same, and no order has to be kept.
#[derive(Clone, Debug)]
struct Failures<T> {
    recent: Counts<T>,
    before: Counts<T>,
    /// How many items a generation has at most.
    generation_max: usize,
}

type Counts<T> = HashMap<T, u32, RandomState>;

impl<T> Default for Failures<T> {
    fn default() -> Self {
        let generation_max = PerItemExponential::<T>::REMEMBERED / 2;
        Self { recent: HashMap::default(), before: HashMap::default(), generation_max }
    }
}

impl<T> Failures<T> {
    fn limit(&mut self, items: usize) {
        self.generation_max = (items / 2).max(1);
    }
}

impl<T: Clone + Eq + Hash> Failures<T> {
    fn increment(&mut self, item: &T) -> u32 {
        if let Some(count) = self.recent.get_mut(item) {
            *count = count.saturating_add(1);
            return *count;
        }
        let count = self.before.remove(item).unwrap_or(0).saturating_add(1);
        if self.recent.len() >= self.generation_max {
            self.before = mem::take(&mut self.recent);
        }
        self.recent.insert(item.clone(), count);
        count
    }

    fn of(&self, item: &T) -> u32 {
        self.recent.get(item).or_else(|| self.before.get(item)).copied().unwrap_or(0)
    }

    fn forget(&mut self, item: &T) {
        for counts in [&mut self.recent, &mut self.before] {
            // The memory of a storm of failures is given back when it is over.
            if counts.remove(item).is_some() && counts.is_empty() {
                *counts = HashMap::default();
            }
        }
    }
}

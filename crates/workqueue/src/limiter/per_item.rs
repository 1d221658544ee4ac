//! Limiters that count failures per item, for a bounded number of items.

use std::{collections::HashMap, hash::Hash, mem, time::Duration};

use foldhash::fast::RandomState;

use super::RateLimiter;

/// Each failure of an item doubles its wait, up to a maximum.
///
/// The default is 5 ms × 2ⁿ up to 1,000 s. Failures of an item are counted until it is [forgotten](RateLimiter::forget). Beyond a
/// [maximum number of items](Self::remember), those whose last failure is longest ago are forgotten.
#[derive(Clone, Debug)]
pub struct PerItemExponential<T> {
    failures: Failures<T>,
    base: Duration,
    max: Duration,
}

impl<T> PerItemExponential<T> {
    /// The n-th wait of an item is `base` × 2ⁿ⁻¹, at most `max`.
    pub fn new(base: Duration, max: Duration) -> Self {
        Self { failures: Failures::default(), base, max }
    }

    /// Sets the maximum number of items whose failures are counted; at least 2. Default: [`REMEMBERED`](Self::REMEMBERED).
    #[must_use]
    pub fn remember(mut self, items: usize) -> Self {
        self.failures.limit(items);
        self
    }

    /// Default of [`remember`](Self::remember): 2²⁰ items, about a million.
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

/// A short wait for the first failures of an item, a long one for later failures. Items are forgotten as by
/// [`PerItemExponential`].
#[derive(Clone, Debug)]
pub struct FastSlow<T> {
    failures: Failures<T>,
    fast: Duration,
    slow: Duration,
    fast_tries: u32,
}

impl<T> FastSlow<T> {
    /// An item waits `fast` for its first `fast_tries` failures, then `slow`.
    pub fn new(fast: Duration, slow: Duration, fast_tries: u32) -> Self {
        Self { failures: Failures::default(), fast, slow, fast_tries }
    }

    /// Sets the maximum number of items whose failures are counted; at least 2. Default: [`PerItemExponential::REMEMBERED`].
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

/// Failures by item, in two generations. An item that fails moves to the recent generation. When that is half of the maximum, it
/// becomes the older one and the previous older one is dropped. Each call has the same cost, and no order is maintained.
#[derive(Clone, Debug)]
struct Failures<T> {
    recent: Counts<T>,
    before: Counts<T>,
    /// The maximum number of items in a generation.
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
            // Frees the memory of a burst of failures when it is over.
            if counts.remove(item).is_some() && counts.is_empty() {
                *counts = HashMap::default();
            }
        }
    }
}

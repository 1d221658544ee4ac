//! Limiters that count each item's failures.

use std::{collections::HashMap, hash::Hash, time::Duration};

use foldhash::fast::RandomState;

use super::RateLimiter;

/// Each failure of an item doubles its wait, from a first wait up to a longest one.
///
/// The default is 5 ms × 2ⁿ up to 1,000 s. An item is remembered until it is [forgotten](RateLimiter::forget).
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

/// An item's first tries come quickly, later ones slowly.
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

#[derive(Clone, Debug)]
struct Failures<T>(HashMap<T, u32, RandomState>);

impl<T> Default for Failures<T> {
    fn default() -> Self {
        Self(HashMap::default())
    }
}

impl<T: Clone + Eq + Hash> Failures<T> {
    fn increment(&mut self, item: &T) -> u32 {
        if let Some(count) = self.0.get_mut(item) {
            *count = count.saturating_add(1);
            return *count;
        }
        self.0.insert(item.clone(), 1);
        1
    }

    fn of(&self, item: &T) -> u32 {
        self.0.get(item).copied().unwrap_or(0)
    }

    fn forget(&mut self, item: &T) {
        self.0.remove(item);
    }
}

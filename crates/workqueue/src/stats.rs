//! The counters behind the metrics, plain numbers under the queue's lock: no atomics, no second lock, and a scrape sees one moment.
//! A queue without a name has no counters.

use std::collections::BTreeMap;

use crate::slots::SlotId;

/// A named queue's counters.
#[derive(Default)]
pub(crate) struct Stats {
    pub(crate) adds: u64,
    pub(crate) retries: u64,
    pub(crate) queue_duration: Histogram,
    pub(crate) work_duration: Histogram,
    /// When workers took the keys that they have now.
    running: BTreeMap<SlotId, u64>,
}

/// Upper bounds 10 ns, 100 ns … 10 s, as in client-go, and one bucket for longer durations.
#[derive(Clone, Copy, Default)]
pub(crate) struct Histogram {
    pub(crate) buckets: [u64; Self::BOUNDS + 1],
    pub(crate) sum_nanos: u128,
}

impl Stats {
    pub(crate) fn taken(&mut self, slot: SlotId, queued: u64, now: u64) {
        self.queue_duration.observe(now.saturating_sub(queued));
        self.running.insert(slot, now);
    }

    pub(crate) fn finished(&mut self, slot: SlotId, now: u64) {
        if let Some(started) = self.running.remove(&slot) {
            self.work_duration.observe(now.saturating_sub(started));
        }
    }

    /// How long workers have had their current keys: the sum and the maximum.
    pub(crate) fn running_nanos(&self, now: u64) -> (u128, u64) {
        let ages = || self.running.values().map(|&started| now.saturating_sub(started));
        (ages().map(u128::from).sum(), ages().max().unwrap_or(0))
    }
}

impl Histogram {
    pub(crate) const BOUNDS: usize = 10;

    /// The bounds in nanoseconds.
    pub(crate) fn bounds() -> impl Iterator<Item = u64> {
        (1..=Self::BOUNDS as u32).map(|digits| 10u64.pow(digits))
    }

    pub(crate) fn observe(&mut self, nanos: u64) {
        let bucket = Self::bounds().position(|bound| nanos <= bound).unwrap_or(Self::BOUNDS);
        self.buckets[bucket] += 1;
        self.sum_nanos += u128::from(nanos);
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.buckets.iter_mut().zip(other.buckets) {
            *mine += theirs;
        }
        self.sum_nanos += other.sum_nanos;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_includes_its_upper_bound() {
        for (nanos, bucket) in
            [(0, 0), (10, 0), (11, 1), (100, 1), (10_000_000_000, 9), (10_000_000_001, 10), (u64::MAX, 10)]
        {
            let mut histogram = Histogram::default();
            histogram.observe(nanos);
            assert_eq!(histogram.buckets.iter().position(|&count| count == 1), Some(bucket), "{nanos} ns");
        }
    }
}

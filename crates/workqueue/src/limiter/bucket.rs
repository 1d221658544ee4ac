//! A token bucket over all items. It stores the time at which the bucket is empty instead of a number of tokens, which would have
//! to be updated as time passes.

use std::time::Duration;

use tokio::time::Instant;

use super::RateLimiter;

/// Limits all items together to a burst, then one item per interval. It does not count failures per item.
///
/// The default is a burst of 100, then ten per second.
#[derive(Clone, Debug)]
pub struct TokenBucket {
    interval: Duration,
    burst: u32,
    started: Option<Instant>,
    /// When the bucket is empty, in nanoseconds since `started`; in the future if tokens are owed.
    empty_at: i128,
}

impl TokenBucket {
    /// Creates a bucket of `burst` tokens that gains one token per `interval`.
    ///
    /// With an interval of zero no item waits. With a burst of zero even the first item waits for one interval.
    pub fn new(interval: Duration, burst: u32) -> Self {
        Self { interval, burst, started: None, empty_at: i128::MIN }
    }
}

impl Default for TokenBucket {
    fn default() -> Self {
        Self::new(Duration::from_millis(100), 100)
    }
}

impl<T> RateLimiter<T> for TokenBucket {
    fn when(&mut self, _: &T) -> Duration {
        let now = Instant::now();
        let now = nanos(now.duration_since(*self.started.get_or_insert(now)));
        let interval = nanos(self.interval);
        let full = now.saturating_sub(interval.saturating_mul(i128::from(self.burst)));
        self.empty_at = self.empty_at.max(full).saturating_add(interval);
        Duration::from_nanos(u64::try_from((self.empty_at - now).max(0)).unwrap_or(u64::MAX))
    }

    fn forget(&mut self, _: &T) {}

    fn num_requeues(&self, _: &T) -> u32 {
        0
    }
}

/// A duration is below 2⁹⁴ nanoseconds.
fn nanos(duration: Duration) -> i128 {
    duration.as_nanos() as i128
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::advance;

    fn when(bucket: &mut TokenBucket) -> Duration {
        bucket.when(&())
    }

    #[tokio::test(start_paused = true)]
    async fn a_burst_passes_and_then_one_item_per_interval() {
        let mut bucket = TokenBucket::default();
        for _ in 0..100 {
            assert_eq!(when(&mut bucket), Duration::ZERO);
        }
        for owed in 1..=50 {
            assert_eq!(when(&mut bucket), Duration::from_millis(100 * owed));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn tokens_accumulate_up_to_the_burst() {
        let mut bucket = TokenBucket::new(Duration::from_millis(100), 2);
        assert_eq!([when(&mut bucket), when(&mut bucket)], [Duration::ZERO; 2]);
        advance(Duration::from_millis(50)).await;
        assert_eq!(when(&mut bucket), Duration::from_millis(50), "half a token was there");
        advance(Duration::from_secs(3600)).await;
        assert_eq!([when(&mut bucket), when(&mut bucket)], [Duration::ZERO; 2]);
        assert_eq!(when(&mut bucket), Duration::from_millis(100));
    }

    #[tokio::test(start_paused = true)]
    async fn extreme_settings_neither_panic_nor_overflow() {
        for (interval, burst, waits) in [
            (Duration::ZERO, 0, [Duration::ZERO; 2]),
            (Duration::from_secs(1), 0, [Duration::from_secs(1), Duration::from_secs(2)]),
            (Duration::MAX, 0, [Duration::from_nanos(u64::MAX); 2]),
            (Duration::MAX, u32::MAX, [Duration::ZERO; 2]),
        ] {
            let mut bucket = TokenBucket::new(interval, burst);
            assert_eq!([when(&mut bucket), when(&mut bucket)], waits, "{interval:?}, {burst}");
        }
    }
}

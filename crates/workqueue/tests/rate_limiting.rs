//! Rate limiters, alone and in a queue. Counterparts of client-go's `default_rate_limiters_test.go` and
//! `rate_limiting_queue_test.go` name the original in a comment.
#![allow(clippy::unwrap_used, reason = "functions that only tests call")]

mod common;

use std::time::Duration;

use common::ms;
use kube_workqueue::{FastSlow, PerItemExponential, RateLimiter, TokenBucket, WorkQueue, default_limiter};
use tokio::time::{Instant, advance};

fn waits(limiter: &mut impl RateLimiter<&'static str>, item: &'static str, times: usize) -> Vec<Duration> {
    (0..times).map(|_| limiter.when(&item)).collect()
}

/// `one` fails five times, `two` twice, then `one` is forgotten and fails again.
fn check(mut limiter: impl RateLimiter<&'static str>, expected: [Duration; 5]) {
    assert_eq!(waits(&mut limiter, "one", 5), expected);
    assert_eq!(limiter.num_requeues(&"one"), 5);
    assert_eq!(waits(&mut limiter, "two", 2), expected[..2]);
    assert_eq!(limiter.num_requeues(&"two"), 2);
    limiter.forget(&"one");
    assert_eq!(limiter.num_requeues(&"one"), 0);
    assert_eq!(limiter.when(&"one"), expected[0]);
    assert_eq!(limiter.num_requeues(&"two"), 2, "the other item is not forgotten");
}

// TestItemExponentialFailureRateLimiter
#[test]
fn exponential_doubles_each_items_wait() {
    check(PerItemExponential::new(ms(1), ms(1000)), [ms(1), ms(2), ms(4), ms(8), ms(16)]);
}

// TestItemExponentialFailureRateLimiterOverFlow
#[test]
fn exponential_stops_at_its_maximum_wait() {
    let hour = Duration::from_secs(3600);
    for (base, max, times, expected) in [
        (ms(1), 1000 * Duration::from_secs(1), 6, ms(32)),
        (ms(1), 1000 * Duration::from_secs(1), 1001, Duration::from_secs(1000)),
        (hour / 60, 1000 * hour, 3, hour / 15),
        (hour / 60, 1000 * hour, 1001, 1000 * hour),
        (Duration::from_nanos(1), Duration::from_secs(1000), 34, Duration::from_nanos(1 << 33)),
        (Duration::from_nanos(1), Duration::MAX, 200, Duration::MAX),
        (Duration::ZERO, Duration::MAX, 200, Duration::ZERO),
        (ms(10), ms(1), 1, ms(1)),
    ] {
        let mut limiter = PerItemExponential::new(base, max);
        assert_eq!(waits(&mut limiter, "item", times).last(), Some(&expected), "{base:?}, {max:?}, {times}");
    }
}

// TestItemFastSlowRateLimiter
#[test]
fn fast_slow_is_fast_for_the_first_tries() {
    check(FastSlow::new(ms(5), ms(10_000), 3), [ms(5), ms(5), ms(5), ms(10_000), ms(10_000)]);
}

// TestMaxOfRateLimiter
#[test]
fn max_of_waits_for_the_slower_one() {
    let limiter = FastSlow::new(ms(5), ms(3000), 3).max_of(PerItemExponential::new(ms(1), ms(1000)));
    check(limiter, [ms(5), ms(5), ms(5), ms(3000), ms(3000)]);
}

// TestWithMaxWaitRateLimiter
#[test]
fn with_max_wait_cuts_long_waits() {
    /// Short for the first hundred, then long.
    struct Step(u32);

    impl RateLimiter<u32> for Step {
        fn when(&mut self, _: &u32) -> Duration {
            self.0 += 1;
            if self.0 <= 100 { ms(5) } else { ms(1_000_000) }
        }
        fn forget(&mut self, _: &u32) {}
        fn num_requeues(&self, _: &u32) -> u32 {
            0
        }
    }

    let mut limiter = Step(0).with_max_wait(ms(500_000));
    for item in 0..200 {
        assert_eq!(limiter.when(&item), if item < 100 { ms(5) } else { ms(500_000) });
    }
}

#[tokio::test(start_paused = true)]
async fn the_default_grows_per_item_and_spreads_bursts() {
    let mut limiter = default_limiter::<u32>();
    for item in 0..100 {
        assert_eq!(limiter.when(&item), ms(5), "item {item} of the burst");
    }
    for late in 1..=10u32 {
        assert_eq!(limiter.when(&(1000 + late)), late * ms(100), "ten per second");
    }
    advance(Duration::from_secs(3600)).await;
    for failures in 1..=100 {
        let expected = (2u32.checked_pow(failures))
            .and_then(|factor| ms(5).checked_mul(factor))
            .map_or(Duration::from_secs(1000), |wait| wait.min(Duration::from_secs(1000)));
        assert_eq!(limiter.when(&0), expected);
        advance(ms(100)).await;
    }
}

#[test]
fn boxed_limiters_can_be_combined() {
    let limiters: [Box<dyn RateLimiter<&str>>; 2] =
        [Box::new(PerItemExponential::default()), Box::new(TokenBucket::default())];
    let [one, other] = limiters;
    let mut both = one.max_of(other);
    assert_eq!(both.when(&"item"), ms(5));
    assert_eq!(both.num_requeues(&"item"), 1);
    both.forget(&"item");
    assert_eq!(both.num_requeues(&"item"), 0);
}

// TestRateLimitingQueue
#[tokio::test(start_paused = true)]
async fn the_queue_applies_the_delay_of_its_limiter() {
    let queue = WorkQueue::builder().rate_limiter(PerItemExponential::new(ms(1), ms(1000))).build();
    let waited = async |item| {
        let start = Instant::now();
        queue.add_rate_limited(item).unwrap();
        assert_eq!(*queue.get().await.unwrap(), item);
        start.elapsed()
    };
    assert_eq!(waited("one").await, ms(1));
    assert_eq!(waited("one").await, ms(2));
    assert_eq!(queue.num_requeues(&"one"), 2);
    assert_eq!(waited("two").await, ms(1));
    assert_eq!(waited("two").await, ms(2));
    queue.forget(&"one");
    assert_eq!(queue.num_requeues(&"one"), 0);
    assert_eq!(queue.num_requeues(&"two"), 2);
    assert_eq!(waited("one").await, ms(1));
}

#[tokio::test(start_paused = true)]
async fn a_refused_key_does_not_count_as_a_failure() {
    let queue = WorkQueue::builder().capacity(1).build();
    queue.add_rate_limited("held").unwrap();
    queue.add_rate_limited("new").unwrap_err();
    assert_eq!((queue.num_requeues(&"held"), queue.num_requeues(&"new")), (1, 0));
    queue.shutdown();
    queue.add_rate_limited("held").unwrap_err();
    assert_eq!(queue.num_requeues(&"held"), 1);
}

#[test]
fn a_bounded_number_of_recently_failed_items_is_remembered() {
    let mut limiter = PerItemExponential::new(ms(1), ms(1000)).remember(100);
    let mut fails = |item: u32| limiter.when(&item);
    for item in 1..100_000 {
        assert_eq!(fails(item), ms(1));
        assert_eq!(
            fails(0),
            ms(1000.min(1 << (item - 1).min(20))),
            "an item that keeps failing is never forgotten"
        );
    }
    let remembered = (0..100_000_u32).filter(|item| limiter.num_requeues(item) > 0).count();
    assert!((50..=100).contains(&remembered), "{remembered}");
    assert_eq!(limiter.num_requeues(&99_999), 1);
    assert_eq!(limiter.num_requeues(&50_000), 0);
    for item in 0..100_000 {
        limiter.forget(&item);
    }
    assert_eq!(limiter.num_requeues(&0), 0);
}

//! Delayed keys, with paused time. Counterparts of client-go's `delaying_queue_test.go` name the original in a comment.
#![allow(clippy::unwrap_used, reason = "functions that only tests call")]

mod common;

use std::time::Duration;

use common::{Polled, ms};
use kube_workqueue::{AddOptions, WorkQueue};
use tokio::time::{Instant, advance};

// TestSimpleQueue
#[tokio::test(start_paused = true)]
async fn a_delayed_key_is_queued_once_at_its_time() {
    let queue = WorkQueue::new();
    queue.add_after("foo", ms(50)).unwrap();
    assert!(queue.is_empty());
    advance(ms(49)).await;
    assert!(queue.is_empty());
    advance(ms(1)).await;
    assert_eq!(queue.len(), 1, "counted although no getter waits");
    queue.get().await.unwrap().done();
    advance(ms(10_000)).await;
    assert!(queue.is_empty());
}

// TestDeduping
#[tokio::test(start_paused = true)]
async fn the_earlier_of_two_delays_applies() {
    for delays in [[50, 70], [50, 30], [30, 50]] {
        let queue = WorkQueue::new();
        for delay in delays {
            queue.add_after("foo", ms(delay)).unwrap();
        }
        let earlier = *delays.iter().min().unwrap();
        advance(ms(earlier - 1)).await;
        assert!(queue.is_empty(), "{delays:?}");
        advance(ms(1)).await;
        assert_eq!(queue.len(), 1, "{delays:?}");
        queue.get().await.unwrap().done();
        advance(ms(100)).await;
        assert!(queue.is_empty(), "{delays:?}: the later time is dropped");
    }
}

// TestAddTwoFireEarly
#[tokio::test(start_paused = true)]
async fn each_key_is_queued_at_its_own_time() {
    let queue = WorkQueue::new();
    let start = Instant::now();
    queue.add_after("foo", ms(1000)).unwrap();
    queue.add_after("bar", ms(50)).unwrap();
    assert_eq!(*queue.get().await.unwrap(), "bar");
    assert_eq!(start.elapsed(), ms(50));
    queue.add_after("baz", ms(2000)).unwrap();
    assert_eq!(*queue.get().await.unwrap(), "foo");
    assert_eq!(start.elapsed(), ms(1000));
    assert_eq!(*queue.get().await.unwrap(), "baz");
    assert_eq!(start.elapsed(), ms(2050));
}

// TestCopyShifting
#[tokio::test(start_paused = true)]
async fn keys_due_together_are_ordered_by_their_times() {
    let queue = WorkQueue::new();
    queue.add_after("foo", ms(1000)).unwrap();
    queue.add_after("bar", ms(500)).unwrap();
    queue.add_after("baz", ms(250)).unwrap();
    queue.add_after("second baz", ms(250)).unwrap();
    advance(ms(2000)).await;
    assert_eq!(queue.len(), 4);
    for expected in ["baz", "second baz", "bar", "foo"] {
        assert_eq!(*queue.get().await.unwrap(), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn an_add_does_not_cancel_a_delayed_add() {
    let queue = WorkQueue::new();
    queue.add_after("foo", ms(50)).unwrap();
    queue.add("foo").unwrap();
    queue.get().await.unwrap().done();
    assert!(queue.is_empty());
    advance(ms(50)).await;
    assert_eq!(queue.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_key_that_becomes_due_while_with_a_worker_is_queued_when_done() {
    let queue = WorkQueue::new();
    queue.add("foo").unwrap();
    let foo = queue.get().await.unwrap();
    queue.add_after("foo", ms(50)).unwrap();
    advance(ms(60)).await;
    assert!(queue.is_empty());
    foo.done();
    assert_eq!(queue.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_delay_of_zero_queues_immediately() {
    let queue = WorkQueue::new();
    queue.add_after("foo", Duration::ZERO).unwrap();
    assert_eq!(queue.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn shutdown_keeps_due_keys_and_drops_delayed_ones() {
    let queue = WorkQueue::new();
    queue.add_after("due", ms(10)).unwrap();
    queue.add_after("not yet", ms(20)).unwrap();
    advance(ms(15)).await;
    queue.shutdown();
    assert_eq!(*queue.get().await.unwrap(), "due");
    assert!(queue.get().await.is_none());
    assert!(queue.add_after("new", ms(1)).is_err());
}

#[tokio::test(start_paused = true)]
async fn very_long_delays_neither_panic_nor_expire() {
    let queue = WorkQueue::new();
    queue.add_after("never", Duration::MAX).unwrap();
    queue.add_after("in a thousand years", Duration::from_secs(1000 * 365 * 24 * 3600)).unwrap();
    let mut getter = Polled::new(queue.get());
    assert!(getter.is_pending());
    queue.add_after("soon", ms(1)).unwrap();
    assert_eq!(getter.wakes(), 1, "the alarm is set again");
    assert!(getter.is_pending());
    advance(ms(1)).await;
    assert!(getter.poll().is_ready());
    advance(Duration::from_secs(365 * 24 * 3600)).await;
    assert!(queue.is_empty());
}

#[tokio::test(start_paused = true)]
async fn another_getter_takes_over_the_alarm_of_a_dropped_one() {
    let queue = WorkQueue::new();
    queue.add_after("foo", ms(50)).unwrap();
    let mut watching = Polled::new(queue.get());
    let mut idle = Polled::new(queue.get());
    assert!(watching.is_pending() && idle.is_pending());
    drop(watching);
    assert_eq!(idle.wakes(), 1, "woken to set the alarm");
    assert!(idle.is_pending());
    advance(ms(50)).await;
    assert_eq!(idle.wakes(), 2, "woken by its alarm");
    assert!(idle.poll().is_ready());
}

#[tokio::test(start_paused = true)]
async fn only_one_getter_has_an_alarm() {
    let queue = WorkQueue::new();
    queue.add_after("foo", ms(50)).unwrap();
    let mut getters: Vec<_> = (0..3).map(|_| Polled::new(queue.get())).collect();
    assert!(getters.iter_mut().all(Polled::is_pending));
    advance(ms(50)).await;
    assert_eq!(getters.iter().map(Polled::wakes).collect::<Vec<_>>(), [1, 0, 0]);
}

#[tokio::test(start_paused = true)]
async fn a_getter_that_takes_a_key_passes_its_alarm_on() {
    let queue = WorkQueue::new();
    queue.add_after("later", ms(50)).unwrap();
    let mut first = Polled::new(queue.get());
    let mut second = Polled::new(queue.get());
    assert!(first.is_pending() && second.is_pending());
    queue.add("now").unwrap();
    assert!(first.poll().is_ready());
    assert_eq!(second.wakes(), 1);
    assert!(second.is_pending());
    advance(ms(50)).await;
    assert!(second.poll().is_ready());
}

#[tokio::test(start_paused = true)]
async fn the_shorter_of_delay_and_rate_limit_applies() {
    for (after, waited) in [(1, 1), (1000, 5)] {
        let queue = WorkQueue::new();
        let start = Instant::now();
        queue.add_with("foo", AddOptions::new().after(ms(after)).rate_limited()).unwrap();
        queue.get().await.unwrap().done();
        assert_eq!(start.elapsed(), ms(waited));
    }
}

#[tokio::test(start_paused = true)]
async fn ten_thousand_keys_due_together_are_queued_on_time() {
    let queue = WorkQueue::new();
    for key in 0..10_000 {
        queue.add_after(key, ms(1000)).unwrap();
    }
    advance(ms(1000)).await;
    assert_eq!(queue.len(), 10_000);
    let started = Instant::now();
    for key in 0..10_000 {
        assert_eq!(*queue.get().await.unwrap(), key);
    }
    assert_eq!(started.elapsed(), ms(0));
}

//! The order of priorities, and that no key starves.
#![allow(clippy::unwrap_used, reason = "functions that only tests call")]

mod common;

use common::ms;
use kube_workqueue::{AddOptions, WorkQueue};
use std::time::Duration;
use tokio::time::{Instant, advance, sleep};

fn at(priority: i16) -> AddOptions {
    AddOptions::new().priority(priority)
}

/// Takes all queued keys.
async fn order<T: Clone + Eq + std::hash::Hash + Send + 'static>(queue: &WorkQueue<T>) -> Vec<T> {
    let mut keys = Vec::new();
    while !queue.is_empty() {
        keys.push(queue.get().await.expect("it is not empty").clone());
    }
    keys
}

#[tokio::test(start_paused = true)]
async fn higher_priorities_go_first_and_equal_ones_in_order_of_arrival() {
    let queue = WorkQueue::new();
    for (key, priority) in [("a", -100), ("b", 0), ("c", 7), ("d", -100), ("e", 0), ("f", 7)] {
        queue.add_with(key, at(priority)).unwrap();
    }
    assert_eq!(order(&queue).await, ["c", "f", "b", "e", "a", "d"]);
}

#[tokio::test(start_paused = true)]
async fn a_key_added_again_keeps_the_higher_priority() {
    let queue = WorkQueue::new();
    queue.add_with("raised", at(-100)).unwrap();
    queue.add_with("kept", at(5)).unwrap();
    queue.add("other").unwrap();
    queue.add_with("raised", at(10)).unwrap();
    queue.add_with("kept", at(-100)).unwrap();
    assert_eq!(order(&queue).await, ["raised", "kept", "other"]);
}

// controller-runtime's priority queue puts a raised key last among those of its new priority.
#[tokio::test(start_paused = true)]
async fn a_raised_key_keeps_its_enqueue_time() {
    let queue = WorkQueue::new();
    queue.add_with("early, raised", at(-100)).unwrap();
    advance(ms(1)).await;
    queue.add("late").unwrap();
    queue.add("early, raised").unwrap();
    assert_eq!(order(&queue).await, ["early, raised", "late"]);
}

#[tokio::test(start_paused = true)]
async fn one_second_of_waiting_is_worth_one_point() {
    for (waited, first) in [(99_999, "urgent"), (100_001, "patient")] {
        let queue = WorkQueue::new();
        queue.add_with("patient", at(-100)).unwrap();
        advance(ms(waited)).await;
        queue.add_with("urgent", at(0)).unwrap();
        assert_eq!(*queue.get().await.unwrap(), first, "after {waited} ms");
    }
}

#[tokio::test(start_paused = true)]
async fn the_weight_of_waiting_can_be_configured() {
    for (aging, first) in [(ms(0), "early"), (ms(10), "early"), (ms(1000), "late"), (Duration::MAX, "late")] {
        let queue = WorkQueue::builder().aging(aging).build();
        queue.add_with("early", at(i16::MIN)).unwrap();
        advance(ms(10) * 70_000).await;
        queue.add_with("late", at(i16::MAX)).unwrap();
        assert_eq!(*queue.get().await.unwrap(), first, "{aging:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_delayed_key_counts_from_when_it_became_due() {
    let queue = WorkQueue::new();
    queue.add_with("low", at(-1)).unwrap();
    queue.add_with("delayed", at(-1).after(ms(10))).unwrap();
    advance(ms(20)).await;
    queue.add_with("later", at(-1)).unwrap();
    assert_eq!(order(&queue).await, ["low", "delayed", "later"]);
}

#[tokio::test(start_paused = true)]
async fn a_delayed_key_keeps_the_higher_priority_too() {
    let queue = WorkQueue::new();
    queue.add_with("delayed", at(5).after(ms(20))).unwrap();
    queue.add_with("delayed", at(-5).after(ms(10))).unwrap();
    queue.add("other").unwrap();
    advance(ms(10)).await;
    let first = queue.get().await.unwrap();
    assert_eq!((*first, first.priority()), ("delayed", 5));
}

#[tokio::test(start_paused = true)]
async fn a_key_added_again_while_with_a_worker_keeps_priority_and_time() {
    let queue = WorkQueue::new();
    queue.add_with("again", at(1)).unwrap();
    let working = queue.get().await.unwrap();
    queue.add_with("again", at(-1)).unwrap();
    queue.add_with("again", at(3)).unwrap();
    advance(ms(1)).await;
    queue.add_with("later", at(3)).unwrap();
    working.done();
    let first = queue.get().await.unwrap();
    assert_eq!((*first, first.priority()), ("again", 3));
}

/// Urgent keys arrive faster than they are processed. The key with a low priority still gets its turn, at the time that the aging
/// formula gives.
#[tokio::test(start_paused = true)]
async fn low_priority_keys_are_processed_eventually() {
    let queue = WorkQueue::new();
    let start = Instant::now();
    queue.add_with(u64::MAX, at(-10)).unwrap();
    for number in 0.. {
        queue.add_with(2 * number, at(0)).unwrap();
        queue.add_with(2 * number + 1, at(0)).unwrap();
        sleep(ms(100)).await;
        if *queue.get().await.unwrap() == u64::MAX {
            break;
        }
    }
    // The urgent keys of the first ten seconds go first; each takes 100 ms.
    let waited = start.elapsed();
    assert!(waited >= Duration::from_secs(10) && waited <= Duration::from_secs(21), "{waited:?}");
}

/// The clock is not read until a priority is used. A refused key does not count as a use.
#[tokio::test(start_paused = true)]
async fn keys_queued_before_the_first_priority_count_from_the_queues_creation() {
    for refused in [at(-1), at(-1).after(ms(10))] {
        let queue = WorkQueue::builder().capacity(2).build();
        queue.add("a").unwrap();
        queue.add("b").unwrap();
        queue.add_with("new", refused).unwrap_err();
        assert_eq!(order(&queue).await, ["a", "b"]);
        advance(ms(10_000)).await;
        queue.add("first").unwrap();
        queue.add_with("second", at(5)).unwrap();
        assert_eq!(order(&queue).await, ["first", "second"]);
    }
}

//! The basic queue: one worker per key, and no key is lost. Counterparts of client-go's `queue_test.go` name the original in a
//! comment; see `docs/parity-workqueue.md`.
#![allow(clippy::unwrap_used, reason = "functions that only tests call")]

mod common;

use std::{
    collections::HashMap,
    sync::{Arc, atomic::AtomicUsize, atomic::Ordering},
    task::Poll,
};

use common::{Polled, ms};
use kube_workqueue::{AddError, DrainAborted, WorkQueue};
use tokio::{task::JoinSet, time::sleep};

/// How a test shuts its queue down.
#[derive(Clone, Copy, Debug)]
enum Shutdown {
    Plain,
    Drain,
}

const BOTH: [Shutdown; 2] = [Shutdown::Plain, Shutdown::Drain];

async fn shut_down(queue: &WorkQueue<u32>, how: Shutdown) {
    match how {
        Shutdown::Plain => queue.shutdown(),
        Shutdown::Drain => queue.shutdown_with_drain().await.expect("no shutdown aborts it"),
    }
}

// TestBasic
#[tokio::test(start_paused = true)]
async fn many_producers_and_workers_leave_an_empty_queue_and_nothing_comes_after_shutdown() {
    for how in BOTH {
        let queue = WorkQueue::new();
        let mut producers = JoinSet::new();
        for producer in 0..50 {
            let queue = queue.clone();
            producers.spawn(async move {
                for _ in 0..50 {
                    queue.add(producer).unwrap();
                    sleep(ms(1)).await;
                }
            });
        }
        let running = Arc::new([const { AtomicUsize::new(0) }; 50]);
        let mut workers = JoinSet::new();
        for _ in 0..10 {
            let (queue, running) = (queue.clone(), running.clone());
            workers.spawn(async move {
                while let Some(key) = queue.get().await {
                    let others = running[*key as usize].fetch_add(1, Ordering::SeqCst);
                    assert_eq!(others, 0, "{} is with two workers", *key);
                    sleep(ms(3)).await;
                    running[*key as usize].fetch_sub(1, Ordering::SeqCst);
                }
            });
        }
        producers.join_all().await;
        shut_down(&queue, how).await;
        assert!(matches!(queue.add(1000), Err(AddError::ShutDown(1000))));
        workers.join_all().await;
        assert!(queue.is_empty(), "{how:?}");
    }
}

// TestAddWhileProcessing
#[tokio::test(start_paused = true)]
async fn keys_added_again_by_their_workers_are_processed_again() {
    for how in BOTH {
        let queue = WorkQueue::new();
        let done = Arc::new(AtomicUsize::new(0));
        let mut workers = JoinSet::new();
        for _ in 0..10 {
            let (queue, done) = (queue.clone(), done.clone());
            workers.spawn(async move {
                let mut seen = HashMap::new();
                while let Some(key) = queue.get().await {
                    let times = seen.entry(*key).or_insert(0);
                    *times += 1;
                    if *times < 2 {
                        // Refused once the queue is shut down.
                        let _ = queue.add(*key);
                    }
                    done.fetch_add(1, Ordering::SeqCst);
                }
            });
        }
        for key in 0..50 {
            queue.add(key).unwrap();
        }
        sleep(ms(1)).await;
        shut_down(&queue, how).await;
        workers.join_all().await;
        assert!(queue.is_empty());
        assert!(done.load(Ordering::SeqCst) >= 100, "every key at least twice");
    }
}

// TestLen
#[tokio::test]
async fn a_key_is_queued_once() {
    let queue = WorkQueue::new();
    for (key, len) in [("foo", 1), ("bar", 2), ("foo", 2)] {
        queue.add(key).unwrap();
        assert_eq!(queue.len(), len);
    }
}

#[tokio::test(start_paused = true)]
async fn a_key_is_outstanding_from_its_add_until_its_worker_is_done() {
    let queue = WorkQueue::new();
    assert_eq!(queue.outstanding(), (0, None));
    queue.add_after("foo", ms(50)).unwrap();
    queue.add("bar").unwrap();
    assert_eq!(queue.outstanding(), (1, Some(ms(50))));
    let bar = queue.get().await.unwrap();
    assert_eq!(queue.outstanding(), (1, Some(ms(50))), "a worker has it");
    bar.done();
    assert_eq!(queue.outstanding(), (0, Some(ms(50))));
    let foo = queue.get().await.unwrap();
    assert_eq!(queue.outstanding(), (1, None));
    queue.add_after(*foo, ms(20)).unwrap();
    foo.done();
    assert_eq!(queue.outstanding(), (0, Some(ms(20))));
}

// TestReinsert
#[tokio::test]
async fn a_key_added_while_with_a_worker_is_queued_again_when_done() {
    let queue = WorkQueue::new();
    queue.add("foo").unwrap();
    let foo = queue.get().await.unwrap();
    queue.add(*foo).unwrap();
    assert!(queue.is_empty(), "the key is not queued while a worker has it");
    foo.done();
    assert_eq!(queue.len(), 1);
    assert_eq!(*queue.get().await.unwrap(), "foo");
    assert!(queue.is_empty());
}

// TestCollapse: client-go also checks `Touch` of the inner queue; this queue has no inner queue to replace.
#[tokio::test]
async fn a_key_added_twice_is_processed_once() {
    let queue = WorkQueue::new();
    queue.add("bar").unwrap();
    queue.add("bar").unwrap();
    queue.get().await.unwrap().done();
    assert!(queue.is_empty());
    assert!(Polled::new(queue.get()).is_pending());
}

// TestCollapseWhileProcessing
#[tokio::test]
async fn a_second_worker_waits_until_the_first_is_done_with_the_key() {
    let queue = WorkQueue::new();
    queue.add("foo").unwrap();
    let first = queue.get().await.unwrap();
    queue.add("foo").unwrap();
    queue.add("foo").unwrap();
    let mut second = Polled::new(queue.get());
    assert!(second.is_pending());
    assert_eq!(second.wakes(), 0);
    first.done();
    assert_eq!(second.wakes(), 1);
    let Poll::Ready(Some(again)) = second.poll() else { panic!("it is queued again") };
    assert_eq!(*again, "foo");
    again.done();
    assert!(queue.is_empty());
}

// TestQueueDrainageUsingShutDownWithDrain
#[tokio::test]
async fn draining_waits_for_the_keys_with_workers() {
    let queue = WorkQueue::new();
    queue.add("foo").unwrap();
    queue.add("bar").unwrap();
    let (first, second) = (queue.get().await.unwrap(), queue.get().await.unwrap());
    let mut drain = Polled::new(queue.shutdown_with_drain());
    assert!(drain.is_pending());
    assert!(queue.is_shutting_down());
    assert!(queue.get().await.is_none(), "other workers can stop");
    first.done();
    assert!(drain.is_pending());
    second.done();
    assert_eq!(drain.wakes(), 1);
    assert_eq!(drain.poll(), Poll::Ready(Ok(())));
}

// client-go's drain ends as soon as no worker has a key.
#[tokio::test]
async fn draining_waits_for_queued_keys_too() {
    let queue = WorkQueue::new();
    queue.add("foo").unwrap();
    let mut drain = Polled::new(queue.shutdown_with_drain());
    assert!(drain.is_pending());
    queue.get().await.unwrap().done();
    assert_eq!(drain.poll(), Poll::Ready(Ok(())));
}

// TestNoQueueDrainageUsingShutDown
#[tokio::test]
async fn shutdown_does_not_wait_for_workers() {
    let queue = WorkQueue::new();
    queue.add("foo").unwrap();
    let _foo = queue.get().await.unwrap();
    queue.shutdown();
    assert!(queue.is_shutting_down());
    assert!(queue.get().await.is_none());
}

// TestForceQueueShutdownUsingShutDown
#[tokio::test]
async fn shutdown_aborts_every_drain() {
    let queue = WorkQueue::new();
    queue.add("foo").unwrap();
    queue.add("bar").unwrap();
    let _foo = queue.get().await.unwrap();
    let mut drains = [Polled::new(queue.shutdown_with_drain()), Polled::new(queue.shutdown_with_drain())];
    for drain in &mut drains {
        assert!(drain.is_pending());
    }
    queue.shutdown();
    for drain in &mut drains {
        assert_eq!(drain.wakes(), 1);
        let Poll::Ready(Err(DrainAborted { unfinished, .. })) = drain.poll() else { panic!("it is aborted") };
        assert_eq!(unfinished, 2);
    }
    assert!(Polled::new(queue.shutdown_with_drain()).is_pending(), "another call waits again");
}

// TestQueueDrainageUsingShutDownWithDrainWithDirtyItem: client-go stops idle workers although the key may still return.
#[tokio::test]
async fn a_key_added_again_before_shutdown_is_processed_again_by_any_worker() {
    let queue = WorkQueue::new();
    queue.add("foo").unwrap();
    let foo = queue.get().await.unwrap();
    queue.add("foo").unwrap();
    let mut drain = Polled::new(queue.shutdown_with_drain());
    assert!(drain.is_pending());
    let mut idle = Polled::new(queue.get());
    assert!(idle.is_pending(), "the idle worker keeps waiting: foo is queued again");
    foo.done();
    assert!(drain.is_pending());
    let Poll::Ready(Some(again)) = idle.poll() else { panic!("foo is queued again") };
    again.done();
    assert_eq!(drain.poll(), Poll::Ready(Ok(())));
    assert!(queue.get().await.is_none());
}

// TestGarbageCollection
#[tokio::test]
async fn a_finished_key_is_dropped() {
    let queue = WorkQueue::new();
    let key: Arc<str> = "hello".into();
    queue.add(key.clone()).unwrap();
    queue.add(key.clone()).unwrap();
    queue.add_after(key.clone(), ms(0)).unwrap();
    queue.get().await.unwrap().done();
    assert_eq!(Arc::strong_count(&key), 1);
}

#[tokio::test]
async fn a_panicking_worker_releases_its_key() {
    let queue = WorkQueue::new();
    queue.add("foo").unwrap();
    let worker = tokio::spawn({
        let queue = queue.clone();
        async move {
            let foo = queue.get().await.unwrap();
            queue.add(*foo).unwrap();
            panic!("on purpose");
        }
    });
    assert!(worker.await.unwrap_err().is_panic());
    assert_eq!(*queue.get().await.unwrap(), "foo");
}

#[tokio::test]
async fn dropping_a_woken_getter_wakes_the_next() {
    let queue = WorkQueue::new();
    let mut first = Polled::new(queue.get());
    let mut second = Polled::new(queue.get());
    assert!(first.is_pending() && second.is_pending());
    queue.add("foo").unwrap();
    assert_eq!((first.wakes(), second.wakes()), (1, 0), "one key wakes one worker");
    drop(first);
    assert_eq!(second.wakes(), 1);
    assert!(second.poll().is_ready());
}

#[tokio::test]
async fn a_dropped_getter_takes_no_key() {
    let queue = WorkQueue::new();
    let mut getter = Polled::new(queue.get());
    assert!(getter.is_pending());
    queue.add("foo").unwrap();
    drop(getter);
    assert_eq!(queue.len(), 1);
}

#[tokio::test]
async fn each_key_wakes_a_worker_of_its_own() {
    let queue = WorkQueue::new();
    let mut getters: Vec<_> = (0..3).map(|_| Polled::new(queue.get())).collect();
    assert!(getters.iter_mut().all(Polled::is_pending));
    queue.add(1).unwrap();
    queue.add(2).unwrap();
    assert_eq!(getters.iter().map(Polled::wakes).collect::<Vec<_>>(), [1, 1, 0]);
}

#[tokio::test]
async fn shutdown_wakes_every_idle_worker() {
    let queue = WorkQueue::<u32>::new();
    let mut workers = JoinSet::new();
    for _ in 0..10 {
        let queue = queue.clone();
        workers.spawn(async move { queue.get().await.is_none() });
    }
    tokio::task::yield_now().await;
    queue.shutdown();
    assert_eq!(workers.join_all().await, [true; 10]);
}

#[tokio::test]
async fn a_full_queue_refuses_new_keys_but_never_one_it_holds() {
    let queue = WorkQueue::builder().capacity(3).build();
    queue.add("queued").unwrap();
    queue.add("working").unwrap();
    let queued = queue.get().await.unwrap();
    let _working = queue.get().await.unwrap();
    queued.done();
    queue.add("queued").unwrap();
    queue.add_after("delayed", ms(1000)).unwrap();

    let Err(AddError::Full { item, limit }) = queue.add("new") else { panic!("it is full") };
    assert_eq!((item, limit), ("new", 3));
    assert_eq!(queue.add_after("new", ms(10)).unwrap_err().into_item(), "new");
    assert_eq!(queue.add_rate_limited("new").unwrap_err().into_item(), "new");
    for held in ["queued", "working", "delayed"] {
        queue.add(held).unwrap();
        queue.add_after(held, ms(10)).unwrap();
        queue.add_rate_limited(held).unwrap();
    }
    drop(queue.get().await);
    drop(queue.get().await);
    assert!(queue.add("new").is_err(), "three are delayed");
}

/// A worker that never waits must not block the only thread of a runtime.
#[tokio::test]
async fn a_worker_that_never_waits_lets_others_run() {
    let queue = WorkQueue::new();
    queue.add(0).unwrap();
    tokio::spawn({
        let queue = queue.clone();
        async move {
            while let Some(key) = queue.get().await {
                let _ = queue.add(*key);
            }
        }
    });
    tokio::task::yield_now().await;
    queue.shutdown_with_drain().await.unwrap();
}

#[test]
fn keys_can_be_added_and_taken_without_a_runtime() {
    let queue = WorkQueue::new();
    queue.add("foo").unwrap();
    assert!(matches!(Polled::new(queue.get()).poll(), Poll::Ready(Some(key)) if *key == "foo"));
}

#[test]
fn handles_and_guards_can_be_sent_and_shared() {
    fn check<T: Send + Sync>() {}
    check::<WorkQueue<String>>();
    check::<kube_workqueue::Work<String>>();
    fn check_send<T: Send>(_: &T) {}
    check_send(&WorkQueue::<String>::new().get());
}

#[tokio::test]
async fn a_worker_that_always_finds_a_key_lets_other_tasks_run() {
    let queue = WorkQueue::new();
    for key in 0..10_000 {
        queue.add(key).unwrap();
    }
    queue.shutdown();
    let worker = tokio::spawn({
        let queue = queue.clone();
        async move { while queue.get().await.is_some() {} }
    });
    let other = tokio::spawn({
        let queue = queue.clone();
        async move { queue.len() }
    });
    worker.await.unwrap();
    assert!(other.await.unwrap() > 0, "the other task ran before the queue was empty");
}

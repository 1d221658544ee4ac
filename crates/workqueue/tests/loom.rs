//! Model checks of the concurrent core: every interleaving of a few threads, up to three preemptions. The source files of the queue
//! are compiled with loom's lock. `cargo test -p kube-workqueue --test loom` runs only these.

#![allow(dead_code, unreachable_pub, reason = "the models use only part of the core")]
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

#[path = "../src/core.rs"]
mod core;
#[path = "../src/deliberate_bug.rs"]
mod deliberate_bug;
#[path = "../src/due.rs"]
mod due;
#[path = "../src/error.rs"]
mod error;
#[path = "../src/ready.rs"]
mod ready;
#[path = "../src/shared.rs"]
mod shared;
#[path = "../src/slots.rs"]
mod slots;
#[path = "../src/stats.rs"]
mod stats;

/// Replaces `src/sync.rs`.
mod sync {
    pub(crate) use loom::sync::MutexGuard;

    pub(crate) struct Mutex<T>(loom::sync::Mutex<T>);

    impl<T> Mutex<T> {
        pub(crate) fn new(value: T) -> Self {
            Self(loom::sync::Mutex::new(value))
        }

        pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
            self.0.lock().unwrap()
        }
    }
}

use std::{
    future::poll_fn,
    task::{Context, Poll, Waker},
};

use loom::{
    future::block_on,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst},
    },
    thread,
};

use crate::{
    core::{Core, Limits, Taken},
    shared::{GetStep, Shared},
};

/// A queue whose clock and alarms are part of the model.
struct Queue {
    shared: Shared<u8>,
    now: AtomicU64,
    alarms: sync::Mutex<Vec<(u64, Waker)>>,
    /// Which keys are with a worker, to detect two workers on one key.
    working: [AtomicBool; 2],
    finished: [AtomicUsize; 2],
}

impl Queue {
    fn new() -> Arc<Self> {
        let core = Core::new(Limits { capacity: 10, aging: 1 }, None);
        Arc::new(Self {
            shared: Shared::new(core),
            now: AtomicU64::new(0),
            alarms: sync::Mutex::new(Vec::new()),
            working: [AtomicBool::new(false), AtomicBool::new(false)],
            finished: [AtomicUsize::new(0), AtomicUsize::new(0)],
        })
    }

    fn add(&self, key: u8) {
        self.shared.try_with(|core| core.add(key, key.into(), 0, || self.now.load(SeqCst))).unwrap();
    }

    fn add_at(&self, key: u8, at: u64) {
        self.shared.try_with(|core| core.add_at(key, key.into(), 0, at)).unwrap();
    }

    fn shutdown(&self) {
        self.shared.shutdown(|| self.now.load(SeqCst));
    }

    fn get(&self) -> Option<Taken<u8>> {
        let mut getter = self.shared.getter();
        block_on(poll_fn(|cx| {
            loop {
                match getter.poll(cx, || self.now.load(SeqCst)) {
                    GetStep::Stop(taken) => return Poll::Ready(taken),
                    GetStep::Sleep(Some(alarm)) if !self.set_alarm(alarm, cx) => {}
                    GetStep::Sleep(_) => return Poll::Pending,
                }
            }
        }))
    }

    /// Polls a getter once and drops it. If it got a key, adds one for the other worker.
    fn get_and_give_up(&self) {
        let mut getter = self.shared.getter();
        let step = getter.poll(&mut Context::from_waker(Waker::noop()), || self.now.load(SeqCst));
        if let GetStep::Stop(Some(taken)) = step {
            self.work(&taken);
            self.add(1);
        }
    }

    /// Returns false if that time has passed already.
    fn set_alarm(&self, at: u64, cx: &mut Context<'_>) -> bool {
        let mut alarms = self.alarms.lock();
        let later = self.now.load(SeqCst) < at;
        if later {
            alarms.push((at, cx.waker().clone()));
        }
        later
    }

    fn set_time(&self, now: u64) {
        let mut alarms = self.alarms.lock();
        self.now.store(now, SeqCst);
        let due: Vec<_> = alarms.extract_if(.., |(at, _)| *at <= now).collect();
        drop(alarms);
        for (_, waker) in due {
            waker.wake();
        }
    }

    fn work(&self, taken: &Taken<u8>) {
        let key = usize::from(taken.key);
        assert!(!self.working[key].swap(true, SeqCst), "two workers on one key");
        self.finished[key].fetch_add(1, SeqCst);
        self.working[key].store(false, SeqCst);
        self.shared.with(|core| core.done(taken.slot, || 0));
    }

    fn work_once(&self) {
        self.work(&self.get().unwrap());
    }

    fn work_until_the_end(&self) {
        while let Some(taken) = self.get() {
            self.work(&taken);
        }
    }
}

fn spawn(queue: &Arc<Queue>, act: impl FnOnce(&Queue) + 'static) -> thread::JoinHandle<()> {
    let queue = queue.clone();
    thread::spawn(move || act(&queue))
}

fn check(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(model);
}

#[test]
fn a_key_is_with_one_worker_and_an_add_is_never_lost() {
    check(|| {
        let queue = Queue::new();
        let workers = [spawn(&queue, Queue::work_until_the_end), spawn(&queue, Queue::work_until_the_end)];
        queue.add(0);
        let before = queue.finished[0].load(SeqCst);
        queue.add(0);
        queue.shutdown();
        for worker in workers {
            worker.join().unwrap();
        }
        assert!(queue.finished[0].load(SeqCst) > before, "the key is processed after the second add");
        assert_eq!(queue.shared.with(|core| core.unfinished()), 0);
    });
}

#[test]
fn a_dropped_getter_loses_no_wake_up() {
    check(|| {
        let queue = Queue::new();
        let patient = spawn(&queue, Queue::work_once);
        let fickle = spawn(&queue, Queue::get_and_give_up);
        queue.add(0);
        fickle.join().unwrap();
        patient.join().unwrap(); // hangs if the wake-up is lost with the other getter
    });
}

#[test]
fn a_delayed_key_is_taken_whichever_getter_has_the_alarm() {
    check(|| {
        let queue = Queue::new();
        queue.add_at(0, 10);
        let patient = spawn(&queue, Queue::work_once);
        let fickle = spawn(&queue, Queue::get_and_give_up);
        queue.set_time(10);
        fickle.join().unwrap();
        patient.join().unwrap();
    });
}

#[test]
fn an_earlier_time_replaces_a_later_alarm() {
    check(|| {
        let queue = Queue::new();
        queue.add_at(0, 100);
        let worker = spawn(&queue, Queue::work_once);
        queue.add_at(1, 10);
        queue.set_time(10);
        worker.join().unwrap();
    });
}

#[test]
fn draining_ends_when_all_keys_are_done() {
    check(|| {
        let queue = Queue::new();
        queue.add(0);
        let worker = spawn(&queue, Queue::work_until_the_end);
        let mut drain = queue.shared.drain(|| 0);
        assert_eq!(block_on(poll_fn(|cx| drain.poll(cx))), Ok(()));
        assert_eq!(queue.finished[0].load(SeqCst), 1);
        worker.join().unwrap();
    });
}

#[test]
fn draining_ends_when_it_is_aborted() {
    check(|| {
        let queue = Queue::new();
        queue.add(0); // without a worker
        let drains = [queue.shared.drain(|| 0), queue.shared.drain(|| 0)];
        let aborter = spawn(&queue, Queue::shutdown);
        for mut drain in drains {
            assert_eq!(block_on(poll_fn(|cx| drain.poll(cx))), Err(1));
        }
        aborter.join().unwrap();
    });
}

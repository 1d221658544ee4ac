//! The hand-written concurrent parts under the interleavings of a few threads: their own source files, with loom's
//! primitives instead of the real ones. They run with the ordinary tests; `cargo test -p kube-informer --test loom` runs
//! them alone.
#![allow(dead_code, unreachable_pub, reason = "the models use a part of the code")]
#![allow(clippy::unwrap_used, reason = "it is a test, though most of it is not in test functions")]

#[path = "../src/informer/mailbox.rs"]
mod mailbox;
#[path = "../src/panic.rs"]
mod panic;
#[path = "../src/waiters.rs"]
mod waiters;

/// Replaces `src/sync.rs`.
mod sync {
    pub(crate) use loom::sync::atomic::AtomicUsize;

    #[derive(Debug)]
    pub(crate) struct Mutex<T>(loom::sync::Mutex<T>);

    impl<T> Mutex<T> {
        pub(crate) fn new(value: T) -> Self {
            Self(loom::sync::Mutex::new(value))
        }

        pub(crate) fn lock(&self) -> loom::sync::MutexGuard<'_, T> {
            self.0.lock().unwrap()
        }
    }
}

use std::future::poll_fn;
use std::task::Poll;

use loom::future::block_on;
use loom::sync::Arc;
use loom::thread;
use mailbox::Mailbox;
use waiters::Waiters;

/// Every interleaving in which a thread is interrupted at most twice.
fn model(run: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(2);
    builder.check(run);
}

fn put(mailbox: &Mailbox<Vec<u8>>, letter: u8) {
    if let Some(reader) = mailbox.put(|letters| letters.push(letter)) {
        reader.wake();
    }
}

fn take(letters: &mut Vec<u8>) -> Option<u8> {
    if letters.is_empty() { None } else { Some(letters.remove(0)) }
}

#[test]
fn a_mailbox_reader_misses_nothing_and_receives_each_writers_messages_in_order() {
    model(|| {
        let mailbox = Arc::new(Mailbox::new(Vec::new()));
        let writers = [[1, 2], [11, 12]].map(|letters| {
            let mailbox = mailbox.clone();
            thread::spawn(move || letters.into_iter().for_each(|letter| put(&mailbox, letter)))
        });
        let mut read = Vec::new();
        for _ in 0..4 {
            read.push(block_on(poll_fn(|context| mailbox.poll(context, take))).unwrap());
        }
        for writer in writers {
            writer.join().unwrap();
        }
        for pair in [[1, 2], [11, 12]] {
            let received = read.iter().copied().filter(|letter| pair.contains(letter)).collect::<Vec<_>>();
            assert_eq!(received, pair);
        }
    });
}

#[test]
fn a_mailbox_reader_always_ends_after_close() {
    model(|| {
        let mailbox = Arc::new(Mailbox::new(Vec::new()));
        let writer = mailbox.clone();
        let writer = thread::spawn(move || put(&writer, 1));
        let closer = mailbox.clone();
        let closer = thread::spawn(move || closer.close());
        let mut received = 0;
        while block_on(poll_fn(|context| mailbox.poll(context, take))).is_some() {
            received += 1;
        }
        assert!(received <= 1);
        writer.join().unwrap();
        closer.join().unwrap();
        assert_eq!(mailbox.look(Vec::len), 0, "nothing is kept");
    });
}

#[test]
fn a_caller_sees_the_change_it_waits_for_whichever_topic_wakes_it() {
    model(|| {
        // The awaited state is changed and checked under one lock, like the store's root.
        let store = Arc::new((sync::Mutex::new(0), Waiters::default()));
        let writer = store.clone();
        let writer = thread::spawn(move || {
            for version in 1..=2 {
                *writer.0.lock() = version;
                writer.1.wake([version..=version]);
            }
        });
        let other = store.clone();
        let other = thread::spawn(move || {
            block_on(other.1.until_some([7, 1], || (*other.0.lock() >= 1).then_some(())));
        });
        let found = store.1.until_some([2], || Some(*store.0.lock()).filter(|version| *version == 2));
        assert_eq!(block_on(found), 2);
        writer.join().unwrap();
        other.join().unwrap();
        assert!(!store.1.any(), "no caller is left");
    });
}

/// Slots in a queue that callers wait for.
#[derive(Default)]
struct Space {
    free: sync::Mutex<u32>,
    waiters: Waiters<u8>,
}

impl Default for sync::Mutex<u32> {
    fn default() -> Self {
        Self::new(0)
    }
}

impl Space {
    async fn take(&self) {
        let take = || {
            let mut free = self.free.lock();
            *free = free.checked_sub(1)?;
            Some(())
        };
        self.waiters.until_some([0], take).await;
    }

    fn free(&self, places: u32) {
        *self.free.lock() += places;
        self.waiters.wake_one(&0);
    }
}

#[test]
fn callers_woken_one_by_one_all_get_a_slot() {
    model(|| {
        let space = Arc::new(Space::default());
        let takers = [(); 2].map(|()| {
            let space = space.clone();
            thread::spawn(move || block_on(space.take()))
        });
        // Two slots together: the first caller wakes the second.
        space.free(2);
        for taker in takers {
            taker.join().unwrap();
        }
    });
}

#[test]
fn a_chosen_caller_that_is_dropped_wakes_the_next() {
    model(|| {
        let space = Arc::new(Space::default());
        let gives_up = space.clone();
        let gives_up = thread::spawn(move || {
            let mut take = Box::pin(gives_up.take());
            let taken = block_on(poll_fn(|context| Poll::Ready(take.as_mut().poll(context).is_ready())));
            drop(take);
            if taken {
                gives_up.free(1);
            }
        });
        let frees = space.clone();
        let frees = thread::spawn(move || frees.free(1));
        block_on(space.take());
        gives_up.join().unwrap();
        frees.join().unwrap();
    });
}

//! The hand-written concurrent parts under the interleavings of a few threads: their own source files, with loom's
//! primitives in place of the real ones. Part of the ordinary tests; `cargo test -p kube-informer --test loom` runs it alone.
#![allow(dead_code, unreachable_pub, reason = "the models use a part of what is there")]
#![allow(clippy::unwrap_used, reason = "it is a test, though most of it is not in test functions")]

#[path = "../src/shared/mailbox.rs"]
mod mailbox;
#[path = "../src/waiters.rs"]
mod waiters;

/// Takes the place of `src/sync.rs`.
mod sync {
    use std::pin::Pin;
    use std::task::{Context, Poll, Waker};

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

    /// What `tokio::sync::Notify` promises of `notify_waiters`: whoever was enabled before it is called is woken by it.
    #[derive(Debug)]
    pub(crate) struct Notify(loom::sync::Mutex<(u64, Vec<Waker>)>);

    impl Default for Notify {
        fn default() -> Self {
            Self(loom::sync::Mutex::new((0, Vec::new())))
        }
    }

    pub(crate) struct Notified<'a> {
        notify: &'a Notify,
        enabled_at: Option<u64>,
    }

    impl Notify {
        pub(crate) fn notify_waiters(&self) {
            let mut state = self.0.lock().unwrap();
            state.0 += 1;
            let wakers = std::mem::take(&mut state.1);
            drop(state);
            wakers.into_iter().for_each(Waker::wake);
        }

        pub(crate) fn notified(&self) -> Notified<'_> {
            Notified { notify: self, enabled_at: None }
        }
    }

    impl Notified<'_> {
        pub(crate) fn enable(mut self: Pin<&mut Self>) -> bool {
            let now = self.notify.0.lock().unwrap().0;
            *self.enabled_at.get_or_insert(now) != now
        }
    }

    impl Future for Notified<'_> {
        type Output = ();

        fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
            if self.as_mut().enable() {
                return Poll::Ready(());
            }
            let mut state = self.notify.0.lock().unwrap();
            if self.enabled_at != Some(state.0) {
                return Poll::Ready(());
            }
            state.1.push(context.waker().clone());
            Poll::Pending
        }
    }
}

use std::future::poll_fn;

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
fn a_reader_of_a_mailbox_misses_nothing_and_hears_each_writers_letters_in_order() {
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
            let heard = read.iter().copied().filter(|letter| pair.contains(letter)).collect::<Vec<_>>();
            assert_eq!(heard, pair);
        }
    });
}

#[test]
fn a_reader_of_a_mailbox_that_is_closed_always_comes_to_its_end() {
    model(|| {
        let mailbox = Arc::new(Mailbox::new(Vec::new()));
        let writer = mailbox.clone();
        let writer = thread::spawn(move || put(&writer, 1));
        let closer = mailbox.clone();
        let closer = thread::spawn(move || closer.close());
        let mut heard = 0;
        while block_on(poll_fn(|context| mailbox.poll(context, take))).is_some() {
            heard += 1;
        }
        assert!(heard <= 1);
        writer.join().unwrap();
        closer.join().unwrap();
        assert_eq!(mailbox.look(Vec::len), 0, "nothing is kept");
    });
}

#[test]
fn whoever_waits_for_the_store_sees_the_change_that_is_waited_for() {
    model(|| {
        // What is waited for is changed and looked at under one lock, as the store's root is.
        let store = Arc::new((sync::Mutex::new(0), Waiters::default()));
        let writer = store.clone();
        let writer = thread::spawn(move || {
            for version in 1..=2 {
                *writer.0.lock() = version;
                writer.1.wake();
            }
        });
        let other = store.clone();
        let other = thread::spawn(move || {
            block_on(other.1.until_some(|| (*other.0.lock() >= 1).then_some(())));
        });
        let found = store.1.until_some(|| Some(*store.0.lock()).filter(|version| *version == 2));
        assert_eq!(block_on(found), 2);
        writer.join().unwrap();
        other.join().unwrap();
    });
}

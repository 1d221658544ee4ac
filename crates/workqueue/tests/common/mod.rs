//! Polls futures by hand, so that tests observe every step without waiting.

#![allow(dead_code, reason = "each test file uses some of it")]

use std::{
    future::Future,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
    time::Duration,
};

/// A boxed future that is polled by hand and counts how often it was woken.
pub(crate) struct Polled<F> {
    future: Pin<Box<F>>,
    wakes: Arc<Wakes>,
}

#[derive(Default)]
struct Wakes(AtomicUsize);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

impl<F: Future> Polled<F> {
    pub(crate) fn new(future: F) -> Self {
        Self { future: Box::pin(future), wakes: Arc::default() }
    }

    /// A future that counts as woken, for callers that poll only woken futures.
    pub(crate) fn woken(future: F) -> Self {
        let polled = Self::new(future);
        polled.wakes.0.store(1, Ordering::SeqCst);
        polled
    }

    pub(crate) fn poll(&mut self) -> Poll<F::Output> {
        let waker = Waker::from(self.wakes.clone());
        self.future.as_mut().poll(&mut Context::from_waker(&waker))
    }

    pub(crate) fn is_pending(&mut self) -> bool {
        self.poll().is_pending()
    }

    /// Whether it was woken since the last call.
    pub(crate) fn take_wake(&self) -> bool {
        self.wakes.0.swap(0, Ordering::SeqCst) > 0
    }

    pub(crate) fn wakes(&self) -> usize {
        self.wakes.0.load(Ordering::SeqCst)
    }
}

pub(crate) fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

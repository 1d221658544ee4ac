//! The public queue: the concurrent core with a clock, a rate limiter and timers around it. There is no background task: pending
//! calls of [`WorkQueue::get`] wait on the timer for delayed keys.

use std::{
    fmt,
    future::poll_fn,
    hash::{BuildHasher, Hash},
    pin::pin,
    sync::Arc,
    task::{Poll, ready},
    time::Duration,
};

use tokio::{
    task::coop,
    time::{Sleep, sleep_until},
};

use crate::{
    AddError, Builder, DrainAborted, RateLimiter, Work,
    clock::Clock,
    core::Core,
    shared::{GetStep, Shared},
    sync::Mutex,
};

/// The number of keys that cost a task one unit of its tokio budget. A task that has spent its 128 units yields to others, which
/// wakes a thread and takes as long as dozens of keys. 1,024 keys take a tenth of a millisecond.
const KEYS_PER_UNIT: u64 = 8;

/// A queue of keys that need work. It is a handle: clones share one queue.
///
/// A key is queued at most once and is never with two workers at the same time. Adding a key that is queued has no effect on its
/// place. A key that is added while a worker has it is queued again when that worker is done.
///
/// `T` is plain data: its `Clone`, `Eq`, `Hash` and `Drop` must not call the queue. Cloning it should be cheap, as for an
/// `Arc<str>`, because every worker receives a clone.
pub struct WorkQueue<T> {
    inner: Arc<Inner<T>>,
}

/// When a key is queued, and with which priority. The default is what [`WorkQueue::add`] does.
#[derive(Clone, Copy, Debug, Default)]
#[must_use]
pub struct AddOptions {
    priority: i16,
    after: Option<Duration>,
    rate_limited: bool,
}

pub(crate) struct Inner<T> {
    pub(crate) shared: Shared<T>,
    pub(crate) clock: Clock,
    hasher: foldhash::fast::RandomState,
    limiter: Mutex<Box<dyn RateLimiter<T>>>,
}

impl AddOptions {
    /// Queue immediately, with priority 0.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the priority. Higher goes first; the default is 0. [Waiting raises it](crate#priorities).
    pub fn priority(mut self, priority: i16) -> Self {
        self.priority = priority;
        self
    }

    /// Queues the key after `delay`.
    pub fn after(mut self, delay: Duration) -> Self {
        self.after = Some(delay);
        self
    }

    /// Queues the key after the delay that the rate limiter decides. With [`after`](Self::after) too, the shorter delay applies.
    pub fn rate_limited(mut self) -> Self {
        self.rate_limited = true;
        self
    }
}

impl<T: Clone + Eq + Hash + Send + 'static> WorkQueue<T> {
    /// Creates a queue with the defaults of [`Builder`].
    pub fn new() -> Self {
        Self::builder().build()
    }

    /// Returns a builder with the default settings.
    pub fn builder() -> Builder<T> {
        Builder::new()
    }

    /// Queues a key with priority 0.
    ///
    /// # Errors
    ///
    /// Returns the key in an [`AddError`] if the queue is shut down, or if it is full and does not hold the key already.
    pub fn add(&self, key: T) -> Result<(), AddError<T>> {
        let hash = self.hash(&key);
        self.inner.shared.try_with(|core| core.add(key, hash, 0, self.now()))
    }

    /// Queues a key after `delay`. If the key is delayed already, the earlier time applies. If it is queued or with a worker, that
    /// is not affected, and the key is queued once more at its time.
    ///
    /// The maximum delay is 30 years; longer ones count as 30 years.
    ///
    /// # Errors
    ///
    /// As for [`add`](Self::add).
    pub fn add_after(&self, key: T, delay: Duration) -> Result<(), AddError<T>> {
        self.add_with(key, AddOptions::new().after(delay))
    }

    /// Queues a key after the delay that the rate limiter decides. Use it to retry a key that failed.
    ///
    /// # Errors
    ///
    /// As for [`add`](Self::add).
    pub fn add_rate_limited(&self, key: T) -> Result<(), AddError<T>> {
        self.add_with(key, AddOptions::new().rate_limited())
    }

    /// Queues a key with options. If the key is queued or delayed already, it keeps the higher of the two priorities and the time
    /// since which it has waited.
    ///
    /// # Errors
    ///
    /// As for [`add`](Self::add).
    pub fn add_with(&self, key: T, options: AddOptions) -> Result<(), AddError<T>> {
        let AddOptions { priority, after, rate_limited } = options;
        let hash = self.hash(&key);
        let mut delay = after;
        if rate_limited {
            // A refused key has not failed, so the limiter must not count it.
            if let Err(refusal) = self.inner.shared.with(|core| core.admit(&key, hash)) {
                return Err(refusal.of(key));
            }
            let limited = self.inner.limiter.lock().when(&key);
            delay = Some(after.map_or(limited, |after| after.min(limited)));
        }
        let at = delay.filter(|delay| !delay.is_zero()).map(|delay| self.inner.clock.after(delay));
        self.inner.shared.try_with(|core| {
            match at {
                Some(at) => core.add_at(key, hash, priority, at)?,
                None => core.add(key, hash, priority, self.now())?,
            }
            if delay.is_some() {
                core.count_retry();
            }
            Ok(())
        })
    }

    /// Resets the failure count of `key` in the rate limiter. Call it when the key succeeded, or when you stop retrying it. The
    /// queue itself does not change.
    pub fn forget(&self, key: &T) {
        self.inner.limiter.lock().forget(key);
    }

    /// Returns how often `key` was added with the rate limiter since it was last [forgotten](Self::forget).
    pub fn num_requeues(&self, key: &T) -> u32 {
        self.inner.limiter.lock().num_requeues(key)
    }

    /// Waits for the next key. Dropping the returned [`Work`] marks the key as done.
    ///
    /// `None` means that the queue is shut down and that no key will follow. It is returned only when no worker has a key that is
    /// to be queued again.
    ///
    /// # Panics
    ///
    /// Panics if there are delayed keys and the call is outside of a tokio runtime with time enabled.
    ///
    /// # Cancel safety
    ///
    /// This method is cancel safe: the future takes a key only when it completes. Poll a pending future to the end or drop it. If
    /// it is woken for a key and neither polled nor dropped, that key waits.
    pub async fn get(&self) -> Option<Work<T>> {
        let mut getter = self.inner.shared.getter();
        let mut alarm = pin!(None::<Sleep>);
        let taken = poll_fn(|cx| {
            let budget = ready!(coop::poll_proceed(cx));
            loop {
                match getter.poll(cx, self.now()) {
                    GetStep::Stop(taken) => {
                        if taken.as_ref().is_none_or(|taken| taken.arrival % KEYS_PER_UNIT == 0) {
                            budget.made_progress();
                        }
                        return Poll::Ready(taken);
                    }
                    GetStep::Sleep(None) => {
                        alarm.set(None);
                        return Poll::Pending;
                    }
                    GetStep::Sleep(Some(until)) => {
                        let until = self.inner.clock.instant(until);
                        match alarm.as_mut().as_pin_mut() {
                            Some(sleep) => sleep.reset(until),
                            None => alarm.set(Some(sleep_until(until))),
                        }
                        if let Some(sleep) = alarm.as_mut().as_pin_mut() {
                            ready!(sleep.poll(cx));
                        }
                    }
                }
            }
        });
        taken.await.map(|taken| Work::new(self.inner.clone(), taken))
    }

    /// Returns the number of queued keys. Delayed keys and keys with a worker do not count.
    pub fn len(&self) -> usize {
        self.inner.shared.promote_all(self.now());
        self.inner.shared.with(|core| core.len())
    }

    /// Returns whether no key is queued.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How long until the first delayed key is due; `None` if no key is delayed.
    pub fn next_due(&self) -> Option<Duration> {
        self.outstanding().1
    }

    /// Returns the number of keys that are queued or with a worker, and how long until the first delayed key is due. Both values are of
    /// one moment, so a key that moves between the three places is never missed.
    #[doc(hidden)]
    pub fn outstanding(&self) -> (usize, Option<Duration>) {
        let (unfinished, due) = self.inner.shared.with(|core| (core.unfinished(), core.next_due()));
        let until = |due: u64| Duration::from_nanos(due.saturating_sub(self.inner.clock.now()));
        (unfinished, due.map(until))
    }

    /// Refuses new keys from now on and drops delayed keys. Workers still receive the keys that are queued. This call does not wait
    /// for them, and it aborts every pending [`shutdown_with_drain`](Self::shutdown_with_drain).
    pub fn shutdown(&self) {
        self.inner.shared.shutdown(self.now());
    }

    /// Shuts the queue down and waits until workers are done with every queued key. Without workers it waits forever: call
    /// [`shutdown`](Self::shutdown) to end the wait.
    ///
    /// # Errors
    ///
    /// Returns [`DrainAborted`] if [`shutdown`](Self::shutdown) is called while this waits.
    ///
    /// # Cancel safety
    ///
    /// This method is cancel safe: the queue stays shut down, and another call waits again.
    pub async fn shutdown_with_drain(&self) -> Result<(), DrainAborted> {
        let mut drainer = self.inner.shared.drain(self.now());
        poll_fn(|cx| drainer.poll(cx)).await.map_err(|unfinished| DrainAborted { unfinished })
    }

    /// Returns whether the queue is shut down.
    pub fn is_shutting_down(&self) -> bool {
        self.inner.shared.with(|core| core.is_closed())
    }

    fn now(&self) -> impl Fn() -> u64 {
        || self.inner.clock.now()
    }

    fn hash(&self, key: &T) -> u32 {
        self.inner.hasher.hash_one(key) as u32
    }

    pub(crate) fn from_parts(core: Core<T>, limiter: Box<dyn RateLimiter<T>>) -> Self {
        let inner = Inner {
            shared: Shared::new(core),
            clock: Clock::start(),
            hasher: foldhash::fast::RandomState::default(),
            limiter: Mutex::new(limiter),
        };
        Self { inner: Arc::new(inner) }
    }

    #[cfg(feature = "metrics")]
    pub(crate) fn inner(&self) -> &Arc<Inner<T>> {
        &self.inner
    }
}

impl<T> Clone for WorkQueue<T> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone() }
    }
}

impl<T: Clone + Eq + Hash + Send + 'static> Default for WorkQueue<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> fmt::Debug for WorkQueue<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (len, unfinished, closed) =
            self.inner.shared.with(|core| (core.len(), core.unfinished(), core.is_closed()));
        f.debug_struct("WorkQueue")
            .field("queued", &len)
            .field("with_workers", &(unfinished - len))
            .field("shutting_down", &closed)
            .finish_non_exhaustive()
    }
}

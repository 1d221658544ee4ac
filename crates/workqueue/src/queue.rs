//! The queue as users see it: the concurrent core, with a clock, a rate limiter and timers around it.
//! There is no task behind it: whoever waits in [`WorkQueue::get`] watches the clock.

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

/// How many keys cost a task one unit of its tokio budget. A task that has spent its 128 units makes room for others, which wakes
/// a thread and takes as long as dozens of keys; 1,024 keys are a tenth of a millisecond.
const KEYS_A_UNIT: u64 = 8;

/// A queue of keys that need work. A handle: clones share one queue.
///
/// A key is queued at most once and is never with two workers at the same time. Added while it is queued, it
/// stays where it is; added while it is with a worker, it is queued again when that worker is done.
///
/// `T` is plain data: its `Clone`, `Eq`, `Hash` and `Drop` must not call the queue. Cloning it
/// should be cheap, as for an `Arc<str>`, because a worker gets a clone.
pub struct WorkQueue<T> {
    inner: Arc<Inner<T>>,
}

/// How a key is added: when, and how urgent it is. [`AddOptions::default`] is what [`WorkQueue::add`] does.
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
    /// Now, with priority 0.
    pub fn new() -> Self {
        Self::default()
    }

    /// Higher goes first; the default is 0. See [the crate's page](crate#priorities) for how waiting weighs in.
    pub fn priority(mut self, priority: i16) -> Self {
        self.priority = priority;
        self
    }

    /// Not before `delay` has passed.
    pub fn after(mut self, delay: Duration) -> Self {
        self.after = Some(delay);
        self
    }

    /// Not before the queue's rate limiter lets it; with [`after`](Self::after) too, the shorter wait holds.
    pub fn rate_limited(mut self) -> Self {
        self.rate_limited = true;
        self
    }
}

impl<T: Clone + Eq + Hash + Send + 'static> WorkQueue<T> {
    /// A queue with the defaults of [`Builder`].
    pub fn new() -> Self {
        Self::builder().build()
    }

    /// Settings for a queue.
    pub fn builder() -> Builder<T> {
        Builder::new()
    }

    /// Queues a key with priority 0.
    ///
    /// # Errors
    ///
    /// [`AddError`] hands the key back if the queue is shut down, or full and the key is not in it.
    pub fn add(&self, key: T) -> Result<(), AddError<T>> {
        let hash = self.hash(&key);
        self.inner.shared.try_with(|core| core.add(key, hash, 0, self.now()))
    }

    /// Queues a key when `delay` has passed. If it is put off already, the earlier time holds; if it is queued or
    /// with a worker, that goes on and it is queued once more at its time.
    ///
    /// A delay of more than 30 years is one of 30 years.
    ///
    /// # Errors
    ///
    /// As for [`add`](Self::add).
    pub fn add_after(&self, key: T, delay: Duration) -> Result<(), AddError<T>> {
        self.add_with(key, AddOptions::new().after(delay))
    }

    /// Queues a key when the queue's rate limiter lets it: what to do with one that failed.
    ///
    /// # Errors
    ///
    /// As for [`add`](Self::add).
    pub fn add_rate_limited(&self, key: T) -> Result<(), AddError<T>> {
        self.add_with(key, AddOptions::new().rate_limited())
    }

    /// Queues a key with options. If it is queued or put off already, the higher priority holds, and
    /// it keeps the time from which its waiting counts.
    ///
    /// # Errors
    ///
    /// As for [`add`](Self::add).
    pub fn add_with(&self, key: T, options: AddOptions) -> Result<(), AddError<T>> {
        let AddOptions { priority, after, rate_limited } = options;
        let hash = self.hash(&key);
        let mut delay = after;
        if rate_limited {
            // A key that is refused has not failed, and must not be remembered.
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

    /// Tells the rate limiter that `key` succeeded or was given up. It does not touch the queue.
    pub fn forget(&self, key: &T) {
        self.inner.limiter.lock().forget(key);
    }

    /// How often `key` was added by the rate limiter since it was last [forgotten](Self::forget).
    pub fn num_requeues(&self, key: &T) -> u32 {
        self.inner.limiter.lock().num_requeues(key)
    }

    /// Waits for the next key. `None` means that the queue is shut down and nothing will ever come again: not
    /// even a key that is with another worker now and was added meanwhile.
    ///
    /// The key is done when the [`Work`] is dropped.
    ///
    /// # Panics
    ///
    /// If there are keys put off and no tokio runtime with time enabled.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: a key is taken when the future completes, or not at all. A future that was polled has to be polled on or
    /// dropped, though: the key for which it was woken waits for it.
    pub async fn get(&self) -> Option<Work<T>> {
        let mut getter = self.inner.shared.getter();
        let mut alarm = pin!(None::<Sleep>);
        let taken = poll_fn(|cx| {
            let budget = ready!(coop::poll_proceed(cx));
            loop {
                match getter.poll(cx, self.now()) {
                    GetStep::Stop(taken) => {
                        if taken.as_ref().is_none_or(|taken| taken.arrival % KEYS_A_UNIT == 0) {
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

    /// How many keys are queued: not those put off, nor those with a worker.
    pub fn len(&self) -> usize {
        self.inner.shared.promote_all(self.now());
        self.inner.shared.with(|core| core.len())
    }

    /// Whether no key is queued.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Refuses new keys from now on and drops those put off. Workers go on until all that was queued is done;
    /// nobody waits for them here, and a [`shutdown_with_drain`](Self::shutdown_with_drain) that waits gives up.
    pub fn shutdown(&self) {
        self.inner.shared.shutdown(self.now());
    }

    /// Like [`shutdown`](Self::shutdown), and then waits until the workers are done with all that was queued.
    /// Without workers that is never: call `shutdown` to end the wait.
    ///
    /// # Errors
    ///
    /// [`DrainAborted`] if [`shutdown`](Self::shutdown) was called meanwhile.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: the queue stays shut down, and waiting can begin anew.
    pub async fn shutdown_with_drain(&self) -> Result<(), DrainAborted> {
        let mut drainer = self.inner.shared.drain(self.now());
        poll_fn(|cx| drainer.poll(cx)).await.map_err(|unfinished| DrainAborted { unfinished })
    }

    /// Whether the queue was shut down.
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

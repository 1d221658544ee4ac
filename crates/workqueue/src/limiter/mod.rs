//! How long a key waits before it is retried. Limiters are plain values that are combined with [`RateLimiter::max_of`] and
//! [`RateLimiter::with_max_wait`]. They have no locks, because the queue has one.

mod bucket;
mod per_item;

use std::{hash::Hash, time::Duration};

pub use bucket::TokenBucket;
pub use per_item::{FastSlow, PerItemExponential};

/// Decides how long an item waits before it is retried.
///
/// ```
/// use std::time::Duration;
/// use kube_workqueue::{FastSlow, RateLimiter, TokenBucket};
///
/// let ms = Duration::from_millis;
/// let mut limiter = FastSlow::new(ms(5), ms(10_000), 1)        // one retry after 5 ms, then every ten seconds;
///     .max_of(TokenBucket::new(ms(100), 50))                   // all items together: ten per second after the first fifty;
///     .with_max_wait(ms(7_000));                               // no item waits longer than seven seconds
///
/// assert_eq!(limiter.when(&"a"), ms(5));
/// assert_eq!(limiter.when(&"a"), ms(7_000));
/// assert_eq!(limiter.num_requeues(&"a"), 2);
/// limiter.forget(&"a");
/// assert_eq!(limiter.when(&"a"), ms(5));
/// ```
pub trait RateLimiter<T>: Send {
    /// Returns how long `item` has to wait now, and counts one more failure of it.
    fn when(&mut self, item: &T) -> Duration;

    /// Resets the failure count of `item`, because it succeeded or is no longer retried.
    fn forget(&mut self, item: &T);

    /// Returns how often `item` failed since it was last forgotten.
    fn num_requeues(&self, item: &T) -> u32;

    /// Combines two limiters: each counts the failure, and the longer wait applies.
    fn max_of<L>(self, other: L) -> MaxOf<Self, L>
    where
        Self: Sized,
        L: RateLimiter<T>,
    {
        MaxOf(self, other)
    }

    /// Limits every wait to `limit`.
    fn with_max_wait(self, limit: Duration) -> WithMaxWait<Self>
    where
        Self: Sized,
    {
        WithMaxWait { limiter: self, limit }
    }
}

/// The default of queues and controllers: [`PerItemExponential`] and [`TokenBucket`] with their defaults, whichever waits
/// longer.
pub fn default_limiter<T>() -> MaxOf<PerItemExponential<T>, TokenBucket>
where
    T: Clone + Eq + Hash + Send,
{
    PerItemExponential::default().max_of(TokenBucket::default())
}

/// The longer wait of two limiters: see [`RateLimiter::max_of`].
#[derive(Clone, Debug)]
pub struct MaxOf<A, B>(A, B);

impl<T, A: RateLimiter<T>, B: RateLimiter<T>> RateLimiter<T> for MaxOf<A, B> {
    fn when(&mut self, item: &T) -> Duration {
        self.0.when(item).max(self.1.when(item))
    }

    fn forget(&mut self, item: &T) {
        self.0.forget(item);
        self.1.forget(item);
    }

    fn num_requeues(&self, item: &T) -> u32 {
        self.0.num_requeues(item).max(self.1.num_requeues(item))
    }
}

/// A limiter with a maximum wait: see [`RateLimiter::with_max_wait`].
#[derive(Clone, Debug)]
pub struct WithMaxWait<L> {
    limiter: L,
    limit: Duration,
}

impl<T, L: RateLimiter<T>> RateLimiter<T> for WithMaxWait<L> {
    fn when(&mut self, item: &T) -> Duration {
        self.limiter.when(item).min(self.limit)
    }

    fn forget(&mut self, item: &T) {
        self.limiter.forget(item);
    }

    fn num_requeues(&self, item: &T) -> u32 {
        self.limiter.num_requeues(item)
    }
}

impl<T> RateLimiter<T> for Box<dyn RateLimiter<T>> {
    fn when(&mut self, item: &T) -> Duration {
        (**self).when(item)
    }

    fn forget(&mut self, item: &T) {
        (**self).forget(item);
    }

    fn num_requeues(&self, item: &T) -> u32 {
        (**self).num_requeues(item)
    }
}

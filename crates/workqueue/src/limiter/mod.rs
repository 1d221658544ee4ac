//! How long a key has to wait before it is tried again. Limiters are plain values that are put
//! together with [`RateLimiter::max_of`] and [`RateLimiter::with_max_wait`]; none of them holds a lock, because the queue does.

mod bucket;
mod per_item;

use std::{hash::Hash, time::Duration};

pub use bucket::TokenBucket;
pub use per_item::{FastSlow, PerItemExponential};

/// Decides how long an item waits before it is tried again.
///
/// ```
/// use std::time::Duration;
/// use kube_workqueue::{FastSlow, RateLimiter, TokenBucket};
///
/// let ms = Duration::from_millis;
/// let mut limiter = FastSlow::new(ms(5), ms(10_000), 1)        // one quick try, then every ten seconds,
///     .max_of(TokenBucket::new(ms(100), 50))                   // all together at most ten a second after the first fifty,
///     .with_max_wait(ms(7_000));                               // and nobody waits for more than seven seconds
///
/// assert_eq!(limiter.when(&"a"), ms(5));
/// assert_eq!(limiter.when(&"a"), ms(7_000));
/// assert_eq!(limiter.num_requeues(&"a"), 2);
/// limiter.forget(&"a");
/// assert_eq!(limiter.when(&"a"), ms(5));
/// ```
pub trait RateLimiter<T>: Send {
    /// How long `item` has to wait now. Counts as one more failure of it.
    fn when(&mut self, item: &T) -> Duration;

    /// `item` succeeded, or was given up: its failures are forgotten.
    fn forget(&mut self, item: &T);

    /// How often `item` failed since it was last forgotten.
    fn num_requeues(&self, item: &T) -> u32;

    /// Both limiters are asked, and the longer wait holds.
    fn max_of<L>(self, other: L) -> MaxOf<Self, L>
    where
        Self: Sized,
        L: RateLimiter<T>,
    {
        MaxOf(self, other)
    }

    /// No wait is longer than `limit`.
    fn with_max_wait(self, limit: Duration) -> WithMaxWait<Self>
    where
        Self: Sized,
    {
        WithMaxWait { limiter: self, limit }
    }
}

/// What controllers use unless told otherwise: [`PerItemExponential`] and [`TokenBucket`] with their
/// defaults, whichever waits longer.
pub fn default_limiter<T>() -> MaxOf<PerItemExponential<T>, TokenBucket>
where
    T: Clone + Eq + Hash + Send,
{
    PerItemExponential::default().max_of(TokenBucket::default())
}

/// The longer of two waits: see [`RateLimiter::max_of`].
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

/// A wait cut off at a limit: see [`RateLimiter::with_max_wait`].
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

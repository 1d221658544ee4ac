//! A queue's settings, and their defaults.

use std::{hash::Hash, time::Duration};

use crate::{
    RateLimiter, WorkQueue, clock,
    core::{Core, Limits},
    default_limiter,
};

/// Settings for a [`WorkQueue`].
#[must_use]
pub struct Builder<T> {
    limiter: Box<dyn RateLimiter<T>>,
    capacity: usize,
    aging: Duration,
    #[cfg(feature = "metrics")]
    metrics: Option<(String, crate::QueueMetrics)>,
}

impl<T: Clone + Eq + Hash + Send + 'static> Builder<T> {
    /// Keys a queue holds unless told otherwise: 2²⁴, about sixteen million.
    pub const CAPACITY: usize = 1 << 24;
    /// Waiting that weighs as much as one point of priority, unless told otherwise: a second.
    pub const AGING: Duration = Duration::from_secs(1);

    pub(crate) fn new() -> Self {
        Self {
            limiter: Box::new(default_limiter()),
            capacity: Self::CAPACITY,
            aging: Self::AGING,
            #[cfg(feature = "metrics")]
            metrics: None,
        }
    }

    /// Decides for how long [`add_rate_limited`](WorkQueue::add_rate_limited) puts a key off. Default: [`default_limiter`].
    pub fn rate_limiter(mut self, limiter: impl RateLimiter<T> + 'static) -> Self {
        self.limiter = Box::new(limiter);
        self
    }

    /// How many keys the queue holds: queued, with a worker or put off (a key that is put off besides counts twice).
    /// Default: [`CAPACITY`](Self::CAPACITY).
    ///
    /// At the limit a new key is refused with [`AddError::Full`](crate::AddError::Full); a key that the queue holds already
    /// never is, so that a worker can always put its key back.
    pub fn capacity(mut self, keys: usize) -> Self {
        self.capacity = keys;
        self
    }

    /// How long a key has to wait to gain as much as one point of priority. Default: [`AGING`](Self::AGING).
    ///
    /// Longer lets urgent keys pass for longer ([`Duration::MAX`]: as good as always); zero makes the queue first come, first
    /// served.
    pub fn aging(mut self, a_point: Duration) -> Self {
        self.aging = a_point;
        self
    }

    /// Reports the queue under `name`. Without it the queue counts nothing.
    #[cfg(feature = "metrics")]
    pub fn metrics(mut self, name: impl Into<String>, metrics: &crate::QueueMetrics) -> Self {
        self.metrics = Some((name.into(), metrics.clone()));
        self
    }

    /// Makes the queue.
    pub fn build(self) -> WorkQueue<T> {
        let limits = Limits { capacity: self.capacity, aging: clock::nanos(self.aging) };
        #[cfg(not(feature = "metrics"))]
        return WorkQueue::from_parts(Core::new(limits, None), self.limiter);
        #[cfg(feature = "metrics")]
        {
            let stats = self.metrics.as_ref().map(|_| Box::default());
            let queue = WorkQueue::from_parts(Core::new(limits, stats), self.limiter);
            if let Some((name, metrics)) = self.metrics {
                metrics.observe(name, queue.inner());
            }
            queue
        }
    }
}

//! The settings of a queue, with their defaults.

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
    /// Default of [`capacity`](Self::capacity): 2²⁴ keys, about sixteen million.
    pub const CAPACITY: usize = 1 << 24;
    /// Default of [`aging`](Self::aging): one second.
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

    /// Sets how long [`add_rate_limited`](WorkQueue::add_rate_limited) delays a key. Default: [`default_limiter`].
    pub fn rate_limiter(mut self, limiter: impl RateLimiter<T> + 'static) -> Self {
        self.limiter = Box::new(limiter);
        self
    }

    /// Sets the maximum number of keys: queued, with a worker, or delayed. A key that is delayed and also queued or with a worker
    /// counts twice. Default: [`CAPACITY`](Self::CAPACITY).
    ///
    /// A full queue refuses a new key with [`AddError::Full`](crate::AddError::Full). It always accepts a key that it holds already,
    /// so a worker can always requeue its key.
    pub fn capacity(mut self, keys: usize) -> Self {
        self.capacity = keys;
        self
    }

    /// Sets how long a key has to wait to gain one point of priority. Default: [`AGING`](Self::AGING).
    ///
    /// The longer this is, the longer a low priority waits behind higher ones. Zero makes the queue first come, first served. The
    /// maximum is one day; longer durations count as one day.
    pub fn aging(mut self, per_point: Duration) -> Self {
        self.aging = per_point;
        self
    }

    /// Reports metrics of the queue under `name`. Without this call the queue keeps no counters.
    #[cfg(feature = "metrics")]
    pub fn metrics(mut self, name: impl Into<String>, metrics: &crate::QueueMetrics) -> Self {
        self.metrics = Some((name.into(), metrics.clone()));
        self
    }

    /// Creates the queue.
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

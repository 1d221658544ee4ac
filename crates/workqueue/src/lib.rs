//! chapter
pub use builder::Builder;
pub use error::{AddError, DrainAborted};
pub use limiter::{
    FastSlow, MaxOf, PerItemExponential, RateLimiter, TokenBucket, WithMaxWait, default_limiter,
};
#[cfg(feature = "metrics")]
pub use metrics::QueueMetrics;
pub use queue::{AddOptions, WorkQueue};
pub use work::Work;

mod builder;
mod clock;
mod core;
mod due;
mod error;
mod limiter;
#[cfg(feature = "metrics")]
mod metrics;
mod queue;
mod ready;
mod shared;
mod slots;
#[cfg_attr(not(feature = "metrics"), allow(dead_code, reason = "only named queues count"))]
mod stats;
mod sync;
mod work;

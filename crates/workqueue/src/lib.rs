//! A queue of keys that need work: fair, deduplicating, delaying, rate-limited and prioritised. It is what
//! client-go calls a *workqueue*, for async Rust; it knows nothing of Kubernetes and can be used by itself.
//!
//! ```
//! use kube_workqueue::WorkQueue;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # async fn build(_: &str) -> Result<(), ()> { Ok(()) }
//! let queue = WorkQueue::<&str>::new();
//!
//! let worker = tokio::spawn({
//!     let queue = queue.clone();
//!     async move {
//!         while let Some(site) = queue.get().await {
//!             match build(&site).await {
//!                 Ok(()) => queue.forget(&site),
//!                 Err(_) => drop(queue.add_rate_limited(*site)), // later, and later still if it fails again
//!             }
//!         } // dropping `site` says that it is done
//!     }
//! });
//!
//! queue.add("blog")?;
//! queue.add("blog")?; // still queued once
//! queue.shutdown_with_drain().await?;
//! worker.await?;
//! # Ok(())
//! # }
//! ```
//!
//! # What holds
//!
//! - **One key, one worker.** A key is queued at most once and is with at most one worker. Added while it is with a worker,
//!   it is queued again when that worker is done.
//! - **Nothing is lost.** Dropping [`WorkQueue::get`] never loses a key or a wake-up; dropping a [`Work`], also in a panic, says that it
//!   is done. After shutdown, [`get`](WorkQueue::get) answers `None` only when nothing can come any more.
//! - **Nothing starves**, whatever the priorities: see below.
//! - **Nothing runs behind it.** There is no task and no thread: whoever waits in `get` watches the clock, and what is due is
//!   worked out when somebody looks. With tokio's time paused a run is a function of the calls made.
//! - **It is bounded.** At its limit a queue refuses new keys, and hands them back, but never one that it holds already:
//!   see [`Builder::capacity`].
//!
//! # Priorities
//!
//! Higher goes first, first come first served within one. Waiting raises a key's priority by one point a second
//! ([`Builder::aging`]), so a key of priority −100 is passed by keys of priority 0 that come up to 100 seconds after it,
//! and not by later ones. Since everybody gains at the same pace, the order of two queued keys never changes: a key of priority *p* stands where
//! one of priority 0 would that was queued *p* × aging earlier.
//!
//! A key that is added again keeps the higher priority and the time from which its waiting counts. For a key put off that is the
//! time at which it is due. A queue in which no priority was used yet does not look at the clock when a key is added; keys queued
//! by then count as queued when the queue was made.
//!
//! # Rate limits
//!
//! [`add_rate_limited`](WorkQueue::add_rate_limited) puts a key off for as long as a [`RateLimiter`] says: by default 5 ms for the first
//! failure, twice as long with each further one up to 1,000 s, and all keys together at most ten a second after a burst of 100.
//! Limiters are values that can be put together, and your own is three methods.
//!
//! # Metrics
//!
//! With the feature `metrics`, named queues report what client-go's do under the same names: see `QueueMetrics`.
#![cfg_attr(docsrs, feature(doc_cfg))]

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

//! A queue of keys that need work: fair, deduplicating, delaying, rate-limited and prioritised. It is client-go's *workqueue* for
//! async Rust. It does not depend on Kubernetes.
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
//!                 Err(_) => drop(queue.add_rate_limited(*site)), // retried later, after a longer wait each time
//!             }
//!         } // dropping `site` marks it as done
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
//! # Guarantees
//!
//! - **One key, one worker.** A key is queued at most once, and at most one worker has it. A key that is added while a worker
//!   has it is queued again when that worker is done.
//! - **Nothing is lost.** Dropping a pending [`WorkQueue::get`] loses neither a key nor a wake-up. Dropping a [`Work`], also in a
//!   panic, marks the key as done. After shutdown, [`get`](WorkQueue::get) returns `None` only when no key can follow.
//! - **Nothing starves**, at any priority: see [below](#priorities).
//! - **No background task.** There is no task and no thread. A pending `get` waits on the timer for delayed keys, and every call
//!   that reads or changes the queue first queues the keys that are due. With tokio's paused time a test is deterministic.
//! - **Bounded.** A full queue returns new keys to the caller. It always accepts a key that it holds already:
//!   see [`Builder::capacity`].
//!
//! # Priorities
//!
//! Higher priorities go first. Keys of the same priority are first come, first served. Waiting raises a key's priority by one point
//! per second ([`Builder::aging`]): a key of priority −100 is overtaken by keys of priority 0 that arrive within 100 seconds after
//! it, and not by later ones. All keys age at the same pace, so the order of two queued keys never changes. A key of priority *p*
//! has the place of a key of priority 0 that was queued *p* × aging earlier.
//!
//! A key that is added again keeps the higher of the two priorities, and the time since which it has waited. A delayed key waits
//! from the time at which it is due. Until a priority other than 0 is used, adding a key does not read the clock:
//! keys added before then count as queued when the queue was created.
//!
//! # Rate limits
//!
//! [`add_rate_limited`](WorkQueue::add_rate_limited) delays a key for as long as a [`RateLimiter`] decides. The default waits 5 ms
//! after the first failure of a key and twice as long after each further one, up to 1,000 s. All keys together are limited to ten
//! per second after a burst of 100. Limiters can be combined; your own needs three methods.
//!
//! # Metrics
//!
//! With the feature `metrics`, named queues report client-go's metrics under the same names: see `QueueMetrics`.
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
mod deliberate_bug;
mod due;
mod error;
mod limiter;
#[cfg(feature = "metrics")]
mod metrics;
mod queue;
mod ready;
mod shared;
mod slots;
#[cfg_attr(not(feature = "metrics"), allow(dead_code, reason = "only metrics read them"))]
mod stats;
mod sync;
mod work;

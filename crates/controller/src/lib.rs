//! Controllers on informers: keep the world as objects say it should be.
//!
//! A [`Controller`] ties [informers](kube_informer::Informer), a [work queue](kube_workqueue::WorkQueue) and workers
//! together: whatever happens to an object, to what it owns or to what it refers to is turned into its key, and a function of
//! yours, *reconcile*, is called with that key. It looks at what there is (in the informers' caches), writes what there
//! should be, and says when to look again.
//!
//! - **One key, one worker.** The same key is never reconciled twice at the same time; different ones are, up to
//!   [`concurrency`](ControllerBuilder::concurrency).
//! - **Warm before work.** Workers begin when all informers are synced and all they told is queued; leadership is stood for
//!   only then.
//! - **Live before background.** What happens now goes before the initial state and resyncs, and waiting raises priority, so
//!   that nothing starves.
//! - **Failures are per key.** An error, or a panic, is tried again with back-off; success forgets it. An error that cannot be
//!   mended is [said to be](Error::terminal) and not tried again.
//! - **Reads see writes.** A key that has [written](Context::wrote) or [deleted](Context::deleted) something is deferred until
//!   the cache shows it; no worker waits.
//! - **An end.** Told to [stop](Stop), no new reconcile begins and running ones may finish; told again, they may not.
//!
//! Beside it: [leader election](leader), [finalizers](finalize), [events](EventRecorder) and, with the feature `health`,
//! an endpoint for probes and metrics.
//!
//! The guide is `docs/controllers.md` of the repository; a complete operator with its tests is `examples/website`.
#![cfg_attr(docsrs, feature(doc_cfg))]

mod action;
mod controller;
mod error;
mod events;
mod finalizer;
#[cfg(feature = "health")]
mod health;
pub mod leader;
mod manager;
#[cfg(feature = "signal")]
mod signals;
mod stop;

pub use action::{Action, Error, Failure, Retry};
#[cfg(feature = "metrics")]
pub use controller::ControllerMetrics;
pub use controller::{
    Context, Controller, ControllerBuilder, OWNER_INDEX, Predicate, Trigger, Update, children,
};
pub use error::{BuildError, RunError};
pub use events::{EventNote, EventRecorder, EventType, RecorderStats};
pub use finalizer::{FinalizerError, Stage, finalize};
#[cfg(feature = "health")]
pub use health::Health;
#[cfg(feature = "metrics")]
pub use leader::LeaderMetrics;
pub use leader::{LeaderElection, LeaseTiming};
pub use manager::{Manager, SyncProbe};
#[cfg(feature = "signal")]
pub use signals::Signals;
pub use stop::Stop;

/// What a longer duration is cut to where it is added to a time: `Duration::MAX`, as good as never, would overflow. It is
/// what work queues cut delays to.
const LONGEST: std::time::Duration = std::time::Duration::from_secs(30 * 365 * 24 * 3600);

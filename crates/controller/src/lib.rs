//! Controllers on informers: bring the cluster to the state that objects describe, and keep it there.
//!
//! A [`Controller`] ties [informers](kube_informer::Informer), a [work queue](kube_workqueue::WorkQueue) and workers
//! together. Every change of an object, of its children and of the objects it refers to becomes the object's key, and your
//! function, *reconcile*, is called with that key. It reads the current state from the informers' caches, writes the desired
//! state, and returns whether and when to run again.
//!
//! - **One key, one worker.** The same key is never reconciled twice at the same time. Different keys are reconciled concurrently, up
//!   to [`concurrency`](ControllerBuilder::concurrency).
//! - **Sync before work.** Workers start when all informers are synced and the keys of their initial lists are queued; the
//!   controller competes for leadership only then.
//! - **Live before background.** Live changes go before the initial list and resyncs, and waiting raises priority, so no key
//!   starves.
//! - **Failures are per key.** An error or a panic is retried with back-off; success resets it. A
//!   [terminal](Error::terminal) error is not retried.
//! - **Reads see writes.** A key that has written or deleted an object through its [context](Context::client) is deferred
//!   until the cache has that write; no worker waits.
//! - **Clean shutdown.** After the first [stop](Stop) no new reconcile starts and running ones may finish; the second stop cancels
//!   them.
//!
//! Also included: [leader election](leader), [replicas that share the work](shards), [finalizers](finalize), [events](EventRecorder)
//! and, with the feature `health`, an endpoint for probes and metrics.
//!
//! Types of `kube-client`, `kube-core` and `k8s-openapi` appear in signatures. This crate re-exports the three, so a program can name
//! the versions that match:
//!
//! ```
//! use kube_informer_controller::k8s_openapi::api::core::v1::ConfigMap;
//! use kube_informer_controller::kube_client::{Api, Client};
//! use kube_informer_controller::kube_core::ObjectMeta;
//!
//! fn settings(client: Client) -> (Api<ConfigMap>, ObjectMeta) {
//!     (Api::default_namespaced(client), ObjectMeta { name: Some("settings".to_owned()), ..ObjectMeta::default() })
//! }
//! ```
//!
//! The guide is `docs/controllers.md` of the repository; a complete operator with its tests is `examples/website`.
#![cfg_attr(docsrs, feature(doc_cfg))]

mod action;
pub mod conditions;
mod controller;
mod deliberate_bug;
mod error;
mod events;
mod finalizer;
#[cfg(feature = "health")]
mod health;
pub mod leader;
mod manager;
#[cfg(feature = "metrics")]
mod rest_metrics;
mod runnables;
pub mod shards;
#[cfg(feature = "signal")]
mod signals;
mod stop;
#[cfg(feature = "testing")]
pub mod testing;

// Types of these crates appear in public signatures. Use these re-exports to get the matching versions.
pub use k8s_openapi;
pub use kube_client;
pub use kube_core;

pub use action::{Action, Error, Failure, Retry};
#[cfg(feature = "metrics")]
pub use controller::ControllerMetrics;
pub use controller::{
    ClusterTriggers, Clusters, Context, Controller, ControllerBuilder, EachCluster, Filter, OWNER_INDEX,
    Predicate, Trigger, Update, WriteError, children, retry_on_conflict,
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
#[cfg(feature = "metrics")]
pub use rest_metrics::RestMetrics;
#[cfg(feature = "metrics")]
pub use shards::ShardMetrics;
pub use shards::ShardedLease;
#[cfg(feature = "signal")]
pub use signals::{Signal, Signals};
pub use stop::Stop;

/// Longer durations are capped at this value before they are added to a time, because `Duration::MAX` (never) would overflow.
/// Work queues use the same cap.
const LONGEST: std::time::Duration = std::time::Duration::from_secs(30 * 365 * 24 * 3600);

//! Errors of a controller as a whole. (Errors of one key are [`Error`](crate::Error).)

use kube_core::Status;
use kube_informer::{IndexError, Stopped, SyncError};

use crate::leader::LeaseRefused;

/// Why a controller was not built.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum BuildError {
    /// An informer has stopped.
    #[error(
        "cannot build controller `{controller}`: {informer}: {source}; build it before its informers are shut down"
    )]
    Informer {
        /// The controller.
        controller: String,
        /// The informer.
        informer: String,
        /// The informer's error.
        source: Stopped,
    },
    /// A required index cannot be added.
    #[error("cannot build controller `{controller}`: {informer}: {source}")]
    Index {
        /// The controller.
        controller: String,
        /// The informer.
        informer: String,
        /// The reason.
        source: IndexError,
    },
    /// A filter is invalid.
    #[error("cannot build controller `{controller}`: {informer}: invalid filter: {reason}")]
    Filter {
        /// The controller.
        controller: String,
        /// The informer.
        informer: String,
        /// The reason.
        reason: String,
    },
    /// The name of a cluster is empty.
    #[error("cannot add a cluster to controller `{controller}`: its name is empty")]
    Cluster {
        /// The controller.
        controller: String,
    },
    /// The controller has ended.
    #[error("cannot add a cluster to controller `{controller}`: the controller has ended")]
    Ended {
        /// The controller.
        controller: String,
    },
    /// The replicas cannot share the work of this controller.
    #[error("cannot build controller `{controller}`: cannot share its work: {reason}")]
    Sharing {
        /// The controller.
        controller: String,
        /// The reason.
        reason: String,
    },
    /// The concurrency is 0.
    #[error("cannot build controller `{controller}`: concurrency is 0; use at least 1")]
    NoWorkers {
        /// The controller.
        controller: String,
    },
}

/// Why `run` ended other than by a clean stop.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// An informer did not get its initial list: the server [refused](SyncError::Refused) it, or its objects exceed the
    /// [memory budget](SyncError::OverBudget). Or an informer has stopped, before or while the controller runs. To wait until the
    /// resource is served, wait for the informer first, as in [`Controller::run`](crate::Controller::run).
    #[error("cannot run controller `{controller}`: {source}")]
    Sync {
        /// The controller.
        controller: String,
        /// Why.
        source: SyncError,
    },
    /// The server refused the lease before this replica has led for the first time: for example, its namespace or a role is
    /// missing.
    #[error(transparent)]
    Lease(#[from] LeaseRefused),
    /// This replica cannot take part in a [`ShardedLease`](crate::ShardedLease): for example, other replicas use another number of
    /// slots.
    #[error("cannot share the work under lease {lease}: {reason}")]
    Sharing {
        /// The lease, as `namespace/name`.
        lease: String,
        /// The reason.
        reason: String,
    },
    /// There is more than one leader election or sharded lease.
    #[error("cannot run manager: several leader elections or sharded leases: {}; run each controller under its own manager", .leases.join(", "))]
    Elections {
        /// Their leases, as `namespace/name`.
        leases: Vec<String>,
    },
    /// A runnable of the manager failed or panicked. Everything else was stopped.
    #[error("runnable `{name}` failed: {reason}")]
    Runnable {
        /// Its name.
        name: String,
        /// Why.
        reason: String,
    },
    /// Some reconciles had not finished when the grace period ended or the second stop was requested. They were cancelled.
    #[error(
        "stopped with {unfinished} reconciles unfinished; set a longer grace period, or return early on `Context::stopping`"
    )]
    CutShort {
        /// How many.
        unfinished: usize,
    },
}

/// A server's answer as text. (kube's own text repeats the message.)
pub(crate) fn words(status: &Status) -> String {
    format!("{} {}: {}", status.code, status.reason, status.message)
}

/// A client's error as text: the server's answer, if there is one.
pub(crate) fn reason(error: &kube_client::Error) -> String {
    match error {
        kube_client::Error::Api(status) => words(status),
        error => error.to_string(),
    }
}

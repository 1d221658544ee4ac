//! What can go wrong with a controller as a whole. (What goes wrong with one key is [`Error`](crate::Error).)

use kube_core::Status;
use kube_informer::{IndexError, Stopped, SyncError};

use crate::leader::LeaseRefused;

/// Why a controller was not built.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum BuildError {
    /// One of its informers was stopped.
    #[error("controller `{controller}`: {informer}: {source}; build it before its informers are shut down")]
    Informer {
        /// The controller.
        controller: String,
        /// The informer.
        informer: String,
        /// What it said.
        source: Stopped,
    },
    /// An index that it needs cannot be.
    #[error("controller `{controller}`: {informer}: {source}")]
    Index {
        /// The controller.
        controller: String,
        /// The informer.
        informer: String,
        /// What is wrong with it.
        source: IndexError,
    },
    /// Without a worker nothing would ever happen.
    #[error("controller `{controller}`: a concurrency of 0 would never do anything; at least 1 is needed")]
    NoWorkers {
        /// The controller.
        controller: String,
    },
}

/// Why running ended other than by being stopped and finishing in time.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// An informer could not get its first full state: the server refuses it (401, 403, 404), or it was stopped. To wait until it is
    /// served instead, wait for the informer before running, as in [`Controller::run`](crate::Controller::run).
    #[error("controller `{controller}`: {source}")]
    Sync {
        /// The controller.
        controller: String,
        /// Why.
        source: SyncError,
    },
    /// The server refuses the lease, before this replica has led for the first time: its namespace or a role is missing, for
    /// example.
    #[error(transparent)]
    Lease(#[from] LeaseRefused),
    /// There is more than one leader election.
    #[error("leader elections for several leases: {}; a manager has one, so run the controllers under managers of their own", .leases.join(", "))]
    Elections {
        /// Their leases, as `namespace/name`.
        leases: Vec<String>,
    },
    /// It was stopped, and some reconciles had not finished when the time for that was over, or when it was told to stop
    /// once more. They were cut short.
    #[error(
        "stopped with {unfinished} reconciles unfinished; give them a longer grace period, or make them heed `Context::stopping`"
    )]
    CutShort {
        /// How many.
        unfinished: usize,
    },
}

/// A server's answer in words, once: kube's own text of it repeats them.
pub(crate) fn words(status: &Status) -> String {
    format!("{} {}: {}", status.code, status.reason, status.message)
}

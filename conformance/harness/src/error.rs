//! The errors of the harness. Errors of a program contain the end of its log, because the directory with the log is
//! removed when the test ends.

use std::{io, path::PathBuf, process::ExitStatus, time::Duration};

/// Why a server could not be started, reached or changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The programs are missing.
    #[error(
        "cannot find the conformance programs: {0}; build them with `cargo xtask conformance --build-only`"
    )]
    Programs(String),

    /// An operation of the file system or the operating system failed.
    #[error("cannot {what}: {source}")]
    Io {
        /// The operation and its object.
        what: String,
        /// The reason.
        source: io::Error,
    },

    /// The keys or certificates could not be created.
    #[error("cannot create the server's certificates: {0}")]
    Certificates(#[from] rcgen::Error),

    /// A program exited unexpectedly.
    #[error("{program} exited unexpectedly ({status}); end of its log:\n{log}")]
    Ended {
        /// Its name.
        program: &'static str,
        /// The exit status.
        status: ExitStatus,
        /// The end of its log.
        log: String,
    },

    /// A program is running but was not ready in time.
    #[error(
        "timed out after {waited:?} waiting for {program} to be ready (last probe: {last}); end of its log:\n{log}"
    )]
    NotReady {
        /// Its name.
        program: &'static str,
        /// The time limit.
        waited: Duration,
        /// The outcome of the last probe.
        last: String,
        /// The end of its log.
        log: String,
    },

    /// The operation needs a program that is not running.
    #[error("{0} is not running; start it first")]
    NotRunning(&'static str),

    /// A user that was not added to the builder.
    #[error("unknown user {0:?}; add it with `Builder::user` before the start")]
    UnknownUser(String),

    /// A one-shot program (kubectl, or a command of etcd) failed.
    #[error("`{command}` failed ({status}): {stderr}")]
    Command {
        /// The program and its arguments.
        command: String,
        /// The exit status.
        status: ExitStatus,
        /// Its standard error.
        stderr: String,
    },

    /// The kubeconfig cannot be read.
    #[error("cannot read kubeconfig {path:?}: {source}")]
    Kubeconfig {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: kube_client::config::KubeconfigError,
    },

    /// A request got no response, or the client could not be created.
    #[error("request failed: {0}")]
    Client(#[from] kube_client::Error),

    /// A request is invalid.
    #[error("invalid request {path:?}: {source}")]
    Request {
        /// The path and query.
        path: String,
        /// The reason.
        source: http::Error,
    },
}

impl Error {
    /// An [`Error::Io`] of this operation.
    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |source| Self::Io { what, source }
    }
}

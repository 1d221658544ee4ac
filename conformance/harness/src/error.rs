//! What can go wrong with a server of the harness. Whatever concerns a program carries the end of its log:
//! the directory with the whole log is gone by the time somebody reads the message.

use std::{io, path::PathBuf, process::ExitStatus, time::Duration};

/// Why a server could not be started, reached or changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The programs are not where they were said to be.
    #[error("no conformance programs: {0}; build them with `cargo xtask conformance --build-only`")]
    Programs(String),

    /// The file system or the operating system refused something.
    #[error("cannot {what}: {source}")]
    Io {
        /// What was tried, with its object.
        what: String,
        /// The refusal.
        source: io::Error,
    },

    /// The throw-away keys or certificates could not be made.
    #[error("cannot make the server's certificates: {0}")]
    Certificates(#[from] rcgen::Error),

    /// A program ended although nobody asked it to.
    #[error("{program} ended by itself ({status}); its last words:\n{log}")]
    Ended {
        /// Its name.
        program: &'static str,
        /// How it ended.
        status: ExitStatus,
        /// The end of its log.
        log: String,
    },

    /// A program is running but did not get ready in time.
    #[error("{program} was not ready within {waited:?} (last seen: {last}); its last words:\n{log}")]
    NotReady {
        /// Its name.
        program: &'static str,
        /// How long it was given.
        waited: Duration,
        /// What the last attempt to reach it gave.
        last: String,
        /// The end of its log.
        log: String,
    },

    /// Something was asked of a program that is not running now.
    #[error("{0} is not running: start it first")]
    NotRunning(&'static str),

    /// A user that the builder was not told of.
    #[error("no user {0:?}: name it with `Builder::user` before the start")]
    UnknownUser(String),

    /// A one-shot program (kubectl, or a command of etcd) failed.
    #[error("`{command}` failed ({status}): {stderr}")]
    Command {
        /// The program and its arguments.
        command: String,
        /// How it ended.
        status: ExitStatus,
        /// What it said.
        stderr: String,
    },

    /// The kubeconfig could not be read back.
    #[error("cannot use {path:?}: {source}")]
    Kubeconfig {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: kube_client::config::KubeconfigError,
    },

    /// A request did not get an answer, or the client could not be made.
    #[error("no answer: {0}")]
    Client(#[from] kube_client::Error),

    /// A request could not be put together.
    #[error("bad request {path:?}: {source}")]
    Request {
        /// The path and query asked for.
        path: String,
        /// What is wrong with it.
        source: http::Error,
    },
}

impl Error {
    /// An [`Error::Io`] that says what was tried.
    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |source| Self::Io { what, source }
    }
}

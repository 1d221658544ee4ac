//! Errors that end the program: one or two lines that say what to do, and an exit code.

use std::error::Error;
use std::process::ExitCode;

use kube_informer::StartError;
use kube_wire::Status;

use crate::signals::{self, Signal};
use crate::terminal::escape;

/// The exit codes in `--help`; the numbers are those of [`Failure::exit_code`].
pub(crate) const EXIT_CODES: &str = "Exit codes:
  0  success; also when the reader of a pipe has exited, and after Ctrl-C or SIGTERM, except for 130 and 143
  1  any other error
  2  invalid command line: unknown flag, kind, format or selector
  3  no cluster: no kubeconfig, an invalid one, no such context, or the server cannot be reached
  4  the server refused the request: not authenticated (401) or not allowed (403)
  5  the object does not exist
  6  timed out before a condition of --for was met
  130, 143  Ctrl-C (130) or SIGTERM (143) ended get (without --watch), wait or watch --for before it was complete";

/// An error that ends the program.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// The reader of a pipe has exited, as with `| head`. The exit code is 0.
    #[error("the reader has exited")]
    ReaderGone,
    #[error("{0}")]
    Usage(String),
    #[error("{0}")]
    NoCluster(String),
    #[error("{0}")]
    Refused(String),
    #[error("{0}")]
    NotFound(String),
    #[error("{0}")]
    TimedOut(String),
    #[error("{0}")]
    Other(String),
    /// A signal ended a command whose result is incomplete.
    #[error("interrupted")]
    Interrupted(Signal),
}

impl Failure {
    pub(crate) fn exit_code(&self) -> ExitCode {
        ExitCode::from(match self {
            Self::ReaderGone => 0,
            Self::Other(_) => 1,
            Self::Usage(_) => 2,
            Self::NoCluster(_) => 3,
            Self::Refused(_) => 4,
            Self::NotFound(_) => 5,
            Self::TimedOut(_) => 6,
            Self::Interrupted(signal) => signals::exit_code(*signal),
        })
    }

    /// An error with the operation that failed, such as `cannot read pods in namespace web`.
    pub(crate) fn other(cannot: &str, error: &dyn Error) -> Self {
        Self::Other(format!("{cannot}: {}", escape::one_line(&root_cause(error))))
    }

    /// The failure for a status of the server, with what to do about it.
    pub(crate) fn from_status(cannot: &str, status: &Status) -> Self {
        let words = if status.message.is_empty() { status.to_string() } else { status.message.clone() };
        // A line break in the server's message would look like another message of this program.
        let says = escape::one_line(&words);
        match status.code {
            401 => Self::Refused(format!(
                "{cannot}: not authenticated (401 Unauthorized); the token or certificate may have expired: \
                 log in again, or choose another --user or --context"
            )),
            403 => Self::Refused(format!(
                "{cannot}: {says}; ask for a role with that verb on that resource, or try -n NAMESPACE, --as or --user"
            )),
            404 => Self::NotFound(format!("{cannot}: {says}")),
            400 => Self::Usage(format!("{cannot}: {says}")),
            _ => Self::Other(format!("{cannot}: {}", escape::one_line(&status.to_string()))),
        }
    }
}

impl From<StartError> for Failure {
    fn from(error: StartError) -> Self {
        Self::Usage(error.to_string())
    }
}

/// The innermost cause of an error.
pub(crate) fn root_cause(error: &dyn Error) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}

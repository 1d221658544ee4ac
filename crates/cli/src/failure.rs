//! Why the program ends without what was asked for: one or two lines that say what to do, and an exit code.

use std::error::Error;
use std::process::ExitCode;

use kube_informer::StartError;
use kube_wire::Status;

use crate::terminal::escape;

/// What `--help` says of exit codes; the numbers are those of [`Failure::exit_code`].
pub(crate) const EXIT_CODES: &str = "Exit codes:
  0  done; also when ended by Ctrl-C or when the reader of a pipe has gone
  1  something else went wrong
  2  the command line is wrong: an unknown flag, kind, format or selector
  3  no cluster: no kubeconfig, no such context, or the server cannot be reached
  4  the server refuses: not logged in (401) or not allowed (403)
  5  no such object";

/// Why the program ends early.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// The reader of a pipe has gone: `| head`. That is no error.
    #[error("the reader has gone")]
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
    Other(String),
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
        })
    }

    /// Something that failed while the program did this.
    pub(crate) fn other(doing: &str, error: &dyn Error) -> Self {
        Self::Other(format!("{doing}: {}", escape::one_line(&root_cause(error))))
    }

    /// What the server's refusal of a request means, and what to do about it.
    pub(crate) fn from_status(asked: &str, status: &Status) -> Self {
        let words = if status.message.is_empty() { status.to_string() } else { status.message.clone() };
        // A line break in the server's words would look like another message of this program.
        let says = escape::one_line(&words);
        match status.code {
            401 => Self::Refused(format!(
                "{asked}: the server does not know you (401 Unauthorized)\n\
                 the token or certificate may have expired: log in again, or choose another --user or --context"
            )),
            403 => Self::Refused(format!(
                "{asked}: {says}\nask for a role with that verb on that resource, or try -n NAMESPACE, --as or --user"
            )),
            404 => Self::NotFound(format!("{asked}: {says}")),
            400 => Self::Usage(format!("{asked}: {says}")),
            _ => Self::Other(format!("{asked}: {}", escape::one_line(&status.to_string()))),
        }
    }
}

impl From<StartError> for Failure {
    fn from(error: StartError) -> Self {
        Self::Usage(error.to_string())
    }
}

/// The innermost of an error's causes: the one that says what happened.
pub(crate) fn root_cause(error: &dyn Error) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}

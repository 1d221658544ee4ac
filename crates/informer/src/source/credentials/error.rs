//! Why there are no credentials, in words that hold none.

use std::path::PathBuf;
use std::time::Duration;

use kube_client::Error;
use kube_client::client::AuthError;

/// Why a request has no credentials, or a configuration cannot be used. It never shows a token or a plugin's standard
/// output.
#[derive(Debug, thiserror::Error)]
pub(super) enum CredentialsError {
    /// The server's address has no host.
    #[error("invalid server address {url:?}: write https://HOST:PORT")]
    InvalidAddress {
        /// The address, without user and password.
        url: String,
    },
    /// A token holds characters that no header can.
    #[error("invalid bearer token: it holds control characters")]
    InvalidToken,
    /// A token file cannot be read.
    #[error("cannot read token file {}: {error}", .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system reports.
        error: std::io::Error,
    },
    /// The kubeconfig names no command for its plugin.
    #[error("invalid exec plugin: the kubeconfig names no command")]
    NoCommand,
    /// A plugin cannot be started.
    #[error("cannot run {command}: {error}{hint}")]
    NotStarted {
        /// Which one: `exec plugin "aws"`.
        command: String,
        /// What the system reports.
        error: std::io::Error,
        /// How to install it, as the kubeconfig has it, after a semicolon; or nothing.
        hint: String,
    },
    /// A plugin that asks questions has no terminal to ask them on.
    #[error("cannot run {command}: it needs a terminal (interactiveMode: Always)")]
    NoTerminal {
        /// Which one.
        command: String,
    },
    /// A plugin did not end in time; it was ended.
    #[error("{command} timed out after {limit:?}")]
    TimedOut {
        /// Which one.
        command: String,
        /// How long it may take.
        limit: Duration,
    },
    /// A plugin printed too much; it was ended.
    #[error("{command} printed more than {limit} bytes")]
    TooMuchOutput {
        /// Which one.
        command: String,
        /// How much it may print.
        limit: usize,
    },
    /// A plugin failed.
    #[error("{command} failed: {status}{words}")]
    Failed {
        /// Which one.
        command: String,
        /// Its exit status.
        status: std::process::ExitStatus,
        /// The end of its standard error, after a colon; or nothing.
        words: String,
    },
    /// A plugin printed something other than credentials.
    #[error("{command} printed no usable credentials: {why}")]
    NotACredential {
        /// Which one.
        command: String,
        /// What is wrong with it.
        why: String,
    },
}

impl From<CredentialsError> for Error {
    fn from(error: CredentialsError) -> Self {
        match error {
            CredentialsError::InvalidAddress { .. } => Self::Service(Box::new(error)),
            error => Self::Auth(AuthError::AuthExec(error.to_string())),
        }
    }
}

//! Credential errors, with messages that contain no credentials.

use std::path::PathBuf;
use std::time::Duration;

use kube_client::Error;
use kube_client::client::AuthError;

/// Why a request has no credentials, or a configuration is invalid. It never shows a token or a plugin's standard output.
#[derive(Debug, thiserror::Error)]
pub(super) enum CredentialsError {
    /// The server's address has no host.
    #[error("invalid server address {url:?}; write https://HOST:PORT")]
    InvalidAddress {
        /// The address, without user and password.
        url: String,
    },
    /// A token contains characters that are invalid in a header.
    #[error("invalid bearer token: it contains control characters")]
    InvalidToken,
    /// A token file cannot be read.
    #[error("cannot read token file {}: {error}", .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The system's error.
        error: std::io::Error,
    },
    /// The kubeconfig names no command for its plugin.
    #[error("invalid exec plugin: the kubeconfig names no command")]
    NoCommand,
    /// A plugin cannot be started.
    #[error("cannot run {command}: {error}{hint}")]
    NotStarted {
        /// Such as `exec plugin "aws"`.
        command: String,
        /// The system's error.
        error: std::io::Error,
        /// The kubeconfig's install hint, after a semicolon; or empty.
        hint: String,
    },
    /// An interactive plugin has no terminal.
    #[error("cannot run {command}: it needs a terminal (interactiveMode: Always)")]
    NoTerminal {
        /// The plugin.
        command: String,
    },
    /// A plugin exceeded its time limit and was killed.
    #[error("timed out after {limit:?} running {command}")]
    TimedOut {
        /// The plugin.
        command: String,
        /// The time limit.
        limit: Duration,
    },
    /// A plugin printed too much and was killed.
    #[error("{command} printed more than {limit} bytes")]
    TooMuchOutput {
        /// The plugin.
        command: String,
        /// The limit on its output.
        limit: usize,
    },
    /// A plugin failed.
    #[error("{command} failed: {status}{words}")]
    Failed {
        /// The plugin.
        command: String,
        /// Its exit status.
        status: std::process::ExitStatus,
        /// The end of its standard error, after a colon; or empty.
        words: String,
    },
    /// A plugin printed something other than credentials.
    #[error("{command} printed no usable credentials: {why}")]
    NotACredential {
        /// The plugin.
        command: String,
        /// The reason.
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

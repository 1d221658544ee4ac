//! The result of a reconcile: what to do next, or why it failed and whether to retry.

use std::error::Error as StdError;
use std::fmt;
use std::time::Duration;

use kube_core::Status;
use kube_informer::IndexError;
use kube_informer::kube_wire::{Error as WireError, InvalidSelector};
use kube_informer::{DecodeError, InvalidKey, Key, StartError, Stopped, SyncError, WaitError};

use crate::WriteError;
use crate::error::words;

/// What to do after a reconcile that succeeded. Success resets the key's failure count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
#[non_exhaustive]
pub enum Action {
    /// Wait for the next change.
    Done,
    /// Run again after this time, and at every change before that.
    RequeueAfter(Duration),
    /// As [`RequeueAfter`](Self::RequeueAfter), with a priority instead of the one that the key had. Live changes have priority 0, the
    /// initial list and resyncs −100; higher goes first.
    RequeueWith {
        /// When to run again.
        after: Duration,
        /// The priority of that run.
        priority: i16,
    },
}

/// Why a reconcile failed. The key is retried with back-off, unless the error is [terminal](Error::terminal). A [`DecodeError`]
/// is terminal: the object has to change first. So is a [`WriteError`] without a request to the server.
///
/// If the key's object was deleted or re-created during the reconcile, errors that this can cause do not count as failures: 404 and
/// 409 of a server, and [`WriteError::NoOwner`]. The key is then reconciled again immediately.
///
/// `?` converts the errors of kube and of informers, and boxed errors; [`Error::new`] takes any other error or a text. A
/// reconcile can return its own error type if it converts into this one. With the feature `anyhow` it can return
/// `anyhow::Result<Action>`; a terminal error anywhere in the chain stays terminal.
///
/// `{}` prints the outermost message; `{:#}` adds the causes on the same line, each once.
///
/// ```
/// # #[cfg(feature = "anyhow")] {
/// use anyhow::Context as _;
/// use kube_informer::Key;
/// use kube_informer_controller::{Action, Context, Error};
///
/// async fn reconcile(_: Context, key: Key) -> anyhow::Result<Action> {
///     if key.name().len() > 63 {
///         return Err(Error::terminal("the name is too long").into()); // not retried
///     }
///     let text = std::fs::read_to_string(key.name()).context("cannot read the template")?; // retried
///     Ok(if text.is_empty() { Action::Done } else { Action::RequeueAfter(std::time::Duration::from_secs(60)) })
/// }
/// # }
/// ```
pub struct Error {
    source: Box<dyn StdError + Send + Sync>,
    terminal: bool,
    /// A deleted or re-created object can be the cause.
    outdated: bool,
}

/// A failed reconcile, as passed to an error policy.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Failure<'a> {
    /// The key that failed.
    pub key: &'a Key,
    /// The error. Never terminal: terminal errors are not passed to the policy.
    pub error: &'a Error,
    /// Consecutive failures, this one included. Only failures answered with [`Retry::Backoff`] are counted.
    pub failures: u32,
}

/// The decision of an error policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Retry {
    /// Retry after the back-off.
    Backoff,
    /// Retry after this time.
    After(Duration),
    /// Wait for the next change.
    Never,
}

// === impl Error ===

impl Error {
    /// Creates an error from any error or a text. It is terminal if the error or one of its causes is.
    pub fn new(source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        let source = source.into();
        let (terminal, outdated) = (causes(&*source).any(is_terminal), causes(&*source).any(is_outdated));
        Self { source, terminal, outdated }
    }

    /// Creates an error that a retry cannot fix, such as an invalid spec: the key waits for the next change.
    pub fn terminal(source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self { terminal: true, ..Self::new(source) }
    }

    /// Whether the key waits for the next change instead of being retried.
    pub fn is_terminal(&self) -> bool {
        self.terminal
    }

    /// Whether a deleted or re-created object can be the cause.
    pub(crate) fn is_outdated(&self) -> bool {
        self.outdated
    }

    /// The wrapped error.
    pub fn get_ref(&self) -> &(dyn StdError + Send + Sync + 'static) {
        &*self.source
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        // This error prints the message of the wrapped one, so its source is the next in the chain.
        self.source.source()
    }
}

impl From<Box<dyn StdError + Send + Sync>> for Error {
    fn from(error: Box<dyn StdError + Send + Sync>) -> Self {
        match error.downcast::<Self>() {
            Ok(error) => *error,
            Err(error) => Self::new(error),
        }
    }
}

#[cfg(feature = "anyhow")]
impl From<anyhow::Error> for Error {
    fn from(error: anyhow::Error) -> Self {
        match error.downcast::<Self>() {
            Ok(error) => error,
            Err(error) => {
                // The box hides the type of the outermost error.
                let (terminal, outdated) = (error.chain().any(is_terminal), error.chain().any(is_outdated));
                Self { source: error.into(), terminal, outdated }
            }
        }
    }
}

macro_rules! from_errors {
    ($($error:ty),* $(,)?) => {
        $(impl From<$error> for Error {
            fn from(error: $error) -> Self {
                Self::new(error)
            }
        })*
    };
}

from_errors!(
    kube_client::Error,
    DecodeError,
    WireError,
    WaitError,
    SyncError,
    IndexError,
    StartError,
    InvalidKey,
    InvalidSelector,
    Stopped,
    crate::FinalizerError,
    WriteError,
    serde_json::Error,
    std::io::Error,
    tokio::time::error::Elapsed,
    tokio::task::JoinError,
);

/// Whether an error in a chain makes the whole error terminal.
fn is_terminal(error: &(dyn StdError + 'static)) -> bool {
    error.downcast_ref::<Error>().is_some_and(Error::is_terminal)
        || error
            .downcast_ref::<WriteError>()
            .is_some_and(|error| !matches!(error, WriteError::Request { .. }))
        || is_permanent(error)
}

/// Whether an error in a chain may mean that an object was deleted or re-created.
fn is_outdated(error: &(dyn StdError + 'static)) -> bool {
    let refused = match error.downcast_ref::<kube_client::Error>() {
        Some(kube_client::Error::Api(status)) => matches!(status.code, 404 | 409),
        _ => false,
    };
    refused
        || error.downcast_ref::<Error>().is_some_and(Error::is_outdated)
        || matches!(error.downcast_ref::<WriteError>(), Some(WriteError::NoOwner { .. }))
}

/// Whether an object does not fit its type: permanent until the object changes.
fn is_permanent(error: &(dyn StdError + 'static)) -> bool {
    let decode = match error.downcast_ref::<WaitError>() {
        Some(WaitError::Decode(decode)) => Some(decode),
        _ => error.downcast_ref::<DecodeError>(),
    };
    decode.is_some_and(DecodeError::is_permanent)
}

/// An error and its chain of sources.
fn causes<'a>(error: &'a (dyn StdError + 'static)) -> impl Iterator<Item = &'a (dyn StdError + 'static)> {
    std::iter::successors(Some(error), |&error| error.source())
}

fn text_of(error: &(dyn StdError + 'static)) -> String {
    let status = match error.downcast_ref::<kube_client::Error>() {
        Some(kube_client::Error::Api(status)) => Some(&**status),
        _ => error.downcast_ref::<Status>().or(error.downcast_ref::<Box<Status>>().map(|status| &**status)),
    };
    status.map_or_else(|| error.to_string(), words)
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut line = text_of(&*self.source);
        if f.alternate() {
            // Many errors repeat the message of their cause.
            for cause in causes(&*self.source).skip(1).map(text_of) {
                if !line.contains(&cause) {
                    line.push_str(": ");
                    line.push_str(&cause);
                }
            }
        }
        f.write_str(&line)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Error").field("source", &self.source).field("terminal", &self.terminal).finish()
    }
}

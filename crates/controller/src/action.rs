//! What a reconcile comes to: what is to be done next, or why it failed and whether trying again makes sense.

use std::error::Error as StdError;
use std::fmt;
use std::time::Duration;

use kube_core::Status;
use kube_informer::IndexError;
use kube_informer::{DecodeError, Key, Stopped, SyncError, WaitError};

use crate::error::words;

/// What is to be done after a reconcile that succeeded. Failures before it are forgotten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
#[non_exhaustive]
pub enum Action {
    /// Nothing, until something changes.
    Done,
    /// The same once more when this time has passed, unless something changes before.
    RequeueAfter(Duration),
}

/// Why a reconcile failed, and whether trying again makes sense: it is retried with back-off, unless it is
/// [terminal](Error::terminal). A [`DecodeError`] is terminal by itself: the object has to change first.
///
/// `?` makes one from the errors of kube and of informers, and from boxed ones; [`Error::new`] takes any other error or a
/// text. A reconcile may return its own error type instead if that converts into this one. With the feature `anyhow` it may
/// return `anyhow::Result<Action>`; an `Error` anywhere in the chain keeps its meaning.
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
}

/// A reconcile that failed, as an error policy sees it.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Failure<'a> {
    /// Whose.
    pub key: &'a Key,
    /// Why. Never a terminal one: those are not tried again.
    pub error: &'a Error,
    /// How often it failed in a row, this time included; failures that were not answered with [`Retry::Backoff`] are not
    /// counted.
    pub failures: u32,
}

/// What an error policy says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Retry {
    /// Again, when the back-off lets it.
    Backoff,
    /// Again after this time.
    After(Duration),
    /// Not before something changes.
    Never,
}

// === impl Error ===

impl Error {
    /// From any error or a text. It is retried with back-off, unless the error or one of its causes is terminal.
    pub fn new(source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        let source = source.into();
        let terminal = causes(&*source).any(is_terminal);
        Self { source, terminal }
    }

    /// An error that trying again will not mend, such as a specification that makes no sense: the key is left alone until
    /// something changes.
    pub fn terminal(source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self { source: source.into(), terminal: true }
    }

    /// Whether trying again is of no use.
    pub fn is_terminal(&self) -> bool {
        self.terminal
    }

    /// The error that this one was made from.
    pub fn get_ref(&self) -> &(dyn StdError + Send + Sync + 'static) {
        &*self.source
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        // This error shows the message of the one it was made from.
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
                let terminal = error.chain().any(is_terminal);
                Self { source: error.into(), terminal }
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
    WaitError,
    SyncError,
    IndexError,
    Stopped,
    crate::FinalizerError,
    serde_json::Error,
    std::io::Error,
    tokio::time::error::Elapsed,
    tokio::task::JoinError,
);

/// Whether an error means that trying again is of no use, wherever it stands in a chain.
fn is_terminal(error: &(dyn StdError + 'static)) -> bool {
    error.downcast_ref::<Error>().is_some_and(Error::is_terminal) || is_permanent(error)
}

/// Whether an object did not fit its type, and will not before it changes.
fn is_permanent(error: &(dyn StdError + 'static)) -> bool {
    let decode = match error.downcast_ref::<WaitError>() {
        Some(WaitError::Decode(decode)) => Some(decode),
        _ => error.downcast_ref::<DecodeError>(),
    };
    decode.is_some_and(DecodeError::is_permanent)
}

/// An error, what caused it, and so on.
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

//! What a reconcile comes to: what is to be done next, or why it failed and whether trying again makes sense.

use std::error::Error as StdError;
use std::fmt;
use std::time::Duration;

use kube_core::Status;
use kube_informer::{DecodeError, Key, WaitError};

use crate::error::words;

/// What is to be done after a reconcile that succeeded. Failures before it are forgotten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Action {
    /// Nothing, until something changes.
    Done,
    /// The same once more when this time has passed, unless something changes before.
    RequeueAfter(Duration),
}

/// Why a reconcile failed. Any error becomes one by `?`, and is tried again with back-off; one that no further try can
/// mend is made with [`Error::terminal`]. A [`DecodeError`] is terminal by itself: the object has to change first.
///
/// Like `anyhow::Error` it does not implement `std::error::Error` itself, so that it can be made from all of them.
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
    /// An error that is tried again with back-off, from what is no `std::error::Error` by itself: a text, or another
    /// library's boxed error.
    pub fn new(source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self { source: source.into(), terminal: false }
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

    /// What was wrong.
    pub fn source(&self) -> &(dyn StdError + Send + Sync + 'static) {
        &*self.source
    }
}

impl<E: StdError + Send + Sync + 'static> From<E> for Error {
    fn from(error: E) -> Self {
        let terminal = causes(&error).any(is_permanent);
        Self { source: Box::new(error), terminal }
    }
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

/// The error and its causes on one line. Many errors repeat the text of their cause: here each is written once.
impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut line = text_of(&*self.source);
        for cause in causes(&*self.source).skip(1).map(text_of) {
            if !line.contains(&cause) {
                line.push_str(": ");
                line.push_str(&cause);
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

//! An independent judge: it knows the server's full history, and checks every event and every read against it.
//!
//! The oracle shares no code with the library and depends on `serde_json` only. Objects are JSON values as the server
//! sent them. The simulator records the history through a connection without faults, and hands every observation of a
//! client to a [`Listener`] or a [`Reader`]; the first one that breaks a promise is returned as a [`Violation`].
//!
//! A server that is restored from a backup begins a new *epoch*: the same resourceVersions mean other states there. A
//! client may stay behind in an old epoch, but never returns to one that it has left.

mod history;
mod listener;
mod reader;
mod selection;

pub use history::History;
pub use listener::{Listener, Seen};
pub use reader::{Reader, check_index};
pub use selection::Selection;

use std::fmt;

/// A broken promise, in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The promise's number in docs/contract.md.
    pub promise: u8,
    /// What was observed, and what the history says.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "promise {} is broken: {}", self.promise, self.what)
    }
}

fn broken<T>(promise: u8, what: impl Into<String>) -> Result<T, Violation> {
    Err(Violation { promise, what: what.into() })
}

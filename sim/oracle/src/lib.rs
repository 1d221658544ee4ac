//! An independent judge: it knows the server's full history, and checks every event and every read against it.
//!
//! The oracle shares no code with the library and depends on `serde_json` only. Objects are JSON values as the server
//! sent them. The simulator records the history through a connection without faults, and hands every observation of a
//! client to a [`Listener`], a [`Reader`], a [`Controller`] or a [`Leadership`].
//!
//! A server that is restored from a backup begins a new *epoch*: the same resourceVersions mean other states there. A
//! client may stay behind in an old epoch, but never returns to one that it has left.

mod controller;
mod history;
mod listener;
mod reader;
mod selection;

pub use controller::{Controller, Leadership};
pub use history::History;
pub use listener::{Listener, Seen};
pub use reader::{Reader, check_current, check_index, check_state};
pub use selection::Selection;

/// What a check returns: the promise that is broken, in words, with its number in docs/contract.md.
pub type Judged = Result<(), String>;

fn broken(promise: &str, what: impl std::fmt::Display) -> Judged {
    Err(format!("promise {promise} is broken: {what}"))
}

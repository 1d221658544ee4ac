//! An independent oracle: it knows the server's full history, and checks every event and every read against it.
//!
//! The oracle shares no code with the library and depends on `serde_json` only. Objects are JSON values as the server
//! sent them. The simulator records the history through a connection without faults, and passes every observation of a
//! client to a [`Listener`], a [`Reader`], a [`Controller`] or a [`Leadership`].
//!
//! A restore from a backup begins a new *epoch*, in which the same resourceVersions denote different states. A client
//! may lag behind in an old epoch, but it must not return to an epoch that it has left.

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

/// The result of a check. An error names the broken promise by its number in docs/contract.md.
pub type Judged = Result<(), String>;

fn broken(promise: &str, what: impl std::fmt::Display) -> Judged {
    Err(format!("promise {promise} is broken: {what}"))
}

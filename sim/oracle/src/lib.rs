//! An independent oracle: it knows the server's full history, and checks every event and every read against it.
//!
//! The oracle shares no code with the library and depends on `serde_json` only. Objects are JSON values as the server
//! sent them. The simulator records the history through a connection without faults, and passes every observation of a
//! client to a [`Listener`], a [`Reader`], a [`Controller`] or a [`Leadership`].
//!
//! A restore from a backup begins a new *epoch*, in which the same resourceVersions denote different states. A client
//! may lag behind in an old epoch, but it must not return to an epoch that it has left. [`Trust`] derives the keys of a
//! client that an unnoticed restore leaves in an old state.

mod controller;
mod history;
mod listener;
mod reader;
mod selection;
mod trust;

pub use controller::{Controller, Leadership};
pub use history::History;
pub use listener::{Listener, Seen};
pub use reader::{Reader, check_current, check_index, check_state};
pub use selection::Selection;
pub use trust::{Keys, Trust};

/// The result of a check. An error names the broken promise by its number in docs/contract.md.
pub type Judged<T = ()> = Result<T, String>;

fn broken<T>(promise: &str, what: impl std::fmt::Display) -> Judged<T> {
    Err(format!("promise {promise} is broken: {what}"))
}

//! Support for tests: a source whose server the test controls.
//!
//! [`ScriptedSource`] behaves like a small API server (revisions, history, resumable watches, watch-list, pages, 410 after
//! compaction). In addition it can close or break watches at an exact point, answer the next list with any error, and roll
//! back to an older state. It opens no socket and spawns no task, so a test on paused time takes milliseconds and is
//! deterministic.

mod script;
mod server;
mod source;

pub use server::Checkpoint;
pub use source::{Request, ScriptedSource, WatchListSupport};

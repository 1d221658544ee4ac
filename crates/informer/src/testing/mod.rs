//! Support for tests: a source whose server you play yourself.
//!
//! [`ScriptedSource`] behaves as a small, honest API server would (revisions, history, watches that resume, watch-list,
//! pages, 410 after compaction), and does what no server can be talked into on demand: closing or breaking watches at
//! an exact point, answering the next list with any error, going back to an older state. It opens no socket and spawns
//! nothing, so a test on paused time is over in milliseconds and goes the same way every time.

mod script;
mod server;
mod source;

pub use server::Checkpoint;
pub use source::{Request, ScriptedSource, WatchListSupport};

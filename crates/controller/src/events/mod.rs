//! Events: short notes about objects, shown by `kubectl describe`.
//!
//! [`EventRecorder::record`] never blocks and never fails: notes go into a bounded queue, which [`EventRecorder::run`] sends to
//! the API server. Repeated notes about one object become one Event with a count (a *series*). A bounded number of recent series
//! is remembered.

mod note;
mod recorder;
mod series;

pub use note::{EventNote, EventType};
pub use recorder::{EventRecorder, RecorderStats};

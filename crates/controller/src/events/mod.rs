//! Events: short notes about objects, for people who look at them with `kubectl describe`.
//!
//! [`EventRecorder::record`] never waits and never fails: notes go into a bounded queue, which [`EventRecorder::run`] sends to
//! the API server. The same note about the same object again becomes one event with a growing count (a *series*); of those
//! that were sent lately a bounded number is remembered.

mod note;
mod recorder;
mod series;

pub use note::{EventNote, EventType};
pub use recorder::{EventRecorder, RecorderStats};

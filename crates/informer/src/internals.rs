//! Types that this crate's own tests and benches look at. Not part of the API: they change without notice.

pub use crate::source::STREAMS_PER_CONNECTION;
pub use crate::source::ServerMemory;

//! Types that sibling crates and this crate's own tests and benches use. Not part of the API: they change without notice.

pub use crate::informer::Filtered;
#[cfg(deliberate_bug)]
pub use crate::process::Process;
pub use crate::process::in_process;
#[cfg(any(test, feature = "testing"))]
pub use crate::source::STREAMS_PER_CONNECTION;
#[cfg(any(test, feature = "testing"))]
pub use crate::source::ServerMemory;
pub use crate::version::compare_resource_versions;

//! A live, local mirror of Kubernetes objects.

mod key;
pub mod queue;
pub mod reflector;
pub mod source;
pub mod store;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod version;

pub use key::{InvalidKey, Key};
pub use version::compare_resource_versions;

//! A live, local mirror of Kubernetes objects.

mod key;
pub mod queue;
pub mod source;
mod version;

pub use key::{InvalidKey, Key};
pub use version::compare_resource_versions;

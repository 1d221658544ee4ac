//! Internals exposed to the crate's own tests. Not covered by semantic versioning.

/// Server-side apply.
pub mod apply {
    pub use crate::apply::*;
}

/// Custom resources.
pub mod crd {
    pub use crate::crd::*;
}

/// Patches.
pub mod patch {
    pub use crate::patch::*;
}

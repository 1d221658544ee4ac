//! What the crate's own tests reach into. Not part of the crate's promises.

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

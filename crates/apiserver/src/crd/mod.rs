//! Custom resources.

mod defaults;
mod prune;
mod structural;

pub use defaults::set_defaults;
pub use prune::prune;
pub use structural::{Constraints, JsonType, ListKind, Structural};

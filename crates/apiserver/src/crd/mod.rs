//! Custom resources.

mod structural;

pub use structural::{Constraints, JsonType, ListKind, Structural};

//! Custom resources, as pure functions over JSON values: definitions and the objects that they define.
//!
//! A definition is [prepared](Definition::prepare), [parsed](Definition::parse) and, once stored, gets its
//! [names](accept_names). A submitted object is [pruned](prune), loses its [stray nulls](drop_nulls), gets its
//! [defaults](set_defaults) and is [validated](Version::validate) against its version's schema. [`Version::types`]
//! describes how it merges. An object produced by server-side apply is only defaulted and validated.
//!
//! Not supported: CEL rules (`x-kubernetes-validations` are kept in the definition but neither compiled nor evaluated)
//! and conversion between versions by webhook.

mod check;
mod defaults;
mod definition;
mod formats;
mod invalid;
mod prune;
mod raw;
mod status;
mod structural;
#[cfg(test)]
mod tests;
mod validate;

pub use defaults::{drop_nulls, set_defaults};
pub(crate) use definition::has_validation_rules;
pub use definition::{Definition, DefinitionError, Names, Scale, Version};
pub use invalid::{FieldError, Reason, aggregate};
pub use prune::prune;
pub use status::accept_names;
pub use structural::{Constraints, JsonType, ListKind, Structural};
pub use validate::validate;

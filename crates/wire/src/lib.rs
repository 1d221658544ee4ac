//! Kubernetes objects as bytes.

mod encoding;
mod error;
pub mod head;
#[cfg(feature = "internals")]
#[doc(hidden)]
pub mod internals;
mod json;
mod limits;
pub mod path;
pub mod projection;
pub mod proto;
pub mod schema;
mod type_meta;

pub use encoding::Encoding;
pub use error::{Error, Result};
pub use head::{Head, Labels, OwnerReference, Owners};
pub use limits::{Limit, Limits};
pub use path::FieldPath;
pub use type_meta::TypeMeta;

//! Kubernetes objects as bytes.

pub mod de;
mod encoding;
pub mod envelope;
mod error;
mod forms;
pub mod frame;
pub mod head;
#[cfg(feature = "internals")]
#[doc(hidden)]
pub mod internals;
mod json;
mod limits;
mod object;
pub mod path;
pub mod projection;
pub mod proto;
pub mod schema;
pub mod ser;
mod status;
mod type_meta;

pub use encoding::Encoding;
pub use error::{Error, Result};
pub use frame::{ListDecoder, ListHead, WatchDecoder, WatchEvent};
pub use head::{Head, Labels, OwnerReference, Owners};
pub use limits::{Limit, Limits};
pub use object::{ObjectReader, RawObject};
pub use path::FieldPath;
pub use projection::Projection;
pub use status::{Status, StatusCause};
pub use type_meta::TypeMeta;

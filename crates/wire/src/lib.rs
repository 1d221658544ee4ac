//! Kubernetes objects as bytes.

pub mod de;
mod encoding;
mod error;
mod forms;
mod limits;
pub mod proto;
pub mod schema;
pub mod ser;

pub use encoding::Encoding;
pub use error::{Error, Result};
pub use limits::{Limit, Limits};

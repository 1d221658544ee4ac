//! Kubernetes objects as bytes.

mod encoding;
mod error;
mod limits;
pub mod proto;
pub mod schema;

pub use encoding::Encoding;
pub use error::{Error, Result};
pub use limits::{Limit, Limits};

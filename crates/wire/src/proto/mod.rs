//! The subset of the protobuf wire format that Kubernetes uses.
//!
//! A message is a sequence of fields, each a *tag* (field number and wire type, one varint) and a value. [`Reader`]
//! iterates over one message. It decodes only requested fields; skipping a field reads only its header. [`Writer`]
//! does the reverse.

mod reader;
mod value;
mod writer;

pub(crate) use reader::varint;
pub use reader::{Reader, Tag, WireType};
pub(crate) use value::{WireValue, packable};
pub use writer::{Writer, varint_len};

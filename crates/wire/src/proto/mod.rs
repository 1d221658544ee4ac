//! Protobuf, by hand: the little of its wire format that Kubernetes uses.
//!
//! A message is a sequence of fields, each a *tag* (field number and wire type, one varint) and a value. [`Reader`]
//! walks over one message; nothing is decoded that is not asked for, and a field that is skipped costs its header only.
//! [`Writer`] does the reverse.

mod reader;
mod value;
mod writer;

pub(crate) use reader::varint;
pub use reader::{Reader, Tag, WireType};
pub(crate) use value::{WireValue, packable};
pub use writer::{Writer, varint_len};

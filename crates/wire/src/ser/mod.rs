//! serde to protobuf: the bytes that Go writes for a value.
//!
//! The reverse of [`de`](crate::de), with the same [table](crate::schema): a `k8s_openapi` type, a `DynamicObject` or
//! a `serde_json::Value` is written as the message that a Go server would send for it, byte for byte. Fields are in
//! ascending order, map entries are sorted by key, every non-pointer field is written even if zero, and nil lists,
//! maps and pointers are omitted. `apiVersion` and `kind` are not part of the message but of its envelope, and are
//! returned.
//!
//! `null` counts as absent, as in Go. Times are truncated to the precision of their type (seconds or microseconds),
//! and quantities are converted to Go's canonical form (`0.5` becomes `500m`).
//!
//! # Differences from Go
//!
//! | where | why |
//! |---|---|
//! | embedded JSON (`RawExtension`, `FieldsV1`, `JSON`) | written compactly, with members in the value's order (`serde_json::Value`: by name), while Go keeps the original text: the same JSON, but not always the same text |
//! | quantities of more than 27 digits, or with an exponent beyond 18 | unchanged; Go drops the suffix of thousands of `E`, which is not imitated |
//! | required fields of `k8s_openapi` types | that crate replaces a `null` in a required field with its default (`selector: null` becomes `{}`) before this one sees it |

mod encoder;
mod entries;
mod key;
mod list;
mod object;
mod scalar;
mod serializer;
mod slot;
mod value;

use serde::Serialize;

use self::encoder::Encoder;
use self::slot::{Slot, Target};
pub use crate::de::UnknownFields;
use crate::error::Result;
use crate::limits::Limits;
use crate::schema::Message;

/// Writes `value` as `message`. Members without a field in the message are an error.
///
/// ```
/// use kube_wire::schema::Schema;
///
/// let message = Schema::builtin().kind("v1", "ConfigMap").expect("a built-in kind");
/// let value = serde_json::json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"k": "v"}});
///
/// let bytes = kube_wire::internals::ser::to_vec(&value, message)?;
/// let back: serde_json::Value = kube_wire::internals::de::from_slice(&bytes, message)?;
/// assert_eq!(back["data"]["k"], "v");
/// # Ok::<(), kube_wire::Error>(())
/// ```
///
/// # Errors
/// If the value does not match the message.
pub fn to_vec<T: Serialize + ?Sized>(value: &T, message: &'static Message) -> Result<Vec<u8>> {
    let mut out = Vec::with_capacity(1024);
    Serializer::new(message).serialize_into(value, &mut out)?;
    Ok(out)
}

/// Settings for writing values as one message.
#[derive(Clone, Copy, Debug)]
pub struct Serializer {
    message: &'static Message,
    unknown: UnknownFields,
    limits: Limits,
}

/// apiVersion and kind of an object, which are not part of the message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObjectType {
    /// Group and version.
    pub api_version: Option<String>,
    /// The kind.
    pub kind: Option<String>,
}

impl Serializer {
    /// Writes values as `message`.
    pub fn new(message: &'static Message) -> Self {
        Self { message, unknown: UnknownFields::Reject, limits: Limits::DEFAULT }
    }

    /// What to do with members without a field in the message. Default: [`UnknownFields::Reject`], because they would
    /// be lost.
    #[must_use]
    pub fn unknown_fields(mut self, unknown: UnknownFields) -> Self {
        self.unknown = unknown;
        self
    }

    /// Replaces the default limits; only the one on nesting applies here.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Appends the message to `out` and returns the type for its envelope.
    ///
    /// # Errors
    /// If the value does not match the message; `out` is then unchanged.
    pub fn serialize_into<T: Serialize + ?Sized>(&self, value: &T, out: &mut Vec<u8>) -> Result<ObjectType> {
        let start = out.len();
        let mut encoder = Encoder::new(self.unknown, self.limits.nesting_max, out);
        let slot = Slot::root(Target::Message(self.message));
        match value::write(&mut encoder, slot, value) {
            Ok(()) => Ok(ObjectType { api_version: encoder.api_version, kind: encoder.kind }),
            Err(error) => {
                out.truncate(start);
                Err(error)
            }
        }
    }
}

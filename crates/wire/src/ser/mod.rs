//! serde to protobuf: the bytes that Go writes for a value.
//!
//! The way back from [`de`](crate::de), with the same [table](crate::schema): a `k8s_openapi` type, a `DynamicObject` or
//! a `serde_json::Value` is written as the message that a Go server would send for it, byte for byte. That means fields
//! in ascending order, map entries sorted by key, every field that is no pointer written even when it is zero, and nil
//! lists, maps and pointers left out. `apiVersion` and `kind` of the object are not part of the message but of its
//! envelope, and are handed back.
//!
//! `null` counts as absent, as it does for Go. Times are cut to what the type holds (whole seconds, or microseconds),
//! and quantities brought into the spelling that Go writes (`0.5` becomes `500m`).
//!
//! # Where bytes may differ from Go's
//!
//! | where | why |
//! |---|---|
//! | embedded JSON (`RawExtension`, `FieldsV1`, `JSON`) | written compactly, with its members as the value orders them (`serde_json::Value`: by name), while Go keeps the text that it was given: the same JSON, but not always the same text |
//! | quantities of more than 27 digits, or with an exponent beyond 18 | left as they are; of thousands of `E` Go drops the suffix, which is not imitated |
//! | required fields of `k8s_openapi` types | that crate makes a default of `null` where a field is required (`selector: null` becomes `{}`), before this one sees it |

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

/// Writes `value` as `message`. Members that the message has no field for are an error.
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
/// If the value does not fit the message.
pub fn to_vec<T: Serialize + ?Sized>(value: &T, message: &'static Message) -> Result<Vec<u8>> {
    let mut out = Vec::with_capacity(1024);
    Serializer::new(message).serialize_into(value, &mut out)?;
    Ok(out)
}

/// How to write values as one message.
#[derive(Clone, Copy, Debug)]
pub struct Serializer {
    message: &'static Message,
    unknown: UnknownFields,
    limits: Limits,
}

/// What an object says of itself beside the message: apiVersion and kind, where it has them.
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

    /// What to do with members that the message has no field for. Default: [`UnknownFields::Reject`], since they would
    /// be lost.
    #[must_use]
    pub fn unknown_fields(mut self, unknown: UnknownFields) -> Self {
        self.unknown = unknown;
        self
    }

    /// With other limits than the default ones; the one that counts here is on nesting.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Appends the message to `out`, and hands back what belongs in its envelope.
    ///
    /// # Errors
    /// If the value does not fit the message; `out` is then as it was.
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

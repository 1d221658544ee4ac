//! serde from protobuf: decodes typed and dynamic values directly from the bytes of a message.
//!
//! A `k8s_openapi` type, a `DynamicObject` or a `serde_json::Value` is deserialized through serde, with JSON names and
//! JSON forms. Protobuf has neither; the [schema table](crate::schema) supplies both, and [`Deserializer`] presents a
//! message as if it were the JSON that Go would write for it. No JSON is created in between: strings are borrowed from
//! the bytes, and only the target allocates.
//!
//! # Equivalence with JSON
//!
//! *Shown fields.* Go's protobuf writes every non-pointer field, even if empty or zero; JSON's `omitempty` omits
//! those. The table records which. Conversely, JSON shows some fields that protobuf omits: a nil list without
//! `omitempty` is `null`. A struct is never empty: it is shown as `{}`, unless its field is marked `omitzero` and it
//! is zero, like `creationTimestamp`.
//!
//! *Inlined messages.* `Volume` contains a message `VolumeSource` whose members JSON shows among the volume's own.
//!
//! *Special forms.* Some messages are not objects in JSON:
//!
//! | message | in protobuf | in JSON |
//! |---|---|---|
//! | `Time`, `MicroTime` | seconds and nanoseconds | RFC 3339 with no fraction, with six digits; the zero time is `null` |
//! | `Duration` | nanoseconds | a string as Go prints it: `1h0m0s` |
//! | `Quantity` | a message around a string | the string; absent is `"0"` |
//! | `IntOrString` | a type and both values | the number or the string |
//! | `RawExtension`, `FieldsV1`, `JSON` | JSON text | that JSON, embedded; absent is `null`. A protobuf object (`k8s\0…`) is converted to JSON if the table has its kind |
//! | `Verbs`, `ExtraValue` | a message around strings | the array; absent is `null` |
//! | `JSONSchemaPropsOr…` | both alternatives | the one that is set |
//! | bytes | bytes | base64 (raw to a target that asks serde for bytes) |
//! | floats | IEEE 754 | a number; a whole one is an integer, like JSON text without a decimal point |
//!
//! # Accepted input
//!
//! Everything that protobuf allows, although Go writes less: fields in any order, repeated numbers packed or not, a
//! singular field several times (the last one wins, messages are merged), map entries without key or value. Serde
//! cannot retract a member, so a message is read in wire order. A message that is not in Go's order is sorted, which
//! allocates, and read again. A value that borrows from the bytes cannot be read that way and fails with
//! [`Error::Unordered`].
//!
//! A field whose number is not in the table has no JSON name, so a value without it would be incomplete. This is
//! [`Error::UnknownField`], unless the caller [skips](UnknownFields::Skip) such fields. A field that is in the table
//! but not in the target type is skipped, as in JSON.
//!
//! Other intentional errors: a time outside the years 0 to 9999, which RFC 3339 cannot express; embedded text that is
//! not JSON; an `IntOrString` that is neither. A quantity is passed on unchanged: a Go server only writes canonical
//! ones.
//!
//! Nesting is limited by [`Limits::nesting_max`], and memory by the input: size hints count existing elements.

mod cursor;
mod key;
mod level;
mod list;
mod members;
mod order;
mod shape;
mod value;

use std::cell::Cell;

use serde::de::{DeserializeOwned, Visitor};
use serde::forward_to_deserialize_any;

use self::level::{Level, What};
use self::value::ValueDeserializer;
use crate::error::{Error, Result};
use crate::limits::{Limit, Limits};
use crate::proto::WireValue;
use crate::schema::{Message, Schema, Shape};

/// Decodes a message as `T`, without apiVersion and kind.
///
/// # Errors
/// If the bytes are not a valid message, contain a field that is not in the table, or do not match `T`.
pub fn from_slice<T: DeserializeOwned>(bytes: &[u8], message: &'static Message) -> Result<T> {
    Deserializer::new(bytes, message).read()
}

/// Whether a message is the zero value of its Go type, for `omitzero`.
pub(crate) fn is_zero(message: &'static Message, bytes: &[u8]) -> Result<bool> {
    let deserializer = Deserializer::new(bytes, message).unknown_fields(UnknownFields::Skip);
    match shape::is_zero(&deserializer.context, message, WireValue::Bytes(bytes)) {
        Err(Error::Unordered) => {
            shape::is_zero(&deserializer.context, message, WireValue::Bytes(&deserializer.ordered()?))
        }
        known => known,
    }
}

/// A [`serde::Deserializer`] over the bytes of one message (without envelope).
///
/// ```
/// use kube_wire::internals::de::Deserializer;
/// use kube_wire::schema::Schema;
/// use serde::Deserialize;
///
/// let message = Schema::builtin().kind("v1", "ConfigMap").expect("a built-in kind");
/// // metadata { name: "a" }, data { "k": "v" }
/// let bytes = b"\x0a\x03\x0a\x01a\x12\x06\x0a\x01k\x12\x01v";
///
/// let deserializer = Deserializer::new(bytes, message).type_meta("v1", "ConfigMap");
/// let value = serde_json::Value::deserialize(deserializer)?;
/// assert_eq!(
///     value,
///     serde_json::json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "v"}}),
/// );
/// # Ok::<(), kube_wire::Error>(())
/// ```
#[derive(Clone)]
pub struct Deserializer<'de> {
    bytes: &'de [u8],
    message: &'static Message,
    context: Context<'de>,
    object_bytes_max: usize,
}

/// Omits the content, which may be that of a Secret.
impl std::fmt::Debug for Deserializer<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Deserializer")
            .field("context", &self.context)
            .field("bytes", &self.bytes.len())
            .finish_non_exhaustive()
    }
}

/// What to do with a field that is not in the schema table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum UnknownFields {
    /// Return [`Error::UnknownField`]: the value would be incomplete, and writing it back would erase the field.
    #[default]
    Reject,
    /// Skip it: the value is never written back, or its writer cannot know the field either.
    Skip,
}

/// State of one object.
#[derive(Clone, Debug)]
struct Context<'de> {
    schema: &'static Schema,
    unknown: UnknownFields,
    nesting_max: u32,
    /// apiVersion and kind, which are in the envelope and not in the message. Empty ones are not shown.
    api_version: &'de str,
    kind: &'de str,
    /// The first reason why the value may be wrong although the target type accepted it: a type may swallow errors.
    defect: Cell<Option<Defect>>,
}

/// Why a decoded value may be wrong.
#[derive(Clone, Copy, Debug)]
enum Defect {
    /// The fields of a message are not in order.
    Unordered,
    /// A field of this message, with this number, is not in the table.
    Unknown(&'static Message, u32),
}

// === impl Deserializer ===

impl<'de> Deserializer<'de> {
    /// Decodes the bytes of `message`, with the default nesting limit and no size limit, because they are already in
    /// memory.
    pub fn new(bytes: &'de [u8], message: &'static Message) -> Self {
        let (schema, unknown, nesting_max) = (Schema::builtin(), UnknownFields::default(), 0);
        let (api_version, kind, defect) = ("", "", Cell::new(None));
        let context = Context { schema, unknown, nesting_max, api_version, kind, defect };
        Self { bytes, message, context, object_bytes_max: 0 }
            .limits(Limits::DEFAULT.object_bytes_max(usize::MAX))
    }

    /// Shows these as `apiVersion` and `kind`, before all other members, if the kind has these members (`WatchEvent`
    /// does not).
    #[must_use]
    pub fn type_meta(mut self, api_version: &'de str, kind: &'de str) -> Self {
        if self.message.type_meta {
            (self.context.api_version, self.context.kind) = (api_version, kind);
        }
        self
    }

    /// What to do with fields that are not in the table. Default: [`UnknownFields::Reject`].
    #[must_use]
    pub fn unknown_fields(mut self, unknown: UnknownFields) -> Self {
        self.context.unknown = unknown;
        self
    }

    /// Replaces the default limits.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.context.nesting_max = limits.nesting_max.try_into().unwrap_or(u32::MAX);
        self.object_bytes_max = limits.object_bytes_max;
        self
    }

    /// Decodes the message as `T`, with its fields in any order.
    ///
    /// # Errors
    /// If the bytes are not a valid message, or do not match `T`.
    pub fn read<T: DeserializeOwned>(self) -> Result<T> {
        T::deserialize(self.clone()).or_else(|error| self.read_ordered(error))
    }

    /// Sorts the message and decodes it again, if its order caused the error: any error can result from a field that
    /// was shown as absent before it was found later.
    #[cold]
    fn read_ordered<T: DeserializeOwned>(self, error: Error) -> Result<T> {
        match self.ordered() {
            Ok(ordered) if ordered != self.bytes => T::deserialize(Deserializer { bytes: &ordered, ..self }),
            Err(why) if error == Error::Unordered => Err(why),
            _ => Err(error),
        }
    }

    #[cold]
    fn ordered(&self) -> Result<Vec<u8>> {
        order::ordered(&self.context, self.message, &[self.bytes], 0)
    }

    #[inline]
    fn value<T>(self, read: impl FnOnce(ValueDeserializer<'_, '_, 'de>) -> Result<T>) -> Result<T> {
        let (found, allowed) = (self.bytes.len(), self.object_bytes_max);
        if found > allowed {
            return Err(Error::Limit { limit: Limit::ObjectBytes, found, allowed });
        }
        let what = match self.message.shape {
            Shape::Object => What::Root(self.message),
            _ => What::Message(self.message),
        };
        let value = read(ValueDeserializer(&mut Level::of(
            &self.context,
            self.message,
            what,
            WireValue::Bytes(self.bytes),
        )));
        self.context.checked(value)
    }
}

impl<'de> serde::Deserializer<'de> for Deserializer<'de> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        self.value(|value| value.deserialize_any(visitor))
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        self.value(|value| value.deserialize_option(visitor))
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, name: &'static str, visitor: V) -> Result<V::Value> {
        self.value(|value| value.deserialize_newtype_struct(name, visitor))
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value> {
        self.value(|value| value.deserialize_enum(name, variants, visitor))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct map struct identifier ignored_any
    }
}

// === impl Context ===

impl<'de> Context<'de> {
    /// For an object nested in the object.
    fn within(&self, api_version: &'de str, kind: &'de str) -> Self {
        Self { api_version, kind, ..self.clone() }
    }

    /// The value, unless a defect was found.
    #[inline]
    fn checked<T>(&self, value: Result<T>) -> Result<T> {
        match self.defect.get() {
            None => value,
            Some(defect) => Err(self.error(defect)),
        }
    }

    #[cold]
    fn unordered(&self) -> Error {
        self.found(Defect::Unordered)
    }

    /// Handles a field that is not in the table.
    #[cold]
    fn unknown(&self, message: &'static Message, number: u32) -> Result<()> {
        match self.unknown {
            UnknownFields::Skip => Ok(()),
            UnknownFields::Reject => Err(self.found(Defect::Unknown(message, number))),
        }
    }

    fn found(&self, defect: Defect) -> Error {
        let first = self.defect.get().unwrap_or(defect);
        self.defect.set(Some(first));
        self.error(first)
    }

    fn error(&self, defect: Defect) -> Error {
        match defect {
            Defect::Unordered => Error::Unordered,
            Defect::Unknown(message, number) => {
                let table = self.schema.kubernetes_version();
                Error::UnknownField { message: message.name, number, table }
            }
        }
    }
}

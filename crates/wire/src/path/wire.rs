//! Protobuf values and fields, and their JSON equivalents.

use std::borrow::Cow;
use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserializer as _;
use serde::de::Visitor;

use super::value::{FieldValue, Fragment};
use crate::de::Deserializer;
use crate::envelope;
use crate::error::{Error, Result};
use crate::json::Value;
use crate::proto::{Reader, WireType, WireValue, packable};
use crate::schema::{Message, Scalar, Schema, Shape};

const WHAT: &str = "protobuf message";

/// The elements of a list: all fields of a message with one number. Ends after the first error.
#[derive(Clone, Debug)]
pub(super) struct Items<'a> {
    reader: Reader<'a>,
    number: u32,
    /// The wire type of elements, if many may be packed in one field. Go never packs, other writers may.
    packable: Option<WireType>,
    packed: Reader<'a>,
}

/// The JSON equivalent of a value.
#[inline]
pub(super) fn json_value(wire: WireValue<'_>, scalar: Scalar) -> Result<FieldValue<'_>> {
    Ok(match scalar {
        Scalar::String => FieldValue::String(Cow::Borrowed(wire.str()?)),
        Scalar::Bool => FieldValue::Bool(wire.varint()? != 0),
        Scalar::Int32 => FieldValue::Int(i64::from(wire.varint()? as i32)),
        Scalar::Int64 => FieldValue::Int(wire.varint()?.cast_signed()),
        Scalar::Uint32 => FieldValue::Int(i64::from(wire.varint()? as u32)),
        Scalar::Uint64 => FieldValue::from_unsigned(wire.varint()?),
        Scalar::Float | Scalar::Double => FieldValue::from_float(wire.float()?)?,
        Scalar::Bytes => FieldValue::String(Cow::Owned(STANDARD.encode(wire.bytes()?))),
        Scalar::Message(at) => special(Schema::builtin().message_at(at), wire.bytes()?)?,
    })
}

// === impl Items ===

impl<'a> Items<'a> {
    #[inline]
    pub(super) fn new(message: &'a [u8], number: u32, scalar: Scalar) -> Self {
        let packable = packable(scalar);
        Self { reader: Reader::new(message), number, packable, packed: Reader::new(&[]) }
    }

    fn advance(&mut self) -> Result<Option<WireValue<'a>>> {
        loop {
            if let (Some(wire_type), false) = (self.packable, self.packed.is_empty()) {
                return WireValue::read(&mut self.packed, wire_type).map(Some);
            }
            let Some(tag) = self.reader.tag()? else { return Ok(None) };
            if tag.number != self.number {
                self.reader.skip(tag.wire_type)?;
            } else if tag.wire_type == WireType::Len && self.packable.is_some() {
                self.packed = Reader::new(self.reader.bytes()?);
            } else {
                return WireValue::read(&mut self.reader, tag.wire_type).map(Some);
            }
        }
    }
}

impl<'a> Iterator for Items<'a> {
    type Item = Result<WireValue<'a>>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let item = self.advance();
        if item.is_err() {
            (self.reader, self.packed) = (Reader::new(&[]), Reader::new(&[]));
        }
        item.transpose()
    }
}

/// The last field with this number, which wins if the field is singular.
#[inline]
pub(super) fn last(message: &[u8], number: u32) -> Result<Option<WireValue<'_>>> {
    let mut found = None;
    let mut reader = Reader::new(message);
    while let Some(tag) = reader.tag()? {
        if tag.number == number {
            found = Some(WireValue::read(&mut reader, tag.wire_type)?);
        } else {
            reader.skip(tag.wire_type)?;
        }
    }
    Ok(found)
}

/// The message in this field.
///
/// Protobuf allows splitting a message over several fields, but no writer of Kubernetes objects does. Supporting it
/// would require merging the parts, so it is an error.
#[inline]
pub(super) fn single_message(message: &[u8], number: u32) -> Result<Option<&[u8]>> {
    let mut found = None;
    let mut reader = Reader::new(message);
    while let Some(tag) = reader.tag()? {
        if tag.number != number {
            reader.skip(tag.wire_type)?;
        } else if found.replace(reader.expect_bytes(tag)?).is_some() {
            return Err(Error::malformed(WHAT, reader.position(), "message split into several fields"));
        }
    }
    Ok(found)
}

/// Key and value of an entry of a map.
#[inline]
pub(super) fn entry<'a>(entry: &'a [u8], scalar: Scalar) -> Result<(&'a str, WireValue<'a>)> {
    let (mut key, mut value) = ("", WireValue::zero(scalar));
    let mut reader = Reader::new(entry);
    while let Some(tag) = reader.tag()? {
        match tag.number {
            1 => key = reader.expect_string(tag)?,
            2 => value = WireValue::read(&mut reader, tag.wire_type)?,
            _ => reader.skip(tag.wire_type)?,
        }
    }
    Ok((key, value))
}

/// The text in a [`Shape::RawJson`] message; empty if absent.
pub(super) fn raw_json(message: &[u8]) -> Result<&[u8]> {
    last(message, 1)?.map_or(Ok(&[]), WireValue::bytes)
}

/// The JSON equivalent of a message.
fn special<'a>(message: &'static Message, bytes: &'a [u8]) -> Result<FieldValue<'a>> {
    let list = |number: u32| -> Result<Option<FieldValue<'a>>> {
        let Some(field) = message.field(number) else { return Ok(None) };
        Ok(last(bytes, number)?.map(|_| Fragment::list(bytes, number, field.ty.scalar)))
    };
    let schema = |number: u32| -> Result<Option<FieldValue<'a>>> {
        let Some(schema) = message.field(number).and_then(|field| field.ty.message(Schema::builtin())) else {
            return Ok(None);
        };
        Ok(single_message(bytes, number)?.map(|bytes| Fragment::message(schema, bytes)))
    };
    match message.shape {
        Shape::Object => Ok(Fragment::message(message, bytes)),
        Shape::Time | Shape::MicroTime | Shape::Duration | Shape::Quantity | Shape::IntOrString => {
            Deserializer::new(bytes, message).deserialize_any(Scalars)
        }
        Shape::RawJson => match raw_json(bytes)? {
            [] => Ok(FieldValue::Null),
            json if json.starts_with(&envelope::MAGIC) => Ok(Fragment::message(message, bytes)),
            json => FieldValue::from_json(Value::new(json)),
        },
        Shape::StringList => Ok(Fragment::list(bytes, 1, Scalar::String)),
        Shape::SchemaOrBool => match schema(2)? {
            Some(schema) => Ok(schema),
            None => json_value(last(bytes, 1)?.unwrap_or(WireValue::NOTHING), Scalar::Bool),
        },
        Shape::SchemaOrArray | Shape::SchemaOrStrings => match list(2)? {
            Some(list) => Ok(list),
            None => Ok(schema(1)?.unwrap_or(FieldValue::Null)),
        },
    }
}

/// Converts messages that are scalars in JSON, using the deserializer.
struct Scalars;

impl<'de> Visitor<'de> for Scalars {
    type Value = FieldValue<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a scalar")
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(FieldValue::Null)
    }

    fn visit_i64<E>(self, value: i64) -> Result<Self::Value, E> {
        Ok(FieldValue::Int(value))
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(FieldValue::String(Cow::Borrowed(text)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(FieldValue::String(Cow::Owned(text.to_owned())))
    }
}

//! Messages that are not JSON objects of their fields: times, quantities, numbers or strings, embedded JSON.
//!
//! [`resolve`] interprets such a message without the visitor, so it is compiled only once.

use super::Context;
use super::cursor::{Cursor, checked};
use crate::error::{Error, Result};
use crate::proto::{Reader, Tag, WireValue};
use crate::schema::{Message, Scalar, Shape};
use crate::text::duration::{self, DurationText};
use crate::text::time::{Precision, TimeText, Timestamp};

/// The JSON form of a special message.
pub(super) enum Special<'de> {
    Null,
    Bool(bool),
    Int(i64),
    Text(&'de str),
    Time(TimeText),
    Duration(DurationText),
    Json(&'de [u8]),
    Message(&'static Message, WireValue<'de>),
    Root {
        message: &'static Message,
        raw: WireValue<'de>,
        api_version: &'de str,
        kind: &'de str,
    },
    /// A list in this field of the message.
    List {
        number: u32,
        scalar: Scalar,
    },
}

/// The first bytes of an object in its protobuf envelope.
const ENVELOPE: &[u8] = b"k8s\0";

/// Interprets a message with a special shape.
pub(super) fn resolve<'de>(
    context: &Context<'_>,
    message: &'static Message,
    raw: WireValue<'de>,
) -> Result<Special<'de>> {
    let fields = Fields { context, message };
    match message.shape {
        Shape::Object => Ok(Special::Message(message, raw)),
        Shape::Time => time(fields, raw, Precision::Seconds),
        Shape::MicroTime => time(fields, raw, Precision::Micros),
        Shape::Duration => Ok(Special::Duration(duration::format(fields.last_varint(raw, 1)? as i64))),
        Shape::Quantity => match quantity(fields, raw)? {
            Some(text) => Ok(Special::Text(utf8(text)?)),
            None => Ok(Special::Text("0")),
        },
        Shape::IntOrString => match fields.last_varint(raw, 1)? {
            0 => Ok(Special::Int(i64::from(fields.last_varint(raw, 2)? as i32))),
            1 => Ok(Special::Text(utf8(fields.last_bytes(raw, 3)?.unwrap_or_default())?)),
            _ => Err(Error::malformed("IntOrString", 0, "neither a number nor a string")),
        },
        Shape::RawJson => match fields.last_bytes(raw, 1)? {
            None | Some([]) => Ok(Special::Null),
            Some(object) if object.starts_with(ENVELOPE) => envelope(context, &object[ENVELOPE.len()..]),
            Some(json) => Ok(Special::Json(json)),
        },
        Shape::StringList => Ok(Special::List { number: 1, scalar: Scalar::String }),
        Shape::SchemaOrBool => match alternative(context, message, raw, None, 2)? {
            Special::Null => Ok(Special::Bool(fields.last_varint(raw, 1)? != 0)),
            schema => Ok(schema),
        },
        Shape::SchemaOrArray | Shape::SchemaOrStrings => alternative(context, message, raw, Some(2), 1),
    }
}

/// Whether the message is `null` in JSON. A malformed one is not, and fails when it is read.
pub(super) fn is_null(context: &Context<'_>, message: &'static Message, raw: WireValue<'_>) -> bool {
    let fields = Fields { context, message };
    let lacks = |number| fields.last_bytes(raw, number).is_ok_and(|found| found.is_none());
    match message.shape {
        Shape::Time => instant(fields, raw, Precision::Seconds).is_ok_and(|instant| instant.is_none()),
        Shape::MicroTime => instant(fields, raw, Precision::Micros).is_ok_and(|instant| instant.is_none()),
        Shape::RawJson => fields.last_bytes(raw, 1).is_ok_and(|json| {
            let json = json.unwrap_or_default().trim_ascii();
            json.is_empty() || json == b"null"
        }),
        Shape::SchemaOrArray | Shape::SchemaOrStrings => lacks(1) && lacks(2),
        Shape::Object
        | Shape::Duration
        | Shape::Quantity
        | Shape::IntOrString
        | Shape::StringList
        | Shape::SchemaOrBool => false,
    }
}

/// Whether a message that is a list is empty, for `omitempty`.
pub(super) fn is_empty_list(context: &Context<'_>, message: &'static Message, raw: WireValue<'_>) -> bool {
    Fields { context, message }.last_bytes(raw, 1).is_ok_and(|found| found.is_none())
}

/// Whether a message of raw bytes has the field, even if empty.
pub(super) fn has_raw(message: &[u8]) -> bool {
    last_bytes(WireValue::Bytes(message), 1).is_ok_and(|found| found.is_some())
}

/// Whether the message is the zero value of its Go type, for `omitzero`.
pub(super) fn is_zero(context: &Context<'_>, message: &'static Message, raw: WireValue<'_>) -> Result<bool> {
    match message.shape {
        Shape::Time | Shape::MicroTime => return Ok(is_null(context, message, raw)),
        Shape::Quantity => {
            return Ok(matches!(Fields { context, message }.last_bytes(raw, 1)?, None | Some(b"0")));
        }
        _ => {}
    }
    let mut cursor = Cursor::over(raw, message, context)?;
    let mut raw = WireValue::NOTHING;
    loop {
        let tag = cursor.tag();
        let number = tag.number();
        if !cursor.next(tag, &mut raw) {
            break;
        }
        let Some(field) = message.field(number) else { continue };
        let zero = !field.pointer
            && match field.ty.message(context.schema) {
                // A nested message is part of the struct. Go's structs are finite, so the recursion ends.
                Some(inner) if field.ty.cardinality == crate::schema::Cardinality::One => {
                    is_zero(context, inner, raw)?
                }
                Some(_) => false,
                None => field.ty.cardinality == crate::schema::Cardinality::One && raw.is_zero(),
            };
        if !zero {
            return Ok(false);
        }
    }
    Ok(true)
}

fn quantity<'de>(fields: Fields<'_, '_>, raw: WireValue<'de>) -> Result<Option<&'de [u8]>> {
    match checked::text(raw.bytes()?) {
        Some(text) => Ok(Some(text)),
        None => fields.last_bytes(raw, 1),
    }
}

fn time<'de>(fields: Fields<'_, '_>, raw: WireValue<'de>, precision: Precision) -> Result<Special<'de>> {
    match instant(fields, raw, precision)? {
        None => Ok(Special::Null),
        Some(instant) => match instant.format(precision) {
            Some(text) => Ok(Special::Time(text)),
            None => Err(Error::malformed("time", 0, "year not between 0 and 9999")),
        },
    }
}

/// The instant, or `None` if it is not set: absent, or Go's zero time.
fn instant(fields: Fields<'_, '_>, raw: WireValue<'_>, precision: Precision) -> Result<Option<Timestamp>> {
    let usual = match raw {
        WireValue::Bytes([]) => return Ok(None),
        WireValue::Bytes(bytes) => checked::time(bytes),
        _ => None,
    };
    let (seconds, nanos) = match usual {
        Some(time) => time,
        None => odd_time(fields, raw)?,
    };
    let instant = Timestamp::from_proto(seconds, nanos, precision);
    Ok((instant != Timestamp::ZERO).then_some(instant))
}

/// A time that is not in the usual form.
#[cold]
fn odd_time(fields: Fields<'_, '_>, raw: WireValue<'_>) -> Result<(i64, i32)> {
    Ok((fields.last_varint(raw, 1)? as i64, fields.last_varint(raw, 2)? as i32))
}

/// A message that contains either a list or another message, or nothing.
fn alternative<'de>(
    context: &Context<'_>,
    message: &'static Message,
    raw: WireValue<'de>,
    list: Option<u32>,
    single: u32,
) -> Result<Special<'de>> {
    let mut cursor = Cursor::over(raw, message, context)?;
    let mut found = Special::Null;
    let mut raw = WireValue::NOTHING;
    loop {
        let tag = cursor.tag();
        let number = tag.number();
        if !cursor.next(tag, &mut raw) {
            break;
        }
        let Some(field) = message.field(number) else { continue };
        if Some(number) == list {
            return Ok(Special::List { number, scalar: field.ty.scalar });
        }
        if number == single
            && let Some(message) = field.ty.message(context.schema)
        {
            found = Special::Message(message, raw);
        }
    }
    Ok(found)
}

/// A nested object in protobuf: `Unknown{typeMeta = 1 {apiVersion = 1, kind = 2}, raw = 2}`.
fn envelope<'de>(context: &Context<'_>, unknown: &'de [u8]) -> Result<Special<'de>> {
    let unknown = WireValue::Bytes(unknown);
    let type_meta = WireValue::Bytes(last_bytes(unknown, 1)?.unwrap_or_default());
    let api_version = utf8(last_bytes(type_meta, 1)?.unwrap_or_default())?;
    let kind = utf8(last_bytes(type_meta, 2)?.unwrap_or_default())?;
    let Some(message) = context.schema.kind(api_version, kind) else {
        return Err(Error::UnknownKind { api_version: api_version.to_owned(), kind: kind.to_owned() });
    };
    let raw = WireValue::Bytes(last_bytes(unknown, 2)?.unwrap_or_default());
    Ok(Special::Root { message, raw, api_version, kind })
}

/// The fields of a special message.
#[derive(Clone, Copy)]
struct Fields<'c, 'x> {
    context: &'c Context<'x>,
    message: &'static Message,
}

impl Fields<'_, '_> {
    fn last_bytes<'de>(self, raw: WireValue<'de>, wanted: u32) -> Result<Option<&'de [u8]>> {
        last(raw, wanted, |number| self.check(number))?.map(|raw| raw.bytes()).transpose()
    }

    fn last_varint(self, raw: WireValue<'_>, wanted: u32) -> Result<u64> {
        last(raw, wanted, |number| self.check(number))?.map_or(Ok(0), |raw| raw.varint())
    }

    fn check(self, number: u32) -> Result<()> {
        match self.message.index_of(number) {
            Some(_) => Ok(()),
            None => self.context.unknown(self.message, number),
        }
    }
}

/// The last field with this number, if any; `other` handles all other fields.
fn last<'de>(
    raw: WireValue<'de>,
    wanted: u32,
    other: impl Fn(u32) -> Result<()>,
) -> Result<Option<WireValue<'de>>> {
    let mut last = None;
    let mut reader = Reader::new(raw.bytes()?);
    while let Some(Tag { number, wire_type }) = reader.tag()? {
        if number == wanted {
            last = Some(WireValue::read(&mut reader, wire_type)?);
        } else {
            other(number)?;
            reader.skip(wire_type)?;
        }
    }
    Ok(last)
}

/// For messages that are not in the table: envelopes, and raw bytes of unknown type.
fn last_bytes<'de>(raw: WireValue<'de>, wanted: u32) -> Result<Option<&'de [u8]>> {
    last(raw, wanted, |_| Ok(()))?.map(|raw| raw.bytes()).transpose()
}

fn utf8(bytes: &[u8]) -> Result<&str> {
    std::str::from_utf8(bytes).map_err(|_| Error::malformed("protobuf field", 0, "string is not UTF-8"))
}

//! Sorts the fields of a message into the order in which Go writes them.
//!
//! Protobuf allows any order, list elements apart from each other, and repeated singular fields: the last one wins,
//! and messages are merged, which equals reading their fields one after the other. No known server does this, so speed
//! does not matter: everything is copied once per level of nesting. Only finished output is held while descending, so
//! memory stays proportional to the input at any depth.

use super::Context;
use super::level::enter;
use super::shape::{self, Special};
use crate::envelope::Envelope;
use crate::error::{Error, Result};
use crate::proto::{Reader, Tag, WireType, WireValue, Writer};
use crate::schema::{Cardinality, Message, Shape};

/// One field: its tag and its encoded value (without the length).
struct Part<'a> {
    number: u32,
    wire_type: WireType,
    bytes: &'a [u8],
}

/// Merges the bytes into one sorted message, including all messages in it.
pub(super) fn ordered(
    context: &Context<'_>,
    message: &'static Message,
    pieces: &[&[u8]],
    depth: u32,
) -> Result<Vec<u8>> {
    // Other messages are not JSON objects, and contain an object before they contain themselves.
    let depth = if message.shape == Shape::Object { enter(context, depth)? } else { depth };
    let mut fields = Vec::new();
    for piece in pieces {
        Part::all(piece, &mut fields)?;
    }
    // Stable: the elements of a list keep their order.
    fields.sort_by_key(|part| part.number);
    let mut out = Vec::new();
    for parts in fields.chunk_by(|a, b| a.number == b.number) {
        let number = parts[0].number;
        let field = message.field(number);
        let inner = field.and_then(|field| field.ty.message(context.schema));
        let mut messages = Writer::new(&mut out);
        match (field.map(|field| field.ty.cardinality), inner) {
            (_, Some(_)) if parts.iter().any(|part| part.wire_type != WireType::Len) => {
                return Err(Error::malformed("protobuf field", 0, "expected a message"));
            }
            (Some(Cardinality::One), Some(inner)) => {
                let pieces = parts.iter().map(|part| part.bytes).collect::<Vec<_>>();
                messages.bytes_field(number, &within(context, inner, &pieces, depth)?);
            }
            (Some(Cardinality::List), Some(inner)) => {
                for part in parts {
                    messages.bytes_field(number, &within(context, inner, &[part.bytes], depth)?);
                }
            }
            (Some(Cardinality::Map), Some(inner)) => {
                for part in parts {
                    messages.bytes_field(number, &entry(context, inner, part.bytes, depth)?);
                }
            }
            (Some(Cardinality::One), None) => parts[parts.len() - 1].write(&mut out),
            _ => parts.iter().for_each(|part| part.write(&mut out)),
        }
    }
    Ok(out)
}

/// A nested message, or an object in its envelope inside raw bytes.
fn within(context: &Context<'_>, message: &'static Message, pieces: &[&[u8]], depth: u32) -> Result<Vec<u8>> {
    if message.shape == Shape::RawJson
        && let Some(last) = pieces.iter().rfind(|piece| shape::has_raw(piece))
        && let Special::Root { message, raw, api_version, kind } =
            shape::resolve(context, message, WireValue::Bytes(last))?
    {
        let object = ordered(context, message, &[raw.bytes()?], depth)?;
        let (mut enveloped, mut out) = (Vec::new(), Vec::new());
        Envelope { api_version, kind, raw: &object }.seal(&mut enveloped);
        Writer::new(&mut out).bytes_field(1, &enveloped);
        return Ok(out);
    }
    ordered(context, message, pieces, depth)
}

/// A map entry: the last key and the last value win.
fn entry(context: &Context<'_>, message: &'static Message, bytes: &[u8], depth: u32) -> Result<Vec<u8>> {
    let mut parts = Vec::new();
    Part::all(bytes, &mut parts)?;
    let last = |number| parts.iter().rfind(|part| part.number == number);
    let mut out = Vec::new();
    last(1).inspect(|key| key.write(&mut out));
    match last(2) {
        Some(value) if value.wire_type == WireType::Len => {
            Writer::new(&mut out).bytes_field(2, &within(context, message, &[value.bytes], depth)?);
        }
        // The reader reports what is wrong with it.
        Some(value) => value.write(&mut out),
        None => {}
    }
    Ok(out)
}

impl<'a> Part<'a> {
    /// Appends the fields of a message, in wire order.
    fn all(bytes: &'a [u8], parts: &mut Vec<Self>) -> Result<()> {
        let mut reader = Reader::new(bytes);
        while let Some(Tag { number, wire_type }) = reader.tag()? {
            let start = reader.position();
            let bytes = match wire_type {
                WireType::Len => reader.bytes()?,
                _ => {
                    reader.skip(wire_type)?;
                    &bytes[start..reader.position()]
                }
            };
            parts.push(Self { number, wire_type, bytes });
        }
        Ok(())
    }

    fn write(&self, out: &mut Vec<u8>) {
        let mut writer = Writer::new(out);
        if self.wire_type == WireType::Len {
            return writer.bytes_field(self.number, self.bytes);
        }
        writer.tag(self.number, self.wire_type);
        out.extend_from_slice(self.bytes);
    }
}

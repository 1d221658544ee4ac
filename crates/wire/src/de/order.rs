//! Puts the fields of a message in order: as Go would have written it.
//!
//! Protobuf allows any order, the elements of a list apart from each other, and singular fields repeated: the last one
//! counts, and messages are merged, which is what one gets by reading their fields one after the other. No server has been
//! seen to do any of this, so it may take its time: everything is copied once for each level of nesting. But only what is
//! done is held while it goes deeper, so that memory stays in proportion to the input however deep that is.

use super::Context;
use super::level::enter;
use super::shape::{self, Special};
use crate::envelope::Envelope;
use crate::error::{Error, Result};
use crate::proto::{Reader, Tag, WireType, WireValue, Writer};
use crate::schema::{Cardinality, Message, Shape};

/// One field: its tag, and its value as it is written (without the length).
struct Part<'a> {
    number: u32,
    wire_type: WireType,
    bytes: &'a [u8],
}

/// The message that these bytes are together, in order, and all those within it.
pub(super) fn ordered(
    context: &Context<'_>,
    message: &'static Message,
    pieces: &[&[u8]],
    depth: u32,
) -> Result<Vec<u8>> {
    // Other messages are no object in JSON, and hold one before they hold themselves.
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
                return Err(Error::malformed("protobuf field", 0, "a message was expected"));
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

/// A message inside of another; or an object inside of raw bytes, in its envelope.
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

/// A map's entry: of key and value the last ones count.
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
        // Whoever reads it says what is wrong with it.
        Some(value) => value.write(&mut out),
        None => {}
    }
    Ok(out)
}

impl<'a> Part<'a> {
    /// Adds the fields of a message, in the order of the bytes.
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

//! Walks over the fields of one message in ascending order, whatever the order on the wire.
//!
//! Go writes fields in ascending order, each singular one once and the elements of a list together, so a message can be
//! handed to serde while it is read. Protobuf allows more: any order, singular fields repeated (the last one counts, or
//! for messages all of them merged). Serde cannot take a member back once it is out, so each message is looked over
//! first, headers only; the rare one that is not in order is sorted into a list of its fields.

use crate::error::{Error, Result};
use crate::proto::{Reader, Tag, WireType};
use crate::schema::{Cardinality, Message, Scalar};

/// A field's value as it stands on the wire.
#[derive(Clone, Debug)]
pub(super) enum Raw<'de> {
    Varint(u64),
    Fixed32(u32),
    Fixed64(u64),
    Bytes(&'de [u8]),
    /// A message that was given in several parts, which count as one.
    Parts(Box<[&'de [u8]]>),
}

/// The fields of a message, ascending by number.
#[derive(Debug)]
pub(super) enum Cursor<'de> {
    /// As they are on the wire.
    Wire(Reader<'de>),
    /// Sorted, in reverse: the next one is last.
    Sorted(Vec<(u32, Raw<'de>)>),
}

// === impl Raw ===

impl<'de> Raw<'de> {
    /// The zero value of a type: what a field that is absent stands for.
    pub(super) fn zero(scalar: Scalar) -> Self {
        match scalar {
            Scalar::Bool | Scalar::Int32 | Scalar::Int64 | Scalar::Uint32 | Scalar::Uint64 => Self::Varint(0),
            Scalar::Float => Self::Fixed32(0),
            Scalar::Double => Self::Fixed64(0),
            Scalar::String | Scalar::Bytes | Scalar::Message(_) => Self::Bytes(&[]),
        }
    }

    #[inline]
    pub(super) fn read(reader: &mut Reader<'de>, wire_type: WireType) -> Result<Self> {
        Ok(match wire_type {
            WireType::Len => Self::Bytes(reader.bytes()?),
            WireType::Varint => Self::Varint(reader.varint()?),
            WireType::Fixed64 => Self::Fixed64(reader.fixed64()?),
            WireType::Fixed32 => Self::Fixed32(reader.fixed32()?),
        })
    }

    #[inline]
    pub(super) fn varint(&self) -> Result<u64> {
        match *self {
            Self::Varint(value) => Ok(value),
            _ => Err(mismatch("an integer was expected")),
        }
    }

    #[inline]
    pub(super) fn bytes(&self) -> Result<&'de [u8]> {
        match *self {
            Self::Bytes(bytes) => Ok(bytes),
            _ => Err(mismatch("a string was expected")),
        }
    }

    #[inline]
    pub(super) fn str(&self) -> Result<&'de str> {
        std::str::from_utf8(self.bytes()?).map_err(|_| mismatch("string is not UTF-8"))
    }

    /// The parts of a message, of which there is nearly always one.
    #[inline]
    pub(super) fn parts(&self) -> Result<&[&'de [u8]]> {
        match self {
            Self::Bytes(bytes) => Ok(std::slice::from_ref(bytes)),
            Self::Parts(parts) => Ok(parts),
            _ => Err(mismatch("a message was expected")),
        }
    }

    /// Whether this is the zero value of a type that is no message.
    #[inline]
    pub(super) fn is_zero(&self) -> bool {
        match self {
            Self::Varint(value) | Self::Fixed64(value) => *value == 0,
            Self::Fixed32(value) => *value == 0,
            Self::Bytes(bytes) => bytes.is_empty(),
            Self::Parts(_) => false,
        }
    }
}

// === impl Cursor ===

impl<'de> Cursor<'de> {
    /// Looks the message over and stands before its first field.
    #[inline]
    pub(super) fn open(raw: &Raw<'de>, message: &Message) -> Result<Self> {
        match raw {
            Raw::Bytes(bytes) if is_in_order(bytes, message)? => Ok(Self::Wire(Reader::new(bytes))),
            _ => sorted(raw.parts()?, message).map(Self::Sorted),
        }
    }

    /// The next field.
    #[inline]
    pub(super) fn next(&mut self) -> Result<Option<(u32, Raw<'de>)>> {
        match self {
            Self::Wire(reader) => match reader.tag()? {
                Some(Tag { number, wire_type }) => Ok(Some((number, Raw::read(reader, wire_type)?))),
                None => Ok(None),
            },
            Self::Sorted(fields) => Ok(fields.pop()),
        }
    }

    /// The next field if it has this number: the next element of a list.
    #[inline]
    pub(super) fn next_of(&mut self, wanted: u32) -> Result<Option<Raw<'de>>> {
        match self {
            Self::Wire(reader) => {
                let mut ahead = reader.clone();
                match ahead.tag()? {
                    Some(Tag { number, wire_type }) if number == wanted => {
                        let raw = Raw::read(&mut ahead, wire_type)?;
                        *reader = ahead;
                        Ok(Some(raw))
                    }
                    _ => Ok(None),
                }
            }
            Self::Sorted(fields) => Ok(fields.pop_if(|(number, _)| *number == wanted).map(|(_, raw)| raw)),
        }
    }

    /// How many fields with this number come next. Counted from what is there, so a hint made of it cannot lie.
    pub(super) fn count(&self, wanted: u32) -> usize {
        match self {
            Self::Wire(reader) => {
                let mut ahead = reader.clone();
                let mut count = 0;
                while let Ok(Some(Tag { number, wire_type })) = ahead.tag()
                    && number == wanted
                    && ahead.skip(wire_type).is_ok()
                {
                    count += 1;
                }
                count
            }
            Self::Sorted(fields) => fields.iter().rev().take_while(|(number, _)| *number == wanted).count(),
        }
    }
}

#[inline]
fn is_in_order(bytes: &[u8], message: &Message) -> Result<bool> {
    let mut reader = Reader::new(bytes);
    let mut last = 0;
    while let Some(tag) = reader.tag()? {
        if tag.number <= last && (tag.number < last || is_singular(message, last)) {
            return Ok(false);
        }
        last = tag.number;
        reader.skip(tag.wire_type)?;
    }
    Ok(true)
}

fn is_singular(message: &Message, number: u32) -> bool {
    message.field(number).is_some_and(|field| field.ty.cardinality == Cardinality::One)
}

/// All fields of all parts, sorted by number in reverse, singular ones made one.
///
/// Takes 32 bytes for each field, and a field has at least two bytes, so sixteen times the message at most.
#[cold]
fn sorted<'de>(parts: &[&'de [u8]], message: &Message) -> Result<Vec<(u32, Raw<'de>)>> {
    let mut fields = Vec::new();
    for part in parts {
        let mut reader = Reader::new(part);
        while let Some(tag) = reader.tag()? {
            fields.push((tag.number, Raw::read(&mut reader, tag.wire_type)?));
        }
    }
    fields.sort_by_key(|(number, _)| *number); // stable: elements of a list keep their order
    let mut merged: Vec<(u32, Raw<'de>)> = Vec::with_capacity(fields.len());
    let mut fields = fields.into_iter().peekable();
    while let Some((number, first)) = fields.next() {
        if !is_singular(message, number) {
            merged.push((number, first));
            continue;
        }
        let is_message =
            message.field(number).is_some_and(|field| matches!(field.ty.scalar, Scalar::Message(_)));
        let mut last = first;
        let mut parts: Vec<&'de [u8]> = Vec::new();
        while let Some((_, next)) = fields.next_if(|(following, _)| *following == number) {
            if is_message {
                parts.extend_from_slice(last.parts()?);
            }
            last = next;
        }
        if !parts.is_empty() {
            parts.extend_from_slice(last.parts()?);
            last = Raw::Parts(parts.into());
        }
        merged.push((number, last));
    }
    merged.reverse();
    Ok(merged)
}

#[cold]
fn mismatch(why: &'static str) -> Error {
    Error::malformed("protobuf field", 0, why)
}

//! The elements of a JSON array: repeated fields, packed or not.

use serde::de::{DeserializeSeed, SeqAccess};

use super::Context;
use super::cursor::{Cursor, Raw};
use super::value::{Content, Value};
use crate::error::{Error, Result};
use crate::proto::{Reader, WireType};
use crate::schema::Scalar;

/// The elements of a list.
pub(super) struct Elements<'a, 'de> {
    pub(super) context: &'a Context,
    pub(super) depth: usize,
    pub(super) cursor: &'a mut Cursor<'de>,
    pub(super) number: u32,
    pub(super) scalar: Scalar,
    /// The first element, read already.
    pub(super) first: Option<Raw<'de>>,
    /// Numbers may be packed: many in one field. Go never does it, others may.
    pub(super) packed: Reader<'de>,
}

impl<'de> SeqAccess<'de> for Elements<'_, 'de> {
    type Error = Error;

    #[inline]
    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>> {
        let Some(raw) = self.next()? else { return Ok(None) };
        let content = Content::of(self.context, self.scalar, raw);
        seed.deserialize(Value { context: self.context, depth: self.depth, content }).map(Some)
    }

    fn size_hint(&self) -> Option<usize> {
        match &self.first {
            Some(Raw::Bytes(packed)) if let Some(wire_type) = packable(self.scalar) => match wire_type {
                WireType::Fixed64 => Some(packed.len() / 8),
                WireType::Fixed32 => Some(packed.len() / 4),
                _ => Some(packed.iter().filter(|byte| **byte < 0x80).count()),
            },
            first => Some(usize::from(first.is_some()) + self.cursor.count(self.number)),
        }
    }
}

impl<'de> Elements<'_, 'de> {
    #[inline]
    fn next(&mut self) -> Result<Option<Raw<'de>>> {
        loop {
            if !self.packed.is_empty() {
                let wire_type = packable(self.scalar).unwrap_or(WireType::Varint);
                return Raw::read(&mut self.packed, wire_type).map(Some);
            }
            let raw = match self.first.take() {
                Some(first) => first,
                None => match self.cursor.next_of(self.number)? {
                    Some(raw) => raw,
                    None => return Ok(None),
                },
            };
            match raw {
                Raw::Bytes(packed) if packable(self.scalar).is_some() => self.packed = Reader::new(packed),
                raw => return Ok(Some(raw)),
            }
        }
    }
}

/// The wire type of elements that may be packed.
#[inline]
fn packable(scalar: Scalar) -> Option<WireType> {
    match scalar {
        Scalar::Bool | Scalar::Int32 | Scalar::Int64 | Scalar::Uint32 | Scalar::Uint64 => Some(WireType::Varint),
        Scalar::Float => Some(WireType::Fixed32),
        Scalar::Double => Some(WireType::Fixed64),
        Scalar::String | Scalar::Bytes | Scalar::Message(_) => None,
    }
}

//! The elements of a JSON array: repeated fields, packed or not.

use serde::de::{DeserializeSeed, SeqAccess};

use super::level::{Level, What};
use super::value::ValueDeserializer;
use crate::error::{Error, Result};
use crate::proto::{Reader, WireType, WireValue, packable};
use crate::schema::Scalar;

/// The elements of a list.
pub(super) struct ElementAccess<'a, 'c, 'de> {
    pub(super) level: &'a mut Level<'c, 'de>,
    pub(super) depth: u32,
    pub(super) number: u32,
    pub(super) scalar: Scalar,
    /// The kind of each element.
    pub(super) what: What,
    /// Whether the first element, which is the level's next value, was returned.
    pub(super) started: bool,
    /// Numbers may be packed: many in one field. Go never packs, other writers may.
    pub(super) packed: Reader<'de>,
}

impl<'de> SeqAccess<'de> for ElementAccess<'_, '_, 'de> {
    type Error = Error;

    #[inline]
    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>> {
        if !self.next()? {
            return Ok(None);
        }
        seed.deserialize(ValueDeserializer(self.level)).map(Some)
    }

    fn size_hint(&self) -> Option<usize> {
        if self.started {
            return Some(self.level.count(self.number));
        }
        match (&self.level.raw, packable(self.scalar)) {
            (WireValue::Bytes(packed), Some(WireType::Fixed64)) => Some(packed.len() / 8),
            (WireValue::Bytes(packed), Some(WireType::Fixed32)) => Some(packed.len() / 4),
            (WireValue::Bytes(packed), Some(_)) => Some(packed.iter().filter(|byte| **byte < 0x80).count()),
            _ => Some(1 + self.level.count(self.number)),
        }
    }
}

impl<'de> ElementAccess<'_, '_, 'de> {
    /// Makes the next element the level's next value.
    #[inline]
    fn next(&mut self) -> Result<bool> {
        loop {
            if !self.packed.is_empty() {
                let wire_type = packable(self.scalar).unwrap_or(WireType::Varint);
                self.level.raw = WireValue::read(&mut self.packed, wire_type)?;
                break;
            }
            if self.started && !self.level.next_of(self.number) {
                return Ok(false);
            }
            self.started = true;
            match &self.level.raw {
                WireValue::Bytes(packed) if packable(self.scalar).is_some() => {
                    self.packed = Reader::new(packed);
                }
                _ => break,
            }
        }
        self.level.what = self.what;
        self.level.value_depth = self.depth;
        Ok(true)
    }
}

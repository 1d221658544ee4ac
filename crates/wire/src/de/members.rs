//! The members of a JSON object: the fields of a message, or the entries of a map.
//!
//! One [`MapAccess`] for both, because every visitor is compiled once per implementation, and k8s-openapi has about
//! 700.

use serde::de::{DeserializeSeed, MapAccess};

use super::cursor::checked;
use super::key::MemberName;
use super::level::{Level, What};
use super::value::ValueDeserializer;
use crate::error::{Error, Result};
use crate::proto::{Reader, WireValue};
use crate::schema::Scalar;

/// Members of a JSON object.
pub(super) enum MemberAccess<'a, 'c, 'de> {
    Fields(Level<'c, 'de>),
    Entries(EntryAccess<'a, 'c, 'de>),
}

/// The entries of a map: messages `{key = 1, value = 2}`.
pub(super) struct EntryAccess<'a, 'c, 'de> {
    pub(super) level: &'a mut Level<'c, 'de>,
    pub(super) depth: u32,
    pub(super) number: u32,
    pub(super) scalar: Scalar,
    /// The first entry is the level's next value.
    pub(super) started: bool,
}

impl<'de> MapAccess<'de> for MemberAccess<'_, '_, 'de> {
    type Error = Error;

    #[inline]
    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>> {
        let name = match self {
            Self::Fields(level) => level.next_name()?,
            Self::Entries(entries) => entries.next_key()?,
        };
        match name {
            Some(name) => seed.deserialize(MemberName(name)).map(Some),
            None => Ok(None),
        }
    }

    #[inline]
    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value> {
        seed.deserialize(ValueDeserializer(match self {
            Self::Fields(level) => level,
            Self::Entries(entries) => entries.level,
        }))
    }

    fn size_hint(&self) -> Option<usize> {
        match self {
            // The number of shown fields is unknown until they are read.
            Self::Fields(_) => None,
            Self::Entries(entries) => {
                Some(usize::from(!entries.started) + entries.level.count(entries.number))
            }
        }
    }
}

impl<'de> EntryAccess<'_, '_, 'de> {
    fn next_key(&mut self) -> Result<Option<&'de str>> {
        if self.started && !self.level.next_of(self.number) {
            return Ok(None);
        }
        self.started = true;
        let entry = self.level.raw.bytes()?;
        self.level.raw = WireValue::zero(self.scalar);
        let key = match checked::entry(entry, &mut self.level.raw) {
            Some(key) => {
                std::str::from_utf8(key).map_err(|_| Error::malformed("map key", 0, "it is not UTF-8"))?
            }
            None => self.odd_entry(entry)?,
        };
        self.level.what = What::single(self.level.context, self.scalar);
        self.level.value_depth = self.depth;
        Ok(Some(key))
    }

    /// An entry that is not in the usual form.
    #[cold]
    fn odd_entry(&mut self, entry: &'de [u8]) -> Result<&'de str> {
        let mut key = "";
        let mut reader = Reader::new(entry);
        self.level.raw = WireValue::zero(self.scalar);
        while let Some(tag) = reader.tag()? {
            match tag.number {
                1 => key = reader.expect_string(tag)?,
                2 => self.level.raw = WireValue::read(&mut reader, tag.wire_type)?,
                _ => reader.skip(tag.wire_type)?,
            }
        }
        Ok(key)
    }
}

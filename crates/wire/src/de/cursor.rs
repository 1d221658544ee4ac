//! Reads the fields of one message in wire order.
//!
//! Go writes fields in ascending order, each singular field once and the elements of a list together, so serde can
//! consume a message while it is read. Protobuf allows other orders, and serde cannot retract a member. A message in
//! another order therefore stops the read and is [sorted](super::order) first.

use super::Context;
use crate::error::{Error, Result};
use crate::proto::{Reader, WireValue, varint};
use crate::schema::{Cardinality, Message};

/// The unread fields of a message.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cursor<'de>(pub(super) &'de [u8]);

/// Number and wire type of a field, and the bytes after them.
#[derive(Clone, Copy)]
pub(super) struct FieldTag<'de> {
    /// 0 at the end, or if the tag is malformed.
    key: u32,
    after: &'de [u8],
}

// === impl FieldTag ===

impl FieldTag<'_> {
    /// 0 at the end, or if the tag is malformed.
    #[inline]
    pub(super) fn number(self) -> u32 {
        self.key >> 3
    }
}

// === impl Cursor ===

impl<'de> Cursor<'de> {
    /// A cursor before the first field, after a check of all tags and lengths: the message is in order, its fields are
    /// in the table, and it can be read to its end.
    pub(super) fn over(
        raw: WireValue<'de>,
        message: &'static Message,
        context: &Context<'_>,
    ) -> Result<Self> {
        let bytes = raw.bytes()?;
        let (mut rest, mut last) = (bytes, 0);
        while !rest.is_empty() {
            let Some((number, after)) = checked::skip(rest) else { return Err(defect(rest)) };
            if number < last || (number == last && is_singular(message, number)) {
                return Err(context.unordered());
            }
            if message.index_of(number).is_none() {
                context.unknown(message, number)?;
            }
            (rest, last) = (after, number);
        }
        Ok(Self(bytes))
    }

    /// The next field's tag.
    #[inline]
    pub(super) fn tag(self) -> FieldTag<'de> {
        match varint(self.0) {
            Some((key, after)) if key <= u64::from(u32::MAX) => FieldTag { key: key as u32, after },
            _ => FieldTag { key: 0, after: &[] },
        }
    }

    /// Stores the value of the next field, whose tag was read, in `into`; `false` if it is malformed. (Returning the
    /// value would copy it, which takes longer than reading it.)
    #[inline(always)]
    pub(super) fn next(&mut self, tag: FieldTag<'de>, into: &mut WireValue<'de>) -> bool {
        match checked::value(tag.key, tag.after, into) {
            Some(after) => {
                self.0 = after;
                true
            }
            None => false,
        }
    }

    /// Like `next`, if the next field has this number: the next element of a list.
    #[inline]
    pub(super) fn next_of(&mut self, wanted: u32, into: &mut WireValue<'de>) -> bool {
        let tag = self.tag();
        tag.number() == wanted && self.next(tag, into)
    }

    /// How many consecutive fields have this number. Counts existing fields, so it is safe as a size hint.
    pub(super) fn count(self, wanted: u32) -> usize {
        let (mut rest, mut count) = (self.0, 0);
        while let Some((number, after)) = checked::skip(rest)
            && number == wanted
        {
            (rest, count) = (after, count + 1);
        }
        count
    }

    /// The error in the unread bytes, as reported by the ordinary reader.
    #[cold]
    pub(super) fn defect(self) -> Error {
        defect(self.0)
    }
}

/// Faster reading without error details.
pub(super) mod checked {
    use super::{WireValue, varint};

    /// Skips a field. Returns its number and the bytes after it.
    #[inline(always)]
    pub(super) fn skip(bytes: &[u8]) -> Option<(u32, &[u8])> {
        let (tag, rest) = varint(bytes)?;
        let number = u32::try_from(tag >> 3).ok().filter(|number| (1..1 << 29).contains(number))?;
        let rest = match tag & 7 {
            2 => {
                let (len, rest) = varint(rest)?;
                rest.get(usize::try_from(len).ok()?..)?
            }
            0 => varint(rest)?.1,
            1 => rest.get(8..)?,
            5 => rest.get(4..)?,
            _ => return None,
        };
        Some((number, rest))
    }

    /// The key of a map entry in the usual form, key then value; stores the value in `value`.
    #[inline]
    pub(in super::super) fn entry<'de>(entry: &'de [u8], value: &mut WireValue<'de>) -> Option<&'de [u8]> {
        let (len, rest) = varint(entry.strip_prefix(&[0x0a])?)?;
        let (key, rest) = rest.split_at_checked(usize::try_from(len).ok()?)?;
        let (2, []) = skip(rest)? else { return None };
        field(rest, value)?;
        Some(key)
    }

    /// The seconds and nanoseconds of a time in the usual form.
    #[inline]
    pub(in super::super) fn time(time: &[u8]) -> Option<(i64, i32)> {
        let (seconds, rest) = varint(time.strip_prefix(&[0x08])?)?;
        let (nanos, []) = varint(rest.strip_prefix(&[0x10])?)? else { return None };
        Some((seconds as i64, nanos as i32))
    }

    /// The only string of a message in the usual form.
    #[inline]
    pub(in super::super) fn text(message: &[u8]) -> Option<&[u8]> {
        let (len, text) = varint(message.strip_prefix(&[0x0a])?)?;
        (usize::try_from(len) == Ok(text.len())).then_some(text)
    }

    /// Reads a field and returns the bytes after it.
    fn field<'de>(bytes: &'de [u8], into: &mut WireValue<'de>) -> Option<&'de [u8]> {
        let (key, rest) = varint(bytes)?;
        value(u32::try_from(key).ok()?, rest, into)
    }

    /// Reads a field's value, after its tag, and returns the bytes after it.
    #[inline(always)]
    pub(super) fn value<'de>(key: u32, rest: &'de [u8], into: &mut WireValue<'de>) -> Option<&'de [u8]> {
        // Nearly all fields are of the first two kinds; a jump table would be mispredicted more often.
        if key & 7 == 2 {
            let (len, rest) = varint(rest)?;
            let (value, rest) = rest.split_at_checked(usize::try_from(len).ok()?)?;
            *into = WireValue::Bytes(value);
            Some(rest)
        } else if key & 7 == 0 {
            let (value, rest) = varint(rest)?;
            *into = WireValue::Varint(value);
            Some(rest)
        } else {
            fixed(key, rest, into)
        }
    }

    #[cold]
    fn fixed<'de>(key: u32, rest: &'de [u8], into: &mut WireValue<'de>) -> Option<&'de [u8]> {
        match key & 7 {
            1 => {
                let (value, rest) = rest.split_first_chunk()?;
                *into = WireValue::Fixed64(u64::from_le_bytes(*value));
                Some(rest)
            }
            5 => {
                let (value, rest) = rest.split_first_chunk()?;
                *into = WireValue::Fixed32(u32::from_le_bytes(*value));
                Some(rest)
            }
            _ => None,
        }
    }
}

pub(super) fn is_singular(message: &Message, number: u32) -> bool {
    message.field(number).is_some_and(|field| field.ty.cardinality == Cardinality::One)
}

#[cold]
fn defect(bytes: &[u8]) -> Error {
    let mut reader = Reader::new(bytes);
    loop {
        match reader.tag().and_then(|tag| tag.map(|tag| reader.skip(tag.wire_type)).transpose()) {
            Ok(Some(())) => {}
            Ok(None) => return Error::malformed("protobuf field", 0, "unreadable message"),
            Err(error) => return error,
        }
    }
}

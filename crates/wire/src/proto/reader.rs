//! Iterates over the fields of one protobuf message, without allocating and without trusting a length.

use crate::error::{Error, Result};

const WHAT: &str = "protobuf message";

/// A position in the bytes of one message.
#[derive(Clone)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

/// Omits the content, which may be that of a Secret.
impl std::fmt::Debug for Reader<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reader")
            .field("bytes", &self.bytes.len())
            .field("at", &self.at)
            .finish_non_exhaustive()
    }
}

/// Number and wire type of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tag {
    /// The field's number.
    pub number: u32,
    /// How its value is encoded.
    pub wire_type: WireType,
}

/// How a field's value is encoded. Kubernetes never used groups; they are rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WireType {
    /// A varint: integers and booleans.
    Varint,
    /// Eight bytes, little endian.
    Fixed64,
    /// A varint length and that many bytes: strings, bytes, messages, map entries.
    Len,
    /// Four bytes, little endian.
    Fixed32,
}

/// The varint at the start of `bytes`, and the bytes after it; `None` if it is truncated or longer than 64 bits.
#[inline]
pub(crate) fn varint(bytes: &[u8]) -> Option<(u64, &[u8])> {
    match bytes {
        [a, rest @ ..] if *a < 0x80 => Some((u64::from(*a), rest)),
        // Tags of fields from 16 on, and lengths of most messages.
        [a, b, rest @ ..] if *b < 0x80 => Some((u64::from(*a & 0x7f) | u64::from(*b) << 7, rest)),
        _ => long_varint(bytes),
    }
}

fn long_varint(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let mut value = 0;
    for (at, byte) in bytes.iter().take(10).enumerate() {
        value |= u64::from(byte & 0x7f) << (7 * at);
        if *byte < 0x80 {
            return (at < 9 || *byte < 2).then(|| (value, &bytes[at + 1..]));
        }
    }
    None
}

// === impl Reader ===

impl<'a> Reader<'a> {
    /// A reader at the start of `bytes`.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// Offset of the next unread byte.
    #[inline]
    pub fn position(&self) -> usize {
        self.at
    }

    /// All bytes of the message, read or not.
    #[inline]
    pub fn message(&self) -> &'a [u8] {
        self.bytes
    }

    /// Whether all bytes were read.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.at >= self.bytes.len()
    }

    /// The next field's tag, or `None` at the end of the message.
    ///
    /// # Errors
    /// If the tag is malformed.
    #[inline]
    pub fn tag(&mut self) -> Result<Option<Tag>> {
        if self.is_empty() {
            return Ok(None);
        }
        let at = self.at;
        let key = self.varint()?;
        Tag::from_key(key).map(Some).map_err(|why| Error::malformed(WHAT, at, why))
    }

    /// A varint.
    ///
    /// # Errors
    /// If the varint is truncated, or longer than 64 bits.
    #[inline]
    pub fn varint(&mut self) -> Result<u64> {
        match varint(&self.bytes[self.at..]) {
            Some((value, rest)) => {
                self.at = self.bytes.len() - rest.len();
                Ok(value)
            }
            None => Err(self.varint_error()),
        }
    }

    #[cold]
    fn varint_error(&self) -> Error {
        match self.bytes.len() - self.at {
            0..10 => Error::Truncated { what: WHAT, at: self.bytes.len() },
            _ => Error::malformed(WHAT, self.at, "varint longer than 64 bits"),
        }
    }

    /// The bytes of a [`WireType::Len`] field.
    ///
    /// # Errors
    /// If its length exceeds the message.
    #[inline]
    pub fn bytes(&mut self) -> Result<&'a [u8]> {
        let len = self.varint()?;
        let rest = self.bytes.len() - self.at;
        match usize::try_from(len) {
            Ok(len) if len <= rest => {
                let start = self.at;
                self.at += len;
                Ok(&self.bytes[start..self.at])
            }
            _ => Err(Error::Truncated { what: WHAT, at: self.bytes.len() }),
        }
    }

    /// A string field.
    ///
    /// # Errors
    /// If its length exceeds the message, or it is not UTF-8.
    #[inline]
    pub fn string(&mut self) -> Result<&'a str> {
        let bytes = self.bytes()?;
        std::str::from_utf8(bytes)
            .map_err(|_| Error::malformed(WHAT, self.at - bytes.len(), "string is not UTF-8"))
    }

    /// Four bytes, little endian.
    ///
    /// # Errors
    /// If there are fewer.
    pub fn fixed32(&mut self) -> Result<u32> {
        self.array().map(u32::from_le_bytes)
    }

    /// Eight bytes, little endian.
    ///
    /// # Errors
    /// If there are fewer.
    pub fn fixed64(&mut self) -> Result<u64> {
        self.array().map(u64::from_le_bytes)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        match self.bytes[self.at..].first_chunk::<N>() {
            Some(chunk) => {
                self.at += N;
                Ok(*chunk)
            }
            None => Err(Error::Truncated { what: WHAT, at: self.bytes.len() }),
        }
    }

    /// Skips a field's value.
    ///
    /// # Errors
    /// If it exceeds the message.
    // Inlined: a call would cost a tenth of every walk.
    #[inline(always)]
    pub fn skip(&mut self, wire_type: WireType) -> Result<()> {
        match wire_type {
            WireType::Varint => self.varint().map(drop),
            WireType::Fixed64 => self.fixed64().map(drop),
            WireType::Len => self.bytes().map(drop),
            WireType::Fixed32 => self.fixed32().map(drop),
        }
    }

    /// The bytes of a field that must be length-delimited.
    ///
    /// # Errors
    /// If it has another wire type, or its length exceeds the message.
    #[inline]
    pub fn expect_bytes(&mut self, tag: Tag) -> Result<&'a [u8]> {
        match tag.wire_type {
            WireType::Len => self.bytes(),
            _ => Err(Error::malformed(WHAT, self.at, "expected a string or message")),
        }
    }

    /// A field that must be a string.
    ///
    /// # Errors
    /// Like [`expect_bytes`](Self::expect_bytes) and [`string`](Self::string).
    #[inline]
    pub fn expect_string(&mut self, tag: Tag) -> Result<&'a str> {
        match tag.wire_type {
            WireType::Len => self.string(),
            _ => Err(Error::malformed(WHAT, self.at, "expected a string")),
        }
    }

    /// A field that must be a varint.
    ///
    /// # Errors
    /// If it has another wire type.
    #[inline]
    pub fn expect_varint(&mut self, tag: Tag) -> Result<u64> {
        match tag.wire_type {
            WireType::Varint => self.varint(),
            _ => Err(Error::malformed(WHAT, self.at, "expected an integer")),
        }
    }
}

// === impl Tag ===

impl Tag {
    /// Parses a tag's varint.
    #[inline]
    pub(crate) fn from_key(key: u64) -> Result<Self, &'static str> {
        let wire_type = match key & 7 {
            0 => WireType::Varint,
            1 => WireType::Fixed64,
            2 => WireType::Len,
            5 => WireType::Fixed32,
            _ => return Err("unknown wire type"),
        };
        match u32::try_from(key >> 3) {
            Ok(number) if number != 0 && number < 1 << 29 => Ok(Self { number, wire_type }),
            _ => Err("field number out of range"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_walked_and_skipped() {
        // 1: varint 150, 2: "hi", 3: fixed32, 4: fixed64, 5: varint 1
        let bytes =
            [0x08, 0x96, 0x01, 0x12, 2, b'h', b'i', 0x1d, 1, 0, 0, 0, 0x21, 2, 0, 0, 0, 0, 0, 0, 0, 0x28, 1];
        let mut reader = Reader::new(&bytes);
        let mut numbers = Vec::new();
        while let Some(tag) = reader.tag().unwrap() {
            numbers.push(tag.number);
            reader.skip(tag.wire_type).unwrap();
        }
        assert_eq!(numbers, [1, 2, 3, 4, 5]);
        assert!(reader.is_empty());
    }

    #[test]
    fn malformed_bytes_are_errors() {
        for (bytes, why) in [
            (&[0x80][..], "truncated"),
            (&[0xff; 11][..], "longer than 64 bits"),
            (&[0x0b][..], "wire type"),
            (&[0x00][..], "field number"),
        ] {
            let error = Reader::new(bytes).tag().unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
        assert!(Reader::new(&[5, b'a']).bytes().is_err());
        assert!(Reader::new(&[1, 0xff]).string().is_err());
        assert!(Reader::new(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1]).bytes().is_err());
    }
}

//! Appends protobuf fields to a buffer.

use super::WireType;

/// Appends the fields of one message to a buffer.
pub struct Writer<'a> {
    out: &'a mut Vec<u8>,
}

/// Omits the content, which may be that of a Secret.
impl std::fmt::Debug for Writer<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Writer").field("bytes", &self.out.len()).finish_non_exhaustive()
    }
}

/// The encoded length of a varint, in bytes.
#[inline]
pub const fn varint_len(value: u64) -> usize {
    let bits = 64 - (value | 1).leading_zeros() as usize;
    bits.div_ceil(7)
}

// === impl Writer ===

impl<'a> Writer<'a> {
    /// A writer that appends to `out`.
    pub fn new(out: &'a mut Vec<u8>) -> Self {
        Self { out }
    }

    /// Appends a field's tag.
    #[inline]
    pub fn tag(&mut self, number: u32, wire_type: WireType) {
        let wire_type = match wire_type {
            WireType::Varint => 0,
            WireType::Fixed64 => 1,
            WireType::Len => 2,
            WireType::Fixed32 => 5,
        };
        self.varint(u64::from(number) << 3 | wire_type);
    }

    /// Appends a varint without a tag.
    #[inline]
    pub fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.out.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.out.push(value as u8);
    }

    /// Appends a varint field.
    pub fn varint_field(&mut self, number: u32, value: u64) {
        self.tag(number, WireType::Varint);
        self.varint(value);
    }

    /// Appends a string, bytes or message field.
    pub fn bytes_field(&mut self, number: u32, value: &[u8]) {
        self.tag(number, WireType::Len);
        self.varint(value.len() as u64);
        self.out.extend_from_slice(value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::Reader;

    #[test]
    fn written_fields_can_be_read() {
        for value in [0, 1, 127, 128, 16_383, 16_384, u64::from(u32::MAX), u64::MAX >> 1, u64::MAX] {
            let mut out = Vec::new();
            Writer::new(&mut out).varint(value);
            assert_eq!(out.len(), varint_len(value), "{value}");
            assert_eq!(Reader::new(&out).varint().unwrap(), value);
        }
        let mut out = Vec::new();
        let mut writer = Writer::new(&mut out);
        writer.bytes_field(2, b"hi");
        writer.varint_field(3, 7);
        let mut reader = Reader::new(&out);
        let tag = reader.tag().unwrap().unwrap();
        assert_eq!((tag.number, reader.string().unwrap()), (2, "hi"));
        let tag = reader.tag().unwrap().unwrap();
        assert_eq!((tag.number, reader.varint().unwrap()), (3, 7));
    }
}

//! The envelope of Kubernetes protobuf: four magic bytes and a message that names the type of its content.
//!
//! Protobuf messages do not name their type, so the API wraps each object in `Unknown { typeMeta = 1, raw = 2 }` after
//! `k8s\0`. The type is read here once; the rest of this crate calls the raw part an object's bytes.

use crate::error::{Error, Result};
use crate::proto::{Reader, WireType, Writer, varint_len};

/// The first bytes of every Kubernetes protobuf body.
pub const MAGIC: [u8; 4] = *b"k8s\0";

/// An opened envelope.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Envelope<'a> {
    /// apiVersion of the content.
    pub api_version: &'a str,
    /// kind of the content.
    pub kind: &'a str,
    /// The content: a protobuf message.
    pub raw: &'a [u8],
}

/// Omits the content, which may be that of a Secret.
impl std::fmt::Debug for Envelope<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Envelope")
            .field("api_version", &self.api_version)
            .field("kind", &self.kind)
            .field("raw", &self.raw.len())
            .finish_non_exhaustive()
    }
}

impl<'a> Envelope<'a> {
    /// Opens an envelope.
    ///
    /// # Errors
    /// If the magic bytes are missing, the message is malformed, or its content has a content encoding.
    pub fn open(bytes: &'a [u8]) -> Result<Self> {
        let Some(message) = bytes.strip_prefix(&MAGIC) else {
            return Err(Error::malformed("protobuf envelope", 0, "missing `k8s\\0` prefix"));
        };
        let mut envelope = Self::default();
        let mut reader = Reader::new(message);
        while let Some(tag) = reader.tag()? {
            match tag.number {
                TYPE_META => {
                    (envelope.api_version, envelope.kind) = type_meta(reader.expect_bytes(tag)?)?;
                }
                RAW => envelope.raw = reader.expect_bytes(tag)?,
                CONTENT_ENCODING if !reader.expect_bytes(tag)?.is_empty() => {
                    let at = MAGIC.len() + reader.position();
                    return Err(Error::malformed("protobuf envelope", at, "unsupported content encoding"));
                }
                CONTENT_ENCODING => {}
                _ => reader.skip(tag.wire_type)?,
            }
        }
        Ok(envelope)
    }

    /// Appends the envelope to `out`, as a Kubernetes server writes it.
    pub fn seal(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&MAGIC);
        let string = |len: usize| 1 + varint_len(len as u64) + len;
        let mut writer = Writer::new(out);
        writer.tag(TYPE_META, WireType::Len);
        writer.varint((string(self.api_version.len()) + string(self.kind.len())) as u64);
        writer.bytes_field(1, self.api_version.as_bytes());
        writer.bytes_field(2, self.kind.as_bytes());
        writer.bytes_field(RAW, self.raw);
        writer.bytes_field(CONTENT_ENCODING, b"");
        writer.bytes_field(CONTENT_TYPE, b"");
    }
}

pub(crate) const TYPE_META: u32 = 1;
pub(crate) const RAW: u32 = 2;
pub(crate) const CONTENT_ENCODING: u32 = 3;
const CONTENT_TYPE: u32 = 4;

/// apiVersion and kind from a `TypeMeta` message.
pub(crate) fn type_meta(bytes: &[u8]) -> Result<(&str, &str)> {
    let (mut api_version, mut kind) = ("", "");
    let mut reader = Reader::new(bytes);
    while let Some(tag) = reader.tag()? {
        match tag.number {
            1 => api_version = reader.expect_string(tag)?,
            2 => kind = reader.expect_string(tag)?,
            _ => reader.skip(tag.wire_type)?,
        }
    }
    Ok((api_version, kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sealed_envelopes_can_be_opened() {
        let envelope = Envelope { api_version: "apps/v1", kind: "Deployment", raw: b"\x0a\x00" };
        let mut out = Vec::new();
        envelope.seal(&mut out);
        assert_eq!(Envelope::open(&out), Ok(envelope));
    }

    #[test]
    fn envelopes_without_magic_or_with_an_encoding_are_rejected() {
        assert!(Envelope::open(b"{}").unwrap_err().to_string().contains("k8s"));
        let mut out = MAGIC.to_vec();
        Writer::new(&mut out).bytes_field(CONTENT_ENCODING, b"gzip");
        assert!(Envelope::open(&out).unwrap_err().to_string().contains("content encoding"));
    }
}

//! Labels, read from the bytes during iteration.

use std::borrow::Cow;

use super::text;
use crate::Encoding;
use crate::json;
use crate::proto::Reader;

/// The labels of an object, in the order of its bytes.
///
/// A protobuf server does not check that strings are UTF-8. Invalid sequences become the replacement character, as in
/// JSON.
#[derive(Clone, Debug)]
pub struct Labels<'a>(LabelSource<'a>);

#[derive(Clone, Debug)]
enum LabelSource<'a> {
    Json(json::Members<'a>),
    Protobuf(Reader<'a>),
}

/// Field of `ObjectMeta` that holds the labels.
pub(super) const LABELS: u32 = 11;

impl<'a> Labels<'a> {
    /// Reads the bytes from [`Head::label_bytes`](super::Head::label_bytes), which may be stored apart from their
    /// object.
    pub fn new(bytes: &'a [u8], encoding: Encoding) -> Self {
        Self(match encoding {
            Encoding::Json => LabelSource::Json(json::Members::new(bytes)),
            Encoding::Protobuf => LabelSource::Protobuf(Reader::new(bytes)),
        })
    }

    /// The value of one label.
    pub fn get(&self, key: &str) -> Option<Cow<'a, str>> {
        // The last value of a repeated key wins.
        self.clone().filter(|(k, _)| k == key).last().map(|(_, value)| value)
    }
}

impl<'a> Iterator for Labels<'a> {
    type Item = (Cow<'a, str>, Cow<'a, str>);

    fn next(&mut self) -> Option<Self::Item> {
        // Malformed labels were rejected when the object was read; here they end the iteration.
        match &mut self.0 {
            LabelSource::Json(members) => {
                let (key, value) = members.next()?.ok()?;
                Some((key, value.as_string().ok()??))
            }
            LabelSource::Protobuf(reader) => loop {
                let tag = reader.tag().ok()??;
                if tag.number != LABELS {
                    reader.skip(tag.wire_type).ok()?;
                    continue;
                }
                let (key, value) = map_entry(reader.expect_bytes(tag).ok()?).ok()?;
                return Some((text(key), text(value)));
            },
        }
    }
}

/// Key and value of an entry of a `map<string, string>`.
pub(super) fn map_entry(entry: &[u8]) -> crate::Result<(&[u8], &[u8])> {
    let mut reader = Reader::new(entry);
    let (mut key, mut value) = (&[][..], &[][..]);
    while let Some(tag) = reader.tag()? {
        match tag.number {
            1 => key = reader.expect_bytes(tag)?,
            2 => value = reader.expect_bytes(tag)?,
            _ => reader.skip(tag.wire_type)?,
        }
    }
    Ok((key, value))
}

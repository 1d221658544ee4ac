//! Finds the head in the protobuf bytes of an object: one pass over the top level and one over `ObjectMeta`.

use super::labels::{LABELS, map_entry};
use super::owners::{self, OWNERS};
use super::{INITIAL_EVENTS_END, Span, Spans};
use crate::error::{Error, Result};
use crate::proto::Reader;

/// Field 1 of every Kubernetes object is its `ObjectMeta`.
const METADATA: u32 = 1;

/// The spans of the head in an object's (kept) bytes.
pub(crate) fn spans(bytes: &[u8]) -> Result<Spans> {
    let mut spans = Spans::default();
    let mut reader = Reader::new(bytes);
    let mut metadata_seen = false;
    while let Some(tag) = reader.tag()? {
        if tag.number == METADATA {
            // A decoder would merge them, and a head cannot span both.
            if std::mem::replace(&mut metadata_seen, true) {
                let why = "duplicate metadata";
                return Err(Error::malformed("protobuf head", reader.position(), why));
            }
            let meta = reader.expect_bytes(tag)?;
            object_meta(meta, reader.position() - meta.len(), &mut spans)?;
        } else {
            reader.skip(tag.wire_type)?;
        }
    }
    Ok(spans)
}

/// Reads `ObjectMeta`, which starts at `offset` in the kept bytes.
fn object_meta(meta: &[u8], offset: usize, spans: &mut Spans) -> Result<()> {
    let mut reader = Reader::new(meta);
    loop {
        let field_start = offset + reader.position();
        let Some(tag) = reader.tag()? else { break };
        match tag.number {
            1 => spans.name = text(&mut reader, tag, offset)?,
            3 => spans.namespace = text(&mut reader, tag, offset)?,
            5 => spans.uid = text(&mut reader, tag, offset)?,
            6 => spans.resource_version = text(&mut reader, tag, offset)?,
            7 => spans.generation = reader.expect_varint(tag)?.cast_signed(),
            9 => {
                reader.expect_bytes(tag)?;
                spans.deleting = true;
            }
            LABELS => {
                map_entry(reader.expect_bytes(tag)?)?;
                extend(&mut spans.labels, field_start, offset + reader.position());
            }
            12 => {
                let (key, value) = map_entry(reader.expect_bytes(tag)?)?;
                if key == INITIAL_EVENTS_END.as_bytes() {
                    spans.initial_events_end = value == b"true";
                }
            }
            OWNERS => {
                owners::from_protobuf(reader.expect_bytes(tag)?)?;
                extend(&mut spans.owners, field_start, offset + reader.position());
            }
            _ => reader.skip(tag.wire_type)?,
        }
    }
    Ok(())
}

fn text(reader: &mut Reader<'_>, tag: crate::proto::Tag, offset: usize) -> Result<Span> {
    let len = reader.expect_string(tag)?.len();
    let end = offset + reader.position();
    Ok(Span::new(end - len, end))
}

/// Entries of a repeated field are usually contiguous; readers skip anything in between.
fn extend(span: &mut Span, start: usize, end: usize) {
    *span =
        if *span == Span::default() { Span::new(start, end) } else { Span::new(span.start as usize, end) };
}

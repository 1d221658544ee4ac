//! Lists, written in chunks: the response to a list of a million objects references them and never holds their text.

use std::sync::Arc;

use bytes::Bytes;
use kube_wire::Encoding;
use kube_wire::internals::proto::{WireType, Writer, varint_len};
use kube_wire::shard::ShardSelector;
use serde_json::{Value, json};

use super::metadata;
use super::show::{TypeMeta, raw_message, write_json};
use crate::http::{Projection, Representation};
use crate::resources::Resource;
use crate::storage::Stored;

/// Size in bytes at which a chunk is emitted.
const CHUNK_BYTES: usize = 128 << 10;

/// A list's metadata.
#[derive(Clone, Debug, Default)]
pub(crate) struct ListMeta {
    pub(crate) revision: u64,
    pub(crate) continue_token: String,
    pub(crate) remaining: Option<usize>,
    /// The hashes that the list is limited to.
    pub(crate) shard: Option<ShardSelector>,
}

/// A list that is not fully written yet.
pub(crate) struct ListBody {
    resource: Arc<Resource>,
    representation: Representation,
    meta: ListMeta,
    objects: std::vec::IntoIter<Arc<Stored>>,
    state: ListProgress,
    /// A chunk that was produced but not consumed.
    pending: Option<Bytes>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ListProgress {
    Head,
    FirstItem,
    Items,
    Done,
}

impl ListBody {
    pub(crate) fn new(
        resource: Arc<Resource>,
        representation: Representation,
        meta: ListMeta,
        objects: Vec<Arc<Stored>>,
    ) -> Self {
        Self {
            resource,
            representation,
            meta,
            objects: objects.into_iter(),
            state: ListProgress::Head,
            pending: None,
        }
    }

    /// The next chunk; `None` at the end.
    pub(crate) fn next_chunk(&mut self) -> Option<Bytes> {
        if let Some(chunk) = self.pending.take() {
            return Some(chunk);
        }
        if self.state == ListProgress::Done {
            return None;
        }
        let mut out = Vec::with_capacity(4096);
        if self.state == ListProgress::Head {
            self.write_head(&mut out);
            self.state = ListProgress::FirstItem;
        }
        while out.len() < CHUNK_BYTES {
            let Some(object) = self.objects.next() else {
                self.write_tail(&mut out);
                self.state = ListProgress::Done;
                break;
            };
            self.write_item(&object, &mut out);
            self.state = ListProgress::Items;
        }
        Some(out.into())
    }

    /// Pushes a chunk back: `next_chunk` returns it again.
    pub(crate) fn put_back(mut self, chunk: Bytes) -> Self {
        self.pending = Some(chunk);
        self
    }

    pub(crate) fn is_done(&self) -> bool {
        self.state == ListProgress::Done
    }

    /// Lists of custom resources have sorted members: items before metadata.
    fn sorted(&self) -> bool {
        self.resource.is_custom() && self.representation.projection == Projection::Whole
    }

    fn type_meta(&self) -> (&str, String) {
        match self.representation.projection {
            Projection::Whole => (&self.resource.api_version, self.resource.list_kind.clone()),
            Projection::Metadata => (metadata::API_VERSION, format!("{}List", metadata::KIND)),
        }
    }

    /// `shardInfo.selector`. Lists of custom resources and of metadata do not have it.
    fn shard_info(&self) -> Option<String> {
        let shown = !self.resource.is_custom() && self.representation.projection == Projection::Whole;
        self.meta.shard.as_ref().filter(|_| shown).map(ShardSelector::to_string)
    }

    fn meta_value(&self) -> Value {
        let mut meta = json!({"resourceVersion": self.meta.revision.to_string()});
        if !self.meta.continue_token.is_empty() || self.sorted() {
            meta["continue"] = self.meta.continue_token.clone().into();
        }
        if let Some(remaining) = self.meta.remaining {
            meta["remainingItemCount"] = remaining.into();
        }
        if let Some(selector) = self.shard_info() {
            meta["shardInfo"] = json!({ "selector": selector });
        }
        meta
    }

    fn write_head(&self, out: &mut Vec<u8>) {
        let (api_version, kind) = self.type_meta();
        match self.representation.encoding {
            Encoding::Json if self.sorted() => {
                out.extend_from_slice(format!("{{\"apiVersion\":\"{api_version}\",\"items\":[").as_bytes());
            }
            Encoding::Json => {
                let meta = self.meta_value();
                let head = format!(
                    "{{\"kind\":\"{kind}\",\"apiVersion\":\"{api_version}\",\"metadata\":{meta},\"items\":["
                );
                out.extend_from_slice(head.as_bytes());
            }
            Encoding::Protobuf => self.write_protobuf_head(api_version, &kind, out),
        }
    }

    /// Writes the envelope up to the start of its raw part, and the list's metadata. The lengths in front of the items
    /// include the size of all items.
    fn write_protobuf_head(&self, api_version: &str, kind: &str, out: &mut Vec<u8>) {
        let field = |length: usize| 1 + varint_len(length as u64) + length;
        let mut meta = Vec::new();
        let mut writer = Writer::new(&mut meta);
        writer.bytes_field(1, b"");
        writer.bytes_field(2, self.meta.revision.to_string().as_bytes());
        writer.bytes_field(3, self.meta.continue_token.as_bytes());
        if let Some(remaining) = self.meta.remaining {
            writer.varint_field(4, remaining as u64);
        }
        if let Some(selector) = self.shard_info() {
            let mut info = Vec::new();
            Writer::new(&mut info).bytes_field(1, selector.as_bytes());
            writer.bytes_field(5, &info);
        }
        let mut scratch = Vec::new();
        let items: usize = (self.objects.as_slice().iter())
            .map(|object| {
                scratch.clear();
                field(
                    raw_message(&self.resource, &object.bytes, self.representation.projection, &mut scratch)
                        .len(),
                )
            })
            .sum();
        out.extend_from_slice(&kube_wire::internals::envelope::MAGIC);
        let mut writer = Writer::new(out);
        writer.tag(1, WireType::Len);
        writer.varint((field(api_version.len()) + field(kind.len())) as u64);
        writer.bytes_field(1, api_version.as_bytes());
        writer.bytes_field(2, kind.as_bytes());
        writer.tag(2, WireType::Len);
        writer.varint((field(meta.len()) + items) as u64);
        writer.bytes_field(1, &meta);
    }

    fn write_item(&self, object: &Stored, out: &mut Vec<u8>) {
        let Representation { encoding, projection } = self.representation;
        match encoding {
            Encoding::Json => {
                if self.state == ListProgress::Items {
                    out.push(b',');
                }
                let shown = if self.sorted() { TypeMeta::Shown } else { TypeMeta::Hidden };
                write_json(&self.resource, &object.bytes, projection, shown, out);
            }
            Encoding::Protobuf => {
                let mut scratch = Vec::new();
                let raw = raw_message(&self.resource, &object.bytes, projection, &mut scratch);
                Writer::new(out).bytes_field(2, raw);
            }
        }
    }

    fn write_tail(&self, out: &mut Vec<u8>) {
        match self.representation.encoding {
            Encoding::Json if self.sorted() => {
                let tail = format!(
                    "],\"kind\":\"{}\",\"metadata\":{}}}\n",
                    self.resource.list_kind,
                    self.meta_value()
                );
                out.extend_from_slice(tail.as_bytes());
            }
            Encoding::Json => out.extend_from_slice(b"]}\n"),
            Encoding::Protobuf => {
                let mut writer = Writer::new(out);
                writer.bytes_field(3, b"");
                writer.bytes_field(4, b"");
            }
        }
    }
}

//! Watch events in wire form: a line of JSON, or a length-prefixed protobuf message.

use bytes::Bytes;
use kube_wire::Encoding;
use kube_wire::internals::proto::{Writer, varint_len};
use serde_json::json;

use super::encode_bytes;
use super::show::{write, write_status};
use crate::http::{Representation, Status};
use crate::resources::Resource;

/// Annotation of the bookmark that ends a watch's initial events.
const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

/// An event with an object.
pub(crate) fn watch_event(
    resource: &Resource,
    kind: &str,
    bytes: &[u8],
    representation: Representation,
) -> Bytes {
    frame(kind, representation.encoding, bytes.len() * 2, |out| write(resource, bytes, representation, out))
}

/// A bookmark: the kind's zero value with a resourceVersion.
pub(crate) fn bookmark(
    resource: &Resource,
    revision: u64,
    initial_events_end: bool,
    representation: Representation,
) -> Bytes {
    let mut object = json!({"metadata": {"resourceVersion": revision.to_string()}});
    if initial_events_end {
        object["metadata"]["annotations"] = json!({INITIAL_EVENTS_END: "true"});
    }
    // Every kind can encode metadata alone.
    let bytes = encode_bytes(resource, &object).unwrap_or_default();
    watch_event(resource, "BOOKMARK", &bytes, representation)
}

/// An `ERROR` event.
pub(crate) fn status_event(status: &Status, encoding: Encoding) -> Bytes {
    frame("ERROR", encoding, 256, |out| write_status(status, encoding, out))
}

fn frame(kind: &str, encoding: Encoding, capacity: usize, object: impl FnOnce(&mut Vec<u8>)) -> Bytes {
    match encoding {
        Encoding::Json => {
            let mut out = Vec::with_capacity(capacity + 64);
            out.extend_from_slice(format!("{{\"type\":\"{kind}\",\"object\":").as_bytes());
            object(&mut out);
            out.extend_from_slice(b"}\n");
            out.into()
        }
        // WatchEvent { type = 1, object = 2 { raw = 1 } } after a big-endian length of four bytes.
        Encoding::Protobuf => {
            let mut raw = Vec::with_capacity(capacity);
            object(&mut raw);
            let field = |length: usize| 1 + varint_len(length as u64) + length;
            let length = field(kind.len()) + field(field(raw.len()));
            let mut out = Vec::with_capacity(4 + length);
            // A stored object is at most a few megabytes, so its length fits.
            out.extend_from_slice(&(length as u32).to_be_bytes());
            let mut writer = Writer::new(&mut out);
            writer.bytes_field(1, kind.as_bytes());
            writer.tag(2, kube_wire::internals::proto::WireType::Len);
            writer.varint(field(raw.len()) as u64);
            writer.bytes_field(1, &raw);
            out.into()
        }
    }
}

//! `PartialObjectMetadata`: only an object's metadata, cut out of the stored bytes.

use kube_wire::internals::de::Deserializer;
use kube_wire::internals::proto::{Reader, Writer};
use kube_wire::schema::{Message, Schema};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::Form;

pub(super) const API_VERSION: &str = "meta.k8s.io/v1";
pub(super) const KIND: &str = "PartialObjectMetadata";

#[derive(Deserialize)]
struct MetadataField<'a> {
    #[serde(borrow)]
    metadata: Option<&'a RawValue>,
}

/// Appends the metadata as JSON.
pub(super) fn write_json(form: Form, bytes: &[u8], out: &mut Vec<u8>) {
    match form {
        Form::Json => out.extend_from_slice(raw_json(bytes).as_bytes()),
        Form::Protobuf(_) => {
            if let Some(message) = object_meta() {
                super::show::transcode(Deserializer::new(raw_message(bytes), message), out);
            }
        }
    }
}

/// Appends the message `PartialObjectMetadata { metadata = 1 }`.
pub(super) fn write_protobuf(form: Form, bytes: &[u8], out: &mut Vec<u8>) {
    match form {
        Form::Protobuf(_) => Writer::new(out).bytes_field(1, raw_message(bytes)),
        Form::Json => {
            let value: serde_json::Value = serde_json::from_str(raw_json(bytes)).unwrap_or_default();
            let message =
                object_meta().and_then(|message| kube_wire::internals::ser::to_vec(&value, message).ok());
            Writer::new(out).bytes_field(1, &message.unwrap_or_default());
        }
    }
}

/// The metadata in stored JSON.
fn raw_json(bytes: &[u8]) -> &str {
    let head: Option<MetadataField<'_>> = serde_json::from_slice(bytes).ok();
    head.and_then(|head| head.metadata).map_or("{}", RawValue::get)
}

/// The `ObjectMeta` message in stored protobuf: field 1 of every kind.
fn raw_message(bytes: &[u8]) -> &[u8] {
    let mut reader = Reader::new(bytes);
    while let Ok(Some(tag)) = reader.tag() {
        if tag.number == 1 {
            return reader.expect_bytes(tag).unwrap_or_default();
        }
        if reader.skip(tag.wire_type).is_err() {
            break;
        }
    }
    &[]
}

fn object_meta() -> Option<&'static Message> {
    Schema::builtin().message("k8s.io.apimachinery.pkg.apis.meta.v1.ObjectMeta")
}

//! Single objects in wire form.

use bytes::Bytes;
use kube_wire::Encoding;
use kube_wire::internals::de::Deserializer;
use kube_wire::internals::envelope::Envelope;

use super::{Form, decode, metadata};
use crate::http::{Projection, Representation, Status};
use crate::resources::{Flavour, Resource};

/// Whether JSON includes apiVersion and kind: items of built-in lists do not.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum TypeMeta {
    Shown,
    Hidden,
}

/// One object as a response body.
pub(crate) fn object(resource: &Resource, bytes: &[u8], representation: Representation) -> Bytes {
    let mut out = Vec::with_capacity(bytes.len() * 2);
    write(resource, bytes, representation, &mut out);
    if representation.encoding == Encoding::Json {
        out.push(b'\n');
    }
    out.into()
}

/// A status as a response body.
pub(crate) fn status(status: &Status, encoding: Encoding) -> Bytes {
    let mut out = Vec::new();
    write_status(status, encoding, &mut out);
    if encoding == Encoding::Json {
        out.push(b'\n');
    }
    out.into()
}

/// A value of a kind other than the resource's, such as a `Scale`.
pub(crate) fn other(value: &serde_json::Value, encoding: Encoding) -> Bytes {
    let text = |name: &str| value[name].as_str().unwrap_or_default();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    let message = kube_wire::schema::Schema::builtin().kind(api_version, kind);
    let raw = message.and_then(|message| kube_wire::internals::ser::to_vec(value, message).ok());
    match (encoding, raw) {
        (Encoding::Protobuf, Some(raw)) => {
            let mut out = Vec::new();
            Envelope { api_version, kind, raw: &raw }.seal(&mut out);
            out.into()
        }
        _ => format!("{value}\n").into(),
    }
}

pub(super) fn write_status(status: &Status, encoding: Encoding, out: &mut Vec<u8>) {
    match encoding {
        Encoding::Json => out.extend_from_slice(&status.to_json()),
        Encoding::Protobuf => {
            let message = kube_wire::schema::Schema::builtin().kind("v1", "Status");
            let raw = message
                .and_then(|message| kube_wire::internals::ser::to_vec(&status.to_value(), message).ok());
            // The table has Status, and every status matches it.
            Envelope { api_version: "v1", kind: "Status", raw: &raw.unwrap_or_default() }.seal(out);
        }
    }
}

/// Appends one object, with apiVersion and kind.
pub(super) fn write(resource: &Resource, bytes: &[u8], representation: Representation, out: &mut Vec<u8>) {
    match representation.encoding {
        Encoding::Json => write_json(resource, bytes, representation.projection, TypeMeta::Shown, out),
        Encoding::Protobuf => {
            let mut raw = Vec::new();
            let raw = raw_message(resource, bytes, representation.projection, &mut raw);
            let (api_version, kind) = type_meta(resource, representation.projection);
            Envelope { api_version, kind, raw }.seal(out);
        }
    }
}

/// The object's message. `scratch` holds it if it is not the stored one.
pub(super) fn raw_message<'a>(
    resource: &Resource,
    bytes: &'a [u8],
    projection: Projection,
    scratch: &'a mut Vec<u8>,
) -> &'a [u8] {
    match (projection, &resource.flavour, resource.message) {
        (Projection::Metadata, ..) => metadata::write_protobuf(resource.form, bytes, scratch),
        (Projection::Whole, Flavour::Events, Some(message)) => {
            // A value converted between two kinds of the table can be encoded.
            *scratch =
                kube_wire::internals::ser::to_vec(&decode(resource, bytes), message).unwrap_or_default();
        }
        (Projection::Whole, ..) => return bytes,
    }
    scratch
}

pub(super) fn write_json(
    resource: &Resource,
    bytes: &[u8],
    projection: Projection,
    shown: TypeMeta,
    out: &mut Vec<u8>,
) {
    if projection == Projection::Metadata {
        let (api_version, kind) = type_meta(resource, projection);
        out.extend_from_slice(
            format!("{{\"kind\":\"{kind}\",\"apiVersion\":\"{api_version}\",\"metadata\":").as_bytes(),
        );
        metadata::write_json(resource.form, bytes, out);
        out.push(b'}');
        return;
    }
    if shown == TypeMeta::Hidden {
        return members(resource, bytes, out);
    }
    let (api_version, kind) = (&resource.api_version, &resource.kind);
    let head = if resource.is_custom() {
        format!("{{\"apiVersion\":\"{api_version}\",\"kind\":\"{kind}\"")
    } else {
        format!("{{\"kind\":\"{kind}\",\"apiVersion\":\"{api_version}\"")
    };
    out.extend_from_slice(head.as_bytes());
    // Replace the opening brace of the members with a comma after the head.
    let at = out.len();
    members(resource, bytes, out);
    if out.get(at + 1) == Some(&b'}') {
        out.remove(at);
    } else if let Some(brace) = out.get_mut(at) {
        *brace = b',';
    }
}

pub(super) fn type_meta(resource: &Resource, projection: Projection) -> (&str, &str) {
    match projection {
        Projection::Whole => (&resource.api_version, &resource.kind),
        Projection::Metadata => (metadata::API_VERSION, metadata::KIND),
    }
}

/// Appends the object without apiVersion and kind.
fn members(resource: &Resource, bytes: &[u8], out: &mut Vec<u8>) {
    match (resource.form, &resource.flavour) {
        (_, Flavour::Events) => {
            let mut raw = Vec::new();
            let raw = raw_message(resource, bytes, Projection::Whole, &mut raw);
            if let Some(message) = resource.message {
                transcode(Deserializer::new(raw, message), out);
            }
        }
        (Form::Protobuf(message), _) => transcode(Deserializer::new(bytes, message), out),
        (Form::Json, _) => out.extend_from_slice(bytes),
    }
}

/// Appends the deserializer's input as JSON. Cannot fail, because the bytes were written here.
pub(super) fn transcode(deserializer: Deserializer<'_>, out: &mut Vec<u8>) {
    let at = out.len();
    let mut serializer = serde_json::Serializer::new(&mut *out);
    if serde_transcode::transcode(deserializer, &mut serializer).is_err() {
        out.truncate(at);
        out.extend_from_slice(b"{}");
    }
}

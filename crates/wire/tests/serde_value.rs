//! serde over protobuf compared with objects that Go wrote in both encodings: equal values, and equal bytes.
#![allow(clippy::unwrap_used, reason = "a panic fails the test, also in helper functions")]

mod support;

use kube_wire::Limits;
use kube_wire::internals::de::{Deserializer, UnknownFields};
use kube_wire::internals::ser;
use kube_wire::schema::{Message, Schema};
use serde::Deserialize;
use serde_json::Value;
use support::{Vector, object, vectors};

#[test]
fn protobuf_and_json_give_the_same_value() {
    let vectors = vectors();
    let mut differences = Vec::new();
    for vector in &vectors {
        let expected: Value = serde_json::from_slice(&vector.json).unwrap();
        match dynamic(vector) {
            Ok(value) => differences.extend(support::difference(&vector.name, &value, &expected)),
            Err(error) => differences.push(format!("{}: {error}", vector.name)),
        }
    }
    assert_eq!(differences, [""; 0]);
}

#[test]
fn fields_removed_in_later_releases_are_still_read() {
    let vectors = vectors();
    for (name, field) in [
        ("1.35/core.v1.Pod", "/spec/workloadRef/name"),
        ("1.36/resource.k8s.io.v1.ResourceSlice", "/spec/devices/0/nodeAllocatableResourceMappings"),
        ("1.34/resource.k8s.io.v1alpha3.DeviceTaintRule", "/spec/deviceSelector/deviceClassName"),
        ("1.33/networking.k8s.io.v1alpha1.IPAddress", "/spec/parentRef/name"),
    ] {
        let vector = vectors.iter().find(|vector| vector.name == name).unwrap_or_else(|| panic!("{name}"));
        let expected: Value = serde_json::from_slice(&vector.json).unwrap();
        assert!(expected.pointer(field).is_some(), "{name} has no {field}");
        assert_eq!(dynamic(vector).unwrap().pointer(field), expected.pointer(field), "{name} {field}");
    }
}

#[test]
fn a_value_from_json_encodes_to_the_bytes_of_go() {
    let vectors = vectors();
    let mut differences = Vec::new();
    for vector in &vectors {
        let value: Value = serde_json::from_slice(&vector.json).unwrap();
        check_bytes(vector, &value, &mut differences);
    }
    assert_eq!(differences, [""; 0]);
}

#[test]
fn decoding_and_encoding_gives_the_same_message() {
    let vectors = vectors();
    let mut differences = Vec::new();
    for vector in &vectors {
        check_bytes(vector, &dynamic(vector).unwrap(), &mut differences);
    }
    assert_eq!(differences, [""; 0]);
}

#[test]
fn encoding_returns_api_version_and_kind() {
    let vectors = vectors();
    for vector in vectors.iter().filter(|vector| message(vector).type_meta) {
        let value: Value = serde_json::from_slice(&vector.json).unwrap();
        let type_meta =
            ser::Serializer::new(message(vector)).serialize_into(&value, &mut Vec::new()).unwrap();
        assert_eq!(type_meta.api_version.as_ref(), Some(&vector.api_version), "{}", vector.name);
        assert_eq!(type_meta.kind.as_ref(), Some(&vector.kind), "{}", vector.name);
    }
}

/// Go writes non-pointer fields even if unset, so an object of an earlier release gets a few more bytes. They have no
/// effect: both decode to the same value.
fn check_bytes(vector: &Vector, value: &Value, differences: &mut Vec<String>) {
    match ser::to_vec(value, message(vector)) {
        Ok(bytes) if bytes == object(vector) => {}
        Ok(bytes) if vector.earlier && decoded(vector, &bytes).ok() == dynamic(vector).ok() => {}
        Ok(bytes) => {
            let at = bytes.iter().zip(object(vector)).take_while(|(a, b)| a == b).count();
            differences.push(format!("{}: differs at byte {at}", vector.name));
        }
        Err(error) => differences.push(format!("{}: {error}", vector.name)),
    }
}

fn dynamic(vector: &Vector) -> kube_wire::Result<Value> {
    decoded(vector, object(vector))
}

fn decoded(vector: &Vector, bytes: &[u8]) -> kube_wire::Result<Value> {
    Value::deserialize(
        Deserializer::new(bytes, message(vector))
            .type_meta(&vector.api_version, &vector.kind)
            .unknown_fields(UnknownFields::Reject)
            .limits(Limits::default()),
    )
}

fn message(vector: &Vector) -> &'static Message {
    Schema::builtin().kind(&vector.api_version, &vector.kind).unwrap_or_else(|| panic!("{}", vector.name))
}

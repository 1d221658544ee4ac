//! Objects and lists as a server may send them, and as it may not: what is read, what is refused, and that both are the same
//! for whoever reads the head and for whoever decodes.
#![allow(clippy::unwrap_used, reason = "in a test, helpers included, a panic is the answer")]

use bytes::Bytes;
use k8s_openapi::api::core::v1::ConfigMap;
use kube_wire::envelope::Envelope;
use kube_wire::proto::Writer;
use kube_wire::{Encoding, Limits, ListDecoder, ObjectReader, Projection, RawObject, TypeMeta, ser};
use kube_wire::{KeptBytes, schema::Schema};
use serde_json::{Value, json};

#[test]
fn an_object_that_a_raised_limit_lets_in_can_be_decoded() {
    let value = json!({"metadata": {"name": "large"}, "data": {"d": "x".repeat(9 << 20)}});
    let bytes = ser::to_vec(&value, Schema::builtin().kind("v1", "ConfigMap").unwrap()).unwrap();
    let mut reader = reader_with(Limits::default().object_bytes_max(16 << 20));
    let object = reader.read(&bytes, Encoding::Protobuf, Some(&config_map())).unwrap();
    let decoded: ConfigMap = object.decode().unwrap();
    assert_eq!(decoded.data.unwrap()["d"].len(), 9 << 20);
    assert_eq!(object.decode_dynamic::<Value>().unwrap()["data"], value["data"]);
    let data = "data".parse::<kube_wire::FieldPath>().unwrap().first(object.head()).unwrap().unwrap();
    assert_eq!(data.to_value().unwrap(), value["data"]);
}

#[test]
fn metadata_that_stands_there_twice_is_refused_in_either_encoding() {
    let (mut meta, mut bytes) = (Vec::new(), Vec::new());
    Writer::new(&mut meta).bytes_field(1, b"a");
    for number in [1, 2, 1] {
        Writer::new(&mut bytes).bytes_field(number, if number == 1 { &meta } else { b"" });
    }
    let text = br#"{"metadata":{"name":"a"},"data":{},"metadata":{"name":"a"}}"#;
    for (bytes, encoding) in [(&bytes[..], Encoding::Protobuf), (text, Encoding::Json)] {
        let error = reader().read(bytes, encoding, Some(&config_map())).unwrap_err();
        assert!(error.to_string().contains("metadata stands there twice"), "{error}");
    }
}

#[test]
fn bytes_that_no_object_has_kept_are_refused_and_never_a_panic() {
    for text in ["", "{", "}", "[]", "null", "\"", " {}", "{}x"] {
        let bytes = Bytes::from_static(text.as_bytes());
        let restored = RawObject::restore(bytes.clone(), Encoding::Json, config_map());
        assert!(restored.is_err(), "{text}");
        let kept = KeptBytes { bytes: &bytes, encoding: Encoding::Json, type_meta: &config_map() };
        assert!(kept.decode::<Value>().is_err(), "{text}");
    }
    let empty = RawObject::restore(Bytes::from_static(b"{}"), Encoding::Json, config_map()).unwrap();
    assert_eq!(empty.decode::<Value>().unwrap(), json!({"apiVersion": "v1", "kind": "ConfigMap"}));
}

#[test]
fn a_protobuf_list_whose_own_head_is_too_large_is_lost() {
    let large = "x".repeat(200);
    let mut list_meta = Vec::new();
    Writer::new(&mut list_meta).bytes_field(2, large.as_bytes());
    let mut raw = Vec::new();
    Writer::new(&mut raw).bytes_field(1, &list_meta);
    for (kind, raw) in [("ConfigMapList", &raw[..]), (&large, b"")] {
        let mut body = Vec::new();
        Envelope { api_version: "v1", kind, raw }.seal(&mut body);
        let mut list =
            ListDecoder::new(Encoding::Protobuf, reader_with(Limits::default().object_bytes_max(100)));
        list.push(body.into());
        let error = list.next_item().unwrap().unwrap_err();
        assert!(error.is_fatal(), "{error}");
        assert!(list.next_item().is_none());
        assert_eq!(list.finish().unwrap_err(), error);
    }
}

fn reader() -> ObjectReader {
    reader_with(Limits::default())
}

fn reader_with(limits: Limits) -> ObjectReader {
    ObjectReader::new(Projection::default(), limits)
}

fn config_map() -> TypeMeta {
    TypeMeta::new("v1", "ConfigMap")
}

//! Protobuf that is valid but never written by Go, protobuf that is invalid, and exceeded limits.
#![cfg_attr(
    not(feature = "go-vectors"),
    allow(dead_code, unused_imports, reason = "helpers of tests that need vectors")
)]
#![allow(clippy::unwrap_used, reason = "a panic fails the test, also in helper functions")]

mod support;

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube_wire::internals::de::{Deserializer, UnknownFields, from_slice};
use kube_wire::internals::proto::{Reader, WireType, Writer};
use kube_wire::internals::ser;
use kube_wire::schema::{Cardinality, Message, Schema, Shape};
use kube_wire::{Error, Limit, Limits};
use proptest::prelude::*;
use serde::Deserialize;
use serde_json::{Value, json};
use support::{Vector, object, vectors};

#[test]
fn unknown_fields_are_errors_unless_skipped() {
    let message = message("v1", "ConfigMap");
    let mut bytes = ser::to_vec(&json!({"data": {"a": "b"}}), message).unwrap();
    Writer::new(&mut bytes).varint_field(99, 1);
    let error = from_slice::<Value>(&bytes, message).unwrap_err();
    assert!(matches!(error, Error::UnknownField { number: 99, .. }), "{error}");
    let error = from_slice::<ConfigMap>(&bytes, message).unwrap_err();
    assert!(matches!(error, Error::UnknownField { number: 99, .. }), "typed values, too: {error}");
    let skipping = Deserializer::new(&bytes, message).unknown_fields(UnknownFields::Skip);
    assert_eq!(Value::deserialize(skipping).unwrap(), json!({"metadata": {}, "data": {"a": "b"}}));
}

#[test]
fn promise_13_a_field_that_the_table_lacks_is_found_wherever_it_stands() {
    let with_field = |message: &'static Message, path: &str, inner: &[u8]| {
        let field = message.field_named(path).unwrap();
        let mut bytes = Vec::new();
        Writer::new(&mut bytes).bytes_field(field.number, inner);
        bytes
    };
    // number 99, a varint, alone and after the usual content of such a message
    let unknown = &[0x98, 0x06, 1][..];
    let meta = schema_message("k8s.io.apimachinery.pkg.apis.meta.v1.ObjectMeta");
    let port = schema_message("k8s.io.api.core.v1.ServicePort");
    let rule = schema_message("k8s.io.api.rbac.v1.PolicyRule");
    let empty_dir = schema_message("k8s.io.api.core.v1.EmptyDirVolumeSource");
    let probe = schema_message("k8s.io.api.core.v1.HTTPGetAction");
    let review = schema_message("k8s.io.api.authentication.v1.UserInfo");
    for (message, bytes) in [
        (meta, with_field(meta, "creationTimestamp", unknown)),
        (meta, with_field(meta, "creationTimestamp", &[&[0x08, 7][..], unknown].concat())),
        (meta, with_field(meta, "deletionTimestamp", unknown)),
        (empty_dir, with_field(empty_dir, "sizeLimit", &[&[0x0a, 1, b'1'][..], unknown].concat())),
        (port, with_field(port, "targetPort", &[&[0x10, 7][..], unknown].concat())),
        (probe, with_field(probe, "port", unknown)),
        (rule, [with_field(rule, "verbs", b"get"), unknown.to_vec()].concat()),
        (review, {
            let mut entry = Vec::new();
            Writer::new(&mut entry).bytes_field(1, b"key");
            Writer::new(&mut entry).bytes_field(2, unknown);
            with_field(review, "extra", &entry)
        }),
    ] {
        let error = from_slice::<Value>(&bytes, message).unwrap_err();
        assert!(matches!(error, Error::UnknownField { number: 99, .. }), "{}: {error}", message.name);
        let skipping = Deserializer::new(&bytes, message).unknown_fields(UnknownFields::Skip);
        skipping.read::<Value>().unwrap();
    }
}

#[test]
fn promise_13_a_type_that_swallows_errors_does_not_hide_a_field_that_the_table_lacks() {
    #[derive(Debug, Deserialize)]
    struct Careless {
        #[serde(rename = "metadata", deserialize_with = "or_nothing")]
        _metadata: Value,
    }
    fn or_nothing<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Value, D::Error> {
        Ok(Value::deserialize(deserializer).unwrap_or_default())
    }
    let mut bytes = Vec::new();
    Writer::new(&mut bytes).bytes_field(1, &[0xf8, 0x3f, 1]);
    let error = from_slice::<Careless>(&bytes, message("v1", "ConfigMap")).unwrap_err();
    assert!(matches!(error, Error::UnknownField { number: 1023, .. }), "{error}");
}

#[test]
fn promise_13_a_type_that_lacks_a_field_of_the_table_skips_it_and_everything_in_it() {
    #[derive(Debug, Deserialize)]
    struct DataOnly {
        data: BTreeMap<String, String>,
    }
    let message = message("v1", "ConfigMap");
    // Metadata with a field that is not in the table: the type has no such field in any encoding.
    let mut bytes = Vec::new();
    Writer::new(&mut bytes).bytes_field(1, &[0xf8, 0x3f, 1]);
    bytes.extend_from_slice(b"\x12\x06\x0a\x01k\x12\x01v");
    assert_eq!(from_slice::<DataOnly>(&bytes, message).unwrap().data["k"], "v");
}

#[test]
fn numbers_may_be_packed_and_split_in_any_way() {
    let message = schema_message("k8s.io.api.core.v1.PodSecurityContext");
    let number = message.field_named("supplementalGroups").unwrap().number;
    let mut bytes = Vec::new();
    let mut writer = Writer::new(&mut bytes);
    writer.bytes_field(number, &[1, 2, 0x80, 1]);
    writer.varint_field(number, 3);
    writer.bytes_field(number, &[]);
    writer.bytes_field(number, &[4]);
    let value: Value = from_slice(&bytes, message).unwrap();
    assert_eq!(value, json!({"supplementalGroups": [1, 2, 128, 3, 4]}));
    Writer::new(&mut bytes).bytes_field(number, &[0x80]);
    from_slice::<Value>(&bytes, message).unwrap_err();
}

#[test]
fn map_entries_may_lack_key_or_value_and_the_last_key_wins() {
    let message = message("v1", "ConfigMap");
    let entry = |key: Option<&str>, value: Option<&str>| {
        let mut entry = Vec::new();
        let mut writer = Writer::new(&mut entry);
        // Value first: entries need not be in order either.
        value.inspect(|value| writer.bytes_field(2, value.as_bytes()));
        key.inspect(|key| writer.bytes_field(1, key.as_bytes()));
        entry
    };
    let mut bytes = Vec::new();
    for (key, value) in [(Some("a"), Some("1")), (None, Some("2")), (Some("b"), None), (Some("a"), Some("3"))]
    {
        Writer::new(&mut bytes).bytes_field(2, &entry(key, value));
    }
    let value: ConfigMap = from_slice(&bytes, message).unwrap();
    let expected = [("a", "3"), ("", "2"), ("b", "")].map(|(key, value)| (key.to_owned(), value.to_owned()));
    assert_eq!(value.data, Some(BTreeMap::from(expected)));
}

#[test]
fn the_last_singular_field_wins_and_messages_are_merged() {
    let message = message("v1", "Pod");
    let [first, second] =
        [json!({"name": "a", "labels": {"x": "1"}}), json!({"namespace": "n", "labels": {"y": "2"}})];
    let mut bytes = Vec::new();
    for metadata in [first, second] {
        let mut part =
            ser::to_vec(&metadata, schema_message("k8s.io.apimachinery.pkg.apis.meta.v1.ObjectMeta"))
                .unwrap();
        part.splice(..0, [0x22, 1, b'?']); // selfLink, twice before and after others
        Writer::new(&mut bytes).bytes_field(1, &part);
    }
    let value: Value = from_slice(&bytes, message).unwrap();
    // The second part has name = "", as Go writes it, which is the last one.
    assert_eq!(value["metadata"], json!({"namespace": "n", "labels": {"x": "1", "y": "2"}}));
    let typed: Pod = from_slice(&bytes, message).unwrap();
    assert_eq!(typed.metadata.namespace.as_deref(), Some("n"));
}

#[test]
fn protobuf_in_a_raw_extension_is_decoded() {
    let watch_event = message("v1", "WatchEvent");
    let config_map = ser::to_vec(&json!({"data": {"a": "b"}}), message("v1", "ConfigMap")).unwrap();
    let value = |kind: &str| from_slice::<Value>(&event(&enveloped("v1", kind, &config_map)), watch_event);
    assert_eq!(
        value("ConfigMap").unwrap()["object"],
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {}, "data": {"a": "b"}})
    );
    assert!(matches!(value("Nonsense"), Err(Error::UnknownKind { kind, .. }) if kind == "Nonsense"));
    let error = from_slice::<Value>(&event(b"\xd9\xd9\xf7\xa0"), watch_event).unwrap_err();
    assert!(error.to_string().contains("embedded JSON"), "{error}");
    from_slice::<Value>(&event(b"{} {}"), watch_event).unwrap_err();
}

#[test]
fn nesting_of_envelopes_is_limited() {
    let watch_event = message("v1", "WatchEvent");
    let mut bytes = event(b"{}");
    for _ in 0..1_000 {
        bytes = event(&enveloped("v1", "WatchEvent", &bytes));
    }
    let error = from_slice::<Value>(&bytes, watch_event).unwrap_err();
    assert!(matches!(error, Error::Limit { limit: Limit::Nesting, .. }), "{error}");
}

#[test]
fn exceeded_limits_are_named_errors() {
    let message = message("v1", "ConfigMap");
    let bytes = ser::to_vec(&json!({"data": {"a": "b"}}), message).unwrap();
    let decode = |limits| Value::deserialize(Deserializer::new(&bytes, message).limits(limits));
    let error = decode(Limits::DEFAULT.object_bytes_max(bytes.len() - 1)).unwrap_err();
    assert!(matches!(error, Error::Limit { limit: Limit::ObjectBytes, .. }), "{error}");
    assert!(decode(Limits::DEFAULT.object_bytes_max(bytes.len())).is_ok());
    // The object and the map in it.
    assert!(decode(Limits::DEFAULT.nesting_max(2)).is_ok());
    let error = decode(Limits::DEFAULT.nesting_max(1)).unwrap_err();
    assert!(matches!(error, Error::Limit { limit: Limit::Nesting, found: 2, allowed: 1 }), "{error}");
}

#[test]
fn the_deepest_nesting_allowed_fits_the_stack_of_a_thread() {
    // A thread has 2 MiB. Without optimization, a level of JSONSchemaProps takes some 20 KB, which is slightly too
    // much.
    let stack_bytes = if cfg!(debug_assertions) { 4 << 20 } else { 2 << 20 };
    std::thread::Builder::new().stack_size(stack_bytes).spawn(nest_deeply).unwrap().join().unwrap();
}

fn nest_deeply() {
    let schema = |levels| (0..levels).fold(json!({"type": "string"}), |inner, _| json!({"not": inner}));
    let crd = |levels| {
        let version = json!({"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema(levels)}});
        json!({"spec": {"group": "g", "names": {"kind": "K", "plural": "ks"}, "scope": "Cluster", "versions": [version]}})
    };
    let message = message("apiextensions.k8s.io/v1", "CustomResourceDefinition");
    let unlimited = ser::Serializer::new(message).limits(Limits::DEFAULT.nesting_max(512));
    let bytes = |levels| {
        let mut bytes = Vec::new();
        unlimited.serialize_into(&crd(levels), &mut bytes).unwrap();
        bytes
    };
    let fits = bytes(Limits::DEFAULT.nesting_max - 6);
    assert_eq!(
        from_slice::<Value>(&fits, message).unwrap()["spec"],
        crd(Limits::DEFAULT.nesting_max - 6)["spec"]
    );
    from_slice::<CustomResourceDefinition>(&fits, message).unwrap();
    let too_deep = bytes(Limits::DEFAULT.nesting_max - 5);
    for error in [
        from_slice::<Value>(&too_deep, message).unwrap_err(),
        from_slice::<CustomResourceDefinition>(&too_deep, message).unwrap_err(),
        ser::to_vec(&crd(Limits::DEFAULT.nesting_max), message).unwrap_err(),
    ] {
        assert!(matches!(error, Error::Limit { limit: Limit::Nesting, .. }), "{error}");
    }
}

#[test]
fn mismatched_values_are_errors_with_a_path() {
    let pod = message("v1", "Pod");
    for (value, place) in [
        (json!({"spec": {"containers": [{"name": 1}]}}), "`spec.containers.name`"),
        (json!({"spec": {"priority": 3_000_000_000_u32}}), "`spec.priority`"),
        (json!({"spec": {"hostNetwork": "yes"}}), "`spec.hostNetwork`"),
        (json!({"metadata": {"creationTimestamp": "yesterday"}}), "`metadata.creationTimestamp`"),
        (json!({"metadata": {"labels": ["a"]}}), "`metadata.labels`"),
        (json!({"spec": {"overhead": {"cpu": "much"}}}), "`spec.overhead`"),
        (json!({"spec": []}), "`spec`"),
        (json!({"spec": {"nodename": "n"}}), "`spec`"),
    ] {
        let error = ser::to_vec(&value, pod).unwrap_err().to_string();
        assert!(error.starts_with(place), "{error} does not begin with {place}");
    }
    let mut out = b"before".to_vec();
    let unknown = json!({"metadata": {"name": "a"}, "specs": {}});
    ser::Serializer::new(pod).serialize_into(&unknown, &mut out).unwrap_err();
    assert_eq!(out, b"before");
    let lossy = ser::Serializer::new(pod).unknown_fields(UnknownFields::Skip);
    lossy.serialize_into(&unknown, &mut out).unwrap();
    assert_eq!(from_slice::<Value>(&out[6..], pod).unwrap()["metadata"], json!({"name": "a"}));
}

#[test]
fn strings_are_borrowed_from_the_bytes() {
    #[derive(Deserialize)]
    struct Borrowed<'a> {
        #[serde(borrow)]
        metadata: Metadata<'a>,
    }
    #[derive(Deserialize)]
    struct Metadata<'a> {
        name: &'a str,
    }
    let message = message("v1", "ConfigMap");
    let bytes = ser::to_vec(&json!({"metadata": {"name": "here"}}), message).unwrap();
    let Borrowed { metadata: Metadata { name } } =
        Borrowed::deserialize(Deserializer::new(&bytes, message)).unwrap();
    assert!(bytes.as_ptr_range().contains(&name.as_ptr()));
    assert_eq!(name, "here");
}

#[test]
fn bytes_are_base64_unless_bytes_are_asked_for() {
    #[derive(Deserialize)]
    struct Raw<'a> {
        #[serde(borrow)]
        data: BTreeMap<&'a str, &'a [u8]>,
    }
    let message = message("v1", "Secret");
    let bytes = ser::to_vec(&json!({"data": {"k": "aGk="}}), message).unwrap();
    assert_eq!(from_slice::<Value>(&bytes, message).unwrap()["data"]["k"], "aGk=");
    assert_eq!(Raw::deserialize(Deserializer::new(&bytes, message)).unwrap().data["k"], b"hi");
}

#[test]
fn raw_json_text_is_kept_unchanged_on_request() {
    #[derive(Deserialize)]
    struct Event<'a> {
        #[serde(borrow)]
        object: &'a serde_json::value::RawValue,
    }
    let bytes = event(br#"{"b": 1.50,  "a": 2}"#);
    let value = Event::deserialize(Deserializer::new(&bytes, message("v1", "WatchEvent"))).unwrap();
    assert_eq!(value.object.get(), r#"{"b": 1.50,  "a": 2}"#);
}

#[cfg(feature = "go-vectors")]
#[test]
fn fields_in_any_order_give_the_same_value() {
    let vectors = vectors();
    for (seed, vector) in vectors.iter().enumerate() {
        let mut random = Random(seed as u64 + 1);
        let message = message(&vector.api_version, &vector.kind);
        let scrambled = scramble(object(vector), message, &mut random);
        let [found, expected] =
            [&scrambled, object(vector)].map(|bytes| from_slice::<Value>(bytes, message).unwrap());
        assert_eq!(support::difference(&vector.name, &found, &expected), [""; 0]);
    }
}

#[test]
fn list_elements_may_be_apart() {
    let message = schema_message("k8s.io.apimachinery.pkg.apis.meta.v1.ObjectMeta");
    let finalizers = message.field_named("finalizers").unwrap().number;
    for between in [1, finalizers + 1, 99] {
        let mut bytes = Vec::new();
        let mut writer = Writer::new(&mut bytes);
        writer.bytes_field(finalizers, b"a");
        writer.bytes_field(between, b"");
        writer.bytes_field(finalizers, b"b");
        let skipping = || Deserializer::new(&bytes, message).unknown_fields(UnknownFields::Skip);
        let value: Value = skipping().read().unwrap();
        assert_eq!(value["finalizers"], json!(["a", "b"]), "with {between} between them");
        let meta: ObjectMeta = skipping().read().unwrap();
        assert_eq!(meta.finalizers.unwrap(), ["a", "b"], "with {between} between them");
    }
}

#[test]
fn unordered_messages_are_sorted_wherever_they_occur() {
    let config_map = schema_message("k8s.io.api.core.v1.ConfigMap");
    // data before metadata, in an envelope in an event whose type comes last.
    let mut object = Vec::new();
    let mut writer = Writer::new(&mut object);
    writer.bytes_field(config_map.field_named("data").unwrap().number, b"\x0a\x01a\x12\x01b");
    writer.bytes_field(1, b"\x0a\x01n");
    let (mut raw, mut bytes) = (Vec::new(), Vec::new());
    Writer::new(&mut raw).bytes_field(1, &enveloped("v1", "ConfigMap", &object));
    Writer::new(&mut bytes).bytes_field(2, &raw);
    let expected =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "n"}, "data": {"a": "b"}});
    for in_order in [false, true] {
        let event = if in_order {
            event(&enveloped("v1", "ConfigMap", &object))
        } else {
            [&bytes[..], b"\x0a\x01A"].concat()
        };
        let value: Value = from_slice(&event, message("v1", "WatchEvent")).unwrap();
        assert_eq!(value["object"], expected, "the event in order: {in_order}");
    }
    // Values of a map.
    let user = schema_message("k8s.io.api.authentication.v1.UserInfo");
    let extra = user.field_named("extra").unwrap().number;
    let mut bytes = Vec::new();
    let mut writer = Writer::new(&mut bytes);
    writer.bytes_field(extra, b"\x12\x06\x0a\x01x\x0a\x01y\x0a\x01k");
    writer.bytes_field(1, b"name");
    let value: Value = from_slice(&bytes, user).unwrap();
    assert_eq!(value, json!({"username": "name", "extra": {"k": ["x", "y"]}}));
    // A value that is not a message is not treated as one, even with the number 10, which would be the tag of a
    // string.
    let mut bytes = Vec::new();
    let mut writer = Writer::new(&mut bytes);
    writer.bytes_field(extra, b"\x10\x0a\x0a\x01k");
    writer.bytes_field(1, b"name");
    let error = from_slice::<Value>(&bytes, user).unwrap_err();
    assert!(error.to_string().contains("expected a string or a message"), "{error}");
}

#[test]
fn a_late_field_is_not_a_type_error() {
    #[derive(Deserialize)]
    struct Spec {
        containers: Vec<Value>,
    }
    let message = schema_message("k8s.io.api.core.v1.PodSpec");
    // restartPolicy = 3 before containers = 2, which JSON shows as `null` if absent.
    let bytes = b"\x1a\x05Never\x12\x03\x0a\x01c";
    let spec: Spec = from_slice(bytes, message).unwrap();
    assert_eq!(spec.containers.len(), 1);
    assert_eq!(spec.containers[0]["name"], "c");
    // An ordered message that does not match reports the mismatch.
    let error = from_slice::<Spec>(b"\x1a\x05Never", message).map(|_| ()).unwrap_err();
    assert!(error.to_string().contains("expected a sequence"), "{error}");
}

#[test]
fn unordered_fields_are_an_error_when_borrowed_or_skipped() {
    #[derive(Debug, Deserialize)]
    struct Borrowed<'a> {
        #[serde(borrow)]
        metadata: BTreeMap<&'a str, Value>,
    }
    /// Treats unreadable fields as absent.
    #[derive(Debug, Default, Deserialize)]
    struct Careless {
        #[serde(deserialize_with = "or_nothing")]
        metadata: Value,
    }
    fn or_nothing<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Value, D::Error> {
        Ok(Value::deserialize(deserializer).unwrap_or_default())
    }
    let message = message("v1", "ConfigMap");
    // metadata { namespace = 3, name = 1 }
    let bytes = b"\x0a\x06\x1a\x01s\x0a\x01n";
    let error = Borrowed::deserialize(Deserializer::new(bytes, message)).unwrap_err();
    assert_eq!(error, Error::Unordered);
    assert!(error.to_string().contains("decode into an owned type"), "{error}");
    assert_eq!(Careless::deserialize(Deserializer::new(bytes, message)).unwrap_err(), Error::Unordered);
    let read: Careless = from_slice(bytes, message).unwrap();
    assert_eq!(read.metadata, json!({"name": "n", "namespace": "s"}));
    let in_order = b"\x0a\x06\x0a\x01n\x1a\x01s";
    let borrowed = Borrowed::deserialize(Deserializer::new(in_order, message)).unwrap();
    assert_eq!(borrowed.metadata["name"], "n");
}

proptest! {
    #[test]
    fn arbitrary_bytes_give_a_value_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..200), kind: prop::sample::Index) {
        let kinds: Vec<_> = Schema::builtin().kinds().collect();
        let message = Schema::builtin().message(kind.get(&kinds).message).unwrap();
        let _ = from_slice::<Value>(&bytes, message);
        let _ = from_slice::<Pod>(&bytes, self::message("v1", "Pod"));
        let _ = from_slice::<CustomResourceDefinition>(&bytes, self::message("apiextensions.k8s.io/v1", "CustomResourceDefinition"));
    }
}

#[cfg(feature = "go-vectors")]
#[test]
fn mutated_objects_give_a_value_or_an_error() {
    let vectors = vectors();
    let mut decoded = 0;
    for (seed, vector) in vectors.iter().enumerate() {
        let mut random = Random(seed as u64 + 1);
        for _ in 0..20 {
            let bytes = mutate(vector, &mut random);
            let message = message(&vector.api_version, &vector.kind);
            let value = from_slice::<Value>(&bytes, message);
            // A decoded value can be encoded, unless the mutation produced a time, a quantity or similar that Go
            // rejects.
            if let Ok(value) = value {
                decoded += 1;
                let _ = ser::to_vec(&value, message);
            }
            if vector.kind == "Pod" {
                let _ = from_slice::<Pod>(&bytes, message);
            }
        }
    }
    assert!(decoded > 1_000, "only {decoded} could be read: the mutations are too coarse to reach far");
}

fn message(api_version: &str, kind: &str) -> &'static Message {
    Schema::builtin().kind(api_version, kind).unwrap_or_else(|| panic!("{api_version} {kind}"))
}

fn schema_message(name: &str) -> &'static Message {
    Schema::builtin().message(name).unwrap_or_else(|| panic!("{name}"))
}

/// A `WatchEvent` around raw bytes.
fn event(raw: &[u8]) -> Vec<u8> {
    let (mut object, mut event) = (Vec::new(), Vec::new());
    Writer::new(&mut object).bytes_field(1, raw);
    let mut writer = Writer::new(&mut event);
    writer.bytes_field(1, b"ADDED");
    writer.bytes_field(2, &object);
    event
}

fn enveloped(api_version: &str, kind: &str, raw: &[u8]) -> Vec<u8> {
    let (mut type_meta, mut envelope) = (Vec::new(), b"k8s\0".to_vec());
    let mut writer = Writer::new(&mut type_meta);
    writer.bytes_field(1, api_version.as_bytes());
    writer.bytes_field(2, kind.as_bytes());
    let mut writer = Writer::new(&mut envelope);
    writer.bytes_field(1, &type_meta);
    writer.bytes_field(2, raw);
    envelope
}

/// The same message with the fields at all levels in another order; elements of one list keep theirs.
fn scramble(bytes: &[u8], message: &'static Message, random: &mut Random) -> Vec<u8> {
    let mut fields: Vec<(u32, Vec<u8>)> = Vec::new();
    let mut reader = Reader::new(bytes);
    while let Some(tag) = reader.tag().unwrap() {
        let mut field = Vec::new();
        let mut writer = Writer::new(&mut field);
        match tag.wire_type {
            WireType::Varint => writer.varint_field(tag.number, reader.varint().unwrap()),
            WireType::Fixed64 => {
                writer.tag(tag.number, tag.wire_type);
                field.extend_from_slice(&reader.fixed64().unwrap().to_le_bytes());
            }
            WireType::Fixed32 => {
                writer.tag(tag.number, tag.wire_type);
                field.extend_from_slice(&reader.fixed32().unwrap().to_le_bytes());
            }
            WireType::Len => {
                let value = reader.bytes().unwrap();
                let ty = message.field(tag.number).unwrap().ty;
                match ty.message(Schema::builtin()) {
                    Some(inner) if inner.shape == Shape::Object && ty.cardinality != Cardinality::Map => {
                        writer.bytes_field(tag.number, &scramble(value, inner, random));
                    }
                    _ => writer.bytes_field(tag.number, value),
                }
            }
        }
        fields.push((tag.number, field));
    }
    // Swap neighbors with different numbers, so that each list keeps its order.
    for _ in 0..fields.len() * 2 {
        let at = random.below(fields.len());
        if at + 1 < fields.len() && fields[at].0 != fields[at + 1].0 {
            fields.swap(at, at + 1);
        }
    }
    fields.into_iter().flat_map(|(_, field)| field).collect()
}

fn mutate(vector: &Vector, random: &mut Random) -> Vec<u8> {
    let mut bytes = object(vector).to_vec();
    for _ in 0..1 + random.below(3) {
        if bytes.is_empty() {
            break;
        }
        let at = random.below(bytes.len());
        match random.below(6) {
            0 => bytes.truncate(at),
            1 => drop(bytes.remove(at)),
            2 => bytes.insert(at, random.next() as u8),
            3 => bytes[at] = [0, 1, 0x7f, 0x80, 0xff][random.below(5)],
            4 => bytes[at] ^= 1 << random.below(8),
            _ => bytes[at] = random.next() as u8,
        }
    }
    bytes
}

/// A small generator (xorshift), so that failures are reproducible.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }
}

//! The schema table compared with objects written by Go: everything in their bytes is in the table.
#![allow(clippy::unwrap_used, reason = "functions that only tests call")]

mod support;

use std::collections::BTreeSet;

use kube_wire::schema::{Cardinality, Field, Message, Scalar, Schema, Shape};
use serde_json::Value;

#[test]
fn every_kind_of_the_test_vectors_has_a_message() {
    let vectors = support::vectors();
    let kinds = |origin: &str| {
        let found = vectors.iter().filter(|vector| vector.name.starts_with(origin));
        found.map(|vector| (&*vector.api_version, &*vector.kind)).collect::<BTreeSet<_>>()
    };
    for (api_version, kind) in kinds("") {
        assert!(
            Schema::builtin().kind(api_version, kind).is_some(),
            "{api_version} {kind} is not in the table"
        );
    }
    let counts: Vec<_> =
        support::origins().map(|release| (release, kinds(&format!("{release}/")).len())).collect();
    assert_eq!(counts, [("1.33", 34), ("1.34", 26), ("1.35", 34), ("1.36", 38), ("1.37", 193)]);
    let made = kinds("made/");
    let known = Schema::builtin().kinds().len();
    assert!(made.len() < known && known < 2 * made.len(), "{} of {known} kinds", made.len());
}

#[test]
fn every_field_in_the_protobuf_bytes_of_the_test_vectors_is_in_the_table() {
    let vectors = support::vectors();
    for vector in vectors {
        let message = Schema::builtin().kind(&vector.api_version, &vector.kind).expect("tested above");
        let envelope =
            vector.pb.strip_prefix(b"k8s\0").unwrap_or_else(|| panic!("{}: no envelope", vector.name));
        let raw = tags(envelope).find(|&(number, _)| number == 2).expect("an envelope holds an object").1;
        let Part::Bytes(raw) = raw else { panic!("{}: {raw:?}", vector.name) };
        check_protobuf(&vector.name, message, raw);
    }
}

#[test]
fn every_name_in_the_json_of_the_test_vectors_is_in_the_table() {
    let vectors = support::vectors();
    for vector in vectors {
        let message = Schema::builtin().kind(&vector.api_version, &vector.kind).expect("tested above");
        let mut value = serde_json::from_slice(&vector.json).unwrap();
        if message.type_meta {
            let type_meta = ["apiVersion", "kind"].map(|name| take(&mut value, name));
            assert_eq!(
                type_meta,
                [Value::from(vector.api_version), Value::from(vector.kind)],
                "{}",
                vector.name
            );
        }
        check_json(&vector.name, message, &value);
    }
}

#[test]
fn json_of_zero_values_has_exactly_the_names_shown_by_the_table() {
    let vectors = support::vectors();
    for vector in vectors.iter().filter(|vector| vector.name.ends_with(".zero")) {
        let message = Schema::builtin().kind(&vector.api_version, &vector.kind).expect("tested above");
        let mut value = serde_json::from_slice(&vector.json).unwrap();
        if message.type_meta {
            let _ = ["apiVersion", "kind"].map(|name| take(&mut value, name));
        }
        check_zero(&vector.name, message, &value);
    }
}

/// The wire form of a field.
#[derive(Clone, Copy, Debug)]
enum Part<'a> {
    Varint,
    Fixed64,
    Bytes(&'a [u8]),
}

/// The fields of a message written by Go; panics on anything unexpected.
fn tags(mut bytes: &[u8]) -> impl Iterator<Item = (u32, Part<'_>)> {
    std::iter::from_fn(move || {
        if bytes.is_empty() {
            return None;
        }
        let tag = varint(&mut bytes);
        let part = match tag & 7 {
            0 => {
                varint(&mut bytes);
                Part::Varint
            }
            1 => {
                bytes = &bytes[8..];
                Part::Fixed64
            }
            2 => {
                let length = varint(&mut bytes);
                let (value, rest) = bytes.split_at(usize::try_from(length).expect("Go fits its lengths"));
                bytes = rest;
                Part::Bytes(value)
            }
            other => panic!("Kubernetes has no wire type {other}"),
        };
        Some((u32::try_from(tag >> 3).expect("field numbers are small"), part))
    })
}

fn varint(bytes: &mut &[u8]) -> u64 {
    let mut value = 0;
    for shift in (0..).step_by(7) {
        let (&byte, rest) = bytes.split_first().expect("Go ends its varints");
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            break;
        }
    }
    value
}

fn check_protobuf(at: &str, message: &'static Message, bytes: &[u8]) {
    for (number, part) in tags(bytes) {
        let field =
            message.field(number).unwrap_or_else(|| panic!("{at}: {} has no field {number}", message.name));
        let at = format!("{at}.{}", field.name);
        match (field.ty.cardinality, part) {
            (Cardinality::Map, Part::Bytes(entry)) => {
                for (number, part) in tags(entry) {
                    match (number, part) {
                        (1, Part::Bytes(_)) => {}
                        (2, part) => check_value(&at, field.ty.scalar, part),
                        _ => panic!("{at}: {number} in a map's entry"),
                    }
                }
            }
            (_, part) => check_value(&at, field.ty.scalar, part),
        }
    }
}

fn check_value(at: &str, scalar: Scalar, part: Part<'_>) {
    match (scalar, part) {
        (Scalar::Message(place), Part::Bytes(bytes)) => {
            check_protobuf(at, Schema::builtin().message_at(place), bytes);
        }
        (Scalar::String | Scalar::Bytes, Part::Bytes(_))
        | (Scalar::Double, Part::Fixed64)
        | (Scalar::Bool | Scalar::Int32 | Scalar::Int64 | Scalar::Uint32 | Scalar::Uint64, Part::Varint) => {}
        (scalar, part) => panic!("{at}: a {scalar:?} written as {part:?}"),
    }
}

fn check_json(at: &str, message: &'static Message, value: &Value) {
    match (message.shape, value) {
        (Shape::Object, Value::Object(members)) => {
            for (name, value) in members {
                let field =
                    reach(message, name).unwrap_or_else(|| panic!("{at}: {} has no {name}", message.name));
                check_field(&format!("{at}.{name}"), field, value);
            }
        }
        (Shape::Object, other) => panic!("{at} is an object in the table and {other} in JSON"),
        (Shape::Time | Shape::MicroTime, Value::String(_) | Value::Null)
        | (Shape::Quantity, Value::String(_))
        | (Shape::IntOrString, Value::String(_) | Value::Number(_))
        | (Shape::RawJson, _)
        | (Shape::StringList, Value::Array(_))
        | (Shape::SchemaOrBool, Value::Bool(_))
        | (Shape::SchemaOrArray | Shape::SchemaOrStrings, Value::Null) => {}
        (Shape::SchemaOrBool | Shape::SchemaOrArray | Shape::SchemaOrStrings, value @ Value::Object(_)) => {
            check_json(at, schema_in(message), value);
        }
        (Shape::SchemaOrArray, Value::Array(values)) => {
            values.iter().for_each(|value| check_json(at, schema_in(message), value));
        }
        (Shape::SchemaOrStrings, Value::Array(values)) => {
            assert!(values.iter().all(Value::is_string), "{at}");
        }
        (shape, other) => panic!("{at} is a {shape:?} in the table and {other} in JSON"),
    }
}

fn check_field(at: &str, field: &Field, value: &Value) {
    let one = |value: &Value| match (field.ty.scalar, value) {
        (Scalar::Message(place), value) => check_json(at, Schema::builtin().message_at(place), value),
        (Scalar::String | Scalar::Bytes, Value::String(_)) | (Scalar::Bool, Value::Bool(_)) => {}
        (Scalar::Bytes, Value::Null) => {}
        (Scalar::Int32 | Scalar::Int64 | Scalar::Uint32 | Scalar::Uint64, Value::Number(number)) => {
            assert!(!number.is_f64(), "{at}: {number}");
        }
        (Scalar::Double | Scalar::Float, Value::Number(_)) => {}
        (scalar, other) => panic!("{at} is a {scalar:?} in the table and {other} in JSON"),
    };
    match (field.ty.cardinality, value) {
        (Cardinality::One, Value::Null) if field.pointer && !field.omit_empty => {}
        (Cardinality::One, value) => one(value),
        (Cardinality::List, Value::Array(values)) => values.iter().for_each(one),
        (Cardinality::Map, Value::Object(members)) => members.values().for_each(one),
        (Cardinality::List | Cardinality::Map, Value::Null) if !field.omit_empty => {}
        (cardinality, other) => panic!("{at} is a {cardinality:?} in the table and {other} in JSON"),
    }
}

/// Checks the JSON of a message with no field set against the table's rules.
fn check_zero(at: &str, message: &'static Message, value: &Value) {
    let Value::Object(members) = value else { panic!("{at}: {value} instead of an object") };
    let mut expected = BTreeSet::new();
    let mut messages = vec![message];
    while let Some(message) = messages.pop() {
        for field in &message.fields {
            let inner = field.ty.message(Schema::builtin());
            let is_struct = inner.is_some() && field.ty.cardinality == Cardinality::One && !field.pointer;
            if field.inline {
                messages.extend(inner);
            } else if !field.omit_zero && (is_struct || !field.omit_empty) {
                expected.insert(field.name);
                if is_struct && inner.is_some_and(|inner| inner.shape == Shape::Object) {
                    check_zero(
                        &format!("{at}.{}", field.name),
                        inner.expect("just seen"),
                        &value[field.name],
                    );
                }
            }
        }
    }
    assert_eq!(members.keys().map(String::as_str).collect::<BTreeSet<_>>(), expected, "{at}");
}

/// The field with a JSON name, through inlined messages.
fn reach(message: &'static Message, name: &str) -> Option<&'static Field> {
    let field = message.field_towards(name)?;
    if field.inline { reach(field.ty.message(Schema::builtin())?, name) } else { Some(field) }
}

/// The schema in a message that is a schema or something else.
fn schema_in(message: &'static Message) -> &'static Message {
    let schema = message.field_named("schema").expect("all three shapes call it so");
    schema.ty.message(Schema::builtin()).expect("a schema is a message")
}

fn take(value: &mut Value, name: &str) -> Value {
    value.as_object_mut().and_then(|members| members.remove(name)).unwrap_or_default()
}

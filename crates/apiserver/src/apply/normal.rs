//! Objects of built-in kinds in the form that a kube-apiserver holds them.
//!
//! A kube-apiserver decodes each object into a Go struct. Members that Go always writes are present even if the client
//! omitted them (`status: {}`), and empty members with `omitempty` are absent (`labels: {}`). Ownership depends on
//! this: creating a pod does not add `spec`, because the empty pod it is compared with has one.

use kube_wire::schema::{Cardinality, Field, Message, Scalar, Schema, Shape};
use serde_json::{Map, Value, json};

use super::types::TypeView;

/// Normalizes an object of a built-in kind to the form it has after decoding and encoding in Go. Leaves custom
/// resources unchanged. Keeps unknown members.
///
/// ```
/// # use embedded_apiserver::internals::apply::{TypeView, normalize};
/// # use serde_json::json;
/// let mut pod = json!({"metadata": {"name": "p", "labels": {}}, "spec": {"containers": [{"name": "c"}]}});
/// normalize(&mut pod, TypeView::builtin("v1", "Pod").unwrap());
/// assert_eq!(pod, json!({
///     "metadata": {"name": "p"},
///     "spec": {"containers": [{"name": "c", "resources": {}}]},
///     "status": {},
/// }));
/// ```
pub fn normalize(object: &mut Value, types: TypeView<'_>) {
    if let (Some(message), Value::Object(members)) = (types.message_behind(), object) {
        object_members(message, members);
    }
}

fn object_members(message: &'static Message, members: &mut Map<String, Value>) {
    for field in &message.fields {
        if field.inline {
            if let Some(inner) = field.ty.message(Schema::builtin()) {
                object_members(inner, members);
            }
            continue;
        }
        let value = members.get_mut(field.name).filter(|value| !value.is_null());
        match value {
            Some(value) => {
                inside(field, value);
                if left_out(field, value) {
                    members.remove(field.name);
                }
            }
            None => {
                // Schemas contain schemas: do not expand what a nil pointer would point to.
                let zero = if field.pointer { Value::Null } else { zero(field) };
                if left_out(field, &zero) {
                    members.remove(field.name);
                } else {
                    members.insert(field.name.to_owned(), zero);
                }
            }
        }
    }
}

fn inside(field: &Field, value: &mut Value) {
    let Some(message) = field.ty.message(Schema::builtin()).filter(|m| m.shape == Shape::Object) else {
        return;
    };
    match (field.ty.cardinality, value) {
        (Cardinality::One, Value::Object(members)) => object_members(message, members),
        (Cardinality::List, Value::Array(items)) => {
            for members in items.iter_mut().filter_map(Value::as_object_mut) {
                object_members(message, members);
            }
        }
        (Cardinality::Map, Value::Object(entries)) => {
            for members in entries.values_mut().filter_map(Value::as_object_mut) {
                object_members(message, members);
            }
        }
        _ => {}
    }
}

/// Whether Go omits the member when it has this value.
fn left_out(field: &Field, value: &Value) -> bool {
    if field.pointer {
        return field.omit_empty && value.is_null();
    }
    let is_struct = field.ty.cardinality == Cardinality::One && matches!(field.ty.scalar, Scalar::Message(_));
    let empty = match value {
        _ if is_struct => false,
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(entries) => entries.is_empty(),
    };
    (field.omit_empty && empty) || (field.omit_zero && *value == zero(field))
}

fn zero(field: &Field) -> Value {
    if field.ty.cardinality != Cardinality::One {
        return Value::Null;
    }
    match field.ty.message(Schema::builtin()) {
        Some(message) => match message.shape {
            Shape::Object => {
                let mut members = Map::new();
                object_members(message, &mut members);
                Value::Object(members)
            }
            Shape::Duration => json!("0s"),
            Shape::Quantity => json!("0"),
            Shape::IntOrString => json!(0),
            _ => Value::Null,
        },
        None => match field.ty.scalar {
            Scalar::Bool => json!(false),
            Scalar::String => json!(""),
            Scalar::Bytes => Value::Null,
            _ => json!(0),
        },
    }
}

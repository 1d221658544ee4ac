//! Members of an object that its kind does not declare.

use kube_wire::schema::{Cardinality, Message, Schema, Shape};
use serde_json::Value;

/// Paths of the members that `message` does not declare, e.g. `spec.containers[0].nope`.
pub(crate) fn unknown_fields(value: &Value, message: &'static Message) -> Vec<String> {
    let mut found = Vec::new();
    let root = value.as_object().into_iter().flatten();
    for (name, member) in root.filter(|(name, _)| !matches!(name.as_str(), "apiVersion" | "kind")) {
        member_of(message, name, member, name.clone(), &mut found);
    }
    found
}

fn walk(value: &Value, message: &'static Message, path: &str, found: &mut Vec<String>) {
    // The other shapes are not JSON objects, or are arbitrary JSON.
    if message.shape != Shape::Object {
        return;
    }
    for (name, member) in value.as_object().into_iter().flatten() {
        member_of(message, name, member, format!("{path}.{name}"), found);
    }
}

fn member_of(message: &'static Message, name: &str, member: &Value, path: String, found: &mut Vec<String>) {
    let Some(field) = find(message, name) else {
        found.push(path);
        return;
    };
    let Some(inner) = field.ty.message(Schema::builtin()) else { return };
    match (field.ty.cardinality, member) {
        (Cardinality::One, member) => walk(member, inner, &path, found),
        (Cardinality::List, Value::Array(items)) => {
            for (at, item) in items.iter().enumerate() {
                walk(item, inner, &format!("{path}[{at}]"), found);
            }
        }
        (Cardinality::Map, Value::Object(entries)) => {
            for (key, entry) in entries {
                walk(entry, inner, &format!("{path}.{key}"), found);
            }
        }
        _ => {}
    }
}

/// The field with this name, in the message or in one that is inlined into it.
fn find(message: &'static Message, name: &str) -> Option<&'static kube_wire::schema::Field> {
    let schema = Schema::builtin();
    let inlined =
        || message.fields.iter().filter(|field| field.inline).filter_map(|field| field.ty.message(schema));
    message.field_named(name).or_else(|| inlined().find_map(|message| find(message, name)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn unknown_fields_are_found_at_any_depth() {
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod", "nope": 1,
            "metadata": {"name": "p", "labels": {"any": "thing"}, "odd": {}},
            "spec": {
                "containers": [{"name": "c", "resources": {"limits": {"cpu": "1"}}}, {"name": "d", "wrong": 1}],
                "volumes": [{"name": "v", "emptyDir": {"bad": 1}}],
            },
        });
        let message = Schema::builtin().kind("v1", "Pod").unwrap();
        let found = unknown_fields(&pod, message);
        assert_eq!(
            found,
            ["metadata.odd", "nope", "spec.containers[1].wrong", "spec.volumes[0].emptyDir.bad"]
        );
    }
}

//! Defaulting: absent fields of a custom resource get the defaults of its schema.
//!
//! In client input, a null that the schema does not allow counts as absent and is dropped first. A null produced by
//! server-side apply stays, as in a kube-apiserver, and fails validation.

use serde_json::{Map, Value};

use super::Structural;

/// Drops nulls that the schema neither allows nor has a default for. For client input, between pruning and defaulting.
pub fn drop_nulls(object: &mut Value, schema: &Structural) {
    drop_nulls_in(object, Some(schema));
}

/// Sets the defaults in a pruned object. A null that is not allowed becomes the default.
pub fn set_defaults(object: &mut Value, schema: &Structural) {
    fill(object, schema);
}

fn fill(value: &mut Value, schema: &Structural) {
    match value {
        Value::Object(members) => fill_members(members, schema),
        Value::Array(items) => {
            if let Some(schema) = &schema.items {
                for item in items {
                    or_default(item, schema);
                    fill(item, schema);
                }
            }
        }
        _ => {}
    }
}

fn fill_members(members: &mut Map<String, Value>, schema: &Structural) {
    for (name, property) in &schema.properties {
        if let Some(default) = &property.default {
            or_default(members.entry(name.as_str()).or_insert_with(|| default.clone()), property);
        }
    }
    for (name, member) in members {
        if let Some(property) = schema.properties.get(name) {
            fill(member, property);
        } else if let Some(additional) = &schema.additional {
            or_default(member, additional);
            fill(member, additional);
        }
    }
}

/// Replaces a null that is not allowed with the default.
fn or_default(value: &mut Value, schema: &Structural) {
    if let (Value::Null, false, Some(default)) = (&*value, schema.nullable, &schema.default) {
        *value = default.clone();
    }
}

fn drop_nulls_in(value: &mut Value, schema: Option<&Structural>) {
    match value {
        Value::Object(members) => {
            let of = |name: &str| {
                let schema = schema?;
                schema.properties.get(name).or(schema.additional.as_deref())
            };
            members.retain(|name, member| {
                let dropped =
                    member.is_null() && of(name).is_some_and(|s| !s.nullable && s.default.is_none());
                !dropped
            });
            for (name, member) in members.iter_mut() {
                drop_nulls_in(member, of(name));
            }
        }
        Value::Array(items) => {
            let schema = schema.and_then(|schema| schema.items.as_deref());
            for item in items {
                drop_nulls_in(item, schema);
            }
        }
        _ => {}
    }
}

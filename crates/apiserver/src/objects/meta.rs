//! Reading and writing an object's metadata in a value.

use serde_json::{Map, Value};

/// The metadata; a shared null value if absent.
pub(crate) fn meta(object: &Value) -> &Value {
    &object["metadata"]
}

/// The metadata, created if absent.
pub(crate) fn meta_mut(object: &mut Value) -> &mut Map<String, Value> {
    object_member(object, "metadata")
}

/// The member as an object; replaces a value of any other type.
pub(crate) fn object_member<'a>(object: &'a mut Value, name: &str) -> &'a mut Map<String, Value> {
    if !object.is_object() {
        *object = Value::Object(Map::new());
    }
    let member = &mut object[name];
    if !member.is_object() {
        *member = Value::Object(Map::new());
    }
    match member {
        Value::Object(map) => map,
        // It was made an object above.
        _ => unreachable!("the member is an object"),
    }
}

pub(crate) fn text<'a>(object: &'a Value, name: &str) -> &'a str {
    meta(object)[name].as_str().unwrap_or_default()
}

pub(crate) fn name(object: &Value) -> &str {
    text(object, "name")
}

pub(crate) fn namespace(object: &Value) -> &str {
    text(object, "namespace")
}

pub(crate) fn uid(object: &Value) -> &str {
    text(object, "uid")
}

pub(crate) fn is_deleting(object: &Value) -> bool {
    meta(object)["deletionTimestamp"].is_string()
}

pub(crate) fn finalizers(object: &Value) -> impl Iterator<Item = &str> {
    meta(object)["finalizers"].as_array().into_iter().flatten().filter_map(Value::as_str)
}

pub(crate) fn has_finalizers(object: &Value) -> bool {
    finalizers(object).next().is_some()
}

pub(crate) fn generation(object: &Value) -> i64 {
    meta(object)["generation"].as_i64().unwrap_or(0)
}

/// The object's generation plus one, saturating.
pub(crate) fn next_generation(object: &Value) -> i64 {
    generation(object).saturating_add(1)
}

/// Sets a member of the metadata, or removes it.
pub(crate) fn set(object: &mut Value, name: &str, value: Option<Value>) {
    let meta = meta_mut(object);
    match value {
        Some(value) => {
            meta.insert(name.to_owned(), value);
        }
        None => {
            meta.remove(name);
        }
    }
}

pub(crate) fn set_revision(object: &mut Value, revision: u64) {
    set(object, "resourceVersion", Some(revision.to_string().into()));
}

//! The objects, and the fields of them, that a client requests.

use serde_json::Value;

/// The objects and fields that a client requests.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// Only these namespaces; all if empty.
    pub namespaces: Vec<String>,
    /// Only objects with this label and value.
    pub label: Option<(String, String)>,
    /// JSON pointers of the fields that the client keeps, apart from name, namespace, uid and resourceVersion.
    pub fields: Vec<String>,
}

impl Selection {
    /// Whether an object is selected.
    pub fn selects(&self, object: &Value) -> bool {
        let namespace = text(object, "/metadata/namespace");
        let in_namespace = self.namespaces.is_empty() || self.namespaces.iter().any(|name| name == namespace);
        let labels = &object["metadata"]["labels"];
        in_namespace && self.label.as_ref().is_none_or(|(label, value)| labels[label.as_str()] == **value)
    }

    /// The part of the selection that one watch covers: one of its namespaces, or all.
    pub(crate) fn of_scope(&self, namespace: &str) -> Self {
        let namespaces = self.namespaces.iter().filter(|name| *name == namespace).cloned().collect();
        Self { namespaces, ..self.clone() }
    }

    /// Whether two states of an object are equal in the fields that the client keeps.
    pub fn same_content(&self, left: &Value, right: &Value) -> bool {
        self.fields.iter().all(|field| present(at(left, field)) == present(at(right, field)))
    }
}

/// Treats an empty map as absent, because protobuf does not distinguish them.
fn present(value: Option<&Value>) -> Option<&Value> {
    value.filter(|value| !value.is_null() && value.as_object().is_none_or(|map| !map.is_empty()))
}

pub(crate) fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    at(object, pointer).and_then(Value::as_str).unwrap_or_default()
}

/// Like [`Value::pointer`] for names without escapes, but without allocations: the checks spend most of their time here.
fn at<'a>(object: &'a Value, pointer: &str) -> Option<&'a Value> {
    pointer.split('/').skip(1).try_fold(object, |value, name| value.get(name))
}

/// `namespace/name`.
pub(crate) fn key(object: &Value) -> String {
    format!("{}/{}", text(object, "/metadata/namespace"), text(object, "/metadata/name"))
}

pub(crate) fn uid(object: &Value) -> &str {
    text(object, "/metadata/uid")
}

pub(crate) fn has_finalizer(object: &Value, finalizer: &str) -> bool {
    object["metadata"]["finalizers"].as_array().into_iter().flatten().any(|found| found == finalizer)
}

/// The resourceVersion; 0 if it is not a number.
pub(crate) fn version(object: &Value) -> u64 {
    text(object, "/metadata/resourceVersion").parse().unwrap_or_default()
}

/// `web/a@17 (uid 5f…)`.
pub(crate) fn brief(object: &Value) -> String {
    format!("{}@{} (uid {:.8})", key(object), version(object), uid(object))
}

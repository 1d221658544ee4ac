//! Tests of server-side apply with synthetic types. `tests/writes.rs` compares real kinds with recorded responses.

// Specs are written inline.
#![allow(clippy::needless_pass_by_value)]

mod invariants;
mod owners;

use serde_json::{Value, json};

use super::{ApplyError, FieldWrite, TypeView, apply, record_update};
use crate::crd::Structural;

const NOW: &str = "2026-11-15T08:39:17Z";

/// A type with one field of each kind.
fn schema() -> Structural {
    Structural::compile(&json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
        "text": {"type": "string"},
        "number": {"type": "integer"},
        "map": {"type": "object", "additionalProperties": {"type": "string"}},
        "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
        "list": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name", "port"],
                 "items": {"type": "object", "properties": {
                     "name": {"type": "string"}, "port": {"type": "integer", "default": 80},
                     "value": {"type": "string"}, "more": {"type": "string"}}}},
        "plain": {"type": "array", "items": {"type": "string"}},
        "whole": {"type": "object", "x-kubernetes-map-type": "atomic", "properties": {
            "a": {"type": "string"}, "b": {"type": "string"}}},
        "nested": {"type": "object", "properties": {"inner": {"type": "object", "properties": {
            "a": {"type": "string"}, "b": {"type": "string"}}}}},
        "any": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
    }}}}))
    .unwrap()
}

/// An object and its history of writes.
struct Story {
    schema: Structural,
    object: Option<Value>,
}

impl Story {
    fn new() -> Self {
        Self { schema: schema(), object: None }
    }

    fn write<'a>(&'a self, manager: &'a str) -> FieldWrite<'a> {
        FieldWrite {
            manager,
            api_version: "example.com/v1",
            subresource: "",
            reset: &[&["status"]],
            now: NOW,
            types: TypeView::custom(&self.schema),
        }
    }

    fn object_of(spec: &Value) -> Value {
        json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "t"}, "spec": spec})
    }

    fn try_apply(&self, manager: &str, spec: &Value, force: bool) -> Result<Value, ApplyError> {
        apply(self.object.as_ref(), &Self::object_of(spec), &self.write(manager), force)
    }

    fn apply(&mut self, manager: &str, spec: Value) -> &mut Self {
        self.object = Some(self.try_apply(manager, &spec, false).unwrap());
        self
    }

    fn force(&mut self, manager: &str, spec: Value) -> &mut Self {
        self.object = Some(self.try_apply(manager, &spec, true).unwrap());
        self
    }

    fn update(&mut self, manager: &str, spec: Value) -> &mut Self {
        let mut new = Self::object_of(&spec);
        if let Some(old) = &self.object {
            new["metadata"] = old["metadata"].clone();
        } else {
            new["metadata"]["uid"] = json!("u");
        }
        record_update(self.object.as_ref(), &mut new, &self.write(manager));
        self.object = Some(new);
        self
    }

    fn spec(&self) -> &Value {
        &self.object.as_ref().unwrap()["spec"]
    }

    /// The fields that a manager owns.
    fn owned(&self, manager: &str, operation: &str) -> Value {
        let entries = self.object.as_ref().unwrap()["metadata"]["managedFields"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        let entry =
            entries.into_iter().find(|entry| entry["manager"] == manager && entry["operation"] == operation);
        entry.map_or(Value::Null, |entry| entry["fieldsV1"].clone())
    }

    fn refused(&self, manager: &str, spec: &Value) -> Vec<String> {
        match self.try_apply(manager, spec, false) {
            Err(ApplyError::Conflict(conflicts)) => conflicts
                .iter()
                .map(|conflict| format!("{} {}", conflict.manager(), conflict.field()))
                .collect(),
            other => panic!("no conflict: {other:?}"),
        }
    }
}

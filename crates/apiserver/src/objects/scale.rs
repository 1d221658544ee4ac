//! The `scale` subresource: a workload's replicas, in one kind for all workloads.

use kube_wire::LabelSelector;
use serde_json::{Value, json};

use super::meta::{self, meta};
use super::patch::{Patch, patched};
use super::update::Recording;
use super::{Outcome, Shown, Target, WriteOptions, Writer};
use crate::api::Api;
use crate::codec;
use crate::crd::FieldError;
use crate::http::Status;
use crate::resources::Resource;
use crate::storage::Stored;

/// Where a kind stores the fields of a `Scale`.
struct ScalePaths {
    replicas: Vec<String>,
    status_replicas: Vec<String>,
    selector: Option<Vec<String>>,
}

impl Api {
    /// The object's `Scale`.
    pub(crate) fn scale(&self, target: &Target) -> Result<Value, Status> {
        let stored = self.get(target)?;
        Ok(shown(&target.resource, &self.value(target, &stored)))
    }
}

impl Writer<'_> {
    /// Replaces or patches the object's `Scale`.
    pub(crate) fn set_scale(
        &self,
        target: &Target,
        options: &WriteOptions,
        make: &dyn Fn(&Value) -> Result<Value, Status>,
    ) -> Result<Outcome, Status> {
        let resource = &target.resource;
        let paths = paths(resource);
        let outcome = self.change(target, options, Recording::Due, &|current| {
            let current = current.ok_or_else(|| Status::not_found(resource, &target.name))?;
            let scale = make(&shown(resource, current))?;
            let replicas = scale["spec"]["replicas"].as_i64().unwrap_or(0);
            if replicas < 0 {
                let detail = "must be greater than or equal to 0";
                let error = FieldError::invalid("spec.replicas", replicas, detail);
                return Err(Status::invalid(resource, &target.name, &[error]));
            }
            let mut object = current.clone();
            put(&mut object, &paths.replicas, replicas.into());
            for field in ["uid", "resourceVersion"] {
                if let Some(value) = meta(&scale).get(field) {
                    meta::set(&mut object, field, Some(value.clone()));
                }
            }
            Ok(object)
        })?;
        let scale = |bytes: &[u8]| Shown::Other(shown(resource, &codec::decode(resource, bytes)));
        let shown = match &outcome.shown {
            Shown::Stored(stored) => {
                let stored: &Stored = stored;
                scale(&stored.bytes)
            }
            Shown::Draft(draft) => scale(&draft.bytes),
            Shown::Other(_) | Shown::Status(_) => return Ok(outcome),
        };
        Ok(Outcome { shown, ..outcome })
    }

    /// Patches the object's `Scale`.
    pub(crate) fn patch_scale(
        &self,
        target: &Target,
        patch: &Patch,
        options: &WriteOptions,
    ) -> Result<Outcome, Status> {
        self.set_scale(target, options, &|scale| patched(target, scale, patch))
    }
}

fn shown(resource: &Resource, object: &Value) -> Value {
    let paths = paths(resource);
    let mut scale = json!({"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": {}});
    for field in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        if let Some(value) = meta(object).get(field) {
            scale["metadata"][field] = value.clone();
        }
    }
    let number = |path: &[String]| find(object, path).and_then(Value::as_i64);
    scale["spec"] =
        number(&paths.replicas).map_or_else(|| json!({}), |replicas| json!({"replicas": replicas}));
    scale["status"] = json!({"replicas": number(&paths.status_replicas).unwrap_or(0)});
    let selector = paths
        .selector
        .as_deref()
        .and_then(|path| find(object, path))
        .map(|selector| selector_text(resource, selector));
    if let Some(selector) = selector.filter(|text| !text.is_empty()) {
        scale["status"]["selector"] = selector.into();
    }
    scale
}

fn paths(resource: &Resource) -> ScalePaths {
    let path = |text: &str| text.trim_start_matches('.').split('.').map(str::to_owned).collect();
    if let Some(scale) = resource.custom().and_then(|version| version.scale.as_ref()) {
        return ScalePaths {
            replicas: path(&scale.spec_replicas_path),
            status_replicas: path(&scale.status_replicas_path),
            selector: scale.label_selector_path.as_deref().map(path),
        };
    }
    ScalePaths {
        replicas: path("spec.replicas"),
        status_replicas: path("status.replicas"),
        selector: Some(path("spec.selector")),
    }
}

/// A selector as text. Custom resources store it as a string, ReplicationControllers as a map of labels.
fn selector_text(resource: &Resource, selector: &Value) -> String {
    match selector {
        Value::String(text) => text.clone(),
        labels if resource.is("", "replicationcontrollers") => {
            LabelSelector::text_of(&json!({"matchLabels": labels}))
        }
        selector => LabelSelector::text_of(selector),
    }
}

fn find<'a>(object: &'a Value, path: &[String]) -> Option<&'a Value> {
    path.iter().try_fold(object, |value, name| value.get(name))
}

fn put(object: &mut Value, path: &[String], value: Value) {
    let mut at = object;
    for name in path {
        if !at.is_object() {
            *at = json!({});
        }
        at = &mut at[name.as_str()];
    }
    *at = value;
}

//! `/openapi/v3`: only what kubectl reads before it creates or applies.
//!
//! kubectl checks in the document of a group and version whether PATCH has the parameter `fieldValidation`; if so, it
//! leaves validation to the server. No schemas are served, so `kubectl explain` does not work.

use serde_json::{Map, Value, json};

use super::Registry;

/// `/openapi/v3`: the index of the documents.
pub(crate) fn root(registry: &Registry) -> Value {
    let mut paths = Map::new();
    for resource in registry.iter() {
        let path = path(&resource.group, &resource.version);
        let url = format!("/openapi/v3/{path}");
        paths.insert(path, json!({"serverRelativeURL": url}));
    }
    json!({"paths": paths})
}

/// `/openapi/v3/api/v1`, `/openapi/v3/apis/GROUP/VERSION`.
pub(crate) fn document(registry: &Registry, wanted: &str) -> Option<Value> {
    let mut paths = Map::new();
    for resource in registry.iter().filter(|resource| path(&resource.group, &resource.version) == wanted) {
        let namespace = if resource.namespaced() { "/namespaces/{namespace}" } else { "" };
        let kind = json!({"group": resource.group, "version": resource.version, "kind": resource.kind});
        let parameter = json!({"name": "fieldValidation", "in": "query", "schema": {"type": "string", "uniqueItems": true}});
        let patch = json!({
            "patch": {
                "operationId": format!("patch{}", resource.kind),
                "parameters": [parameter],
                "responses": {},
                "x-kubernetes-action": "patch",
                "x-kubernetes-group-version-kind": kind,
            },
        });
        paths.insert(format!("/{wanted}{namespace}/{}/{{name}}", resource.plural), patch);
    }
    if paths.is_empty() {
        return None;
    }
    let info = json!({"title": "Kubernetes", "version": super::version::GIT_VERSION});
    Some(json!({"openapi": "3.0.0", "info": info, "paths": paths, "components": {"schemas": {}}}))
}

fn path(group: &str, version: &str) -> String {
    if group.is_empty() { format!("api/{version}") } else { format!("apis/{group}/{version}") }
}

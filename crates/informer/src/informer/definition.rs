//! The fields of a custom resource, from its CustomResourceDefinition.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube_wire::path::CustomSchema;
use serde_json::Value;

use crate::source::Resource;

/// The schema of a resource's version. Returns an error if the definition is of another resource or lacks the version.
pub(super) fn schema_of(
    definition: &CustomResourceDefinition,
    resource: &Resource,
) -> Result<CustomSchema, &'static str> {
    let spec = &definition.spec;
    if (&spec.group, &spec.names.kind) != (&resource.group, &resource.kind) {
        return Err("invalid `definition`: it is of another kind");
    }
    let Some(version) = spec.versions.iter().find(|version| version.name == resource.version) else {
        return Err("invalid `definition`: it lacks the watched version");
    };
    let schema = version.schema.as_ref().and_then(|schema| schema.open_api_v3_schema.as_ref());
    let schema = match spec.preserve_unknown_fields {
        Some(true) => Value::Null,
        // A typed definition always serializes to JSON.
        _ => serde_json::to_value(schema).unwrap_or_default(),
    };
    Ok(CustomSchema::new(&resource.type_meta(), &schema))
}

//! Any client input is accepted or rejected without a panic.

use embedded_apiserver::internals::{
    apply::{FieldSet, FieldWrite, TypeView, apply, normalize, record_update},
    crd::{Definition, Structural, accept_names, drop_nulls, prune, set_defaults, validate},
    patch::{json_patch, merge_patch, strategic_merge_patch},
};
use proptest::prelude::*;
use serde_json::{Value, json};

/// Any JSON, including member names that the server interprets.
fn odd() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(|n| json!(n)),
        prop::sample::select(vec![
            "", "a", "replace", "delete", "map", "set", "object", "array", "Apply", "FieldsV1", "[", "/a/b"
        ])
        .prop_map(Value::from),
    ];
    let names = vec![
        "metadata",
        "spec",
        "status",
        "containers",
        "name",
        "env",
        "ports",
        "containerPort",
        "finalizers",
        "labels",
        "managedFields",
        "ownerReferences",
        "uid",
        "data",
        "$patch",
        "$retainKeys",
        "$setElementOrder/containers",
        "$setElementOrder/finalizers",
        "$deleteFromPrimitiveList/finalizers",
        "properties",
        "items",
        "type",
        "default",
        "versions",
        "names",
        "x-kubernetes-list-type",
        "op",
        "path",
        "value",
        "f:a",
        "operation",
        "fieldsV1",
        "",
    ];
    leaf.prop_recursive(6, 48, 5, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::vec((prop::sample::select(names.clone()), inner), 0..6).prop_map(|members| {
                Value::Object(members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
            }),
        ]
    })
}

fn pod(spec: &Value, metadata: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
}

proptest! {
    #[test]
    fn any_patch_is_answered(object in odd(), patch in odd()) {
        let mut merged = object.clone();
        merge_patch(&mut merged, &patch);
        let _ = json_patch(&object, &patch);
        let _ = json_patch(&object, &json!([patch]));
        let types = TypeView::builtin("v1", "Pod").unwrap();
        let _ = strategic_merge_patch(&object, &patch, types);
        let _ = strategic_merge_patch(&json!({"spec": object, "metadata": object}), &json!({"spec": patch, "metadata": patch}), types);
    }

    #[test]
    fn any_object_can_be_applied_to_and_recorded(spec in odd(), metadata in odd(), other in odd(), more in odd()) {
        let pods = TypeView::builtin("v1", "Pod").unwrap();
        let schema = Structural::compile(&json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
            "containers": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                           "items": {"type": "object"}},
            "ports": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
        }}}})).unwrap();
        for types in [pods, TypeView::custom(&schema)] {
            let write = FieldWrite {
                manager: "m", api_version: "v1", subresource: "", reset: &[&["status"]], now: "2026-01-01T00:00:00Z", types,
            };
            let (old, mut new) = (pod(&spec, &metadata), pod(&other, &more));
            let _ = apply(Some(&old), &new, &write, true);
            let _ = apply(Some(&old), &new, &write, false);
            let _ = apply(None, &spec, &write, false);
            record_update(Some(&old), &mut new, &write);
            record_update(None, &mut new, &FieldWrite { subresource: "status", reset: &[&["spec"]], ..write });
            let mut anything = spec.clone();
            record_update(Some(&other), &mut anything, &write);
            normalize(&mut anything, types);
        }
        let _ = FieldSet::from_fields_v1(&spec);
    }

    #[test]
    fn any_definition_and_custom_resource_is_answered(schema in odd(), object in odd(), spec in odd()) {
        if let Ok(schema) = Structural::compile(&schema) {
            let mut object = object.clone();
            let _ = validate(&object, None, &schema, "");
            prune(&mut object, &schema);
            drop_nulls(&mut object, &schema);
            set_defaults(&mut object, &schema);
            let _ = validate(&object, Some(&spec), &schema, "");
        }
        let version = json!({"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}});
        let fine = json!({"group": "example.com", "names": {"plural": "as", "kind": "A"}, "versions": [version]});
        for spec in [spec, fine] {
            let mut crd = json!({"metadata": {"name": "as.example.com"}, "spec": spec, "status": object});
            Definition::prepare(&mut crd, Some(&object));
            let _ = Definition::parse(&crd, None);
            let _ = Definition::parse(&crd, Some(&crd));
            accept_names(&mut crd, [&object], "now");
        }
    }
}

//! Single responses of a kube-apiserver 1.36.3 to a client called `capture` that wrote objects of several kinds: the
//! request and the response.

use embedded_apiserver::internals::{
    apply::{ApplyError, FieldWrite, TypeView, apply, record_update},
    crd::Structural,
    patch::{json_patch, merge_patch, strategic_merge_patch},
};
use serde_json::{Value, json};

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

macro_rules! capture {
    ($name:literal) => {
        json(include_str!(concat!("../../wire/tests/captures/", $name)))
    };
}

fn without_entries(object: &Value) -> Value {
    let mut object = object.clone();
    object["metadata"].as_object_mut().unwrap().remove("managedFields");
    object
}

fn write<'a>(object: &'a Value, types: TypeView<'a>) -> FieldWrite<'a> {
    FieldWrite {
        manager: "capture",
        api_version: object["apiVersion"].as_str().unwrap(),
        subresource: "",
        reset: if object["kind"] == "ConfigMap" { &[] } else { &[&["status"]] },
        now: object["metadata"]["managedFields"][0]["time"].as_str().unwrap(),
        types,
    }
}

fn builtin(object: &Value) -> TypeView<'static> {
    TypeView::builtin(object["apiVersion"].as_str().unwrap(), object["kind"].as_str().unwrap()).unwrap()
}

#[test]
fn the_creator_owns_all_fields() {
    let created = [
        capture!("post-create.body"),
        capture!("pod-create.body"),
        capture!("lease-create.body"),
        capture!("crd-create.body"),
    ];
    for object in created {
        let mut new = without_entries(&object);
        // Admission adds fields afterwards; they have no owner.
        let admitted = ["tolerations", "priority", "preemptionPolicy"];
        if let Some(spec) = new.get_mut("spec").and_then(Value::as_object_mut) {
            spec.retain(|name, _| !admitted.contains(&name.as_str()));
        }
        record_update(None, &mut new, &write(&object, builtin(&object)));
        assert_eq!(new["metadata"], object["metadata"], "{}", object["kind"]);
    }
}

#[test]
fn the_patcher_owns_the_changed_fields() {
    let put = capture!("put-no-rv.body");
    let types = builtin(&put);

    let mut merged = put.clone();
    merge_patch(&mut merged, &capture!("patch-merge.sent"));
    let patched = json_patch(&capture!("patch-merge.body"), &capture!("patch-json.sent")).unwrap();
    let strategic =
        strategic_merge_patch(&capture!("patch-json.body"), &capture!("patch-strategic.sent"), types)
            .unwrap();
    let mut unchanged = capture!("put-unchanged.body");
    unchanged["data"] = json!({"k": "2"});
    unchanged["metadata"]["labels"]["n"] = json!("2");

    let steps = [
        (capture!("put-unchanged.body"), unchanged, put.clone()),
        (put, merged, capture!("patch-merge.body")),
        (capture!("patch-merge.body"), patched, capture!("patch-json.body")),
        (capture!("patch-json.body"), strategic, capture!("patch-strategic.body")),
    ];
    for (old, mut new, after) in steps {
        new["metadata"]["resourceVersion"] = after["metadata"]["resourceVersion"].clone();
        record_update(Some(&old), &mut new, &write(&after, types));
        assert_eq!(new, after);
    }
    let refused =
        json_patch(&capture!("patch-json.body"), &capture!("patch-json-test-fails.sent")).unwrap_err();
    let status = capture!("patch-json-test-fails.body");
    assert_eq!(
        (json!(refused.code()), json!(refused.message())),
        (status["code"].clone(), status["message"].clone())
    );
}

#[test]
fn a_status_write_has_its_own_entry() {
    let after = capture!("pod-put-status.body");
    let mut old = after.clone();
    old["metadata"]["managedFields"].as_array_mut().unwrap().remove(1);
    old["status"]["phase"] = json!("Pending");
    let mut new = old.clone();
    merge_patch(&mut new, &capture!("pod-put-status.sent"));
    record_update(
        Some(&old),
        &mut new,
        &FieldWrite { subresource: "status", reset: &[&["spec"]], ..write(&after, builtin(&after)) },
    );
    assert_eq!(new, after);

    // The server itself accepts the names of a definition.
    let after = capture!("crd-get.body");
    let old = capture!("crd-create.body");
    let mut new = old.clone();
    new["metadata"]["resourceVersion"] = after["metadata"]["resourceVersion"].clone();
    new["status"] = after["status"].clone();
    let server = FieldWrite {
        manager: "kube-apiserver",
        subresource: "status",
        reset: &[&["spec"]],
        ..write(&after, builtin(&after))
    };
    record_update(Some(&old), &mut new, &server);
    assert_eq!(new, after);
}

#[test]
fn custom_resources_have_field_owners() {
    let crd = capture!("crd-create.sent");
    let schema = Structural::compile(&crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]).unwrap();
    let types = TypeView::custom(&schema);

    let created = capture!("cr-create.body");
    let mut new = without_entries(&created);
    record_update(None, &mut new, &write(&created, types));
    assert_eq!(new, created);

    let with_status = capture!("cr-status-patch.body");
    let mut new = created.clone();
    new["metadata"]["resourceVersion"] = with_status["metadata"]["resourceVersion"].clone();
    new["status"] = json!({"replicas": 2});
    let status = FieldWrite {
        subresource: "status",
        reset: &[&["metadata"], &["spec"]],
        ..write(&with_status, types)
    };
    record_update(Some(&created), &mut new, &status);
    assert_eq!(new, with_status);

    let with_spec = capture!("cr-spec-patch.body");
    let mut new = with_status.clone();
    merge_patch(&mut new, &capture!("cr-spec-patch.sent"));
    for name in ["resourceVersion", "generation"] {
        new["metadata"][name] = with_spec["metadata"][name].clone();
    }
    record_update(Some(&with_status), &mut new, &write(&with_spec, types));
    assert_eq!(new, with_spec);
}

#[test]
fn an_apply_conflicts_and_force_takes_ownership() {
    let created = capture!("apply-create.body");
    let types = builtin(&created);
    let one = FieldWrite { manager: "one", ..write(&created, types) };
    let mut made = apply(None, &capture!("apply-create.sent"), &one, false).unwrap();
    for name in ["namespace", "uid", "resourceVersion", "creationTimestamp"] {
        made["metadata"][name] = created["metadata"][name].clone();
    }
    assert_eq!(made, created);

    let two = FieldWrite { manager: "two", ..one };
    let refused = apply(Some(&made), &capture!("apply-conflict.sent"), &two, false).unwrap_err();
    let status = capture!("apply-conflict.body");
    assert_eq!(json!(refused.to_string()), status["message"]);
    assert_eq!(json!(refused.code()), status["code"]);
    let ApplyError::Conflict(conflicts) = refused else { panic!("{refused}") };
    assert_eq!(json!([conflicts[0].cause()]), status["details"]["causes"]);

    let mut forced = apply(Some(&made), &capture!("apply-force.sent"), &two, true).unwrap();
    let after = capture!("apply-force.body");
    forced["metadata"]["resourceVersion"] = after["metadata"]["resourceVersion"].clone();
    assert_eq!(forced, after);
}

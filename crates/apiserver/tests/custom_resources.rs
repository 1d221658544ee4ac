//! Definitions and custom resources that were sent to a kube-apiserver 1.36.3, with its responses: the same are
//! accepted, and the same are rejected for the same reasons.

#![allow(clippy::unwrap_used, clippy::needless_pass_by_value)]

use embedded_apiserver::internals::crd::{
    Definition, DefinitionError, FieldError, accept_names, drop_nulls, prune, set_defaults,
};
use serde_json::{Value, json};

/// Causes in sorted order: a kube-apiserver iterates over its maps in random order.
fn sorted(mut causes: Vec<Value>) -> Vec<Value> {
    causes.sort_by_key(Value::to_string);
    causes.dedup();
    causes
}

fn causes(errors: &[FieldError]) -> Vec<Value> {
    sorted(errors.iter().map(FieldError::cause).collect())
}

fn real_causes(answer: &Value) -> Vec<Value> {
    sorted(answer.pointer("/details/causes").and_then(Value::as_array).cloned().unwrap_or_default())
}

fn definition(plural: &str, kind: &str, schema: &Value, subresources: Value) -> Definition {
    let mut crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.example.com")},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": plural, "kind": kind},
            "versions": [{"name": "v1", "served": true, "storage": true,
                          "schema": {"openAPIV3Schema": schema}, "subresources": subresources}],
        },
    });
    Definition::prepare(&mut crd, None);
    Definition::parse(&crd, None).unwrap()
}

#[test]
fn values_are_validated_like_a_kube_apiserver() {
    let capture: Value =
        serde_json::from_str(include_str!("../../wire/tests/captures/custom-values.json")).unwrap();
    let scale = json!({"status": {}, "scale": {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"}});
    let widgets = definition("widgets", "Widget", &capture["widget"]["schema"], scale);
    let checks = definition("checks", "Check", &capture["check"]["schema"], Value::Null);
    let mut failures = Vec::new();
    let mut compared = 0;
    for (definition, kind) in [(&widgets, "widget"), (&checks, "check")] {
        let version = definition.storage_version().unwrap();
        for case in capture[kind]["cases"].as_array().unwrap() {
            compared += 1;
            let mut object = case["object"].clone();
            prune(&mut object, &version.schema);
            drop_nulls(&mut object, &version.schema);
            set_defaults(&mut object, &version.schema);
            let ours = causes(&version.validate(&object, None));
            let theirs = real_causes(&case["answer"]);
            if ours != theirs {
                failures.push(format!("{kind} {}:\nours   {ours:#?}\ntheirs {theirs:#?}", case["name"]));
            } else if case["status"] == 201 && object.get("spec") != case["answer"].get("spec") {
                failures
                    .push(format!("{kind} {}:\nours   {object}\ntheirs {}", case["name"], case["answer"]));
            }
        }
    }
    assert!(failures.is_empty(), "{} of {compared}:\n{}", failures.len(), failures.join("\n"));
    assert!(compared > 45);
}

/// Causes that contain Go's internal structs of versions or schemas: only field, reason and the end are compared.
fn without_dumps(causes: Vec<Value>) -> Vec<Value> {
    let cut = |mut cause: Value| {
        let message = cause["message"].as_str().unwrap_or_default().to_owned();
        for end in ["must have exactly one version", "must contain unique version names", "only ["] {
            if let Some(at) = message.find(end) {
                cause["message"] = json!(message[at..].to_owned());
            }
        }
        cause
    };
    sorted(causes.into_iter().map(cut).collect())
}

#[test]
fn definitions_are_validated_like_a_kube_apiserver() {
    let capture: Value =
        serde_json::from_str(include_str!("../../wire/tests/captures/definitions.json")).unwrap();
    let mut failures = Vec::new();
    let cases = capture["create"].as_array().unwrap();
    for case in cases {
        let mut crd = case["object"].clone();
        Definition::prepare(&mut crd, None);
        let ours = match Definition::parse(&crd, None) {
            Ok(_) => Vec::new(),
            Err(DefinitionError::Invalid(errors)) => causes(&errors),
            Err(other) => panic!("{}: {other}", case["name"]),
        };
        let (ours, theirs) = (without_dumps(ours), without_dumps(real_causes(&case["answer"])));
        if ours != theirs {
            failures.push(format!("{}:\nours   {ours:#?}\ntheirs {theirs:#?}", case["name"]));
        } else if case["status"] == 201 {
            let answer = &case["answer"];
            if crd["status"] != answer["status"] || crd["spec"]["names"] != answer["spec"]["names"] {
                failures.push(format!("{}:\nours   {crd}\ntheirs {answer}", case["name"]));
            }
        }
    }
    assert!(failures.is_empty(), "{} of {}:\n{}", failures.len(), cases.len(), failures.join("\n"));
    assert!(cases.len() > 50);
}

#[test]
fn definition_updates_and_names_match_a_kube_apiserver() {
    let capture: Value =
        serde_json::from_str(include_str!("../../wire/tests/captures/definitions.json")).unwrap();
    let neighbour = json!({
        "metadata": {"name": "widgets.example.com"}, "spec": {"group": "example.com"},
        "status": {"acceptedNames": {"plural": "widgets", "singular": "widget", "kind": "Widget",
                                     "listKind": "WidgetList"}},
    });
    for case in capture["update"].as_array().unwrap() {
        let name = &case["name"];
        let mut crd = case["new"].clone();
        Definition::prepare(&mut crd, Some(&case["old"]));
        match Definition::parse(&crd, Some(&case["old"])) {
            Ok(_) => {
                assert_eq!(case["status"], 200, "{name}: {}", case["answer"]);
                assert_eq!(crd["status"], case["answer"]["status"], "{name}");
                accept_names(&mut crd, [&neighbour], "NOW");
                let mut theirs = case["after"]["status"].clone();
                // Times of new changes are ours.
                for (condition, ours) in theirs["conditions"]
                    .as_array_mut()
                    .unwrap()
                    .iter_mut()
                    .zip(crd["status"]["conditions"].as_array().unwrap())
                {
                    if ours["lastTransitionTime"] == "NOW" {
                        condition["lastTransitionTime"] = json!("NOW");
                    }
                }
                assert_eq!(crd["status"], theirs, "{name}");
            }
            Err(DefinitionError::Invalid(errors)) => {
                assert_eq!(causes(&errors), real_causes(&case["answer"]), "{name}");
            }
            Err(other) => panic!("{name}: {other}"),
        }
    }
}

#[test]
fn a_new_definition_matches_a_kube_apiserver() {
    let body = |text: &str| serde_json::from_str::<Value>(text).unwrap();
    let created = body(include_str!("../../wire/tests/captures/crd-create.body"));
    let mut crd = body(include_str!("../../wire/tests/captures/crd-create.sent"));
    Definition::prepare(&mut crd, None);
    let definition = Definition::parse(&crd, None).unwrap();
    assert_eq!(crd["spec"], created["spec"]);
    assert_eq!(crd["status"], created["status"]);

    let version = definition.version("v1").unwrap();
    assert!(version.status && version.served && version.storage && definition.namespaced);
    assert_eq!(version.selectable_fields, ["spec.color"]);
    assert_eq!(version.printer_columns.len(), 1);

    let got = body(include_str!("../../wire/tests/captures/crd-get.body"));
    let now = got["status"]["conditions"][0]["lastTransitionTime"].as_str().unwrap();
    assert!(accept_names(&mut crd, [], now));
    assert_eq!(crd["status"], got["status"]);
    assert!(!accept_names(&mut crd, [], "later"), "it has its names already");

    let mut thing = body(include_str!("../../wire/tests/captures/cr-create.sent"));
    assert_eq!(prune(&mut thing, &version.schema), ["spec.extra"]);
    drop_nulls(&mut thing, &version.schema);
    set_defaults(&mut thing, &version.schema);
    assert_eq!(thing["spec"], body(include_str!("../../wire/tests/captures/cr-create.body"))["spec"]);
    assert_eq!(version.selectable_value(&thing, "spec.color").as_deref(), Some("red"));
    assert_eq!(version.selectable_value(&thing, "spec.replicas"), None);
    let scale = version.scale.as_ref().unwrap();
    assert_eq!(scale.spec_replicas(&thing), Some(1));
    scale.set_spec_replicas(&mut thing, 4);
    assert_eq!(thing["spec"]["replicas"], 4);
    assert_eq!(version.validate(&thing, None), []);
}

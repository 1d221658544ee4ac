//! Sequences of writes that were sent to a kube-apiserver 1.36.3, repeated with the functions of this crate: the same
//! objects, owners and errors. The recording `writes.json` contains, for each step, the object before, the request and
//! the response.

#![allow(clippy::unwrap_used, clippy::needless_pass_by_value)]

use embedded_apiserver::internals::{
    apply::{FieldWrite, TypeView, apply, normalize, record_update},
    crd::{Structural, drop_nulls, prune, set_defaults},
    patch::{json_patch, merge_patch, strategic_merge_patch},
};
use serde::Deserialize;
use serde_json::{Value, json};

#[derive(Deserialize)]
struct Capture {
    scenarios: Vec<Scenario>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Scenario {
    name: String,
    steps: Vec<Step>,
    schema: Option<Value>,
    has_status: bool,
}

#[derive(Deserialize)]
struct Step {
    op: String,
    manager: String,
    body: Value,
    status: u16,
    before: Option<Value>,
    after: Value,
    #[serde(default)]
    force: bool,
    #[serde(default)]
    subresource: String,
}

/// The outcome of a step: the new object, or a code and a message (and causes).
type Outcome = Result<Value, (u16, String, Vec<Value>)>;

#[test]
fn writes_match_a_kube_apiserver() {
    let capture: Capture =
        serde_json::from_str(include_str!("../../wire/tests/captures/writes.json")).unwrap();
    let mut failures = Vec::new();
    let mut compared = 0;
    for scenario in &capture.scenarios {
        let schema = scenario.schema.as_ref().map(|schema| Structural::compile(schema).unwrap());
        for (at, step) in scenario.steps.iter().enumerate() {
            if beyond_this_crate(step) {
                continue;
            }
            compared += 1;
            let outcome = redo(scenario, step, schema.as_ref());
            if let Err(difference) = compare(step, outcome, schema.as_ref()) {
                let Step { op, manager, body, .. } = step;
                failures
                    .push(format!("{}, step {at}: {op} by {manager}: {body}\n{difference}\n", scenario.name));
            }
        }
    }
    assert!(failures.is_empty(), "{} of {compared}:\n{}", failures.len(), failures.join("\n"));
    assert!(compared > 120, "only {compared} steps compared");
}

/// Rejected for its values or its media type, which is checked elsewhere.
fn beyond_this_crate(step: &Step) -> bool {
    let reason = step.after["reason"].as_str().unwrap_or_default();
    step.status == 415 || (reason == "Invalid" && step.op != "json")
}

fn redo(scenario: &Scenario, step: &Step, schema: Option<&Structural>) -> Outcome {
    let described = [&step.body, &step.after]
        .into_iter()
        .chain(&step.before)
        .find(|o| o.get("spec").is_some() || o.get("kind").is_some_and(|k| k != "Status"));
    let described = step.before.as_ref().or(described).unwrap();
    let (api_version, kind) =
        (described["apiVersion"].as_str().unwrap(), described["kind"].as_str().unwrap());
    let types = match schema {
        Some(schema) => TypeView::custom(schema),
        None => TypeView::builtin(api_version, kind).unwrap(),
    };
    let now = newest(&step.after);
    let reset: &[&[&str]] = match step.subresource.as_str() {
        "" if scenario.has_status => &[&["status"]],
        "status" if schema.is_none() => &[&["spec"]],
        "status" => &[&["metadata"], &["spec"]],
        _ => &[],
    };
    let write = FieldWrite {
        manager: &step.manager,
        api_version,
        subresource: &step.subresource,
        reset,
        now: &now,
        types,
    };

    if step.op == "apply" {
        let mut object = apply(step.before.as_ref(), &step.body, &write, step.force).map_err(|error| {
            let causes = match &error {
                embedded_apiserver::internals::apply::ApplyError::Conflict(conflicts) => {
                    conflicts.iter().map(|conflict| conflict.cause()).collect()
                }
                _ => Vec::new(),
            };
            (error.code(), error.to_string(), causes)
        })?;
        keep_other_parts(step, scenario.has_status, &mut object);
        if let Some(schema) = schema {
            set_defaults(&mut object, schema);
        }
        return Ok(object);
    }

    let mut new = match (step.op.as_str(), &step.before) {
        ("create", _) => {
            let mut new = step.body.clone();
            keep_other_parts(step, scenario.has_status, &mut new);
            custom(&mut new, schema);
            if schema.is_none() {
                // With the defaults of built-in kinds, which are set elsewhere.
                new = step.after.clone();
                new["metadata"].as_object_mut().unwrap().remove("managedFields");
            }
            new
        }
        ("put", _) => step.body.clone(),
        ("merge", Some(before)) if step.subresource == "scale" => {
            let mut new = before.clone();
            let path = if schema.is_some() { "size" } else { "replicas" };
            new["spec"][path] = step.body["spec"]["replicas"].clone();
            new
        }
        ("merge", Some(before)) => {
            let mut new = before.clone();
            merge_patch(&mut new, &step.body);
            new
        }
        ("json", Some(before)) => refusal(json_patch(before, &step.body))?,
        ("strategic", Some(before)) => {
            let kind = TypeView::builtin(api_version, kind).unwrap();
            refusal(strategic_merge_patch(before, &step.body, kind))?
        }
        other => panic!("{other:?}"),
    };
    if step.op != "create" {
        keep_other_parts(step, scenario.has_status, &mut new);
        custom(&mut new, schema);
    }
    copy_server_fields(&step.after, &mut new);
    record_update(step.before.as_ref(), &mut new, &write);
    normalize(&mut new, types);
    Ok(new)
}

fn refusal(patched: Result<Value, embedded_apiserver::internals::patch::PatchError>) -> Outcome {
    patched.map_err(|error| (error.code(), error.message(), Vec::new()))
}

/// A write to the status does not change the rest, and vice versa.
fn keep_other_parts(step: &Step, has_status: bool, object: &mut Value) {
    let before = step.before.clone().unwrap_or_else(|| json!({}));
    match step.subresource.as_str() {
        "status" => {
            let (status, entries) =
                (object.get("status").cloned(), object["metadata"].get("managedFields").cloned());
            *object = before;
            object["status"] = status.unwrap_or_default();
            object["metadata"]["managedFields"] = entries.unwrap_or_default();
        }
        "" if has_status => match before.get("status") {
            Some(status) => object["status"] = status.clone(),
            None => drop(object.as_object_mut().unwrap().remove("status")),
        },
        _ => {}
    }
}

fn custom(object: &mut Value, schema: Option<&Structural>) {
    if let Some(schema) = schema {
        prune(object, schema);
        drop_nulls(object, schema);
        set_defaults(object, schema);
    }
}

fn copy_server_fields(from: &Value, to: &mut Value) {
    for name in ["uid", "resourceVersion", "generation", "creationTimestamp", "namespace"] {
        if let Some(value) = from["metadata"].get(name) {
            to["metadata"][name] = value.clone();
        }
    }
}

fn newest(object: &Value) -> String {
    let entries = object.pointer("/metadata/managedFields").and_then(Value::as_array);
    let times = entries.into_iter().flatten().filter_map(|entry| entry["time"].as_str());
    times.max().unwrap_or("2026-01-01T00:00:00Z").to_owned()
}

fn compare(step: &Step, outcome: Outcome, schema: Option<&Structural>) -> Result<(), String> {
    match outcome {
        Err((code, message, mut causes)) => {
            let theirs = (step.status, step.after["message"].as_str().unwrap_or_default());
            if (code, message.as_str()) != theirs {
                return Err(format!("ours {code}: {message}\ntheirs {}: {}", theirs.0, theirs.1));
            }
            let mut real =
                step.after.pointer("/details/causes").and_then(Value::as_array).cloned().unwrap_or_default();
            for causes in [&mut causes, &mut real] {
                causes.sort_by_key(Value::to_string);
            }
            if step.op == "apply" && causes != real {
                return Err(format!("ours {causes:?}\ntheirs {real:?}"));
            }
            Ok(())
        }
        Ok(mut object) => {
            if step.status >= 300 {
                return Err(format!("ours {object}\ntheirs {}: {}", step.status, step.after["message"]));
            }
            copy_server_fields(&step.after, &mut object);
            let owners = |object: &Value| object["metadata"].get("managedFields").cloned();
            if owners(&object) != owners(&step.after) {
                let show = |object: &Value| serde_json::to_string_pretty(&owners(object)).unwrap();
                return Err(format!("owners: ours {}\ntheirs {}", show(&object), show(&step.after)));
            }
            let defaulted = schema.is_none() && step.op == "apply";
            if (defaulted && holds(&step.after, &object)) || object == step.after {
                return Ok(());
            }
            Err(format!("ours   {object}\ntheirs {}", step.after))
        }
    }
}

/// Whether `all` contains everything in `part`; defaults of built-in kinds are set elsewhere.
fn holds(all: &Value, part: &Value) -> bool {
    match (all, part) {
        (Value::Object(all), Value::Object(part)) => {
            part.iter().all(|(name, part)| all.get(name).is_some_and(|all| holds(all, part)))
        }
        (Value::Array(all), Value::Array(part)) => {
            all.len() == part.len() && all.iter().zip(part).all(|(all, part)| holds(all, part))
        }
        // A zero value here has its default there.
        (all, part) => all == part || part.is_null() || *part == json!("") || *part == json!(0),
    }
}

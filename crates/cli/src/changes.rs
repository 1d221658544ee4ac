//! What changed between two states of an object, in one line: `status.phase: Pending → Running`.
//!
//! Any object of any kind can be compared, so nothing is known of fields but a few rules: elements of lists are the same if
//! they have the same name, type or the like; what nobody wants to read (resourceVersion, managedFields) is left out; times
//! come last. Work and line are bounded, however large and different the objects are.

use std::fmt::Write as _;

use serde_json::{Map, Value};

use crate::masks;

/// Differences that are looked for at most.
const DIFFERENCES_MAX: usize = 10_000;
/// Differences that are shown.
const SHOWN_MAX: usize = 3;
/// Longest value that is shown whole, in characters.
const VALUE_CHARS_MAX: usize = 40;
/// How deep objects are compared.
const DEPTH_MAX: usize = 32;

/// Fields by which elements of a list are told apart, the first that all elements have.
const IDENTITIES: [&str; 6] = ["name", "type", "containerPort", "port", "ip", "key"];

/// One field that is different.
#[derive(Debug, PartialEq, Eq)]
struct Difference {
    path: String,
    before: String,
    after: String,
}

/// What changed, on one line; empty if nothing that matters did.
pub(crate) fn in_one_line(old: &Value, new: &Value) -> String {
    let mut found = Vec::new();
    compare("", Some(old), Some(new), 0, &mut found);
    if masks::is_secret(new) {
        for difference in found.iter_mut().filter(|difference| masks::hides(&difference.path)) {
            for side in [&mut difference.before, &mut difference.after] {
                if side != "none" {
                    "***".clone_into(side);
                }
            }
        }
    }
    found.sort_by_key(rank);
    let mut line = String::new();
    for Difference { path, before, after } in found.iter().take(SHOWN_MAX) {
        let comma = if line.is_empty() { "" } else { ", " };
        let _ = write!(line, "{comma}{path}: {before} → {after}");
    }
    match found.len() {
        0..=SHOWN_MAX => {}
        DIFFERENCES_MAX => line += ", and many more",
        more => {
            let _ = write!(line, ", {} more", more - SHOWN_MAX);
        }
    }
    line
}

fn compare(path: &str, old: Option<&Value>, new: Option<&Value>, depth: usize, found: &mut Vec<Difference>) {
    if old == new || found.len() >= DIFFERENCES_MAX || is_ignored(path) {
        return;
    }
    match (old, new) {
        (Some(Value::Object(old)), Some(Value::Object(new))) if depth < DEPTH_MAX => {
            compare_maps(path, old, new, depth, found);
        }
        (Some(Value::Array(old)), Some(Value::Array(new))) if depth < DEPTH_MAX => {
            compare_lists(path, old, new, depth, found);
        }
        // A part that came or went is told by its fields, as long as it has few.
        (None, Some(Value::Object(new))) if is_small(new) => {
            compare_maps(path, &Map::new(), new, depth, found);
        }
        (Some(Value::Object(old)), None) if is_small(old) => {
            compare_maps(path, old, &Map::new(), depth, found);
        }
        (old, new) => {
            found.push(Difference { path: path.to_owned(), before: shown(old), after: shown(new) });
        }
    }
}

fn compare_maps(
    path: &str,
    old: &Map<String, Value>,
    new: &Map<String, Value>,
    depth: usize,
    found: &mut Vec<Difference>,
) {
    let gone = old.keys().filter(|name| !new.contains_key(*name));
    for name in new.keys().chain(gone) {
        let dot = if path.is_empty() { "" } else { "." };
        compare(&format!("{path}{dot}{name}"), old.get(name), new.get(name), depth + 1, found);
    }
}

fn compare_lists(path: &str, old: &[Value], new: &[Value], depth: usize, found: &mut Vec<Difference>) {
    let identity = IDENTITIES.iter().find(|field| {
        old.iter().chain(new).all(|element| matches!(element[**field], Value::String(_) | Value::Number(_)))
    });
    if let Some(identity) = identity {
        let same = |one: &Value, other: &Value| one[*identity] == other[*identity];
        let name = |element: &Value| format!("{path}[{}]", shown(Some(&element[*identity])));
        for element in new {
            let before = old.iter().find(|old| same(old, element));
            match before {
                Some(before) => compare(&name(element), Some(before), Some(element), depth + 1, found),
                None => found.push(Difference {
                    path: name(element),
                    before: "none".into(),
                    after: "added".into(),
                }),
            }
        }
        for element in old.iter().filter(|old| !new.iter().any(|element| same(old, element))) {
            found.push(Difference { path: name(element), before: "there".into(), after: "none".into() });
        }
    } else if old.len() == new.len() {
        for (at, (old, new)) in old.iter().zip(new).enumerate() {
            compare(&format!("{path}[{at}]"), Some(old), Some(new), depth + 1, found);
        }
    } else {
        let count = |list: &[Value]| format!("{} item{}", list.len(), if list.len() == 1 { "" } else { "s" });
        found.push(Difference { path: path.to_owned(), before: count(old), after: count(new) });
    }
}

fn is_small(map: &Map<String, Value>) -> bool {
    map.len() <= 3 && map.values().all(|value| !value.is_object() && !value.is_array())
}

fn is_ignored(path: &str) -> bool {
    matches!(path, "metadata.resourceVersion" | "metadata.managedFields" | "metadata.generation")
}

/// What is told first: that it is going, its phase, what was wanted, what came of it; times and whole parts last.
fn rank(difference: &Difference) -> u8 {
    let path = difference.path.as_str();
    let field = path.rsplit(['.', ']']).next().unwrap_or(path);
    let is_part = |side: &str| side.starts_with(['[', '{']);
    match path {
        "metadata.deletionTimestamp" => 0,
        "status.phase" => 1,
        _ if field.ends_with("Time") || field.ends_with("Timestamp") || field.ends_with("At") => 9,
        _ if field == "observedGeneration" || path.starts_with("metadata.deletion") => 8,
        _ if is_part(&difference.before) || is_part(&difference.after) => 7,
        _ if path.starts_with("spec.") || path.starts_with("data.") => 2,
        _ if path.starts_with("status.") => match field {
            "status" | "ready" | "restartCount" => 4,
            "reason" | "replicas" | "readyReplicas" => 5,
            _ => 6,
        },
        _ => 3,
    }
}

fn shown(value: Option<&Value>) -> String {
    let text = match value {
        None | Some(Value::Null) => return "none".to_owned(),
        Some(Value::String(text)) => text.escape_debug().to_string(),
        Some(Value::Array(list)) => return format!("[{}]", list.len()),
        Some(Value::Object(map)) => return format!("{{{}}}", map.len()),
        Some(other) => other.to_string(),
    };
    match text.char_indices().nth(VALUE_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None if text.is_empty() => "\"\"".to_owned(),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_changed_is_told_by_the_field_that_did() {
        for (old, new, told) in [
            (
                json!({"status": {"phase": "Pending"}}),
                json!({"status": {"phase": "Running"}}),
                "status.phase: Pending → Running",
            ),
            (json!({"a": 1}), json!({"a": 1}), ""),
            (
                json!({"metadata": {"resourceVersion": "1"}}),
                json!({"metadata": {"resourceVersion": "2"}}),
                "",
            ),
            (
                json!({"metadata": {}}),
                json!({"metadata": {"labels": {"tier": "web"}}}),
                "metadata.labels.tier: none → web",
            ),
            (json!({"spec": {"replicas": 3}}), json!({"spec": {}}), "spec.replicas: 3 → none"),
            (
                json!({"status": {"conditions": [{"type": "Ready", "status": "False"}, {"type": "Scheduled", "status": "True"}]}}),
                json!({"status": {"conditions": [{"type": "Scheduled", "status": "True"}, {"type": "Ready", "status": "True"}]}}),
                "status.conditions[Ready].status: False → True",
            ),
            (
                json!({"spec": {"containers": [{"name": "a"}]}}),
                json!({"spec": {"containers": [{"name": "a"}, {"name": "b"}]}}),
                "spec.containers[b]: none → added",
            ),
            (
                json!({"spec": {"containers": [{"name": "a"}, {"name": "b"}]}}),
                json!({"spec": {"containers": [{"name": "b"}]}}),
                "spec.containers[a]: there → none",
            ),
            (
                json!({"spec": {"args": ["x"]}}),
                json!({"spec": {"args": ["x", "y"]}}),
                "spec.args: 1 item → 2 items",
            ),
            (
                json!({"spec": {"args": ["x", "z"]}}),
                json!({"spec": {"args": ["x", "y"]}}),
                "spec.args[1]: z → y",
            ),
            (json!({"spec": 1}), json!({"spec": {"a": {}, "b": 1}}), "spec: 1 → {2}"),
            (
                json!({"spec": {"a": "line\nbreak"}}),
                json!({"spec": {"a": ""}}),
                "spec.a: line\\nbreak → \"\"",
            ),
        ] {
            assert_eq!(in_one_line(&old, &new), told);
        }
    }

    #[test]
    fn what_matters_comes_first_and_the_line_is_bounded() {
        let state = |n: usize, fields: usize| {
            let many = (0..fields).map(|i| (format!("f{i}"), json!(n))).collect::<Map<_, _>>();
            json!({"spec": {"a": "x".repeat(500 + n)}, "status": {"phase": format!("P{n}"), "lastTime": n, "many": many}})
        };
        let line = in_one_line(&state(1, 1000), &state(2, 1000));
        assert!(line.starts_with("status.phase: P1 → P2, spec.a: xxxx"), "{line}");
        assert!(line.ends_with(", 1000 more") && line.chars().count() < 300, "{line}");
        let line = in_one_line(&state(1, 20_000), &state(2, 20_000));
        assert!(line.ends_with(", and many more") && line.chars().count() < 300, "{line}");
    }

    #[test]
    fn the_value_of_a_secret_is_not_told_but_that_it_changed_is() {
        let secret = |value: &str| json!({"apiVersion": "v1", "kind": "Secret", "data": {"password": value}});
        assert_eq!(in_one_line(&secret("b2xk"), &secret("bmV3")), "data.password: *** → ***");
    }

    #[test]
    fn objects_nested_deeper_than_any_stack_are_compared_to_a_certain_depth() {
        let nested = |leaf: i32| (0..500).fold(json!(leaf), |inner, _| json!({"x": inner}));
        let line = in_one_line(&nested(1), &nested(2));
        assert!(line.ends_with("{1} → {1}"), "{line}");
    }
}

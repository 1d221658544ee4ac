//! The difference between two states of an object, in one line: `status.phase: Pending → Running`. A sign marks a field that
//! was added (`+status.reason: Evicted`) or removed (`-spec.nodeName: node-1`).
//!
//! Objects of any kind are compared, so only a few rules apply: list elements are matched by name, type or a similar field that is unique;
//! resourceVersion, generation and managedFields are skipped; times come last. The work, the line and each value are bounded.

use std::collections::HashMap;
use std::fmt::{self, Write as _};

use serde_json::{Map, Value};

use crate::masks;

/// Maximum number of differences that are collected.
const DIFFERENCES_MAX: usize = 10_000;
/// Maximum number of differences that are shown.
const SHOWN_MAX: usize = 3;
/// Longest name of a list element in a path, in characters.
const NAME_CHARS_MAX: usize = 40;
/// Deepest level that is compared.
const DEPTH_MAX: usize = 32;

/// Fields that identify an element of a list. The first one that all elements have, each with another value, is used.
const IDENTITIES: [&str; 6] = ["name", "type", "containerPort", "port", "ip", "key"];

/// One changed field. The side without the field is empty; an empty text is shown as `""`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Difference {
    /// For people: the names of list elements are shortened.
    pub(crate) path: String,
    /// The names on the way to the field, complete: two paths are compared by them, because a name can contain dots and brackets.
    pub(crate) segments: Vec<String>,
    pub(crate) before: String,
    pub(crate) after: String,
}

impl Difference {
    /// Masks the values, but not whether the field was added, changed or removed.
    pub(crate) fn mask(&mut self) {
        for side in [&mut self.before, &mut self.after] {
            if !side.is_empty() {
                masks::MASK.clone_into(side);
            }
        }
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, before, after, .. } = self;
        match (before.as_str(), after.as_str()) {
            ("", after) => write!(f, "+{path}: {after}"),
            (before, "") => write!(f, "-{path}: {before}"),
            (before, after) => write!(f, "{path}: {before} → {after}"),
        }
    }
}

/// How much of a change is shown.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ChangeDetail {
    /// Longest value that is shown in full, in characters.
    pub(crate) value_chars_max: usize,
    /// Parts that were added or removed are shown field by field, whatever their size.
    pub(crate) expands_parts: bool,
}

impl ChangeDetail {
    /// For a line.
    pub(crate) const SHORT: Self = Self { value_chars_max: 40, expands_parts: false };
    /// For a panel.
    pub(crate) const LONG: Self = Self { value_chars_max: 1000, expands_parts: true };
}

/// A field, by the way to it from the root of the object.
#[derive(Clone, Copy)]
struct Place<'p> {
    parent: Option<&'p Place<'p>>,
    segment: PathSegment<'p>,
}

#[derive(Clone, Copy)]
enum PathSegment<'p> {
    Member(&'p str),
    /// An element of a list, by the value that identifies it.
    Element(&'p Value),
    /// An element of a list, by its position.
    Position(usize),
}

/// The changed fields while two states are compared.
struct StateComparison {
    found: Vec<Difference>,
    detail: ChangeDetail,
}

/// The fields that changed, the most relevant first; values of Secrets are masked.
pub(crate) fn differences(old: &Value, new: &Value, detail: ChangeDetail) -> Vec<Difference> {
    let mut comparison = StateComparison { found: Vec::new(), detail };
    comparison.compare(None, Some(old), Some(new), 0);
    let mut found = comparison.found;
    if masks::is_secret(new) {
        found.iter_mut().filter(|found| masks::hides(&found.path)).for_each(Difference::mask);
    }
    found.sort_by_key(rank);
    found
}

/// What changed, on one line; empty if nothing that matters did.
pub(crate) fn in_one_line(old: &Value, new: &Value) -> String {
    line(&differences(old, new, ChangeDetail::SHORT))
}

/// As [`in_one_line`], with kubectl's copy of the object masked, as on the page.
pub(crate) fn in_one_masked_line(old: &Value, new: &Value) -> String {
    let mut found = differences(old, new, ChangeDetail::SHORT);
    found.iter_mut().filter(|found| masks::is_last_applied(&found.path)).for_each(Difference::mask);
    line(&found)
}

fn line(found: &[Difference]) -> String {
    let mut line = String::new();
    for difference in found.iter().take(SHOWN_MAX) {
        let comma = if line.is_empty() { "" } else { ", " };
        let _ = write!(line, "{comma}{difference}");
    }
    match found.len() {
        0..=SHOWN_MAX => {}
        DIFFERENCES_MAX.. => line += ", and many more",
        more => {
            let _ = write!(line, ", {} more", more - SHOWN_MAX);
        }
    }
    line
}

impl<'p> Place<'p> {
    /// The segments from the root.
    fn segments(&self) -> Vec<PathSegment<'p>> {
        let mut segments = Vec::new();
        let mut place = Some(self);
        while let Some(Place { parent, segment }) = place {
            segments.push(*segment);
            place = *parent;
        }
        segments.reverse();
        segments
    }
}

impl PathSegment<'_> {
    /// The complete name.
    fn name(self) -> String {
        match self {
            Self::Member(name) => name.to_owned(),
            Self::Element(Value::String(name)) => name.clone(),
            Self::Element(number) => number.to_string(),
            Self::Position(at) => at.to_string(),
        }
    }

    /// Appends the segment to a path.
    fn write(self, path: &mut String) {
        match self {
            Self::Member(name) => {
                let dot = if path.is_empty() { "" } else { "." };
                path.extend([dot, name]);
            }
            Self::Element(identity) => {
                path.extend(["[", &shown(Some(identity), NAME_CHARS_MAX), "]"]);
            }
            Self::Position(at) => path.extend(["[", &at.to_string(), "]"]),
        }
    }
}

impl StateComparison {
    fn compare(&mut self, place: Option<&Place<'_>>, old: Option<&Value>, new: Option<&Value>, depth: usize) {
        // A field that is `null` is unset.
        let (old, new) = (old.filter(|value| !value.is_null()), new.filter(|value| !value.is_null()));
        if old == new || self.found.len() >= DIFFERENCES_MAX || place.is_some_and(is_ignored) {
            return;
        }
        match (old, new) {
            (Some(Value::Object(old)), Some(Value::Object(new))) if depth < DEPTH_MAX => {
                self.compare_maps(place, old, new, depth);
            }
            (Some(Value::Array(old)), Some(Value::Array(new))) if depth < DEPTH_MAX => {
                self.compare_lists(place, old, new, depth);
            }
            // A small part that was added or removed is shown field by field.
            (None, Some(Value::Object(new))) if self.expands(new, depth) => {
                self.compare_maps(place, &Map::new(), new, depth);
            }
            (Some(Value::Object(old)), None) if self.expands(old, depth) => {
                self.compare_maps(place, old, &Map::new(), depth);
            }
            (None, Some(Value::Array(new))) if self.expands_lists(new, depth) => {
                self.compare_lists(place, &[], new, depth);
            }
            (Some(Value::Array(old)), None) if self.expands_lists(old, depth) => {
                self.compare_lists(place, old, &[], depth);
            }
            (old, new) => self.add(place, self.shown(old), self.shown(new)),
        }
    }

    fn compare_maps(
        &mut self,
        parent: Option<&Place<'_>>,
        old: &Map<String, Value>,
        new: &Map<String, Value>,
        depth: usize,
    ) {
        let gone = old.keys().filter(|name| !new.contains_key(*name));
        for name in new.keys().chain(gone) {
            let place = Place { parent, segment: PathSegment::Member(name) };
            self.compare(Some(&place), old.get(name), new.get(name), depth + 1);
        }
    }

    fn compare_lists(&mut self, parent: Option<&Place<'_>>, old: &[Value], new: &[Value], depth: usize) {
        let identified = IDENTITIES
            .iter()
            .find_map(|field| Some((*field, by_identity(old, field)?, by_identity(new, field)?)));
        if let Some((field, before, after)) = identified {
            for element in new {
                let place = Place { parent, segment: PathSegment::Element(&element[field]) };
                match before.get(&element[field].to_string()) {
                    Some(before) => self.compare(Some(&place), Some(before), Some(element), depth + 1),
                    None if self.detail.expands_parts => {
                        self.compare(Some(&place), None, Some(element), depth + 1);
                    }
                    None => self.add(Some(&place), String::new(), self.shown(Some(element))),
                }
            }
            for element in old.iter().filter(|old| !after.contains_key(&old[field].to_string())) {
                let place = Place { parent, segment: PathSegment::Element(&element[field]) };
                match self.detail.expands_parts {
                    true => self.compare(Some(&place), Some(element), None, depth + 1),
                    false => self.add(Some(&place), self.shown(Some(element)), String::new()),
                }
            }
        } else if old.len() == new.len() {
            for (at, (old, new)) in old.iter().zip(new).enumerate() {
                let place = Place { parent, segment: PathSegment::Position(at) };
                self.compare(Some(&place), Some(old), Some(new), depth + 1);
            }
        } else {
            let count =
                |list: &[Value]| format!("{} item{}", list.len(), if list.len() == 1 { "" } else { "s" });
            self.add(parent, count(old), count(new));
        }
    }

    fn expands(&self, part: &Map<String, Value>, depth: usize) -> bool {
        is_small(part) || (self.detail.expands_parts && !part.is_empty() && depth < DEPTH_MAX)
    }

    fn expands_lists(&self, list: &[Value], depth: usize) -> bool {
        self.detail.expands_parts && !list.is_empty() && depth < DEPTH_MAX
    }

    fn add(&mut self, place: Option<&Place<'_>>, before: String, after: String) {
        if self.found.len() >= DIFFERENCES_MAX {
            return;
        }
        let segments = place.map(Place::segments).unwrap_or_default();
        let mut path = String::new();
        segments.iter().for_each(|segment| segment.write(&mut path));
        let segments = segments.into_iter().map(PathSegment::name).collect();
        self.found.push(Difference { path, segments, before, after });
    }

    fn shown(&self, value: Option<&Value>) -> String {
        shown(value, self.detail.value_chars_max)
    }
}

/// The elements of a list by the text of a field; `None` if the field does not identify each of them.
fn by_identity<'l>(list: &'l [Value], field: &str) -> Option<HashMap<String, &'l Value>> {
    let mut elements = HashMap::with_capacity(list.len());
    for element in list {
        let identity = &element[field];
        let is_unique = matches!(identity, Value::String(_) | Value::Number(_))
            && elements.insert(identity.to_string(), element).is_none();
        if !is_unique {
            return None;
        }
    }
    Some(elements)
}

fn is_small(map: &Map<String, Value>) -> bool {
    map.len() <= 3 && map.values().all(|value| !value.is_object() && !value.is_array())
}

fn is_ignored(place: &Place<'_>) -> bool {
    let Place { parent: Some(Place { parent: None, segment: PathSegment::Member("metadata") }), segment } =
        place
    else {
        return false;
    };
    matches!(segment, PathSegment::Member("resourceVersion" | "managedFields" | "generation"))
}

/// The order of fields: deletion, phase, spec, status; times and whole parts last.
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

/// A value for people; empty without one.
fn shown(value: Option<&Value>, chars_max: usize) -> String {
    let text = match value {
        None | Some(Value::Null) => return String::new(),
        Some(Value::String(text)) => text.escape_debug().to_string(),
        Some(Value::Array(list)) => return format!("[{}]", list.len()),
        Some(Value::Object(map)) => return format!("{{{}}}", map.len()),
        Some(other) => other.to_string(),
    };
    match text.char_indices().nth(chars_max) {
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
    fn changes_are_reported_by_field() {
        for (old, new, expected) in [
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
                "+metadata.labels.tier: web",
            ),
            (json!({"spec": {"replicas": 3}}), json!({"spec": {}}), "-spec.replicas: 3"),
            (
                json!({"status": {"conditions": [{"type": "Ready", "status": "False"}, {"type": "Scheduled", "status": "True"}]}}),
                json!({"status": {"conditions": [{"type": "Scheduled", "status": "True"}, {"type": "Ready", "status": "True"}]}}),
                "status.conditions[Ready].status: False → True",
            ),
            (
                json!({"spec": {"containers": [{"name": "a"}]}}),
                json!({"spec": {"containers": [{"name": "a"}, {"name": "b"}]}}),
                "+spec.containers[b]: {1}",
            ),
            (
                json!({"spec": {"containers": [{"name": "a"}, {"name": "b"}]}}),
                json!({"spec": {"containers": [{"name": "b"}]}}),
                "-spec.containers[a]: {1}",
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
            (json!({"spec": {"a": ""}}), json!({"spec": {"a": null}}), "-spec.a: \"\""),
            (json!({"status": {}}), json!({"status": {"list": [1]}}), "+status.list: [1]"),
            (json!({"spec": {"a": null}}), json!({"spec": {}}), ""),
            // A name that occurs twice identifies no element.
            (
                json!({"mounts": [{"name": "config", "path": "/a"}, {"name": "config", "path": "/b"}]}),
                json!({"mounts": [{"name": "config", "path": "/a"}]}),
                "mounts: 2 items → 1 item",
            ),
            (
                json!({"mounts": [{"name": "config", "path": "/a"}, {"name": "config", "path": "/b"}]}),
                json!({"mounts": [{"name": "config", "path": "/a"}, {"name": "config", "path": "/c"}]}),
                "mounts[1].path: /b → /c",
            ),
            (
                json!({"addresses": [{"type": "IP", "ip": "1"}, {"type": "IP", "ip": "2"}]}),
                json!({"addresses": [{"type": "IP", "ip": "2"}]}),
                "-addresses[1]: {2}",
            ),
        ] {
            assert_eq!(in_one_line(&old, &new), expected);
        }
    }

    #[test]
    fn relevant_changes_come_first_and_the_line_is_bounded() {
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
    fn long_lists_without_common_elements_are_compared_once() {
        let list = |from: usize| -> Vec<Value> {
            (from..from + 50_000).map(|number| json!({"name": number.to_string()})).collect()
        };
        let found =
            differences(&json!({"list": list(0)}), &json!({"list": list(50_000)}), ChangeDetail::LONG);
        assert_eq!(found.len(), DIFFERENCES_MAX);
    }

    #[test]
    fn a_changed_secret_value_is_reported_without_the_value() {
        let secret = |value: &str| json!({"apiVersion": "v1", "kind": "Secret", "data": {"password": value}});
        assert_eq!(in_one_line(&secret("b2xk"), &secret("bmV3")), "data.password: *** → ***");
    }

    #[test]
    fn the_long_form_has_whole_values_and_every_field_of_new_parts() {
        let old = json!({"spec": {"text": "a".repeat(100)}, "list": [{"name": "x", "size": 1}]});
        let new = json!({"spec": {"text": "b".repeat(100), "map": {"a": 1, "b": 2, "c": 3, "d": {"e": [7]}}}, "list": []});
        let found = differences(&old, &new, ChangeDetail::LONG);
        let paths: Vec<_> = found.iter().map(|found| found.path.as_str()).collect();
        let expected = [
            "spec.map.a",
            "spec.map.b",
            "spec.map.c",
            "spec.map.d.e",
            "spec.text",
            "list[x].name",
            "list[x].size",
        ];
        assert_eq!(paths, expected);
        assert_eq!((&*found[4].before, &*found[4].after), (&*"a".repeat(100), &*"b".repeat(100)));
        let found = differences(&old, &new, ChangeDetail::SHORT);
        let short: Vec<_> = found.iter().map(|found| (found.path.as_str(), found.after.as_str())).collect();
        let cut = format!("{}…", "b".repeat(40));
        assert_eq!(short, [("spec.text", &*cut), ("list[x]", ""), ("spec.map", "{4}")]);
        let deep = (0..500).fold(json!(1), |inner, _| json!({"x": [inner]}));
        assert_eq!(differences(&json!({}), &deep, ChangeDetail::LONG).len(), 1, "the depth is limited");
    }

    #[test]
    fn the_segments_of_a_path_are_complete() {
        let name = "n".repeat(NAME_CHARS_MAX + 20);
        let state = |value: &str| {
            json!({"metadata": {"labels": {"app.kubernetes.io/name": value}}, "spec": {"args": [value],
                "containers": [{"name": name, "image": value}], "ports": [{"port": 80, "node": value}]}})
        };
        let found = differences(&state("old"), &state("new"), ChangeDetail::LONG);
        let mut segments: Vec<_> = found.iter().map(|found| found.segments.join(" / ")).collect();
        segments.sort();
        let expected = [
            "metadata / labels / app.kubernetes.io/name".to_owned(),
            "spec / args / 0".to_owned(),
            format!("spec / containers / {name} / image"),
            "spec / ports / 80 / node".to_owned(),
        ];
        assert_eq!(segments, expected);
        let cut = format!("spec.containers[{}…].image", &name[..NAME_CHARS_MAX]);
        assert!(found.iter().any(|found| found.path == cut), "{found:?}");
    }

    #[test]
    fn kubectls_copy_of_any_kind_is_masked_on_request() {
        let annotated = |copy: Value| {
            let annotations = json!({"kubectl.kubernetes.io/last-applied-configuration": copy});
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"annotations": annotations}})
        };
        let path = "metadata.annotations.kubectl.kubernetes.io/last-applied-configuration";
        let (old, new) = (annotated(json!("old")), annotated(json!("hunter2")));
        assert_eq!(in_one_masked_line(&old, &new), format!("{path}: *** → ***"));
        assert_eq!(in_one_masked_line(&annotated(Value::Null), &new), format!("+{path}: ***"));
        assert_eq!(in_one_line(&old, &new), format!("{path}: old → hunter2"));
    }

    #[test]
    fn deeply_nested_objects_are_compared_to_a_limited_depth() {
        let nested = |leaf: i32| (0..500).fold(json!(leaf), |inner, _| json!({"x": inner}));
        let line = in_one_line(&nested(1), &nested(2));
        assert!(line.ends_with("{1} → {1}"), "{line}");
    }
}

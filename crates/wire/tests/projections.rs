//! Projections on every kind: the projected bytes decode to the projected value.

#![cfg_attr(
    not(feature = "go-vectors"),
    allow(dead_code, unused_imports, reason = "helpers of tests that need vectors")
)]
#![allow(clippy::unwrap_used, reason = "helpers of tests, where a panic is a failure")]

mod support;

use std::collections::HashSet;
use std::sync::LazyLock;

use kube_wire::internals::de::{Deserializer, UnknownFields};
use kube_wire::internals::envelope::Envelope;
use kube_wire::internals::ser;
use kube_wire::projection::Kept;
use kube_wire::schema::{Cardinality, Message, Schema, Shape};
use kube_wire::{Encoding, Limits, ObjectReader, Projection, RawObject, TypeMeta};
use proptest::prelude::*;
use proptest::sample::Index;
use serde::Deserialize;
use serde_json::{Value, json};
use support::Vector;

const HEAD: [&str; 9] = [
    "name",
    "namespace",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "labels",
    "ownerReferences",
];
const MARKER: &str = "k8s.io/initial-events-end";

/// Names of members; `None` is every element of a list.
type Path = Vec<Option<String>>;

fn path(names: &[&str]) -> Path {
    names.iter().map(|name| Some((*name).to_owned())).collect()
}

fn text(path: &Path) -> String {
    let quoted = |name: &String| format!("['{}']", name.replace('\\', "\\\\").replace('\'', "\\'"));
    path.iter().map(|name| name.as_ref().map_or("[*]".to_owned(), quoted)).collect()
}

/// The value after a projection that drops these paths.
fn without(value: &mut Value, paths: &[&[Option<String>]]) {
    let rest_of = |wanted: Option<&str>| -> Vec<&[Option<String>]> {
        paths
            .iter()
            .filter_map(|path| path.split_first())
            .filter(|(name, _)| name.as_deref() == wanted)
            .map(|(_, rest)| rest)
            .collect()
    };
    match value {
        Value::Object(members) => {
            members.retain(|name, value| {
                let rest = rest_of(Some(name));
                let kept = rest.iter().all(|rest| !rest.is_empty());
                without(value, &rest);
                kept
            });
        }
        Value::Array(elements) => {
            let rest = rest_of(None);
            elements.iter_mut().for_each(|element| without(element, &rest));
        }
        _ => {}
    }
}

/// The value after a projection that keeps these paths.
fn with_only(value: &Value, paths: &[&[Option<String>]]) -> Value {
    if paths.iter().any(|path| path.is_empty()) {
        return value.clone();
    }
    let rest_of = |wanted: Option<&str>| -> Vec<&[Option<String>]> {
        let rest = paths.iter().filter_map(|path| path.split_first());
        rest.filter(|(name, _)| name.as_deref() == wanted).map(|(_, rest)| rest).collect()
    };
    match value {
        Value::Object(members) => members
            .iter()
            .map(|(name, value)| (name, value, rest_of(Some(name))))
            .filter(|(_, _, rest)| !rest.is_empty())
            .map(|(name, value, rest)| (name.clone(), with_only(value, &rest)))
            .collect(),
        Value::Array(elements) => elements.iter().map(|element| with_only(element, &rest_of(None))).collect(),
        scalar => scalar.clone(),
    }
}

/// Whether a value from protobuf is the expected one: dropped fields may show as zero, an emptied map not at all.
fn same(found: &Value, expected: &Value) -> bool {
    match (found, expected) {
        (Value::Object(found), Value::Object(expected)) => {
            let shown = expected.iter().all(|(name, expected)| match found.get(name) {
                Some(found) => same(found, expected),
                None => *expected == json!({}),
            });
            shown && found.iter().all(|(name, found)| expected.contains_key(name) || is_zero(found))
        }
        (Value::Array(found), Value::Array(expected)) => {
            found.len() == expected.len() && found.iter().zip(expected).all(|(a, b)| same(a, b))
        }
        (Value::Null, expected) if *expected == json!({}) => true,
        _ => found == expected,
    }
}

fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Number(number) => number.as_i64() == Some(0),
        Value::String(text) => matches!(text.as_str(), "" | "0" | "0s"),
        Value::Object(members) => members.values().all(is_zero),
        _ => false,
    }
}

/// All paths of names and `[*]`.
fn all_paths(value: &Value, path: &mut Path, paths: &mut HashSet<Path>) {
    if matches!(path.last(), Some(Some(_))) {
        paths.insert(path.clone());
    }
    let children: Vec<(Option<String>, &Value)> = match value {
        Value::Object(members) => members.iter().map(|(name, value)| (Some(name.clone()), value)).collect(),
        Value::Array(elements) => elements.iter().map(|value| (None, value)).collect(),
        _ => return,
    };
    for (name, child) in children {
        path.push(name);
        all_paths(child, path, paths);
        path.pop();
    }
}

fn touches_head(path: &Path) -> bool {
    let name = |at: usize| path.get(at).and_then(Option::as_deref);
    match (name(0), name(1)) {
        (Some("apiVersion" | "kind"), _) | (Some("metadata"), None) => true,
        (Some("metadata"), Some(member)) => HEAD.contains(&member),
        _ => false,
    }
}

/// Whether protobuf can follow the path: paths end at a value of a special shape, which is kept as a whole.
fn is_followed(path: &[Option<String>], message: &'static Message) -> bool {
    let Some((name, mut rest)) = path.split_first() else { return true };
    if message.shape != Shape::Object {
        return false;
    }
    let Some(field) = name.as_deref().and_then(|name| message.field_towards(name)) else { return false };
    if field.inline {
        rest = path;
    } else if field.ty.cardinality != Cardinality::One && !rest.is_empty() {
        rest = &rest[1..];
    }
    match field.ty.message(Schema::builtin()) {
        Some(message) => is_followed(rest, message),
        None => rest.is_empty(),
    }
}

fn read(
    projection: &Projection,
    bytes: &[u8],
    encoding: Encoding,
    api_version: &str,
    kind: &str,
) -> RawObject {
    let mut reader = ObjectReader::new(projection.clone(), Limits::DEFAULT);
    reader.read(bytes, encoding, Some(&TypeMeta::new(api_version, kind))).unwrap()
}

fn from_protobuf(bytes: &[u8], message: &'static Message) -> Value {
    let deserializer = Deserializer::new(bytes, message).unknown_fields(UnknownFields::Reject);
    Value::deserialize(deserializer).unwrap()
}

struct Object {
    vector: Vector,
    message: &'static Message,
    /// Without apiVersion and kind.
    value: Value,
    paths: Vec<Path>,
}

/// Vectors that have an `ObjectMeta`.
static OBJECTS: LazyLock<Vec<Object>> = LazyLock::new(|| {
    let mut objects = Vec::new();
    for vector in support::vectors().into_iter() {
        let Some(message) = Schema::builtin().kind(&vector.api_version, &vector.kind) else { continue };
        let metadata = message.field(1).and_then(|field| field.ty.message(Schema::builtin()));
        if !metadata.is_some_and(|metadata| metadata.name.ends_with(".ObjectMeta"))
            || vector.json.len() > 100_000
        {
            continue;
        }
        // Some have names that are invalid for objects.
        let type_meta = TypeMeta::new(&vector.api_version, &vector.kind);
        let mut reader = ObjectReader::new(Projection::everything(), Limits::DEFAULT);
        if reader.read(&vector.json, Encoding::Json, Some(&type_meta)).is_err() {
            continue;
        }
        let mut value: Value = serde_json::from_slice(&vector.json).unwrap();
        without(&mut value, &[&path(&["apiVersion"]), &path(&["kind"])]);
        let mut paths = HashSet::new();
        all_paths(&value, &mut Vec::new(), &mut paths);
        paths.retain(|path| !touches_head(path) && is_followed(path, message));
        let mut paths: Vec<_> = paths.into_iter().collect();
        paths.sort();
        objects.push(Object { vector, message, value, paths });
    }
    objects
});

impl Object {
    fn check(&self, projection: &Projection, expected: &Value) {
        let Vector { name, api_version, kind, json, pb, .. } = &self.vector;
        let object = read(projection, json, Encoding::Json, api_version, kind);
        let found: Value = serde_json::from_slice(object.bytes()).unwrap();
        assert_eq!(found, *expected, "{name} in JSON, {projection}");

        let raw = Envelope::open(pb).unwrap().raw;
        let object = read(projection, raw, Encoding::Protobuf, api_version, kind);
        let found = from_protobuf(object.bytes(), self.message);
        let differences = support::difference(name, &found, expected);
        assert!(same(&found, expected), "{projection} in protobuf: {differences:?}");
    }

    fn has_annotations(&self) -> bool {
        self.value["metadata"]["annotations"].is_object()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[cfg(feature = "go-vectors")]
    #[test]
    fn dropped_fields_are_removed_and_the_rest_is_unchanged(
        object: Index,
        chosen in prop::collection::vec(any::<Index>(), 0..8),
    ) {
        let object = object.get::<Object>(&OBJECTS);
        if object.paths.is_empty() {
            return Ok(());
        }
        let mut dropped: Vec<Path> = chosen.iter().map(|at| at.get::<Path>(&object.paths).clone()).collect();
        let texts: Vec<_> = dropped.iter().map(text).collect();
        let projection = Projection::dropping(texts.iter().map(String::as_str)).unwrap();
        projection.check(object.message).unwrap();
        for dropped in &texts {
            let kept = projection.keeps(&dropped.parse().unwrap());
            let rescued = dropped == "['metadata']['annotations']" && kept == Kept::Partly;
            prop_assert!(kept == Kept::Dropped || rescued, "{} {:?}", dropped, kept);
        }

        dropped.push(path(&["metadata", "managedFields"]));
        let mut expected = object.value.clone();
        without(&mut expected, &dropped.iter().map(Vec::as_slice).collect::<Vec<_>>());
        if dropped.contains(&path(&["metadata", "annotations"])) && object.has_annotations() {
            // The projection would keep the marker of initial events, so it keeps the map that could contain it.
            expected["metadata"]["annotations"] = json!({});
        }
        object.check(&projection, &expected);
    }

    #[cfg(feature = "go-vectors")]
    #[test]
    fn only_kept_fields_remain(
        object: Index,
        chosen in prop::collection::vec(any::<Index>(), 0..8),
    ) {
        let object = object.get::<Object>(&OBJECTS);
        if object.paths.is_empty() {
            return Ok(());
        }
        let mut kept: Vec<Path> = chosen.iter().map(|at| at.get::<Path>(&object.paths).clone()).collect();
        let texts: Vec<_> = kept.iter().map(text).collect();
        let projection = Projection::keeping(texts.iter().map(String::as_str)).unwrap();
        for kept in &texts {
            prop_assert_eq!(projection.keeps(&kept.parse().unwrap()), Kept::Whole);
        }

        kept.extend(HEAD.iter().map(|name| path(&["metadata", name])));
        kept.push(path(&["metadata", "annotations", MARKER]));
        let expected = with_only(&object.value, &kept.iter().map(Vec::as_slice).collect::<Vec<_>>());
        object.check(&projection, &expected);
    }

    #[cfg(feature = "go-vectors")]
    #[test]
    fn mutated_bytes_give_an_error_or_an_object(
        object: Index,
        chosen in prop::collection::vec(any::<Index>(), 0..8),
        mutations in prop::collection::vec((any::<Index>(), any::<u8>()), 1..6),
        keeping: bool,
    ) {
        let object = object.get::<Object>(&OBJECTS);
        let texts: Vec<_> = chosen.iter().filter(|_| !object.paths.is_empty()).map(|at| text(at.get(&object.paths))).collect();
        let texts = texts.iter().map(String::as_str);
        let projection = if keeping { Projection::keeping(texts) } else { Projection::dropping(texts) }.unwrap();
        let type_meta = TypeMeta::new(&object.vector.api_version, &object.vector.kind);
        let mut reader = ObjectReader::new(projection, Limits::DEFAULT);
        let raw = Envelope::open(&object.vector.pb).unwrap().raw;
        for (encoding, bytes) in [(Encoding::Json, &*object.vector.json), (Encoding::Protobuf, raw)] {
            let mut bytes = bytes.to_owned();
            if bytes.is_empty() {
                continue;
            }
            for (at, byte) in &mutations {
                *at.get_mut(&mut bytes) = *byte;
            }
            if let Ok(object) = reader.read(&bytes, encoding, Some(&type_meta)) {
                prop_assert!(object.bytes().len() <= bytes.len());
            }
        }
    }
}

#[cfg(feature = "go-vectors")]
#[test]
fn keeping_everything_leaves_the_protobuf_bytes_unchanged() {
    let paths: usize = OBJECTS.iter().map(|object| object.paths.len()).sum();
    assert!(OBJECTS.len() > 300 && paths > 50_000, "{} {paths}", OBJECTS.len());
    for object in OBJECTS.iter() {
        let Vector { api_version, kind, pb, .. } = &object.vector;
        let raw = Envelope::open(pb).unwrap().raw;
        let kept = read(&Projection::everything(), raw, Encoding::Protobuf, api_version, kind);
        assert_eq!(kept.bytes(), raw);
    }
}

/// A pod with messages whose length prefix shrinks when a nested field is dropped.
fn nested() -> Value {
    let environment: Vec<_> =
        (0..40).map(|at| json!({"name": format!("VARIABLE_{at}"), "value": "x"})).collect();
    json!({
        "metadata": {
            "name": "web", "labels": {"app": "web"}, "annotations": {"a": "1", "b": "x".repeat(200), MARKER: "true"},
            "managedFields": [{"manager": "kubectl", "fieldsV1": {"f:spec": {}}}],
        },
        "spec": {
            "containers": [
                {"name": "a", "env": environment, "resources": {"limits": {"cpu": "1", "memory": "1Gi"}}},
                {"name": "b", "env": environment, "resources": {}},
            ],
            "nodeName": "node-7",
        },
        "status": {"phase": "Running"},
    })
}

#[test]
fn a_pod_is_projected() {
    let message = Schema::builtin().kind("v1", "Pod").unwrap();
    let annotated =
        |annotations: Value| json!({"name": "web", "labels": {"app": "web"}, "annotations": annotations});
    let marker = json!({MARKER: "true"});
    for (projection, expected) in [
        (
            Projection::dropping(["spec.containers[*].env", "status", "metadata.annotations['b']"]),
            json!({
                "metadata": annotated(json!({"a": "1", MARKER: "true"})),
                "spec": {
                    "containers": [
                        {"name": "a", "resources": {"limits": {"cpu": "1", "memory": "1Gi"}}},
                        {"name": "b", "resources": {}},
                    ],
                    "nodeName": "node-7",
                },
                "status": {},
            }),
        ),
        (
            Projection::dropping(["spec", "metadata.annotations"]),
            json!({
                "metadata": annotated(marker.clone()), "spec": {"containers": null}, "status": {"phase": "Running"},
            }),
        ),
        (
            Projection::keeping(["spec.containers[*].resources.limits.cpu"]),
            json!({
                "metadata": annotated(marker.clone()),
                "spec": {"containers": [
                    {"name": "", "resources": {"limits": {"cpu": "1"}}},
                    {"name": "", "resources": {}},
                ]},
                "status": {},
            }),
        ),
        (
            Projection::keeping(["metadata.annotations['a']", "spec.containers[*].env[*].name[*]"]),
            json!({
                "metadata": annotated(json!({"a": "1", MARKER: "true"})),
                "spec": {"containers": vec![
                    json!({"name": "", "resources": {}, "env": nested()["spec"]["containers"][0]["env"].as_array().unwrap()
                        .iter().map(|variable| json!({"name": variable["name"]})).collect::<Vec<_>>()});
                    2
                ]},
                "status": {},
            }),
        ),
        (
            Projection::keeping([]),
            json!({"metadata": annotated(marker), "spec": {"containers": null}, "status": {}}),
        ),
    ] {
        let projection = projection.unwrap();
        let bytes = ser::to_vec(&nested(), message).unwrap();
        let object = read(&projection, &bytes, Encoding::Protobuf, "v1", "Pod");
        let found = from_protobuf(object.bytes(), message);
        assert_eq!(support::difference("pod", &found, &expected), [""; 0], "{projection}");
        assert!(object.head().is_initial_events_end(), "{projection}");
        // Lengths are minimal: decoding and encoding again gives the same size.
        let deserialized = ser::to_vec(&found, message).unwrap().len();
        assert!(object.bytes().len() <= deserialized, "{projection}");
    }
}

#[test]
fn fields_newer_than_the_table_are_kept_when_dropping_and_dropped_when_keeping() {
    // metadata { name: "a", 999: "new" }, 999: "new"
    let bytes = b"\x0a\x09\x0a\x01a\xba\x3e\x03new\xba\x3e\x03new";
    let after = |projection: &Projection, kind| {
        read(projection, bytes, Encoding::Protobuf, "v1", kind).bytes().to_vec()
    };
    let dropping = Projection::dropping(["data", "metadata.annotations['x']"]).unwrap();
    let keeping = Projection::keeping(["data"]).unwrap();
    assert_eq!(after(&dropping, "ConfigMap"), bytes);
    assert_eq!(after(&keeping, "ConfigMap"), b"\x0a\x03\x0a\x01a");
    // For a kind that is not in the table, only metadata is projected.
    assert_eq!(after(&dropping, "Unheard"), bytes);
    assert_eq!(after(&keeping, "Unheard"), b"\x0a\x03\x0a\x01a\xba\x3e\x03new");
}

#[test]
fn equivalent_projections_are_equal_and_print_the_same() {
    let dropping = |paths: &[&str]| Projection::dropping(paths.iter().copied()).unwrap();
    let keeping = |paths: &[&str]| Projection::keeping(paths.iter().copied()).unwrap();
    for (projection, printed) in [
        (Projection::everything(), "everything"),
        (Projection::default(), "dropping metadata.managedFields"),
        (dropping(&[]), "dropping metadata.managedFields"),
        (dropping(&["metadata.managedFields[*].manager"]), "dropping metadata.managedFields"),
        (
            dropping(&["status.x", "status", "{.a['b.c']}"]),
            "dropping a['b.c'], metadata.managedFields, status",
        ),
        (dropping(&["a[*][*]", "a[*].b"]), "dropping a, metadata.managedFields"),
        (keeping(&[]), "keeping the head"),
        (keeping(&["metadata.name", "kind", "metadata.labels.app"]), "keeping the head"),
        (keeping(&["spec.b", "spec.a", "spec.b.c"]), "keeping spec.a, spec.b"),
    ] {
        assert_eq!(projection.to_string(), printed);
        let mut set = HashSet::from([projection.clone()]);
        assert!(!set.insert(projection));
    }
    assert_ne!(dropping(&["spec"]), keeping(&["spec"]));
    assert_eq!(dropping(&["spec.a", "spec.b"]), dropping(&["spec.b", "spec.a"]));
    assert_ne!(Projection::everything(), Projection::default());
}

#[test]
fn an_unsupported_projection_path_is_rejected_with_a_reason() {
    let kept = "projections always keep this field or a part of it";
    let elements = "cannot select single list elements; use `[*]`";
    for (path, why) in [
        ("metadata", kept),
        ("metadata.name", kept),
        ("metadata.creationTimestamp", kept),
        ("metadata.labels", kept),
        ("metadata.labels['app']", kept),
        ("metadata.ownerReferences[*].uid", kept),
        ("metadata.annotations['k8s.io/initial-events-end']", kept),
        ("kind", kept),
        ("spec.containers[0]", elements),
        ("spec.containers[?name=web].env", elements),
        ("[*].spec", "expected a member name first"),
        ("spec.", "expected a name at byte 5, found the end"),
    ] {
        let error = Projection::dropping([path]).unwrap_err().to_string();
        assert!(error.ends_with(why), "{error}");
        assert_eq!(Projection::keeping([path]).is_err(), why != kept, "{path}");
    }
    let pod = Schema::builtin().kind("v1", "Pod").unwrap();
    assert!(Projection::dropping(["spec.containers[*].env"]).unwrap().check(pod).is_ok());
    assert!(Projection::dropping(["spec.containers[*].envs"]).unwrap().check(pod).is_err());
}

#[test]
fn a_projection_reports_what_it_keeps() {
    let dropping = Projection::dropping(["status.conditions[*].message", "metadata.annotations"]).unwrap();
    let keeping = Projection::keeping(["spec.nodeName", "status.conditions[*].type"]).unwrap();
    for (path, dropped, kept) in [
        ("spec.nodeName", Kept::Whole, Kept::Whole),
        ("spec", Kept::Whole, Kept::Partly),
        ("spec.x", Kept::Whole, Kept::Dropped),
        ("metadata.name", Kept::Whole, Kept::Whole),
        ("metadata.labels.app", Kept::Whole, Kept::Whole),
        ("kind", Kept::Whole, Kept::Whole),
        ("metadata", Kept::Partly, Kept::Partly),
        ("metadata.managedFields", Kept::Dropped, Kept::Dropped),
        ("metadata.annotations.x", Kept::Dropped, Kept::Dropped),
        ("metadata.annotations['k8s.io/initial-events-end']", Kept::Whole, Kept::Whole),
        ("status.conditions[?type=Ready].status", Kept::Whole, Kept::Dropped),
        ("status.conditions[?type=Ready].type", Kept::Whole, Kept::Whole),
        ("status.conditions[?message=x].type", Kept::Dropped, Kept::Dropped),
        ("status.conditions[0]", Kept::Partly, Kept::Partly),
    ] {
        let path = path.parse().unwrap();
        assert_eq!((dropping.keeps(&path), keeping.keeps(&path)), (dropped, kept), "{path}");
    }
}

//! Field paths on every kind: a path gives the same result on JSON text, on protobuf bytes and on the decoded value.

#![cfg_attr(
    not(feature = "go-vectors"),
    allow(dead_code, unused_imports, reason = "helpers of tests that need vectors")
)]
#![allow(clippy::unwrap_used, reason = "helpers of tests, where a panic is a failure")]

mod support;

use std::collections::BTreeSet;
use std::sync::LazyLock;

use kube_wire::internals::envelope::Envelope;
use kube_wire::internals::ser;
use kube_wire::path::{CompiledPath, FieldValue, PathReader};
use kube_wire::schema::Schema;
use kube_wire::{Encoding, Error, FieldPath, Limits, ObjectReader, Projection, TypeMeta};
use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::{Value, json};
use support::Vector;

/// One segment in the test's own representation: the library's path is parsed from its text.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Seg {
    Member(String),
    Each,
    At(usize),
    Where(String, String),
}

fn text(path: &[Seg]) -> String {
    let quoted = |text: &str| format!("'{}'", text.replace('\\', "\\\\").replace('\'', "\\'"));
    path.iter()
        .map(|seg| match seg {
            Seg::Member(name) => format!("[{}]", quoted(name)),
            Seg::Each => "[*]".to_owned(),
            Seg::At(index) => format!("[{index}]"),
            Seg::Where(key, text) => format!("[?{}={}]", quoted(key), quoted(text)),
        })
        .collect()
}

/// The values at the path in the decoded value.
fn follow<'v>(path: &[Seg], value: &'v Value) -> Vec<&'v Value> {
    let mut found = Vec::new();
    follow_into(path, value, &mut found);
    found
}

fn follow_into<'v>(path: &[Seg], value: &'v Value, found: &mut Vec<&'v Value>) {
    let Some((seg, rest)) = path.split_first() else { return found.push(value) };
    match (seg, value) {
        (Seg::Member(name), Value::Object(members)) => {
            if let Some(member) = members.get(name) {
                follow_into(rest, member, found);
            }
        }
        (Seg::Each, Value::Array(elements)) => {
            elements.iter().for_each(|element| follow_into(rest, element, found));
        }
        (Seg::At(index), Value::Array(elements)) => {
            if let Some(element) = elements.get(*index) {
                follow_into(rest, element, found);
            }
        }
        (Seg::Where(key, text), Value::Array(elements)) => {
            for element in elements {
                if element.get(key).and_then(scalar_text).as_ref() == Some(text) {
                    follow_into(rest, element, found);
                }
            }
        }
        _ => {}
    }
}

fn scalar_text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Bool(_) | Value::Number(_) => Some(value.to_string()),
        _ => None,
    }
}

/// How paths pass through lists.
#[derive(Clone, Copy, Debug)]
enum Through {
    /// One element.
    Index,
    /// All elements.
    Star,
    /// Elements selected by a text member, if they have one.
    Filter,
}

/// Every path to a leaf or subtree.
fn all_paths(value: &Value, through: Through, path: &mut Vec<Seg>, paths: &mut BTreeSet<Vec<Seg>>) {
    if !path.is_empty() {
        paths.insert(path.clone());
    }
    let children: Vec<(Seg, &Value)> = match value {
        Value::Object(members) => {
            members.iter().map(|(name, member)| (Seg::Member(name.clone()), member)).collect()
        }
        Value::Array(elements) => elements
            .iter()
            .enumerate()
            .map(|(at, element)| {
                let mut members = element.as_object().into_iter().flatten();
                let seg = match through {
                    Through::Index => Seg::At(at),
                    Through::Star => Seg::Each,
                    Through::Filter => members
                        .find_map(|(key, value)| Some(Seg::Where(key.clone(), scalar_text(value)?)))
                        .unwrap_or(Seg::At(at)),
                };
                (seg, element)
            })
            .collect(),
        _ => return,
    };
    for (seg, child) in children {
        path.push(seg);
        all_paths(child, through, path, paths);
        path.pop();
    }
}

fn decoded(values: &[FieldValue<'_>]) -> Vec<Value> {
    values.iter().map(|value| value.to_value().unwrap()).collect()
}

fn compiled(path: &str, vector: &Vector) -> CompiledPath {
    let message = Schema::builtin().kind(&vector.api_version, &vector.kind);
    assert!(message.is_some(), "{}", vector.name);
    path.parse::<FieldPath>()
        .unwrap()
        .compile(message)
        .unwrap_or_else(|error| panic!("{}: {error}", vector.name))
}

/// Maximum work per vector on JSON, in paths times bytes: reading all paths of large vectors would take minutes. JSON
/// is walked independently of the kind, so a sample is enough.
const JSON_WORK: usize = 1_000_000;

/// Larger lists add nothing to their items.
const LIST_MAX: usize = 16_000;

#[cfg(feature = "go-vectors")]
#[test]
fn every_path_gives_equal_results_on_both_encodings_and_the_value() {
    let vectors = support::vectors();
    let mut count = 0;
    for vector in &vectors {
        if vector.kind.ends_with("List") && vector.json.len() > LIST_MAX {
            continue;
        }
        let value: Value = serde_json::from_slice(&vector.json).unwrap();
        let mut paths = paths_in(&value, Through::Index);
        if vector.name.starts_with("module/") {
            paths.extend(paths_in(&value, Through::Star));
            paths.extend(paths_in(&value, Through::Filter));
        }
        let json = serde_json::to_vec(&value).unwrap();
        let every = (paths.len() * json.len()).div_ceil(JSON_WORK);
        for (at, path) in paths.iter().enumerate() {
            let reader = compiled(&text(path), vector);
            let expected = follow(path, &value);
            assert!(!expected.is_empty());
            check(&reader, protobuf(vector), Encoding::Protobuf, &expected, &vector.name);
            if at % every == 0 {
                check(&reader, &json, Encoding::Json, &expected, &vector.name);
            }
            count += 1;
        }
    }
    assert!(count > 100_000, "{count}");
}

#[cfg(feature = "go-vectors")]
#[test]
fn a_path_without_a_value_finds_nothing_in_the_bytes() {
    let vectors = support::vectors();
    let (mut count, mut absent) = (0, 0);
    for full in
        vectors.iter().filter(|vector| vector.name.ends_with(".full") && vector.json.len() <= LIST_MAX)
    {
        let paths = paths_in(&serde_json::from_slice(&full.json).unwrap(), Through::Index);
        let stem = full.name.trim_end_matches("full");
        for vector in
            vectors.iter().filter(|vector| vector.name.starts_with(stem) && vector.name != full.name)
        {
            let value: Value = serde_json::from_slice(&vector.json).unwrap();
            for path in &paths {
                let expected = follow(path, &value);
                check(
                    &compiled(&text(path), full),
                    protobuf(vector),
                    Encoding::Protobuf,
                    &expected,
                    &vector.name,
                );
                count += 1;
                absent += usize::from(expected.is_empty());
            }
        }
    }
    assert!(count > 50_000 && absent > 20_000 && count - absent > 20_000, "{absent} of {count}");
}

fn paths_in(value: &Value, through: Through) -> BTreeSet<Vec<Seg>> {
    let mut paths = BTreeSet::new();
    all_paths(value, through, &mut Vec::new(), &mut paths);
    // They are in the envelope.
    paths.remove(&[Seg::Member("apiVersion".to_owned())][..]);
    paths.remove(&[Seg::Member("kind".to_owned())][..]);
    paths
}

fn protobuf(vector: &Vector) -> &[u8] {
    Envelope::open(&vector.pb).unwrap().raw
}

fn check(path: &CompiledPath, bytes: &[u8], encoding: Encoding, expected: &[&Value], name: &str) {
    let context = || format!("{name} {} {encoding}", path.path());
    let values = path.values(bytes, encoding).unwrap_or_else(|error| panic!("{}: {error}", context()));
    let texts: Vec<_> = values.iter().map(|value| value.clone().text().map(String::from)).collect();
    let expected_texts: Vec<_> = expected.iter().map(|value| scalar_text(value)).collect();
    assert_eq!(texts, expected_texts, "{}", context());
    assert_eq!(decoded(&values).iter().collect::<Vec<_>>(), expected, "{}", context());
    let first = path.first(bytes, encoding).unwrap();
    assert_eq!(
        first.map(|first| first.text().map(String::from)),
        expected_texts.first().cloned(),
        "{}",
        context()
    );
}

/// A pod with one field of every special form, and many omitted fields.
static POD: LazyLock<Value> = LazyLock::new(|| {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "web",
            "creationTimestamp": "2026-11-15T08:39:17Z",
            "labels": {"app": "web", "app.kubernetes.io/name": "shop", "": "none"},
            "managedFields": [{"manager": "kubectl", "fieldsV1": {"f:metadata": {"f:labels": {}}}}],
        },
        "spec": {
            "nodeName": "node-7",
            "hostNetwork": true,
            "volumes": [{"name": "tmp", "emptyDir": {"sizeLimit": "1Gi"}}],
            "containers": [
                {"name": "web", "image": "web:1", "resources": {"limits": {"cpu": "500m"}},
                 "ports": [{"containerPort": 8080}, {"containerPort": 9090}]},
                {"name": "log", "image": "log:2", "resources": {},
                 "livenessProbe": {"httpGet": {"path": "/", "port": "http"}}},
            ],
        },
        "status": {"conditions": [
            {"type": "Ready", "status": "False", "lastProbeTime": null, "lastTransitionTime": "2026-11-15T08:39:18Z"},
        ]},
    })
});

fn read_pod(path: &str, encoding: Encoding) -> Vec<Value> {
    let type_meta = TypeMeta::new("v1", "Pod");
    let bytes = match encoding {
        Encoding::Json => POD.to_string().into_bytes(),
        Encoding::Protobuf => ser::to_vec(&*POD, Schema::builtin().kind("v1", "Pod").unwrap()).unwrap(),
    };
    let mut reader = ObjectReader::new(Projection::everything(), Limits::DEFAULT);
    let object = reader.read(&bytes, encoding, Some(&type_meta)).unwrap();
    let path: FieldPath = path.parse().unwrap();
    let values = PathReader::new(&path, &type_meta).unwrap().values(object.head()).unwrap();
    assert_eq!(
        path.first(object.head()).unwrap().map(|first| first.to_value().unwrap()),
        values.first().map(|first| first.to_value().unwrap()),
    );
    decoded(&values)
}

#[test]
fn paths_through_a_pod() {
    for (path, expected) in [
        ("kind", json!(["Pod"])),
        ("apiVersion", json!(["v1"])),
        ("spec.nodeName", json!(["node-7"])),
        ("spec.hostNetwork", json!([true])),
        ("spec.hostPID", json!([])),
        ("spec.serviceAccountName", json!([])),
        ("metadata.labels['app']", json!(["web"])),
        ("metadata.labels['app.kubernetes.io/name']", json!(["shop"])),
        ("metadata.labels['']", json!(["none"])),
        ("metadata.labels.none", json!([])),
        ("metadata.labels", json!([{"": "none", "app": "web", "app.kubernetes.io/name": "shop"}])),
        ("metadata.annotations", json!([])),
        ("metadata.creationTimestamp", json!(["2026-11-15T08:39:17Z"])),
        ("metadata.deletionTimestamp", json!([])),
        ("metadata.managedFields[0].fieldsV1", json!([{"f:metadata": {"f:labels": {}}}])),
        ("metadata.managedFields[*].fieldsV1['f:metadata']['f:labels']", json!([{}])),
        ("metadata.managedFields[*].fieldsV1.none", json!([])),
        ("spec.volumes[0].emptyDir.sizeLimit", json!(["1Gi"])),
        ("spec.volumes[?name=tmp].hostPath", json!([])),
        ("spec.containers[*].image", json!(["web:1", "log:2"])),
        ("spec.containers[1].image", json!(["log:2"])),
        ("spec.containers[2].image", json!([])),
        ("spec.containers[*].resources.limits.cpu", json!(["500m"])),
        ("spec.containers[?name=log].livenessProbe.httpGet.port", json!(["http"])),
        ("spec.containers[*].ports[*].containerPort", json!([8080, 9090])),
        ("spec.containers[*].ports[?containerPort=9090]", json!([{"containerPort": 9090}])),
        ("status.conditions[?type=Ready].status", json!(["False"])),
        ("status.conditions[?type=Ready].lastProbeTime", json!([null])),
        ("status.conditions[?type=Initialized].status", json!([])),
        ("status.conditions[?status=True]", json!([])),
        ("status.phase", json!([])),
    ] {
        for encoding in [Encoding::Json, Encoding::Protobuf] {
            assert_eq!(Value::from(read_pod(path, encoding)), expected, "{path} {encoding}");
        }
    }
}

#[test]
fn a_path_missing_in_the_kind_is_rejected_with_a_reason() {
    for (path, why) in [
        ("spec.nodeNam", "`spec` has no member `nodeNam` (k8s.io.api.core.v1.PodSpec of Kubernetes 1."),
        ("[0]", "the object is an object: name one of its members"),
        ("spec[*]", "`spec` is an object: name one of its members"),
        (
            "spec.containers.image",
            "`spec.containers` is a list: choose elements with `[*]`, `[0]` or `[?name=text]`",
        ),
        ("spec.containers[?nam=x]", "`spec.containers[?nam=x]` has no member `nam`"),
        (
            "spec.containers[*].args[?x=y]",
            "`spec.containers[*].args[?x=y]` is a scalar: it has neither members nor",
        ),
        ("metadata.labels[*]", "`metadata.labels` is a map: name one of its keys"),
        ("metadata.labels.app.x", "`metadata.labels.app` is a scalar: it has neither members nor elements"),
        ("spec.nodeName.x", "`spec.nodeName` is a scalar: it has neither members nor elements"),
        (
            "metadata.creationTimestamp.x",
            "`metadata.creationTimestamp` is a scalar: it has neither members nor",
        ),
    ] {
        let error =
            path.parse::<FieldPath>().unwrap().compile(Schema::builtin().kind("v1", "Pod")).unwrap_err();
        let error = error.to_string();
        assert!(error.contains(&format!(": {why}")), "{error}");
    }
}

#[test]
fn only_metadata_is_read_from_protobuf_of_an_unknown_kind() {
    // metadata { name: "a" }, and a field 2 without a known name
    let bytes = b"\x0a\x03\x0a\x01a\x12\x01b";
    let type_meta = TypeMeta::new("example.com/v1", "Widget");
    let mut reader = ObjectReader::new(Projection::default(), Limits::DEFAULT);
    let object = reader.read(bytes, Encoding::Protobuf, Some(&type_meta)).unwrap();
    let first = |path: &str| {
        let path: FieldPath = path.parse().unwrap();
        path.first(object.head()).map(|value| value.and_then(FieldValue::text).map(String::from))
    };
    assert_eq!(first("metadata.name"), Ok(Some("a".to_owned())));
    assert_eq!(first("kind"), Ok(Some("Widget".to_owned())));
    assert!(matches!(first("spec"), Err(Error::UnknownKind { kind, .. }) if kind == "Widget"));
    assert!(matches!(first("metadata.none"), Err(Error::Path { .. })));
}

#[test]
fn a_reader_for_one_type_reads_another() {
    let path: FieldPath = "data.key".parse().unwrap();
    let reader = PathReader::new(&path, &TypeMeta::new("v1", "ConfigMap")).unwrap();
    let secret = ser::to_vec(
        &json!({"metadata": {"name": "s"}, "data": {"key": "AAEC"}}),
        Schema::builtin().kind("v1", "Secret").unwrap(),
    );
    let type_meta = TypeMeta::new("v1", "Secret");
    let mut objects = ObjectReader::new(Projection::default(), Limits::DEFAULT);
    let object = objects.read(&secret.unwrap(), Encoding::Protobuf, Some(&type_meta)).unwrap();
    let value = reader.first(object.head()).unwrap().and_then(FieldValue::text);
    assert_eq!(value.as_deref(), Some("AAEC"));
}

#[test]
fn paths_lead_into_protobuf_in_a_raw_extension() {
    let pod = ser::to_vec(&*POD, Schema::builtin().kind("v1", "Pod").unwrap()).unwrap();
    let mut raw = Vec::new();
    Envelope { api_version: "v1", kind: "Pod", raw: &pod }.seal(&mut raw);
    let field = |number: u8, bytes: &[u8]| {
        let mut field = vec![number << 3 | 2];
        let mut len = bytes.len();
        while len >= 0x80 {
            field.push(len as u8 | 0x80);
            len >>= 7;
        }
        field.push(len as u8);
        field.extend_from_slice(bytes);
        field
    };
    // List { items = 2 [RawExtension { raw = 1 }] }
    let list = field(2, &field(1, &raw));
    let message = Schema::builtin().kind("v1", "List").unwrap();
    let values = |path: &str| {
        let path = path.parse::<FieldPath>().unwrap().compile(Some(message)).unwrap();
        decoded(&path.values(&list, Encoding::Protobuf).unwrap())
    };
    assert_eq!(values("items[*].spec.containers[1].image"), [json!("log:2")]);
    assert_eq!(values("items[0].kind"), [json!("Pod")]);
    assert_eq!(values("items[?kind=Pod].metadata.name"), [json!("web")]);
    assert_eq!(values("items[0]"), std::slice::from_ref(&*POD));
}

#[test]
fn unusual_protobuf_is_read_or_rejected() {
    let pod = Schema::builtin().kind("v1", "Pod");
    let values = |path: &str, bytes: &[u8]| -> Result<Vec<Value>, Error> {
        let path = path.parse::<FieldPath>().unwrap().compile(pod).unwrap();
        Ok(decoded(&path.values(bytes, Encoding::Protobuf)?))
    };
    // spec { securityContext = 14 { supplementalGroups = 4: packed 1, 300 and unpacked 2 } }
    let packed = b"\x12\x09\x72\x07\x22\x03\x01\xac\x02\x20\x02";
    assert_eq!(
        values("spec.securityContext.supplementalGroups[*]", packed),
        Ok(vec![json!(1), json!(300), json!(2)])
    );
    assert_eq!(values("spec.securityContext.supplementalGroups[1]", packed), Ok(vec![json!(300)]));
    // metadata { name = 1: "a", then "b" }
    assert_eq!(values("metadata.name", b"\x0a\x06\x0a\x01a\x0a\x01b"), Ok(vec![json!("b")]));
    // labels = 11 { "k": "a" }, then { "k": "b" }, then an entry with neither key nor value
    let labels = b"\x0a\x12\x5a\x06\x0a\x01k\x12\x01a\x5a\x06\x0a\x01k\x12\x01b\x5a\x00";
    assert_eq!(values("metadata.labels.k", labels), Ok(vec![json!("b")]));
    assert_eq!(values("metadata.labels['']", labels), Ok(vec![json!("")]));
    assert_eq!(values("metadata.labels", labels), Ok(vec![json!({"": "", "k": "b"})]));
    // metadata in two parts
    let error = values("metadata.name", b"\x0a\x03\x0a\x01a\x0a\x00").unwrap_err().to_string();
    assert!(error.contains("message split into several fields"), "{error}");
    // spec is a number; a name is not UTF-8
    assert!(values("spec.nodeName", b"\x10\x01").is_err());
    assert!(values("metadata.name", b"\x0a\x03\x0a\x01\xff").is_err());
}

static VECTORS: LazyLock<Vec<Vector>> = LazyLock::new(|| {
    let small = |vector: &Vector| vector.json.len() < 20_000;
    support::vectors().into_iter().filter(small).collect()
});

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[cfg(feature = "go-vectors")]
    #[test]
    fn mutated_bytes_give_an_error_or_a_value(
        vector: Index,
        path: Index,
        mutations in prop::collection::vec((any::<Index>(), any::<u8>()), 1..6),
        cut in prop::option::weighted(0.2, any::<Index>()),
    ) {
        let vector = vector.get(&VECTORS);
        let value: Value = serde_json::from_slice(&vector.json).unwrap();
        let paths: Vec<_> = paths_in(&value, Through::Star).into_iter().collect();
        if paths.is_empty() {
            return Ok(());
        }
        let reader = compiled(&text(path.get::<Vec<Seg>>(&paths)), vector);
        for (encoding, bytes) in [(Encoding::Json, &*vector.json), (Encoding::Protobuf, protobuf(vector))] {
            let mut bytes = bytes.to_owned();
            if bytes.is_empty() {
                continue;
            }
            for (at, byte) in &mutations {
                *at.get_mut(&mut bytes) = *byte;
            }
            bytes.truncate(cut.map_or(bytes.len(), |cut| cut.index(bytes.len())));
            for value in reader.values(&bytes, encoding).into_iter().flatten() {
                let _ = value.to_value();
                let _ = value.text();
            }
        }
    }

    #[test]
    fn arbitrary_bytes_give_an_error_or_a_value(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        let message = Schema::builtin().kind("v1", "Pod");
        for path in ["spec", "spec.containers[*].ports[?containerPort=80].name", "metadata.labels.app", "status.startTime"] {
            let path = path.parse::<FieldPath>().unwrap().compile(message).unwrap();
            for encoding in [Encoding::Json, Encoding::Protobuf] {
                for value in path.values(&bytes, encoding).into_iter().flatten() {
                    let _ = value.to_value();
                }
            }
        }
    }
}

//! Field paths on every kind: what a path leads to is the same on JSON text, on protobuf bytes and on the decoded value.

mod support;

use std::collections::BTreeSet;

use kube_wire::envelope::Envelope;
use kube_wire::path::{CompiledPath, FieldValue};
use kube_wire::schema::Schema;
use kube_wire::{Encoding, FieldPath};
use serde_json::Value;
use support::Vector;

/// One step, in the test's own words: the library's path is made from its text.
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

/// What the path leads to in the decoded value.
fn follow<'v>(path: &[Seg], value: &'v Value, found: &mut Vec<&'v Value>) {
    let Some((seg, rest)) = path.split_first() else { return found.push(value) };
    match (seg, value) {
        (Seg::Member(name), Value::Object(members)) => {
            if let Some(member) = members.get(name) {
                follow(rest, member, found);
            }
        }
        (Seg::Each, Value::Array(elements)) => elements.iter().for_each(|element| follow(rest, element, found)),
        (Seg::At(index), Value::Array(elements)) => {
            if let Some(element) = elements.get(*index) {
                follow(rest, element, found);
            }
        }
        (Seg::Where(key, text), Value::Array(elements)) => {
            for element in elements {
                if element.get(key).and_then(scalar_text).as_ref() == Some(text) {
                    follow(rest, element, found);
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

/// How paths go through lists.
#[derive(Clone, Copy, Debug)]
enum Through {
    /// One element.
    Index,
    /// All elements.
    Star,
    /// Elements chosen by a member, where they have one with a text.
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

fn decoded(values: Vec<FieldValue<'_>>) -> Vec<Value> {
    values.iter().map(|value| value.to_value().unwrap()).collect()
}

fn compiled(path: &str, vector: &Vector) -> CompiledPath {
    let message = Schema::builtin().kind(&vector.api_version, &vector.kind);
    assert!(message.is_some(), "{}", vector.name);
    path.parse::<FieldPath>().unwrap().compile(message).unwrap_or_else(|error| panic!("{}: {error}", vector.name))
}

/// Work for one vector on JSON, in paths times bytes: reading all paths of large ones would take minutes. JSON is walked
/// without regard to the kind, so that every so many will do.
const JSON_WORK: usize = 2_000_000;

/// Lists above this size say nothing that their items don't.
const LIST_MAX: usize = 16_000;

#[test]
fn every_path_gives_the_same_on_both_encodings_and_on_the_value() {
    let Ok(vectors) = support::vectors() else { return };
    let mut count = 0;
    for vector in &vectors {
        if vector.kind.ends_with("List") && vector.json.len() > LIST_MAX {
            continue;
        }
        let value: Value = serde_json::from_slice(&vector.json).unwrap();
        let mut paths = BTreeSet::new();
        all_paths(&value, Through::Index, &mut Vec::new(), &mut paths);
        if vector.name.starts_with("module/") {
            all_paths(&value, Through::Star, &mut Vec::new(), &mut paths);
            all_paths(&value, Through::Filter, &mut Vec::new(), &mut paths);
        }
        // They stand in the envelope.
        paths.remove(&[Seg::Member("apiVersion".to_owned())][..]);
        paths.remove(&[Seg::Member("kind".to_owned())][..]);

        let json = serde_json::to_vec(&value).unwrap();
        let pb = Envelope::open(&vector.pb).unwrap().raw;
        let every = (paths.len() * json.len()).div_ceil(JSON_WORK);
        for (at, path) in paths.iter().enumerate() {
            let mut expected = Vec::new();
            follow(path, &value, &mut expected);
            assert!(!expected.is_empty());
            let reader = compiled(&text(path), vector);
            check(&reader, pb, Encoding::Protobuf, &expected, &vector.name);
            if at % every == 0 {
                check(&reader, &json, Encoding::Json, &expected, &vector.name);
            }
            count += 1;
        }
    }
    assert!(count > 100_000, "{count}");
}

fn check(path: &CompiledPath, bytes: &[u8], encoding: Encoding, expected: &[&Value], name: &str) {
    let context = || format!("{name} {} {encoding}", path.path());
    let values = path.values(bytes, encoding).unwrap_or_else(|error| panic!("{}: {error}", context()));
    let texts: Vec<_> = values.iter().map(|value| value.clone().text().map(String::from)).collect();
    let expected_texts: Vec<_> = expected.iter().map(|value| scalar_text(value)).collect();
    assert_eq!(texts, expected_texts, "{}", context());
    assert_eq!(decoded(values).iter().collect::<Vec<_>>(), expected, "{}", context());
    let first = path.first(bytes, encoding).unwrap().expect("there are some");
    assert_eq!(first.text().map(String::from), expected_texts[0], "{}", context());
}

//! Shared parts of this module's tests: arbitrary JSON with arbitrary white space, valid or damaged.

mod copy;
mod finder;
mod lines;
mod list;
mod scan;
mod string;

use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use serde_json::Value;

/// Any JSON value, a few levels deep.
pub(crate) fn any_json() -> impl Strategy<Value = Value> {
    let scalar = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (-1.0e6..1.0e6).prop_map(Value::from),
        any_text().prop_map(Value::from),
    ];
    scalar.prop_recursive(5, 60, 6, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..6).prop_map(Value::from),
            btree_map(any_text(), inner, 0..6).prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

/// Any text, with an increased share of brackets and of characters that need escaping.
pub(crate) fn any_text() -> impl Strategy<Value = String> {
    prop_oneof!["[a-z]{0,12}", r#"[a-z"\\{}\[\],:\n]{0,20}"#, any::<String>()]
}

/// Any bytes, with an increased share of JSON's own.
pub(crate) fn any_bytes() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![proptest::sample::select(&br#"{}[]",:\ 1tn"#[..]), any::<u8>()];
    vec(byte, 0..200)
}

/// JSON with a few bytes changed, removed or inserted.
pub(crate) fn mutated() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![proptest::sample::select(&br#"{}[]",:\ 1tn"#[..]), any::<u8>()];
    let changes = vec((any::<prop::sample::Index>(), 0..3, byte), 0..4);
    (any_json(), any::<u64>(), changes).prop_map(|(value, spaces, changes)| {
        let mut text = write_spaced(&value, spaces);
        for (place, how, byte) in changes {
            if text.is_empty() {
                break;
            }
            let at = place.index(text.len());
            match how {
                0 => text[at] = byte,
                1 => drop(text.remove(at)),
                _ => text.insert(at, byte),
            }
        }
        text
    })
}

/// The text of a value, with white space between tokens according to the bits of `spaces` (used repeatedly).
pub(crate) fn write_spaced(value: &Value, spaces: u64) -> Vec<u8> {
    let mut writer = SpacedWriter { out: Vec::new(), spaces };
    writer.space();
    writer.value(value);
    writer.space();
    writer.out
}

struct SpacedWriter {
    out: Vec<u8>,
    spaces: u64,
}

impl SpacedWriter {
    fn space(&mut self) {
        match self.spaces & 7 {
            0 => self.out.push(b' '),
            1 => self.out.extend_from_slice(b"\r\n\t"),
            _ => {}
        }
        self.spaces = self.spaces.rotate_right(3);
    }

    fn token(&mut self, token: &[u8]) {
        self.space();
        self.out.extend_from_slice(token);
        self.space();
    }

    fn value(&mut self, value: &Value) {
        match value {
            Value::Array(elements) => {
                self.token(b"[");
                for (i, element) in elements.iter().enumerate() {
                    if i > 0 {
                        self.token(b",");
                    }
                    self.value(element);
                }
                self.token(b"]");
            }
            Value::Object(members) => {
                self.token(b"{");
                for (i, (name, member)) in members.iter().enumerate() {
                    if i > 0 {
                        self.token(b",");
                    }
                    self.out.extend_from_slice(serde_json::to_string(name).unwrap().as_bytes());
                    self.token(b":");
                    self.value(member);
                }
                self.token(b"}");
            }
            scalar => self.out.extend_from_slice(scalar.to_string().as_bytes()),
        }
    }
}

/// The JSON responses of a real API server under `tests/captures`, as name and body: the watches, or all others.
pub(crate) fn captures(watches: bool) -> Vec<(String, Vec<u8>)> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/captures");
    let mut captures = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "http") {
            continue;
        }
        let is_json = std::fs::read_to_string(&path).unwrap().contains("Content-Type: application/json");
        let body = std::fs::read(path.with_extension("body")).unwrap_or_default();
        if is_json && body.starts_with(b"{") && body.starts_with(b"{\"type\":") == watches {
            captures.push((path.file_stem().unwrap().to_string_lossy().into_owned(), body));
        }
    }
    captures.sort();
    assert!(captures.len() > 10, "the captures are missing");
    captures
}

/// The body split at these places.
pub(crate) fn split(body: &[u8], places: &[usize]) -> Vec<bytes::Bytes> {
    let mut places: Vec<_> = places.iter().map(|place| place % (body.len() + 1)).collect();
    places.extend([0, body.len()]);
    places.sort_unstable();
    places.windows(2).map(|pair| bytes::Bytes::copy_from_slice(&body[pair[0]..pair[1]])).collect()
}

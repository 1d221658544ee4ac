//! Copies by projections, compared with dropping from the parsed value.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{any_bytes, any_json, captures, mutated, write_spaced};
use crate::error::{Error, Result};
use crate::json::copy::copy;
use crate::limits::{Limit, Limits};
use crate::projection::{Fate, Node, Projection};

fn copied(text: &str, projection: &Projection) -> Result<String> {
    let mut out = b"before".to_vec();
    let result = copy(text.as_bytes(), projection.root(), &Limits::DEFAULT, &mut out);
    let kept = out.strip_prefix(b"before").expect("what was there before stays");
    if result.is_err() {
        assert_eq!(kept, b"", "an error leaves nothing behind");
    }
    result.map(|_| String::from_utf8(kept.to_vec()).unwrap())
}

/// The expected copy.
fn expected(mut value: Value, root: &Node) -> Value {
    let members = value.as_object_mut().unwrap();
    members.remove("apiVersion");
    members.remove("kind");
    project(&mut value, root);
    value
}

fn project(value: &mut Value, node: &Node) {
    match value {
        Value::Object(members) => members.retain(|name, member| match node.member(name) {
            Fate::Keep => true,
            Fate::Drop => false,
            Fate::Descend(node) => {
                project(member, node);
                true
            }
        }),
        Value::Array(elements) => elements.retain_mut(|element| match node.element() {
            Fate::Keep => true,
            Fate::Drop => false,
            Fate::Descend(node) => {
                project(element, node);
                true
            }
        }),
        _ => {}
    }
}

#[test]
fn commas_are_correct_after_any_drop() {
    let members = [r#""a":1"#, r#""b":{"x":[1,2]}"#, r#""c":"s""#, r#""d":null"#];
    for dropped in 0..16 {
        let is_dropped = |i: &usize| dropped >> i & 1 == 1;
        let paths: Vec<_> = (0..4).filter(is_dropped).map(|i| ["a", "b", "c", "d"][i]).collect();
        let projection = Projection::dropping(paths).unwrap();
        let kept: Vec<_> = (0..4).filter(|i| !is_dropped(i)).map(|i| members[i]).collect();
        let expected = format!("{{{}}}", kept.join(","));
        for text in [
            format!("{{{}}}", members.join(",")),
            format!(" {{ {} }} ", members.join(" , ")),
            format!("{{\n{}\n}}", members.join(",\n").replace(':', " : ").replace('[', "[ ")),
        ] {
            assert_eq!(copied(&text, &projection).unwrap(), expected, "{text}");
        }
    }
}

#[test]
fn nested_fields_are_dropped() {
    let projection = Projection::dropping(["spec.containers[*].env", "data['a.b']"]).unwrap();
    let text = r#"{"metadata":{"managedFields":[{}]},"spec":{"containers":[{"env":[1],"name":"x"},{"name":"y","env":[]},
        {"env":{}}, null, 3],"volumes":[ {}, 1 ]},"data":{"a.b":1,"a":{"b":2}}}"#;
    let kept = concat!(
        r#"{"metadata":{},"spec":{"containers":[{"name":"x"},{"name":"y"},{},null,3],"volumes":[{},1]},"#,
        r#""data":{"a":{"b":2}}}"#
    );
    assert_eq!(copied(text, &projection).unwrap(), kept);
}

#[test]
fn a_list_in_place_of_an_object_keeps_no_elements() {
    let projection = Projection::keeping(["a.b"]).unwrap();
    for (text, kept) in [
        (r#"{"x":1, "a":{"c":1,"b":2}}"#, r#"{"a":{"b":2}}"#),
        (r#"{"x":1, "a":[ {"b":2}, 1 ] }"#, r#"{"a":[]}"#),
        (r#"{"x":1, "a":[], "y":2}"#, r#"{"a":[]}"#),
        (r#"{"x":1, "a":"s"}"#, r#"{"a":"s"}"#),
    ] {
        assert_eq!(copied(text, &projection).unwrap(), kept);
    }
}

#[test]
fn escaped_names_match_projection_names() {
    let text = r#"{"metadata":{"managed\u0046ields":[1],"name":"x"},"k\u0069nd":"Pod"}"#;
    assert_eq!(copied(text, &Projection::default()).unwrap(), r#"{"metadata":{"name":"x"}}"#);
}

#[test]
fn api_version_and_kind_are_removed_only_at_the_top() {
    let text = br#" {"kind":"P\u006fd","a":{"kind":"x","apiVersion":"y"},"apiVersion":"v1" }{"next":1}"#;
    let mut out = Vec::new();
    let copied = copy(text, Projection::everything().root(), &Limits::DEFAULT, &mut out).unwrap();
    assert_eq!((copied.api_version.as_deref(), copied.kind.as_deref()), (Some("v1"), Some("Pod")));
    assert_eq!(out, br#"{"a":{"kind":"x","apiVersion":"y"}}"#);
    assert_eq!(&text[copied.consumed..], br#"{"next":1}"#);
}

#[test]
fn an_empty_or_null_type_is_absent() {
    for text in [r#"{"kind":"","apiVersion":null}"#, "{}"] {
        let mut out = Vec::new();
        let copied = copy(text.as_bytes(), Projection::default().root(), &Limits::DEFAULT, &mut out).unwrap();
        assert_eq!((copied.api_version, copied.kind), (None, None));
        assert_eq!(out, b"{}");
    }
}

#[test]
fn malformed_text_is_an_error() {
    for (text, why) in [
        ("1", "expected an object"),
        ("[]", "expected an object"),
        (r#"{"a":1,}"#, "expected a quoted name"),
        (r#"{,"a":1}"#, "expected a quoted name"),
        (r#"{"a" 1}"#, "expected a colon"),
        (r#"{"a":}"#, "expected a value"),
        (r#"{"a":1 2}"#, "expected a comma or the end"),
        (r#"{"a":[1 2]}"#, "white space within a scalar"),
        (r#"{"a":{"b":tru e}}"#, "white space within a scalar"),
        (r#"{"a":[}]}"#, "mismatched brackets"),
        (r#"{"kind":5}"#, "must be strings"),
        (r#"{"kind":"\x"}"#, "unknown escape"),
        (r#"{"metadata":{},"metadata":{}}"#, "duplicate metadata"),
        (r#"{"metadata":{"managedFields":[],}}"#, "expected a quoted name"),
        (r#"{"metadata":{"managedFields":[] "a":1}}"#, "expected a comma or the end"),
    ] {
        let error = copied(text, &Projection::default()).unwrap_err().to_string();
        assert!(error.contains(why), "{text}: {error}");
    }
}

#[test]
fn incomplete_text_is_truncated() {
    let text = r#" {"kind":"Pod", "a":[1,{"b":"\""}],"metadata":{"managedFields":[],"name":"x"},"c":nul}"#;
    let text = &text[..text.len() - 1];
    for end in 0..=text.len() {
        let error = copied(&text[..end], &Projection::default()).unwrap_err();
        assert!(matches!(error, Error::Truncated { at, .. } if at == end), "{end}: {error}");
    }
}

#[test]
fn limits_are_enforced() {
    let run = |text: &str, limits: &Limits| {
        let projection = Projection::default();
        let mut out = Vec::new();
        copy(text.as_bytes(), projection.root(), limits, &mut out).map(|copied| copied.consumed)
    };
    let limits = Limits::DEFAULT.object_bytes_max(10);
    assert_eq!(run("  {\"a\":123}  {}", &limits), Ok(11));
    assert_eq!(
        run(" {\"a\":12345}", &limits),
        Err(Error::Limit { limit: Limit::ObjectBytes, found: 11, allowed: 10 })
    );
}

#[test]
fn any_depth_is_copied() {
    let deep = |levels: usize| [&"[".repeat(levels)[..], &"]".repeat(levels)].concat();
    let text = format!(r#"{{"metadata":{{"a":{0}}},"spec":{0}}}"#, deep(100_000));
    assert_eq!(copied(&text, &Projection::default()).unwrap(), text);
    assert_eq!(
        copied(&text, &Projection::dropping(["spec", "metadata.a"]).unwrap()).unwrap(),
        r#"{"metadata":{}}"#
    );
}

#[test]
fn captured_objects_lose_only_dropped_fields() {
    let mut objects = Vec::new();
    for (name, body) in captures(false) {
        objects.push((name, serde_json::from_slice(&body).unwrap()));
    }
    for (name, body) in captures(true) {
        for event in serde_json::Deserializer::from_slice(&body).into_iter::<Value>() {
            objects.push((name.clone(), event.unwrap()["object"].clone()));
        }
    }
    let keeping = Projection::keeping(["data", "items[*].metadata", "spec.containers[*].image"]).unwrap();
    for projection in [Projection::everything(), Projection::default(), keeping] {
        for (name, object) in &objects {
            for text in [object.to_string(), serde_json::to_string_pretty(object).unwrap()] {
                let kept = copied(&text, &projection).unwrap();
                let expected = expected(object.clone(), projection.root());
                assert_eq!(kept, expected.to_string(), "{name}");
            }
        }
    }
}

/// An object with names that the projections of these tests use.
fn any_object() -> impl Strategy<Value = Value> {
    let part = || {
        prop_oneof![any_json(), Just(json!({"b": 1, "c": [2]})), Just(json!([{"b": 1}, {"c": 2, "b": []}]))]
    };
    (part(), part(), part(), any_json()).prop_map(|(a, b, c, rest)| {
        let mut object = json!({"kind": "Thing", "a": a, "b": b, "metadata": {"c": c, "managedFields": [1]}});
        if let (Some(object), Value::Object(rest)) = (object.as_object_mut(), rest) {
            object.extend(rest.into_iter().filter(|(name, _)| name != "metadata" && name != "apiVersion"));
        }
        object
    })
}

fn any_projection() -> impl Strategy<Value = Projection> {
    const PATHS: [&str; 8] = ["a", "a.b", "a[*]", "a[*].b", "b.c", "b[*].c", "metadata.c", "metadata.c.b"];
    let paths = || proptest::sample::subsequence(&PATHS[..], 0..4);
    prop_oneof![
        Just(Projection::everything()),
        paths().prop_map(|paths| Projection::dropping(paths).unwrap()),
        paths().prop_map(|paths| Projection::keeping(paths).unwrap()),
    ]
}

proptest! {
    #[test]
    fn a_copy_equals_the_value_without_dropped_fields(object in any_object(), spaces: u64, projection in any_projection()) {
        let text = String::from_utf8(write_spaced(&object, spaces)).unwrap();
        let kept = copied(&text, &projection).unwrap();
        let object: Value = serde_json::from_str(&text).unwrap();
        prop_assert_eq!(serde_json::from_str::<Value>(&kept).unwrap(), expected(object, projection.root()));
        prop_assert_eq!(copied(&kept, &projection).unwrap(), kept, "a copy of the copy is the same");
    }

    #[test]
    fn malformed_text_stays_malformed(text in prop_oneof![mutated(), any_bytes()]) {
        let mut out = Vec::new();
        // Nothing is removed if no member has these names.
        let names: [&[u8]; 2] = [b"kind", b"apiVersion"];
        prop_assume!(!names.iter().any(|name| text.windows(name.len()).any(|window| window == *name)));
        if let Ok(copied) = copy(&text, Projection::everything().root(), &Limits::DEFAULT, &mut out) {
            let before = serde_json::from_slice::<Value>(&text[..copied.consumed]).ok();
            prop_assert_eq!(serde_json::from_slice::<Value>(&out).ok(), before);
        }
    }

    #[test]
    fn any_bytes_are_copied_or_rejected(text in prop_oneof![mutated(), any_bytes()], projection in any_projection()) {
        let mut out = Vec::new();
        let result = copy(&text, projection.root(), &Limits::DEFAULT, &mut out);
        prop_assert!(out.len() <= result.map_or(0, |copied| copied.consumed));
    }
}

//! Finds the head in the JSON text of an object. `metadata` is near the front, so the search ends early.

use std::borrow::Cow;

use super::owners;
use super::{INITIAL_EVENTS_END, Span, Spans};
use crate::error::{Error, Result};
use crate::json::{Elements, JsonType, Members, Value, string};

const WHAT: &str = "JSON head";

/// The spans of the head in an object's (kept) text.
///
/// An object whose `metadata` is absent or `null` has an empty head. If a name occurs twice in `metadata`, the last
/// one wins, as in Go. The text after `metadata` is not read.
pub(crate) fn spans(bytes: &[u8]) -> Result<Spans> {
    let mut spans = Spans::default();
    let mut members = Members::new(bytes);
    while let Some(member) = members.next() {
        let (name, value) = member?;
        if name == "metadata" {
            let offset = members.position() - value.bytes().len();
            if object_meta(value, offset, &mut spans)? {
                unescape(bytes, &mut spans)?;
            }
            break;
        }
    }
    Ok(spans)
}

/// Copies the names into a separate string, because one of them contains escapes.
#[cold]
fn unescape(bytes: &[u8], spans: &mut Spans) -> Result<()> {
    let mut names = String::new();
    for span in [&mut spans.namespace, &mut spans.name, &mut spans.uid, &mut spans.resource_version] {
        let start = names.len();
        names.push_str(&string::text(span.of(bytes), span.start as usize)?);
        *span = Span::new(start, names.len());
    }
    spans.unescaped = Some(names.into());
    Ok(())
}

/// Reads `metadata`, which starts at `offset` in the kept text. Returns whether a name contains an escape.
fn object_meta(meta: Value<'_>, offset: usize, spans: &mut Spans) -> Result<bool> {
    if !is(meta, JsonType::Object, offset, "metadata must be an object")? {
        return Ok(false);
    }
    let mut escaped = false;
    let mut members = Members::new(meta.bytes());
    while let Some(member) = members.next() {
        let (name, value) = member.map_err(|error| moved(error, offset))?;
        let end = offset + members.position();
        let start = end - value.bytes().len();
        let whole = |present: bool| if present { Span::new(start, end) } else { Span::default() };
        match &*name {
            "name" => spans.name = text(value, start, &mut escaped, "metadata.name must be a string")?,
            "namespace" => {
                spans.namespace = text(value, start, &mut escaped, "metadata.namespace must be a string")?;
            }
            "uid" => spans.uid = text(value, start, &mut escaped, "metadata.uid must be a string")?,
            "resourceVersion" => {
                let why = "metadata.resourceVersion must be a string";
                spans.resource_version = text(value, start, &mut escaped, why)?;
            }
            "generation" => spans.generation = generation(value, start)?,
            "deletionTimestamp" => spans.deleting = !value.is_null(),
            "labels" => spans.labels = whole(labels(value, start)?),
            "annotations" => spans.initial_events_end = ends_initial_events(value, start)?,
            "ownerReferences" => spans.owners = whole(owner_references(value, start)?),
            _ => {}
        }
    }
    Ok(escaped)
}

/// The span of a string's content.
fn text(value: Value<'_>, start: usize, escaped: &mut bool, why: &'static str) -> Result<Span> {
    if value.is_null() {
        return Ok(Span::default());
    }
    match value.as_string() {
        Ok(Some(text)) => {
            *escaped |= matches!(text, Cow::Owned(_));
            Ok(Span::new(start + 1, start + value.bytes().len() - 1))
        }
        _ => Err(Error::malformed(WHAT, start, why)),
    }
}

fn generation(value: Value<'_>, start: usize) -> Result<i64> {
    match value.as_i64() {
        Ok(Some(generation)) => Ok(generation),
        Ok(None) if value.is_null() => Ok(0),
        _ => Err(Error::malformed(WHAT, start, "metadata.generation must be an integer")),
    }
}

/// Validates the labels, so that reading them later cannot fail. Returns whether there are any.
fn labels(value: Value<'_>, start: usize) -> Result<bool> {
    if !is(value, JsonType::Object, start, "metadata.labels must be an object")? {
        return Ok(false);
    }
    let mut any = false;
    for member in Members::new(value.bytes()) {
        let (_, label) = member.map_err(|error| moved(error, start))?;
        if !matches!(label.as_string(), Ok(Some(_))) {
            return Err(Error::malformed(WHAT, start, "a label's value must be a string"));
        }
        any = true;
    }
    Ok(any)
}

/// Validates the owner references, so that reading them later cannot fail. Returns whether there are any.
fn owner_references(value: Value<'_>, start: usize) -> Result<bool> {
    if !is(value, JsonType::Array, start, "metadata.ownerReferences must be an array")? {
        return Ok(false);
    }
    let mut any = false;
    for element in Elements::new(value.bytes()) {
        let owner = element.map_err(|error| moved(error, start))?;
        if owner.kind() != Ok(JsonType::Object) {
            return Err(Error::malformed(WHAT, start, "an owner reference must be an object"));
        }
        owners::from_json(owner).map_err(|error| moved(error, start))?;
        any = true;
    }
    Ok(any)
}

/// Whether the annotations mark the end of a watch-list's initial events.
fn ends_initial_events(value: Value<'_>, start: usize) -> Result<bool> {
    if !is(value, JsonType::Object, start, "metadata.annotations must be an object")? {
        return Ok(false);
    }
    let mut ends = false;
    for member in Members::new(value.bytes()) {
        let (name, annotation) = member.map_err(|error| moved(error, start))?;
        if name == INITIAL_EVENTS_END {
            ends = annotation.as_string().map_err(|error| moved(error, start))?.as_deref() == Some("true");
        }
    }
    Ok(ends)
}

/// Whether the value is of the kind; `null` counts as absent, anything else is an error.
fn is(value: Value<'_>, kind: JsonType, start: usize, why: &'static str) -> Result<bool> {
    match value.kind() {
        Ok(found) if found == kind => Ok(true),
        Ok(JsonType::Null) => Ok(false),
        _ => Err(Error::malformed(WHAT, start, why)),
    }
}

/// Shifts the position of an error in a part that starts at `offset`.
fn moved(error: Error, offset: usize) -> Error {
    match error {
        Error::Malformed { at, why, .. } => Error::malformed(WHAT, offset + at, why),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::json::tests::{any_bytes, captures, mutated};
    use crate::{Encoding, Head, TypeMeta};

    /// Reads a head and passes it to `read`.
    fn with_head<T>(text: &str, read: impl FnOnce(Head<'_>) -> T) -> Result<T> {
        let spans = spans(text.as_bytes())?;
        let type_meta = TypeMeta::new("v1", "Thing");
        Ok(read(Head {
            bytes: text.as_bytes(),
            encoding: Encoding::Json,
            type_meta: &type_meta,
            spans: &spans,
        }))
    }

    #[test]
    fn every_part_is_found() {
        let text = r#" { "spec" : {"metadata":{"name":"no"}}, "metadata" : { "name" : "web", "namespace":"shop",
            "uid":"u-1", "resourceVersion" : "7", "generation": 3, "deletionTimestamp":"2026-11-15T08:39:17Z",
            "labels": { "app":"w\u0065b" , "tier" : "" }, "annotations":{"a":"b","k8s.io/initial-events-end":"true"},
            "ownerReferences": [ {"kind":"ReplicaSet","name":"rs","uid":"u-2","apiVersion":"apps/v1","controller":true} ]
            }, "status":nonsense"#;
        with_head(text, |head| {
            assert_eq!((head.name(), head.namespace(), head.uid()), ("web", "shop", "u-1"));
            assert_eq!((head.resource_version(), head.generation()), ("7", 3));
            assert!(head.is_deleting() && head.is_initial_events_end());
            let labels: Vec<_> = head.labels().map(|(key, value)| format!("{key}={value}")).collect();
            assert_eq!(labels, ["app=web", "tier="]);
            assert_eq!(head.labels().get("app").as_deref(), Some("web"));
            let owner = head.owners().controller().unwrap();
            assert_eq!(
                (&*owner.kind, &*owner.name, &*owner.uid, &*owner.api_version),
                ("ReplicaSet", "rs", "u-2", "apps/v1")
            );
        })
        .unwrap();
    }

    #[test]
    fn absent_and_null_parts_are_empty() {
        for text in [
            "{}",
            r#"{"metadata":null}"#,
            r#"{"metadata":{}}"#,
            r#"{"metadata":{"name":null,"namespace":null,"uid":null,"resourceVersion":null,"generation":null,
                "deletionTimestamp":null,"labels":null,"annotations":null,"ownerReferences":null}}"#,
            r#"{"metadata":{"name":"","labels":{},"annotations":{},"ownerReferences":[]}}"#,
            r#"{"metadata":{"annotations":{"k8s.io/initial-events-end":"false"}}}"#,
        ] {
            with_head(text, |head| {
                assert_eq!(
                    (head.name(), head.namespace(), head.uid(), head.resource_version()),
                    ("", "", "", "")
                );
                assert_eq!(
                    (head.generation(), head.is_deleting(), head.is_initial_events_end()),
                    (0, false, false)
                );
                assert_eq!((head.labels().count(), head.owners().count()), (0, 0));
            })
            .unwrap();
        }
    }

    #[test]
    fn the_last_duplicate_wins() {
        let text = r#"{"metadata":{"name":"a","deletionTimestamp":"t","labels":{"a":"b"},
            "deletionTimestamp":null,"labels":null,"name":"b","name":"c"}}"#;
        with_head(text, |head| {
            assert_eq!((head.name(), head.is_deleting(), head.labels().count()), ("c", false, 0));
        })
        .unwrap();
    }

    #[test]
    fn invalid_metadata_is_rejected_on_arrival() {
        for (metadata, why) in [
            (r#"[]"#, "metadata must be an object"),
            (r#"{"name":5}"#, "metadata.name must be a string"),
            (r#"{"name":"a\u00"}"#, "metadata.name must be a string"),
            (r#"{"namespace":{}}"#, "metadata.namespace must be"),
            (r#"{"uid":true}"#, "metadata.uid must be"),
            (r#"{"resourceVersion":7}"#, "metadata.resourceVersion must be"),
            (r#"{"generation":1.5}"#, "metadata.generation must be an integer"),
            (r#"{"generation":"1"}"#, "metadata.generation must be an integer"),
            (r#"{"generation":12345678901234567890}"#, "metadata.generation must be an integer"),
            (r#"{"labels":[]}"#, "metadata.labels must be an object"),
            (r#"{"labels":{"a":1}}"#, "a label's value must be a string"),
            (r#"{"labels":{"a":null}}"#, "a label's value must be a string"),
            (r#"{"labels":{"a":"\x"}}"#, "a label's value must be a string"),
            (r#"{"labels":{"\x":"a"}}"#, "unknown escape"),
            (r#"{"labels":{"a":"b",}}"#, "expected a quoted name"),
            (r#"{"annotations":"a"}"#, "metadata.annotations must be an object"),
            (r#"{"ownerReferences":{}}"#, "metadata.ownerReferences must be an array"),
            (r#"{"ownerReferences":[1]}"#, "an owner reference must be an object"),
            (r#"{"ownerReferences":[{"name":"\x"}]}"#, "unknown escape"),
            (r#"{"ownerReferences":[{},]}"#, "expected a value"),
        ] {
            let text = format!(r#"{{"metadata":{metadata}}}"#);
            let error = with_head(&text, |_| ()).unwrap_err().to_string();
            assert!(error.contains(why), "{metadata}: {error}");
        }
        let not_utf8 = b"{\"metadata\":{\"name\":\"\xff\"}}";
        let error = spans(not_utf8).unwrap_err().to_string();
        assert!(error.contains("metadata.name must be a string"), "{error}");
    }

    #[test]
    fn escaped_names_are_unescaped() {
        let text = r#"{"metadata":{"name":"R\u0026D \"\\\"","namespace":"n","uid":"\u003c\u00fc","resourceVersion":"7",
            "labels":{"\u0061":"\u0026"},"ownerReferences":[{"name":"R\u0026D"}]}}"#;
        with_head(text, |head| {
            assert_eq!((head.name(), head.namespace()), ("R&D \"\\\"", "n"));
            assert_eq!((head.uid(), head.resource_version()), ("<ü", "7"));
            assert_eq!(head.labels().get("a").as_deref(), Some("&"));
            assert_eq!(head.owners().next().unwrap().name, "R&D");
        })
        .unwrap();
    }

    #[test]
    fn captured_heads_match_serde_json() {
        let mut objects: Vec<serde_json::Value> = Vec::new();
        for (_, body) in captures(true) {
            let events = serde_json::Deserializer::from_slice(&body).into_iter::<serde_json::Value>();
            objects.extend(events.map(|event| event.unwrap()["object"].clone()));
        }
        for (_, body) in captures(false) {
            objects.push(serde_json::from_slice(&body).unwrap());
        }
        let (mut labelled, mut deleting, mut ends) = (0, 0, 0);
        for object in objects {
            with_head(&object.to_string(), |head| {
                let meta = &object["metadata"];
                let text = |name: &str| meta[name].as_str().unwrap_or_default();
                assert_eq!(head.name(), text("name"));
                assert_eq!(head.namespace(), text("namespace"));
                assert_eq!(head.uid(), text("uid"));
                assert_eq!(head.resource_version(), text("resourceVersion"));
                assert_eq!(head.generation(), meta["generation"].as_i64().unwrap_or_default());
                assert_eq!(head.is_deleting(), !meta["deletionTimestamp"].is_null());
                let labels: serde_json::Map<_, _> =
                    head.labels().map(|(key, value)| (key.into_owned(), json!(value))).collect();
                assert_eq!(labels, meta["labels"].as_object().cloned().unwrap_or_default());
                let end = &meta["annotations"]["k8s.io/initial-events-end"];
                assert_eq!(head.is_initial_events_end(), end == "true");
                labelled += usize::from(!labels.is_empty());
                deleting += usize::from(head.is_deleting());
                ends += usize::from(head.is_initial_events_end());
            })
            .unwrap();
        }
        assert!(
            labelled > 0 && deleting > 0 && ends > 0,
            "the captures show each: {labelled} {deleting} {ends}"
        );
    }

    proptest! {
        #[test]
        fn any_bytes_give_a_readable_head_or_an_error(
            metadata in prop_oneof![mutated(), any_bytes()],
            name in proptest::sample::select(vec!["metadata", "labels", "ownerReferences", "annotations", "name"]),
        ) {
            let mut text = b"{\"metadata\":{\"".to_vec();
            text.extend_from_slice(name.as_bytes());
            text.extend_from_slice(b"\":");
            text.extend_from_slice(&metadata);
            text.extend_from_slice(b"}}");
            if let Ok(spans) = spans(&text) {
                let type_meta = TypeMeta::new("v1", "Thing");
                let head = Head { bytes: &text, encoding: Encoding::Json, type_meta: &type_meta, spans: &spans };
                let labels = spans.labels.of(&text);
                prop_assert_eq!(head.labels().count(), Members::new(labels).count());
                prop_assert_eq!(head.owners().count(), Elements::new(spans.owners.of(&text)).count());
                prop_assert!(spans.unescaped.is_some() || std::str::from_utf8(spans.name.of(&text)).is_ok());
            }
        }
    }
}

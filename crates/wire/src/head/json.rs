//! Finds the head in the JSON text of an object. `metadata` stands near the front, so this stops early.

use super::owners;
use super::{INITIAL_EVENTS_END, Span, Spans};
use crate::error::{Error, Result};
use crate::json::{Elements, Kind, Members, Value};
use crate::limits::{Limit, Limits};

const WHAT: &str = "JSON head";

/// The spans of the head of an object's (kept) text.
///
/// An object without `metadata`, or with `null` there, has an empty head. Of a name that stands twice in `metadata` the
/// last one counts, as it does for Go. The text behind `metadata` is not looked at.
pub(crate) fn spans(bytes: &[u8], limits: &Limits) -> Result<Spans> {
    let mut spans = Spans::default();
    let mut members = Members::new(bytes);
    while let Some(member) = members.next() {
        let (name, value) = member?;
        if name == "metadata" {
            let offset = members.position() - value.bytes().len();
            object_meta(value, offset, limits, &mut spans)?;
            break;
        }
    }
    Ok(spans)
}

/// Reads `metadata`, which stands at `offset` in the kept text.
fn object_meta(meta: Value<'_>, offset: usize, limits: &Limits, spans: &mut Spans) -> Result<()> {
    if !is(meta, Kind::Object, offset, "metadata must be an object")? {
        return Ok(());
    }
    let mut members = Members::new(meta.bytes());
    while let Some(member) = members.next() {
        let (name, value) = member.map_err(|error| moved(error, offset))?;
        let end = offset + members.position();
        let start = end - value.bytes().len();
        let whole = |present: bool| if present { Span::new(start, end) } else { Span::default() };
        match &*name {
            "name" => spans.name = text(value, start, "metadata.name must be a string without escapes")?,
            "namespace" => {
                spans.namespace = text(value, start, "metadata.namespace must be a string without escapes")?;
            }
            "uid" => spans.uid = text(value, start, "metadata.uid must be a string without escapes")?,
            "resourceVersion" => {
                let why = "metadata.resourceVersion must be a string without escapes";
                spans.resource_version = text(value, start, why)?;
            }
            "generation" => spans.generation = generation(value, start)?,
            "deletionTimestamp" => spans.deleting = !value.is_null(),
            "labels" => spans.labels = whole(labels(value, start, limits)?),
            "annotations" => spans.initial_events_end = ends_initial_events(value, start)?,
            "ownerReferences" => spans.owners = whole(owner_references(value, start)?),
            _ => {}
        }
    }
    Ok(())
}

fn text(value: Value<'_>, start: usize, why: &'static str) -> Result<Span> {
    if value.is_null() {
        return Ok(Span::default());
    }
    match value.as_verbatim() {
        Ok(Some(text)) => Ok(Span::new(start + 1, start + 1 + text.len())),
        _ => Err(Error::malformed(WHAT, start, why)),
    }
}

fn generation(value: Value<'_>, start: usize) -> Result<i64> {
    match value.as_i64() {
        Ok(Some(generation)) => Ok(generation),
        Ok(None) if value.is_null() => Ok(0),
        _ => Err(Error::malformed(WHAT, start, "metadata.generation must be a whole number")),
    }
}

/// Checks the labels, so that reading them later cannot fail. Whether there are any.
fn labels(value: Value<'_>, start: usize, limits: &Limits) -> Result<bool> {
    if !is(value, Kind::Object, start, "metadata.labels must be an object")? {
        return Ok(false);
    }
    let mut count = 0;
    for member in Members::new(value.bytes()) {
        let (_, label) = member.map_err(|error| moved(error, start))?;
        if !matches!(label.as_string(), Ok(Some(_))) {
            return Err(Error::malformed(WHAT, start, "a label's value must be a string"));
        }
        count += 1;
        if count > limits.labels_max {
            let (limit, allowed) = (Limit::Labels, limits.labels_max);
            return Err(Error::Limit { limit, found: count, allowed });
        }
    }
    Ok(count > 0)
}

/// Checks the owner references, so that reading them later cannot fail. Whether there are any.
fn owner_references(value: Value<'_>, start: usize) -> Result<bool> {
    if !is(value, Kind::Array, start, "metadata.ownerReferences must be an array")? {
        return Ok(false);
    }
    let mut any = false;
    for element in Elements::new(value.bytes()) {
        let owner = element.map_err(|error| moved(error, start))?;
        if owner.kind() != Ok(Kind::Object) {
            return Err(Error::malformed(WHAT, start, "an owner reference must be an object"));
        }
        owners::from_json(owner).map_err(|error| moved(error, start))?;
        any = true;
    }
    Ok(any)
}

/// Whether the annotations mark the end of a watch-list's initial events.
fn ends_initial_events(value: Value<'_>, start: usize) -> Result<bool> {
    if !is(value, Kind::Object, start, "metadata.annotations must be an object")? {
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

/// Whether the value is of the kind; `null` is as good as absent, anything else an error.
fn is(value: Value<'_>, kind: Kind, start: usize, why: &'static str) -> Result<bool> {
    match value.kind() {
        Ok(found) if found == kind => Ok(true),
        Ok(Kind::Null) => Ok(false),
        _ => Err(Error::malformed(WHAT, start, why)),
    }
}

/// An error found in a part that stands at `offset`.
fn moved(error: Error, offset: usize) -> Error {
    match error {
        Error::Malformed { at, why, .. } => Error::malformed(WHAT, offset + at, why),
        other => other,
    }
}

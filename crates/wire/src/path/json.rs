//! Follows a path through JSON text.

use std::ops::ControlFlow;

use super::value::FieldValue;
use super::{Filter, Segment};
use crate::error::Result;
use crate::json::{Elements, Members, Value};

/// Calls `emit` with every value at the path, until it returns `Break`.
///
/// If a name occurs twice in an object (no API server writes that), the first one counts.
pub(super) fn walk<'a>(
    path: &[Segment],
    value: Value<'a>,
    emit: &mut impl FnMut(FieldValue<'a>) -> ControlFlow<()>,
) -> Result<ControlFlow<()>> {
    let Some((segment, rest)) = path.split_first() else { return Ok(emit(FieldValue::from_json(value)?)) };
    match segment {
        Segment::Member(name) => match member(value, name)? {
            Some(value) => walk(rest, value, emit),
            None => Ok(ControlFlow::Continue(())),
        },
        Segment::At(index) => match Elements::new(value.bytes()).nth(*index as usize) {
            Some(element) => walk(rest, element?, emit),
            None => Ok(ControlFlow::Continue(())),
        },
        Segment::Each | Segment::Where(_) => {
            for element in Elements::new(value.bytes()) {
                let element = element?;
                if let Segment::Where(filter) = segment
                    && !matches(element, filter)?
                {
                    continue;
                }
                if walk(rest, element, emit)?.is_break() {
                    return Ok(ControlFlow::Break(()));
                }
            }
            Ok(ControlFlow::Continue(()))
        }
    }
}

fn member<'a>(value: Value<'a>, name: &str) -> Result<Option<Value<'a>>> {
    for member in Members::new(value.bytes()) {
        let (found, value) = member?;
        if found == name {
            return Ok(Some(value));
        }
    }
    Ok(None)
}

fn matches(element: Value<'_>, filter: &Filter) -> Result<bool> {
    match member(element, &filter.key)? {
        Some(value) => Ok(FieldValue::from_json(value)?.text().is_some_and(|text| *text == *filter.text)),
        None => Ok(false),
    }
}

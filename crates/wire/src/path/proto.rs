//! Follows compiled steps through protobuf bytes.
//!
//! Implements Go's rules for JSON: a zero value marked `omitempty` is absent, an unmarked nil is `null`, and a struct
//! that is not on the wire is present with zero values.

use std::ops::ControlFlow;

use super::compile::{Pick, Step, compile};
use super::value::{FieldValue, Fragment};
use super::wire::{Items, entry, json_value, last, raw_json, single_message};
use super::{FieldPath, Segment, json};
use crate::de;
use crate::envelope::{self, Envelope};
use crate::error::{Error, Result};
use crate::json::Value;
use crate::proto::WireValue;
use crate::schema::{Cardinality, Field, Scalar, Schema, Shape};

/// Calls `emit` with every value that the steps lead to, until it returns `Break`.
pub(super) fn walk<'a, E>(steps: &[Step], wire: WireValue<'a>, emit: &mut E) -> Result<ControlFlow<()>>
where
    E: FnMut(FieldValue<'a>) -> ControlFlow<()>,
{
    const NOTHING: Result<ControlFlow<()>> = Ok(ControlFlow::Continue(()));
    // A path compiles to at least one step, and its last step ends the walk.
    let Some((step, rest)) = steps.split_first() else { return NOTHING };
    match step {
        Step::Into { field, unless } => {
            let bytes = wire.bytes()?;
            if let Some(other) = unless
                && last(bytes, *other)?.is_some()
            {
                return NOTHING;
            }
            match single_message(bytes, field.number)? {
                None if field.pointer || field.omit_zero => NOTHING,
                Some(inner) if is_left_out(field, inner)? => NOTHING,
                inner => walk(rest, WireValue::Bytes(inner.unwrap_or_default()), emit),
            }
        }
        Step::Elements { field, pick } => {
            let mut items = Items::new(wire.bytes()?, field.number, field.ty.scalar);
            if let Pick::At(index) = pick {
                return items.nth(*index as usize).map_or(NOTHING, |item| walk(rest, item?, emit));
            }
            for item in items {
                let item = item?;
                if let Pick::Where { steps, text } = pick
                    && !leads_to(steps, item, text)?
                {
                    continue;
                }
                if walk(rest, item, emit)?.is_break() {
                    return Ok(ControlFlow::Break(()));
                }
            }
            NOTHING
        }
        Step::Entry { field, key } => {
            let mut found = None;
            for item in Items::new(wire.bytes()?, field.number, Scalar::Bytes) {
                let (name, value) = entry(item?.bytes()?, field.ty.scalar)?;
                if *name == **key {
                    found = Some(value);
                }
            }
            found.map_or(NOTHING, |value| walk(rest, value, emit))
        }
        Step::Json(path) => embedded(path, raw_json(wire.bytes()?)?, emit),
        Step::Field(field) => match value(field, wire.bytes()?)? {
            Some(value) => Ok(emit(value)),
            None => NOTHING,
        },
        Step::This(scalar) => Ok(emit(json_value(wire, *scalar)?)),
        Step::Nothing => NOTHING,
    }
}

/// The value of a field in JSON; `None` if JSON omits it.
fn value<'a>(field: &'static Field, message: &'a [u8]) -> Result<Option<FieldValue<'a>>> {
    let (number, scalar) = (field.number, field.ty.scalar);
    let nil = || (!field.omit_empty && !field.omit_zero).then_some(FieldValue::Null);
    let wire = last(message, number)?;
    match (field.ty.cardinality, wire) {
        (Cardinality::List, Some(_)) => return Ok(Some(Fragment::list(message, number, scalar))),
        (Cardinality::Map, Some(_)) => return Ok(Some(Fragment::map(message, number, scalar))),
        (Cardinality::List | Cardinality::Map, None) => return Ok(nil()),
        (Cardinality::One, _) => {}
    }
    match (field.ty.message(Schema::builtin()), wire) {
        (_, None) if field.pointer || scalar == Scalar::Bytes => Ok(nil()),
        (Some(_), _) => {
            let inner = single_message(message, number)?.unwrap_or_default();
            if is_left_out(field, inner)? {
                Ok(None)
            } else {
                json_value(WireValue::Bytes(inner), scalar).map(Some)
            }
        }
        (None, wire) => {
            let wire = wire.unwrap_or(WireValue::zero(scalar));
            let left_out = !field.pointer && (field.omit_empty || field.omit_zero) && wire.is_zero();
            if left_out { Ok(None) } else { json_value(wire, scalar).map(Some) }
        }
    }
}

/// Whether JSON omits a field with this message. A struct is never empty, but a named list may be.
fn is_left_out(field: &'static Field, inner: &[u8]) -> Result<bool> {
    if field.pointer || !(field.omit_empty || field.omit_zero) {
        return Ok(false);
    }
    let Some(message) = field.ty.message(Schema::builtin()) else { return Ok(false) };
    match message.shape {
        Shape::StringList => Ok(last(inner, 1)?.is_none()),
        _ if field.omit_zero => de::is_zero(message, inner),
        _ => Ok(false),
    }
}

fn leads_to(steps: &[Step], item: WireValue<'_>, text: &str) -> Result<bool> {
    let mut found = false;
    let _ = walk(steps, item, &mut |value| {
        found = value.text().is_some_and(|value| *value == *text);
        ControlFlow::Break(())
    })?;
    Ok(found)
}

/// Continues in the content of a `RawExtension`: JSON text, or (rarely) a protobuf object in its envelope.
fn embedded<'a, E>(path: &[Segment], raw: &'a [u8], emit: &mut E) -> Result<ControlFlow<()>>
where
    E: FnMut(FieldValue<'a>) -> ControlFlow<()>,
{
    if !raw.starts_with(&envelope::MAGIC) {
        return json::walk(path, Value::new(raw), emit);
    }
    let Envelope { api_version, kind, raw } = Envelope::open(raw)?;
    let path = FieldPath::new(path);
    if let Some(value) = path.type_member(api_version, kind) {
        return Ok(emit(value));
    }
    match Schema::builtin().kind(api_version, kind) {
        Some(message) => walk(&compile(&path, message)?, WireValue::Bytes(raw), emit),
        None => Err(Error::UnknownKind { api_version: api_version.to_owned(), kind: kind.to_owned() }),
    }
}

//! Strategic merge patch: a merge patch that uses the object's type, so lists of containers or finalizers merge
//! element by element. Directives express what a plain merge cannot.
//!
//! Supported: `$patch: replace` and `$patch: delete` in an object or in an element of a merged list, `$retainKeys`
//! next to members, `$deleteFromPrimitiveList/x` and `$setElementOrder/x` next to a list `x`. Only built-in kinds have
//! the necessary types.

use serde_json::{Map, Value};

use super::{
    PatchError,
    order::{self, Places},
};
use crate::apply::{TypeView, go};

pub(super) const DIRECTIVE: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const DELETE_FROM_LIST: &str = "$deleteFromPrimitiveList";
const SET_ORDER: &str = "$setElementOrder";

/// Applies a strategic merge patch to an object of a built-in kind and returns the new object.
///
/// # Errors
///
/// [`PatchError::Malformed`] if the patch or one of its directives is malformed, [`PatchError::Contradicts`] if it
/// contradicts the type or the object, [`PatchError::DoesNotApply`] for lists of lists.
///
/// ```
/// # use embedded_apiserver::internals::{apply::TypeView, patch::strategic_merge_patch};
/// # use serde_json::json;
/// let pod = json!({"spec": {"containers": [{"name": "a", "image": "one"}, {"name": "b", "image": "two"}]}});
/// let patch = json!({"spec": {"containers": [{"name": "b", "image": "three"}, {"name": "a", "$patch": "delete"}]}});
/// let patched = strategic_merge_patch(&pod, &patch, TypeView::builtin("v1", "Pod").unwrap())?;
/// assert_eq!(patched, json!({"spec": {"containers": [{"name": "b", "image": "three"}]}}));
/// # Ok::<(), embedded_apiserver::internals::patch::PatchError>(())
/// ```
pub fn strategic_merge_patch(
    object: &Value,
    patch: &Value,
    types: TypeView<'static>,
) -> Result<Value, PatchError> {
    let Value::Object(patch) = patch else {
        return Err(PatchError::Malformed(format!(
            "json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
            super::json::go_kind(patch)
        )));
    };
    let object = object.as_object().cloned().unwrap_or_default();
    merge_objects(object, patch.clone(), types).map(Value::Object)
}

type Object = Map<String, Value>;

fn merge_objects(
    mut object: Object,
    mut patch: Object,
    types: TypeView<'static>,
) -> Result<Object, PatchError> {
    if let Some(directive) = patch.get(DIRECTIVE) {
        return match directive.as_str() {
            Some("replace") => {
                patch.remove(DIRECTIVE);
                Ok(clean_members(patch))
            }
            Some("delete") => Ok(Object::new()),
            _ => Err(bad_directive(directive, &patch)),
        };
    }
    retain_keys(&mut object, &mut patch)?;
    merge_ordered_lists(&mut object, &mut patch, types)?;
    // Add before deleting, so that the result for a list with both does not depend on names.
    let (deletions, members): (Vec<_>, Vec<_>) =
        patch.into_iter().partition(|(name, _)| name.starts_with(DELETE_FROM_LIST));
    for (name, value) in members {
        merge_member(&mut object, name, value, types)?;
    }
    for (name, value) in deletions {
        delete_from_list(&mut object, &name, &value)?;
    }
    Ok(object)
}

fn merge_member(
    object: &mut Object,
    name: String,
    patch: Value,
    types: TypeView<'static>,
) -> Result<(), PatchError> {
    if patch.is_null() {
        object.remove(&name);
        return Ok(());
    }
    let merged = match (object.remove(&name), patch) {
        (Some(Value::Object(old)), Value::Object(patch)) => {
            let member = types.patch_member(&name).ok_or_else(|| no_field(types, &name))?;
            Some(Value::Object(if member.replace_object {
                clean_members(patch)
            } else {
                merge_objects(old, patch, member.ty)?
            }))
        }
        (Some(Value::Array(old)), Value::Array(patch)) => {
            let member = types.patch_member(&name).ok_or_else(|| no_field(types, &name))?;
            Some(Value::Array(if member.merge {
                merge_lists(old, patch, member.ty, member.merge_key)?
            } else {
                clean_elements(patch)
            }))
        }
        (_, patch) => clean(patch),
    };
    if let Some(merged) = merged {
        object.insert(name, merged);
    }
    Ok(())
}

/// Merges lists whose order the patch sets; removes the lists and their order from the patch.
fn merge_ordered_lists(
    object: &mut Object,
    patch: &mut Object,
    types: TypeView<'static>,
) -> Result<(), PatchError> {
    let ordered: Vec<_> = patch.keys().filter(|name| name.starts_with(SET_ORDER)).cloned().collect();
    for directive in ordered {
        let name = list_name(&directive, SET_ORDER)
            .ok_or_else(|| malformed("invalid patch format of setElementOrder list"))?
            .to_owned();
        let order = list(patch.remove(&directive).unwrap_or_default())?;
        let old = object.get(&name).cloned().map(list).transpose()?;
        let new = patch.get(&name).cloned().map(list).transpose()?;
        let member = types.patch_member(&name).ok_or_else(|| no_field(types, &name))?;
        order::check(new.as_deref().unwrap_or_default(), &order, member.merge_key)?;
        let live = old.clone().unwrap_or_default();
        let merged = match (old, new) {
            (None, None) => continue,
            (Some(old), None) => old,
            (None, Some(new)) => clean_elements(new),
            (Some(old), Some(new)) if member.merge => merge_lists(old, new, member.ty, member.merge_key)?,
            (Some(_), Some(new)) => clean_elements(new),
        };
        patch.remove(&name);
        let arranged = order::arrange(merged, &order, &live, member.merge_key)?;
        object.insert(name, Value::Array(arranged));
    }
    Ok(())
}

fn merge_lists(
    old: Vec<Value>,
    patch: Vec<Value>,
    element: TypeView<'static>,
    merge_key: Option<&'static str>,
) -> Result<Vec<Value>, PatchError> {
    if old.is_empty() && patch.is_empty() {
        return Ok(old);
    }
    match (same_kind(&old, &patch)?, merge_key) {
        (Kind::Object, Some(key)) => merge_keyed(old, patch, element, key),
        (Kind::Object, None) => {
            Err(PatchError::Contradicts(format!("cannot merge lists without merge key for {}", "struct")))
        }
        (Kind::Scalar, _) => {
            let live = old.clone();
            let all: Vec<_> = old.into_iter().chain(patch.iter().cloned()).collect();
            let places = Places::of(&all, None);
            let first = |(at, item): &(usize, &Value)| places.place(item) == Some(*at);
            let merged = all.iter().enumerate().filter(first).map(|(_, item)| item.clone()).collect();
            order::arrange(merged, &patch, &live, None)
        }
    }
}

fn merge_keyed(
    mut old: Vec<Value>,
    patch: Vec<Value>,
    element: TypeView<'static>,
    key: &'static str,
) -> Result<Vec<Value>, PatchError> {
    let (marked, patch): (Vec<_>, Vec<_>) = patch.into_iter().partition(|item| item.get(DIRECTIVE).is_some());
    let mut replace = false;
    let mut gone = Vec::new();
    for item in marked {
        match item[DIRECTIVE].as_str() {
            Some("delete") if item.get(key).is_none() => return Err(no_merge_key(&item, key)),
            Some("delete") => gone.push(item),
            Some("replace") => replace = true,
            Some("merge") => {
                let what = "merging lists cannot yet be specified in the patch";
                return Err(PatchError::Contradicts(what.to_owned()));
            }
            _ => {
                let directive = item[DIRECTIVE].clone();
                return Err(bad_directive(&directive, item.as_object().unwrap_or(&Object::new())));
            }
        }
    }
    if replace {
        return Ok(clean_elements(patch));
    }
    let gone = Places::of(&gone, Some(key));
    old.retain(|item| gone.place(item).is_none());

    let live = old.clone();
    if let Some(item) = patch.iter().find(|item| item.get(key).is_none()) {
        return Err(no_merge_key(item, key));
    }
    // A duplicate element in the patch merges with itself.
    let all: Vec<_> = old.iter().chain(&patch).cloned().collect();
    let places = Places::of(&all, Some(key));
    let mut merged: Vec<Option<Object>> = all.iter().map(|item| item.as_object().cloned()).collect();
    for (at, item) in patch.iter().enumerate() {
        let Value::Object(item) = item else { continue };
        let (own, first) = (live.len() + at, places.place(&all[live.len() + at]).unwrap_or(live.len() + at));
        merged[own] = if first == own {
            Some(clean_members(item.clone()))
        } else {
            let before = merged[first].take().unwrap_or_default();
            merged[first] = Some(merge_objects(before, item.clone(), element)?);
            None
        };
    }
    let merged = merged.into_iter().flatten().map(Value::Object).collect();
    order::arrange(merged, &patch, &live, Some(key))
}

/// `$deleteFromPrimitiveList/name`: removes values from the list, regardless of its merge strategy.
fn delete_from_list(object: &mut Object, directive: &str, values: &Value) -> Result<(), PatchError> {
    let name = list_name(directive, DELETE_FROM_LIST)
        .ok_or_else(|| malformed("invalid patch format of primitive list"))?;
    if let (Some(Value::Array(items)), Value::Array(values)) = (object.get_mut(name), values) {
        let gone = Places::of(values, None);
        items.retain(|item| gone.place(item).is_none());
    }
    Ok(())
}

/// `$retainKeys`: removes all members that it does not list; the patch may set no others.
fn retain_keys(object: &mut Object, patch: &mut Object) -> Result<(), PatchError> {
    let Some(retained) = patch.remove(RETAIN_KEYS) else { return Ok(()) };
    let bad = || malformed("invalid patch format of retainKeys");
    let retained = retained.as_array().ok_or_else(bad)?;
    let is_retained = |name: &str| retained.iter().any(|retained| retained.as_str() == Some(name));
    for (name, value) in patch.iter() {
        let directive = name.starts_with(DELETE_FROM_LIST) || name.starts_with(SET_ORDER);
        if !value.is_null() && !directive && !is_retained(name) {
            return Err(bad());
        }
    }
    object.retain(|name, _| is_retained(name));
    Ok(())
}

/// A patch value with nothing to merge with: without nulls and directives. `None` if a directive removes it.
fn clean(value: Value) -> Option<Value> {
    match value {
        Value::Object(members) if members.contains_key(DIRECTIVE) => None,
        Value::Object(members) => Some(Value::Object(clean_members(members))),
        Value::Array(items) => Some(Value::Array(clean_elements(items))),
        scalar => Some(scalar),
    }
}

fn clean_members(members: Object) -> Object {
    let directive = |name: &str| {
        name == RETAIN_KEYS
            || [SET_ORDER, DELETE_FROM_LIST].iter().any(|prefix| list_name(name, prefix).is_some())
    };
    let kept = members.into_iter().filter(|(name, value)| !value.is_null() && !directive(name));
    kept.filter_map(|(name, value)| Some((name, clean(value)?))).collect()
}

fn clean_elements(items: Vec<Value>) -> Vec<Value> {
    items.into_iter().filter_map(clean).collect()
}

enum Kind {
    Object,
    Scalar,
}

/// The common kind of all elements of two lists.
fn same_kind(old: &[Value], patch: &[Value]) -> Result<Kind, PatchError> {
    let mut items = old.iter().chain(patch);
    let first = items.next().unwrap_or(&Value::Null);
    if first.is_array() {
        return Err(PatchError::DoesNotApply("lists of lists are not supported".to_owned()));
    }
    if items.any(|item| std::mem::discriminant(item) != std::mem::discriminant(first)) {
        let lists = Value::Array(vec![Value::from(old), Value::from(patch)]);
        let what = format!("list element types are not identical: {}", go::plain(&lists));
        return Err(PatchError::Contradicts(what));
    }
    Ok(if first.is_object() { Kind::Object } else { Kind::Scalar })
}

fn list(value: Value) -> Result<Vec<Value>, PatchError> {
    match value {
        Value::Array(items) => Ok(items),
        other => Err(PatchError::Contradicts(format!(
            "expected a []interface {{}}, but received a {}",
            match other {
                Value::Object(_) => "map[string]interface {}",
                Value::String(_) => "string",
                Value::Bool(_) => "bool",
                Value::Number(_) => "int64",
                _ => "%!s(<nil>)",
            }
        ))),
    }
}

fn list_name<'a>(directive: &'a str, prefix: &str) -> Option<&'a str> {
    directive.strip_prefix(prefix)?.strip_prefix('/')
}

fn malformed(what: &str) -> PatchError {
    PatchError::Malformed(what.to_owned())
}

pub(super) fn no_merge_key(item: &Value, key: &str) -> PatchError {
    PatchError::Contradicts(format!("map: {} does not contain declared merge key: {key}", go::plain(item)))
}

fn no_field(types: TypeView<'static>, name: &str) -> PatchError {
    let ty = types.type_name();
    PatchError::Contradicts(format!("unable to find api field in struct {ty} for the json field {name:?}"))
}

fn bad_directive(directive: &Value, members: &Object) -> PatchError {
    let members = Value::Object(members.clone());
    let what = format!("unknown patch type: {} in map: {}", go::plain(directive), go::plain(&members));
    PatchError::Contradicts(what)
}

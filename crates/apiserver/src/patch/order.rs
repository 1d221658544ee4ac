//! The order of merged lists in a strategic merge patch: elements named by the patch in its order, the others in the
//! list's own order, interleaved so that both orders are preserved.

use std::collections::HashMap;

use serde_json::Value;

use super::{PatchError, strategic::no_merge_key};
use crate::apply::go;

/// Sorts the elements of a merged list. Elements in `patch_order` follow its order, the others the order of `live`.
/// The latter precede the first named element that followed them in `live`, and follow all new elements.
///
/// # Errors
///
/// If an element lacks the merge key.
pub(super) fn arrange(
    merged: Vec<Value>,
    patch_order: &[Value],
    live: &[Value],
    merge_key: Option<&str>,
) -> Result<Vec<Value>, PatchError> {
    if let Some(key) = merge_key {
        for item in merged.iter().chain(patch_order).chain(live) {
            if item.get(key).is_none() {
                return Err(no_merge_key(item, key));
            }
        }
    }
    let (in_patch, in_live) = (Places::of(patch_order, merge_key), Places::of(live, merge_key));
    let (mut named, mut others): (Vec<_>, Vec<_>) =
        merged.into_iter().partition(|item| in_patch.place(item).is_some());
    // Both sorts are stable, and elements without a position come last.
    named.sort_by_key(|item| in_patch.place(item).unwrap_or(usize::MAX));
    others.sort_by_key(|item| in_live.place(item).unwrap_or(usize::MAX));

    let mut woven = Vec::with_capacity(named.len() + others.len());
    let mut others = others.into_iter().peekable();
    for item in named {
        let stays_before = |other: &Value| match (in_live.place(other), in_live.place(&item)) {
            (Some(other), Some(item)) => other < item,
            _ => false,
        };
        while let Some(other) = others.next_if(stays_before) {
            woven.push(other);
        }
        woven.push(item);
    }
    woven.extend(others);
    Ok(woven)
}

/// The positions of a list's elements, hashed because clients control the length of lists.
pub(super) struct Places<'a> {
    first: HashMap<Option<&'a Value>, usize>,
    merge_key: Option<&'a str>,
}

impl<'a> Places<'a> {
    pub(super) fn of(list: &'a [Value], merge_key: Option<&'a str>) -> Self {
        let mut first = HashMap::with_capacity(list.len());
        for (place, item) in list.iter().enumerate() {
            first.entry(identity(item, merge_key)).or_insert(place);
        }
        Self { first, merge_key }
    }

    /// The first position of an equal element.
    pub(super) fn place(&self, item: &Value) -> Option<usize> {
        self.first.get(&identity(item, self.merge_key)).copied()
    }
}

/// Checks that a patch list agrees with its `$setElementOrder`: all its elements are in it, in the same order. Ignores
/// elements with a directive.
///
/// # Errors
///
/// If it does not agree.
pub(super) fn check(patch: &[Value], order: &[Value], merge_key: Option<&str>) -> Result<(), PatchError> {
    if patch.is_empty() || order.is_empty() {
        return Ok(());
    }
    if let Some(key) = merge_key {
        let unmarked = patch.iter().filter(|item| item.get(super::strategic::DIRECTIVE).is_none());
        for item in unmarked.chain(order) {
            if item.get(key).is_none() {
                return Err(no_merge_key(item, key));
            }
        }
    }
    let mut rest = order.iter();
    for item in patch.iter().filter(|item| item.get(super::strategic::DIRECTIVE).is_none()) {
        if !rest.any(|other| identity(other, merge_key) == identity(item, merge_key)) {
            return Err(PatchError::Contradicts(format!(
                "The order in patch list:\n{}\n doesn't match $setElementOrder list:\n{}\n",
                go::plain(&Value::from(patch)),
                go::plain(&Value::from(order)),
            )));
        }
    }
    Ok(())
}

/// The identity of an element: its merge key, or the element itself.
fn identity<'a>(item: &'a Value, merge_key: Option<&str>) -> Option<&'a Value> {
    match merge_key {
        Some(key) => item.get(key),
        None => Some(item),
    }
}

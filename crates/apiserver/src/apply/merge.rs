//! Merging an applied configuration into an object. Nothing is removed, and the configuration's leaves win. Lists keep
//! the object's order unless the configuration orders shared elements differently.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde_json::{Map, Value};

use super::{
    path::PathElement,
    types::{Atom, Elements, ListView, MapView, TypeView},
    walk,
};

/// Merges `config` into `live`.
pub(crate) fn merge(ty: TypeView<'_>, live: &Value, config: &Value) -> Value {
    value(ty, Some(live), Some(config)).unwrap_or(Value::Null)
}

fn value(ty: TypeView<'_>, live: Option<&Value>, config: Option<&Value>) -> Option<Value> {
    let (_, atom) = walk::atoms(ty, live, config);
    let leaf = || config.or(live).cloned();
    match atom {
        Atom::Scalar(_) => leaf(),
        Atom::List(ty) => {
            let (a, b) = (walk::list(live).unwrap_or_default(), walk::list(config).unwrap_or_default());
            if matches!(ty.elements, Elements::Atomic) || (a.is_empty() && b.is_empty()) {
                return leaf();
            }
            list(ty, a, b)
        }
        Atom::Map(ty) => {
            let (a, b) = (walk::map(live), walk::map(config));
            if ty.atomic || (a.is_none_or(Map::is_empty) && b.is_none_or(Map::is_empty)) {
                return leaf();
            }
            map(ty, a, b)
        }
    }
}

fn map(
    ty: MapView<'_>,
    live: Option<&Map<String, Value>>,
    config: Option<&Map<String, Value>>,
) -> Option<Value> {
    let names: BTreeSet<_> = live.into_iter().chain(config).flat_map(Map::keys).collect();
    let merged: Map<_, _> = names
        .into_iter()
        .filter_map(|name| {
            let (live, config) = (live.and_then(|m| m.get(name)), config.and_then(|m| m.get(name)));
            Some((name.clone(), value(walk::member(ty, name), live, config)?))
        })
        .collect();
    (!merged.is_empty()).then_some(Value::Object(merged))
}

/// Shared elements follow the configuration's order. Elements only in the object stay before the shared element that
/// followed them. Elements only in the configuration keep their position in it.
fn list(ty: ListView<'_>, live: &[Value], config: &[Value]) -> Option<Value> {
    let steps = |items: &[Value]| -> Vec<_> { items.iter().map(|item| walk::step(ty, item).ok()).collect() };
    let (live_steps, config_steps) = (steps(live), steps(config));
    let config_at = index(&config_steps);
    // Duplicate elements and elements without a path element are not merged.
    let live_at = index(&live_steps);
    let unique = |step: &Option<PathElement>| {
        let at = live_at.get(step.as_ref()?)?;
        if at.len() == 1 { live.get(at[0]) } else { None }
    };

    let mut shared: VecDeque<&PathElement> =
        config_steps.iter().flatten().filter(|step| live_at.contains_key(*step)).collect();
    let mut merged_steps = BTreeSet::new();
    let mut out = Vec::with_capacity(live.len().max(config.len()));
    let (mut l, mut c) = (0, 0);
    while l < live.len() || c < config.len() {
        if l < live.len() && c < config.len() {
            if live_steps[l].is_some() && live_steps[l] == config_steps[c] {
                out.extend(value(ty.element, unique(&live_steps[l]), Some(&config[c])));
                merged_steps.extend(config_steps[c].as_ref());
                shared.pop_front();
                l += 1;
                c += 1;
                continue;
            }
            let in_config = live_steps[l].as_ref().is_some_and(|step| config_at.contains_key(step));
            if in_config && shared.front().is_some_and(|next| Some(*next) != live_steps[l].as_ref()) {
                // Shared, but the configuration has another element first: this one follows later.
                l += 1;
                continue;
            }
        }
        if l < live.len() {
            match &live_steps[l] {
                Some(step) if config_at.contains_key(step) => {
                    if merged_steps.contains(step) {
                        l += 1;
                    }
                }
                _ => {
                    out.extend(value(ty.element, Some(&live[l]), None));
                    l += 1;
                    continue;
                }
            }
        }
        if c < config.len() {
            out.extend(value(ty.element, unique(&config_steps[c]), Some(&config[c])));
            merged_steps.extend(config_steps[c].as_ref());
            if shared.front().is_some_and(|next| Some(*next) == config_steps[c].as_ref()) {
                shared.pop_front();
            }
            c += 1;
        }
    }
    (!out.is_empty()).then_some(Value::Array(out))
}

fn index(steps: &[Option<PathElement>]) -> BTreeMap<&PathElement, Vec<usize>> {
    let mut index: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for (at, step) in steps.iter().enumerate() {
        if let Some(step) = step {
            index.entry(step).or_default().push(at);
        }
    }
    index
}

//! Conversion between values and field sets: the fields that a configuration sets, and an object without some fields.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::{
    path::PathElement,
    set::FieldSet,
    types::{Atom, Elements, ListView, TypeView},
    walk,
};

/// The fields that a value sets: all leaves, list elements and map entries. A declared field that only contains other fields is
/// left out.
pub(crate) fn field_set(ty: TypeView<'_>, value: &Value) -> FieldSet {
    let mut set = FieldSet::default();
    name_value(ty, value, &mut Vec::new(), &mut set);
    set
}

/// The value without these fields. A container that becomes empty becomes null, as in a kube-apiserver.
pub(crate) fn remove(ty: TypeView<'_>, value: &Value, fields: &FieldSet) -> Value {
    match ty.atom(Some(value)) {
        Atom::Scalar(_) => value.clone(),
        Atom::List(list) => match value {
            Value::Array(items) if !matches!(list.elements, Elements::Atomic) => {
                remove_elements(list, items, fields)
            }
            _ => Value::Null,
        },
        Atom::Map(map) => match value {
            Value::Object(object) if !map.atomic => {
                let mut kept = Map::new();
                for (name, member) in object {
                    let step = PathElement::field(name);
                    if fields.has(&step) {
                        continue;
                    }
                    let member = match fields.below(&step) {
                        Some(below) => remove(walk::member(map, name), member, below),
                        None => member.clone(),
                    };
                    kept.insert(name.clone(), member);
                }
                if kept.is_empty() { Value::Null } else { Value::Object(kept) }
            }
            _ => Value::Null,
        },
    }
}

fn remove_elements(ty: ListView<'_>, items: &[Value], fields: &FieldSet) -> Value {
    let mut kept = Vec::with_capacity(items.len());
    for item in items {
        match walk::step(ty, item) {
            Ok(step) if fields.has(&step) => {}
            Ok(step) => kept.push(match fields.below(&step) {
                Some(below) => remove(ty.element, item, below),
                None => item.clone(),
            }),
            Err(_) => kept.push(item.clone()),
        }
    }
    if kept.is_empty() { Value::Null } else { Value::Array(kept) }
}

fn name_value(ty: TypeView<'_>, value: &Value, path: &mut Vec<PathElement>, set: &mut FieldSet) {
    match ty.atom(Some(value)) {
        Atom::Scalar(_) => set.insert(path),
        Atom::List(list) => match value {
            _ if matches!(list.elements, Elements::Atomic) => set.insert(path),
            Value::Array(items) => name_elements(list, items, path, set),
            _ => {}
        },
        Atom::Map(map) => match value {
            _ if map.atomic => set.insert(path),
            Value::Object(object) => {
                for (name, member) in object {
                    let field = map.field(name);
                    path.push(PathElement::field(name));
                    name_value(field.map_or(TypeView::deduced(), |field| field.ty), member, path, set);
                    let empty = member.is_null() || member.as_object().is_some_and(Map::is_empty);
                    if empty || !field.is_some_and(|field| field.declared) {
                        set.insert(path);
                    }
                    path.pop();
                }
            }
            _ => {}
        },
    }
}

fn name_elements(ty: ListView<'_>, items: &[Value], path: &mut Vec<PathElement>, set: &mut FieldSet) {
    let mut elements: BTreeMap<PathElement, Vec<&Value>> = BTreeMap::new();
    for item in items {
        if let Ok(step) = walk::step(ty, item) {
            elements.entry(step).or_default().push(item);
        }
    }
    for (step, items) in elements {
        path.push(step);
        // Elements with the same path element count as one item; nothing inside it can be owned.
        if let [item] = items[..] {
            name_value(ty.element, item, path, set);
        }
        set.insert(path);
        path.pop();
    }
}

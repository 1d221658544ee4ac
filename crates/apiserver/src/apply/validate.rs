//! Validation of an applied configuration against its type. Rejects unknown fields, values of the wrong type, elements
//! without keys and duplicates before merging, in the wording of a kube-apiserver.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{
    go,
    path::PathElement,
    types::{Atom, Elements, ListView, ScalarKind, TypeView},
    walk,
};

/// All errors in a configuration, as one message; `None` if it is valid.
pub(crate) fn validate(ty: TypeView<'_>, config: &Value) -> Option<String> {
    let mut errors = Vec::new();
    check(ty, config, "", &mut errors);
    match errors.as_slice() {
        [] => None,
        [one] => Some(one.clone()),
        many => {
            let lines: Vec<_> = many.iter().map(|error| format!("\n  {error}")).collect();
            Some(format!("errors:{}", lines.concat()))
        }
    }
}

fn check(ty: TypeView<'_>, value: &Value, path: &str, errors: &mut Vec<String>) {
    if value.is_null() {
        return;
    }
    match (ty.atom(Some(value)), value) {
        (Atom::Scalar(kind), value) => errors.extend(wrong_scalar(kind, value).map(|what| at(path, &what))),
        (Atom::List(list), Value::Array(items)) => check_elements(list, items, path, errors),
        (Atom::List(_), other) => {
            errors.push(at(path, &format!("expected list, got &{{{}}}", go::plain(other))));
        }
        (Atom::Map(map), Value::Object(object)) => {
            let mut members: Vec<_> = object.iter().collect();
            members.sort_unstable_by_key(|&(name, _)| name);
            for (name, member) in members {
                let path = format!("{path}{}", PathElement::field(name));
                match map.field(name) {
                    Some(field) => check(field.ty, member, &path, errors),
                    None => {
                        errors.push(at(&path, "field not declared in schema"));
                        // A kube-apiserver stops here too.
                        return;
                    }
                }
            }
        }
        (Atom::Map(_), other) => {
            errors.push(at(path, &format!("expected map, got &{{{}}}", go::plain(other))));
        }
    }
}

fn check_elements(ty: ListView<'_>, items: &[Value], path: &str, errors: &mut Vec<String>) {
    let mut seen = BTreeSet::new();
    for (index, item) in items.iter().enumerate() {
        let step = if matches!(ty.elements, Elements::Atomic) {
            PathElement::Index(i64::try_from(index).unwrap_or(i64::MAX))
        } else {
            match walk::step(ty, item) {
                Ok(step) => step,
                Err(what) => {
                    errors.push(at(path, &format!("element {index}: {what}")));
                    return;
                }
            }
        };
        check(ty.element, item, &format!("{path}{step}"), errors);
        if seen.contains(&step) {
            errors.push(at(path, &format!("duplicate entries for key {step}")));
        }
        seen.insert(step);
    }
}

fn wrong_scalar(kind: ScalarKind, value: &Value) -> Option<String> {
    let printed = match value {
        Value::String(text) => go::quote(text),
        other => go::plain(other),
    };
    match (kind, value) {
        (ScalarKind::Boolean, Value::Bool(_))
        | (ScalarKind::Numeric, Value::Number(_))
        | (ScalarKind::String, Value::String(_))
        | (ScalarKind::Untyped, Value::Bool(_) | Value::Number(_) | Value::String(_)) => None,
        (ScalarKind::Boolean, _) => Some(format!("expected boolean, got &{{{}}}", go::plain(value))),
        (ScalarKind::Numeric, _) => Some(format!("expected numeric (int or float), got {}", go_type(value))),
        (ScalarKind::String, _) => {
            Some(format!("expected string, got &value.valueUnstructured{{Value:{printed}}}"))
        }
        (ScalarKind::Untyped, _) => Some(format!("expected any scalar, got &{{{}}}", go::plain(value))),
    }
}

fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

fn at(path: &str, what: &str) -> String {
    if path.is_empty() { what.to_owned() } else { format!("{path}: {what}") }
}

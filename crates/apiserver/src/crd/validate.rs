//! Validation of a custom resource against its schema, in the wording of a kube-apiserver.
//!
//! An update is not rejected for unchanged values: a value that equals the old one is not validated again, since the
//! schema may have become stricter. CEL rules (`x-kubernetes-validations`) are not evaluated.

use std::collections::HashMap;

use serde_json::{Map, Number, Value};

use super::{FieldError, JsonType, ListKind, Structural, formats, invalid::Reason};
use crate::apply::same_value as same;

/// Validates a value against a schema. `path` is the value's path, empty for a whole object; `old` is the old value.
pub fn validate(value: &Value, old: Option<&Value>, schema: &Structural, path: &str) -> Vec<FieldError> {
    let mut check = Check { errors: Vec::new() };
    check.value(value, old, schema, path);
    let mut errors = check.errors;
    let mut duplicates = Vec::new();
    find_duplicates(value, schema, path, &mut duplicates);
    if old.is_none_or(|old| {
        let mut before = Vec::new();
        find_duplicates(old, schema, path, &mut before);
        before.is_empty()
    }) {
        errors.append(&mut duplicates);
    }
    errors
}

struct Check {
    errors: Vec<FieldError>,
}

impl Check {
    fn value(&mut self, value: &Value, old: Option<&Value>, schema: &Structural, path: &str) {
        if old.is_some_and(|old| same(old, value)) {
            return;
        }
        self.ty(value, schema, path);
        if !value.is_null() {
            self.junctors(value, schema, path);
        }
        match value {
            Value::String(text) => self.string(text, schema, path),
            Value::Number(number) => self.number(number, schema, path),
            Value::Array(items) => self.list(items, old, schema, path),
            _ => {}
        }
        self.one_of_values(value, schema, path);
        if let Value::Object(members) = value {
            self.object(members, old, schema, path);
        }
    }

    fn ty(&mut self, value: &Value, schema: &Structural, path: &str) {
        let wanted: &[&str] = match schema.ty {
            JsonType::Any if schema.int_or_string => &["integer", "string"],
            JsonType::Any => return,
            JsonType::Object => &["object"],
            JsonType::Array => &["array"],
            JsonType::String => &["string"],
            JsonType::Integer => &["integer"],
            JsonType::Number => &["number"],
            JsonType::Boolean => &["boolean"],
        };
        let found = match value {
            Value::Null if schema.nullable => return,
            Value::Null => "null",
            Value::Bool(_) => "boolean",
            Value::Number(number) if number.is_f64() => "number",
            Value::Number(_) => "integer",
            Value::String(_) => "string",
            Value::Array(_) => "array",
            Value::Object(_) => "object",
        };
        let whole = || value.as_f64().is_some_and(|number| number.fract() == 0.0);
        let fits = wanted.contains(&found)
            || (found == "integer" && wanted.contains(&"number"))
            || (found == "number" && wanted.contains(&"integer") && whole());
        if !fits {
            let wanted = wanted.join(",");
            let detail = format!("{path} in body must be of type {wanted}: \"{found}\"");
            self.push(Reason::TypeInvalid, path, found.into(), detail);
        }
    }

    fn string(&mut self, text: &str, schema: &Structural, path: &str) {
        let constraints = &schema.constraints;
        let length = text.chars().count() as u64;
        if let Some(max) = constraints.max_length.filter(|&max| length > max) {
            let detail = format!("may not be more than {max} bytes");
            self.push(Reason::TooLong, path, Value::Null, detail);
        } else if let Some(min) = constraints.min_length.filter(|&min| length < min) {
            self.invalid(path, text, format!("{path} in body should be at least {min} chars long"));
        } else if let Some(pattern) = constraints.pattern.as_ref().filter(|pattern| !pattern.is_match(text)) {
            self.invalid(path, text, format!("{path} in body should match '{}'", pattern.as_str()));
        }
        if let Some(format) = constraints.format.as_deref().filter(|format| !formats::is(format, text)) {
            let detail =
                format!("{path} in body must be of type {format}: {}", crate::apply::go::quote(text));
            self.push(Reason::TypeInvalid, path, text.into(), detail);
        }
    }

    fn number(&mut self, number: &Number, schema: &Structural, path: &str) {
        let constraints = &schema.constraints;
        self.range(number, schema, path);
        if let Some(factor) = &constraints.multiple_of {
            self.multiple_of(number, factor, path);
        }
        if let Some(min) = &constraints.minimum {
            let exclusive = constraints.exclusive_minimum;
            if let Some(bound) = Bound::crossed(number, min, |n, min| n < min || (exclusive && n == min)) {
                let than = if exclusive { "greater than" } else { "greater than or equal to" };
                self.invalid(path, number.clone(), format!("{path} in body should be {than} {bound}"));
            }
        }
        if let Some(max) = &constraints.maximum {
            let exclusive = constraints.exclusive_maximum;
            if let Some(bound) = Bound::crossed(number, max, |n, max| n > max || (exclusive && n == max)) {
                let than = if exclusive { "less than" } else { "less than or equal to" };
                self.invalid(path, number.clone(), format!("{path} in body should be {than} {bound}"));
            }
        }
    }

    /// Checks that the number is in the range of its type and format.
    fn range(&mut self, number: &Number, schema: &Structural, path: &str) {
        if schema.ty != JsonType::Integer {
            return;
        }
        let value = number.as_f64().unwrap_or_default();
        let format = schema.constraints.format.as_deref();
        let fits = match format {
            Some("int32") => value >= f64::from(i32::MIN) && value <= f64::from(i32::MAX),
            Some("uint32") => value >= 0.0 && value <= f64::from(u32::MAX),
            _ => true,
        };
        if !fits || value.fract() != 0.0 {
            let kind = match format {
                Some(format) => format!("integer with format {format}"),
                None => "integer (default format)".to_owned(),
            };
            self.whole(format!("Checked value must be of type {kind} in {path}"));
        }
    }

    fn multiple_of(&mut self, number: &Number, factor: &Number, path: &str) {
        let factor_float = factor.as_f64().unwrap_or_default();
        let fails = match number.as_i64() {
            // As in a kube-apiserver: an integer is checked against the integer part of the factor.
            Some(whole) => {
                let factor = factor_float.trunc() as i64;
                if factor <= 0 {
                    let detail = format!("factor MultipleOf declared for {path} must be positive: {factor}");
                    self.invalid(path, factor, detail);
                    return;
                }
                whole % factor != 0
            }
            None => (number.as_f64().unwrap_or_default() / factor_float).fract() != 0.0,
        };
        if fails {
            self.invalid(path, number.clone(), format!("{path} in body should be a multiple of {factor}"));
        }
    }

    fn list(&mut self, items: &[Value], old: Option<&Value>, schema: &Structural, path: &str) {
        if let Some(item_schema) = &schema.items {
            let before = elements_before(old, schema);
            for (at, item) in items.iter().enumerate() {
                let old = match &schema.list {
                    ListKind::Map(keys) if !before.is_empty() => before.get(&identity(item, keys)).copied(),
                    _ => None,
                };
                self.value(item, old, item_schema, &format!("{path}[{at}]"));
            }
        }
        let count = items.len() as u64;
        if let Some(min) = schema.constraints.min_items.filter(|&min| count < min) {
            self.invalid(path, count, format!("{path} in body should have at least {min} items"));
        }
        if let Some(max) = schema.constraints.max_items.filter(|&max| count > max) {
            self.errors.push(FieldError::too_many(field(path), count, max));
        }
    }

    fn one_of_values(&mut self, value: &Value, schema: &Structural, path: &str) {
        let Some(allowed) = &schema.constraints.one_of_values else { return };
        if !allowed.iter().any(|allowed| same(allowed, value)) {
            let allowed: Vec<String> =
                allowed.iter().map(|v| v.as_str().map_or_else(|| v.to_string(), str::to_owned)).collect();
            let allowed: Vec<&str> = allowed.iter().map(String::as_str).collect();
            self.errors.push(FieldError::not_supported(field(path), value.clone(), &allowed));
        }
    }

    fn object(&mut self, members: &Map<String, Value>, old: Option<&Value>, schema: &Structural, path: &str) {
        let constraints = &schema.constraints;
        let count = members.len() as u64;
        if let Some(min) = constraints.min_properties.filter(|&min| count < min) {
            self.invalid(path, count, format!("{path} in body should have at least {min} properties"));
        }
        if let Some(max) = constraints.max_properties.filter(|&max| count > max) {
            self.errors.push(FieldError::too_many(field(path), count, max));
        }
        for (name, member) in members {
            let known = schema.properties.get(name).or(schema.additional.as_deref());
            if let Some(schema) = known {
                let inner = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                self.value(member, old.and_then(|old| old.get(name)), schema, &inner);
            }
        }
        for name in constraints.required.iter().filter(|name| !members.contains_key(*name)) {
            let field = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
            self.errors.push(FieldError::required(field, ""));
        }
    }

    fn junctors(&mut self, value: &Value, schema: &Structural, path: &str) {
        let constraints = &schema.constraints;
        let tried = |alternative: &Structural| {
            let mut check = Check { errors: Vec::new() };
            check.value(value, None, alternative, path);
            check.errors
        };
        if !constraints.any_of.is_empty() {
            let failures: Vec<_> = constraints.any_of.iter().map(tried).collect();
            if failures.iter().all(|errors| !errors.is_empty()) {
                self.whole(format!("\"{path}\" must validate at least one schema (anyOf)"));
                self.errors.extend(failures.into_iter().next().unwrap_or_default());
            }
        }
        if !constraints.one_of.is_empty() {
            let failures: Vec<_> = constraints.one_of.iter().map(tried).collect();
            let valid = failures.iter().filter(|errors| errors.is_empty()).count();
            if valid != 1 {
                let found = match valid {
                    0 => "Found none valid".to_owned(),
                    n => format!("Found {n} valid alternatives"),
                };
                self.whole(format!("\"{path}\" must validate one and only one schema (oneOf). {found}"));
                if valid == 0 {
                    self.errors.extend(failures.into_iter().next().unwrap_or_default());
                }
            }
        }
        let failures: Vec<_> = constraints.all_of.iter().flat_map(tried).collect();
        if !failures.is_empty() {
            self.errors.extend(failures);
            self.whole(format!("\"{path}\" must validate all the schemas (allOf)"));
        }
        if constraints.not.as_deref().is_some_and(|not| tried(not).is_empty()) {
            self.whole(format!("\"{path}\" must not validate the schema (not)"));
        }
    }

    fn push(&mut self, reason: Reason, path: &str, value: Value, detail: String) {
        self.errors.push(FieldError::new(reason, field(path), value, detail));
    }

    fn invalid(&mut self, path: &str, value: impl Into<Value>, detail: String) {
        self.push(Reason::Invalid, path, value.into(), detail);
    }

    /// An error in the whole value, without a field.
    fn whole(&mut self, detail: String) {
        self.errors.push(FieldError::new(Reason::Invalid, "<nil>", "".into(), detail));
    }
}

/// A bound, as messages show it.
struct Bound;

impl Bound {
    /// The bound, if the number violates it. An integer is compared with the integer part of the bound.
    fn crossed(number: &Number, bound: &Number, crossed: impl Fn(f64, f64) -> bool) -> Option<String> {
        let float = bound.as_f64().unwrap_or_default();
        let measure = if number.is_f64() { float } else { float.trunc() };
        crossed(number.as_f64().unwrap_or_default(), measure).then(|| measure.to_string())
    }
}

fn field(path: &str) -> String {
    if path.is_empty() { "<nil>".to_owned() } else { path.to_owned() }
}

/// The old list's elements by identity; empty if they have none.
fn elements_before<'a>(old: Option<&'a Value>, schema: &Structural) -> HashMap<Value, &'a Value> {
    let (Some(Value::Array(old)), ListKind::Map(keys)) = (old, &schema.list) else { return HashMap::new() };
    old.iter().map(|item| (identity(item, keys), item)).collect()
}

/// Duplicate elements in a set, or in a list with keys.
fn find_duplicates(value: &Value, schema: &Structural, path: &str, errors: &mut Vec<FieldError>) {
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                let inner = match (schema.properties.get(name), &schema.additional) {
                    (Some(property), _) if path.is_empty() => (property, name.clone()),
                    (Some(property), _) => (property, format!("{path}.{name}")),
                    (None, Some(additional)) => (&**additional, format!("{path}[{name}]")),
                    (None, None) => continue,
                };
                find_duplicates(member, inner.0, &inner.1, errors);
            }
        }
        Value::Array(items) => {
            let identities: Vec<Value> = match &schema.list {
                ListKind::Atomic => Vec::new(),
                ListKind::Set => items.clone(),
                ListKind::Map(keys) => items.iter().map(|item| identity(item, keys)).collect(),
            };
            let mut seen: HashMap<&Value, u32> = HashMap::with_capacity(identities.len());
            for (at, identity) in identities.iter().enumerate() {
                let count = seen.entry(identity).or_default();
                *count += 1;
                // Report the second occurrence, not further ones.
                if *count == 2 {
                    let field = format!("{path}[{at}]");
                    errors.push(FieldError::new(Reason::Duplicate, field, identity.clone(), ""));
                }
            }
            if let Some(item_schema) = &schema.items {
                for (at, item) in items.iter().enumerate() {
                    find_duplicates(item, item_schema, &format!("{path}[{at}]"), errors);
                }
            }
        }
        _ => {}
    }
}

fn identity(item: &Value, keys: &[String]) -> Value {
    let found = keys.iter().filter_map(|key| Some((key.clone(), item.get(key)?.clone())));
    Value::Object(found.collect())
}

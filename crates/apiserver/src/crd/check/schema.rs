//! Checks that a schema is structural: every path has a type, and junctors only narrow what is specified elsewhere.

use serde_json::{Value, json};

use super::FieldError;
use crate::crd::{
    prune,
    structural::{Props, PropsOrBool, regex},
    validate,
};

const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Root,
    Field,
    Item,
}

/// All errors in a schema at `path`.
pub(crate) fn schema(path: &str, props: &Props, errors: &mut Vec<FieldError>) {
    let before = errors.len();
    // Skip the structural checks if a keyword is unsupported.
    if is_supported(props) {
        structure(path, props, Level::Root, errors);
        if errors.len() == before {
            defaults(path, props, errors);
        }
    }
    open_api(path, props, errors);
}

/// Keywords of this schema that are not allowed in structural schemas.
fn unsupported(props: &Props) -> impl Iterator<Item = &'static str> {
    let given = [
        (props.reference.is_some(), "$ref"),
        (props.additional_items.is_some(), "additionalItems"),
        (!props.pattern_properties.is_empty(), "patternProperties"),
        (!props.definitions.is_empty(), "definitions"),
        (!props.dependencies.is_empty(), "dependencies"),
    ];
    given.into_iter().filter(|(given, _)| *given).map(|(_, name)| name)
}

fn is_supported(props: &Props) -> bool {
    unsupported(props).next().is_none() && inner(props).into_iter().all(|(_, props)| is_supported(props))
}

/// The nested schemas, each with its path element.
fn inner(props: &Props) -> Vec<(String, &Props)> {
    let mut inner: Vec<(String, &Props)> = Vec::new();
    inner.extend(props.properties.iter().map(|(name, props)| (format!("properties[{name}]"), props)));
    if let Some(PropsOrBool::Props(additional)) = &props.additional_properties {
        inner.push(("additionalProperties".to_owned(), additional));
    }
    inner.extend(props.items.as_deref().map(|items| ("items".to_owned(), items)));
    for (name, list) in [("allOf", &props.all_of), ("oneOf", &props.one_of), ("anyOf", &props.any_of)] {
        inner.extend(list.iter().enumerate().map(|(at, props)| (format!("{name}[{at}]"), props)));
    }
    inner.extend(props.not.as_deref().map(|not| ("not".to_owned(), not)));
    inner
}

fn structure(path: &str, props: &Props, level: Level, errors: &mut Vec<FieldError>) {
    if props.ty == "array" && props.items.is_none() {
        errors.push(FieldError::required(format!("{path}.items"), "must be specified"));
    }
    if let Some(items) = &props.items {
        structure(&format!("{path}.items"), items, Level::Item, errors);
    }
    for (name, property) in &props.properties {
        let inner = format!("{path}.properties[{name}]");
        if level == Level::Root && name == "metadata" {
            metadata(&inner, property, errors);
        } else {
            structure(&inner, property, Level::Field, errors);
        }
    }
    if let Some(additional) = &props.additional_properties {
        let inner = format!("{path}.additionalProperties");
        if level == Level::Root {
            errors.push(FieldError::forbidden(inner.as_str(), "must not be used at the root"));
        }
        if let PropsOrBool::Props(additional) = additional {
            structure(&inner, additional, Level::Field, errors);
        }
    }
    types(path, props, level, errors);
    junctors(path, props, props.int_or_string, errors);
}

fn types(path: &str, props: &Props, level: Level, errors: &mut Vec<FieldError>) {
    let preserve = props.preserve_unknown == Some(true);
    if props.embedded_resource {
        let what = "must be object if x-kubernetes-embedded-resource is true";
        match props.ty.as_str() {
            "object" => {}
            "" => errors.push(FieldError::required(format!("{path}.type"), what)),
            other => errors.push(FieldError::invalid(format!("{path}.type"), other, what)),
        }
        if !preserve && props.properties.is_empty() {
            let what = "must not be empty if x-kubernetes-embedded-resource is true without \
                        x-kubernetes-preserve-unknown-fields";
            errors.push(FieldError::required(format!("{path}.properties"), what));
        }
    } else if props.ty.is_empty() && !props.int_or_string && !preserve {
        let what = match level {
            Level::Root => "must not be empty at the root",
            Level::Item => "must not be empty for specified array items",
            Level::Field => "must not be empty for specified object fields",
        };
        errors.push(FieldError::required(format!("{path}.type"), what));
    }
    if level == Level::Root && !matches!(props.ty.as_str(), "" | "object") {
        let what = "must be object at the root";
        errors.push(FieldError::invalid(format!("{path}.type"), props.ty.as_str(), what));
    }
    if props.int_or_string && preserve {
        let what = "must be false if x-kubernetes-int-or-string is true";
        errors.push(FieldError::invalid(format!("{path}.x-kubernetes-preserve-unknown-fields"), true, what));
    }
}

/// At the root, only the names in the metadata may be restricted.
fn metadata(path: &str, props: &Props, errors: &mut Vec<FieldError>) {
    if props.ty != "object" {
        errors.push(FieldError::invalid(format!("{path}.type"), props.ty.as_str(), "must be object"));
    }
    let only_names = props.properties.keys().all(|name| matches!(name.as_str(), "name" | "generateName"));
    if !only_names || props.preserve_unknown.is_some() || props.additional_properties.is_some() {
        let what = "must not specify anything other than name and generateName, but metadata is implicitly specified";
        errors.push(FieldError::forbidden(path, what));
    }
}

fn junctors(path: &str, props: &Props, int_or_string: bool, errors: &mut Vec<FieldError>) {
    if !props.pattern.is_empty()
        && let Err(error) = regex(&props.pattern)
    {
        let what = format!(
            "must be a valid regular expression, but isn't: {}",
            regex_complaint(&props.pattern, &error)
        );
        errors.push(FieldError::invalid(format!("{path}.pattern"), props.pattern.as_str(), what));
    }
    for (name, list) in [("anyOf", &props.any_of), ("allOf", &props.all_of), ("oneOf", &props.one_of)] {
        // The only way to express "integer or string" in plain OpenAPI.
        if int_or_string && matches!(name, "anyOf" | "allOf") {
            continue;
        }
        for (at, nested) in list.iter().enumerate() {
            narrowing(&format!("{path}.{name}[{at}]"), nested, errors);
        }
    }
    if let Some(not) = &props.not {
        narrowing(&format!("{path}.not"), not, errors);
    }
}

/// A junctor must not contain structural keywords.
fn narrowing(path: &str, props: &Props, errors: &mut Vec<FieldError>) {
    junctors(path, props, false, errors);
    let mut forbid = |given: bool, name: &str, what: &str| {
        if given {
            errors.push(FieldError::forbidden(
                format!("{path}.{name}"),
                format!("must be {what} to be structural"),
            ));
        }
    };
    forbid(!props.ty.is_empty(), "type", "empty");
    forbid(props.additional_properties.is_some(), "additionalProperties", "undefined");
    forbid(props.default.is_some(), "default", "undefined");
    forbid(props.nullable, "nullable", "false");
    forbid(props.preserve_unknown == Some(true), "x-kubernetes-preserve-unknown-fields", "false");
    forbid(props.embedded_resource, "x-kubernetes-embedded-resource", "false");
    forbid(props.int_or_string, "x-kubernetes-int-or-string", "false");
    forbid(!props.list_map_keys.is_empty(), "x-kubernetes-list-map-keys", "empty");
    forbid(props.list_type.is_some(), "x-kubernetes-list-type", "undefined");
    forbid(props.map_type.is_some(), "x-kubernetes-map-type", "undefined");
    for (name, property) in &props.properties {
        narrowing(&format!("{path}.properties[{name}]"), property, errors);
    }
    if let Some(items) = &props.items {
        narrowing(&format!("{path}.items"), items, errors);
    }
}

/// Defaults must be valid for the schema and survive pruning.
fn defaults(path: &str, props: &Props, errors: &mut Vec<FieldError>) {
    if let Some(default) = &props.default {
        let compiled = props.clone().compile();
        let path = format!("{path}.default");
        let mut pruned = json!({"": default});
        let holder = super::super::Structural {
            properties: [(String::new(), compiled.clone())].into(),
            ..Default::default()
        };
        prune(&mut pruned, &holder);
        if pruned[""] != *default {
            errors.push(FieldError::invalid(path.as_str(), default.clone(), "must not have unknown fields"));
        }
        errors.extend(validate(default, None, &compiled, "").into_iter().map(|error| FieldError {
            field: if error.field == "<nil>" { path.clone() } else { format!("{path}.{}", error.field) },
            ..error
        }));
    }
    if let Some(items) = &props.items {
        defaults(&format!("{path}.items"), items, errors);
    }
    for (name, property) in &props.properties {
        defaults(&format!("{path}.properties[{name}]"), property, errors);
    }
}

/// The supported subset of OpenAPI.
fn open_api(path: &str, props: &Props, errors: &mut Vec<FieldError>) {
    if !props.ty.is_empty() && !TYPES.contains(&props.ty.as_str()) {
        errors.push(FieldError::not_supported(format!("{path}.type"), props.ty.as_str(), &TYPES));
    }
    for name in unsupported(props) {
        errors.push(FieldError::forbidden(format!("{path}.{name}"), format!("{name} is not supported")));
    }
    if props.unique_items {
        let what = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
        errors.push(FieldError::forbidden(format!("{path}.uniqueItems"), what));
    }
    if !props.properties.is_empty()
        && props
            .additional_properties
            .as_ref()
            .is_some_and(|additional| *additional != PropsOrBool::Bool(true))
    {
        let what = "additionalProperties and properties are mutual exclusive";
        errors.push(FieldError::forbidden(format!("{path}.additionalProperties"), what));
    }
    if props.preserve_unknown == Some(false) {
        let path = format!("{path}.x-kubernetes-preserve-unknown-fields");
        errors.push(FieldError::invalid(path, false, "must be true or undefined"));
    }
    map_type(path, props, errors);
    list_type(path, props, errors);

    for (step, props) in inner(props) {
        open_api(&format!("{path}.{step}"), props, errors);
    }
}

fn map_type(path: &str, props: &Props, errors: &mut Vec<FieldError>) {
    let Some(map_type) = props.map_type.as_deref() else { return };
    wrong_type(path, props, "object", "x-kubernetes-map-type", errors);
    if !matches!(map_type, "atomic" | "granular") {
        let path = format!("{path}.x-kubernetes-map-type");
        errors.push(FieldError::not_supported(path, map_type, &["atomic", "granular"]));
    }
}

fn list_type(path: &str, props: &Props, errors: &mut Vec<FieldError>) {
    let (list_path, keys_path) =
        (format!("{path}.x-kubernetes-list-type"), format!("{path}.x-kubernetes-list-map-keys"));
    let keys = &props.list_map_keys;
    let Some(list_type) = props.list_type.as_deref() else {
        if !keys.is_empty() {
            let what = "must be map if x-kubernetes-list-map-keys is non-empty";
            errors.push(FieldError::required(list_path, what));
        }
        return;
    };
    wrong_type(path, props, "array", "x-kubernetes-list-type", errors);
    let items = props.items.as_deref();
    match list_type {
        "atomic" => {}
        "set" => {
            if let Some(items) =
                items.filter(|items| items.ty == "object" && items.map_type.as_deref() != Some("atomic"))
            {
                let what = "must be atomic as item of a list with x-kubernetes-list-type=set";
                let value = items.list_type.clone().map_or(Value::Null, Value::from);
                errors.push(FieldError::invalid(format!("{path}.items.x-kubernetes-map-type"), value, what));
            }
        }
        "map" => map_keys(path, &keys_path, keys, items, errors),
        other => errors.push(FieldError::not_supported(list_path.as_str(), other, &["atomic", "set", "map"])),
    }
    if list_type != "map" && !keys.is_empty() {
        let what = "must be map if x-kubernetes-list-map-keys is non-empty";
        errors.push(FieldError::invalid(list_path, list_type, what));
    }
    if items.is_some_and(|items| items.nullable) && list_type != "atomic" {
        let what = format!("cannot be nullable when x-kubernetes-list-type is {list_type}");
        errors.push(FieldError::forbidden(format!("{path}.items.nullable"), what));
    }
}

fn map_keys(
    path: &str,
    keys_path: &str,
    keys: &[String],
    items: Option<&Props>,
    errors: &mut Vec<FieldError>,
) {
    if keys.is_empty() {
        errors.push(FieldError::required(keys_path, "must not be empty if x-kubernetes-list-type is map"));
    }
    let Some(items) = items else { return };
    if items.ty != "object" {
        let what = "must be object if parent array's x-kubernetes-list-type is map";
        errors.push(FieldError::invalid(format!("{path}.items.type"), items.ty.as_str(), what));
        return;
    }
    for (at, key) in keys.iter().enumerate() {
        if keys[..at].contains(key) {
            errors.push(FieldError::invalid(keys_path, json!(keys), "must not contain duplicate entries"));
        }
        let Some(property) = items.properties.get(key) else {
            errors.push(FieldError::invalid(
                keys_path,
                json!(keys),
                "entries must all be names of item properties",
            ));
            continue;
        };
        let property_path = format!("{path}.items.properties[{key}]");
        if matches!(property.ty.as_str(), "array" | "object") {
            let what = "must be a scalar type if parent array's x-kubernetes-list-type is map";
            errors.push(FieldError::invalid(format!("{property_path}.type"), items.ty.as_str(), what));
        }
        if !items.required.contains(key) && property.default.is_none() {
            let what = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required \
                        property";
            errors.push(FieldError::required(format!("{property_path}.default"), what));
        }
        if property.nullable {
            let what = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable";
            errors.push(FieldError::forbidden(format!("{property_path}.nullable"), what));
        }
    }
}

fn wrong_type(path: &str, props: &Props, wanted: &str, because: &str, errors: &mut Vec<FieldError>) {
    let what = format!("must be {wanted} if {because} is specified");
    match props.ty.as_str() {
        ty if ty == wanted => {}
        "" => errors.push(FieldError::required(format!("{path}.type"), what)),
        other => errors.push(FieldError::invalid(format!("{path}.type"), other, what)),
    }
}

/// The first line of Go's error for common mistakes, otherwise the regex crate's.
fn regex_complaint(pattern: &str, error: &regex::Error) -> String {
    let unclosed = |what: &str| format!("error parsing regexp: missing closing {what}: `{pattern}`");
    match error.to_string() {
        text if text.contains("unclosed character class") => unclosed("]"),
        text if text.contains("unclosed group") => unclosed(")"),
        text => text,
    }
}

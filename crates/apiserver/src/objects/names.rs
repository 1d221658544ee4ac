//! What an object's metadata may hold: names by the rule of the kind, labels, annotations, finalizers, owners. The errors
//! are in the words of kube-apiserver.

use serde_json::Value;

use super::meta;
use crate::crd::FieldError;
use crate::http::Status;
use crate::resources::Resource;

const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', \
                         and must start and end with an alphanumeric character (e.g. 'example.com', regex used for \
                         validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must \
                     start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for \
                     validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const LABEL_1035: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an \
                          alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or \
                          'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";

const SUBDOMAIN_LENGTH_MAX: usize = 253;
const LABEL_LENGTH_MAX: usize = 63;
/// `generateName` is cut so that its suffix fits.
pub(crate) const GENERATED_BASE_LENGTH_MAX: usize = 58;

#[derive(Clone, Copy)]
enum Rule {
    Subdomain,
    Label,
    Label1035,
    /// One segment of a path.
    Segment,
}

const QUALIFIED_NAME: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end \
                              with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used \
                              for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const LABEL_VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', \
                           and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or \
                           '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
const CONFIG_KEY: &str = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  \
                          or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')";

/// Finalizers that need no domain.
const STANDARD_FINALIZERS: &[&str] =
    &["orphan", "foregroundDeletion", "kubernetes", super::definitions::CLEANUP];

/// Checks the metadata, and the keys of what is a map by definition.
pub(crate) fn check(resource: &Resource, object: &Value) -> Result<(), Status> {
    let mut errors = Vec::new();
    let name = meta::name(object);
    let generated = meta::text(object, "generateName");
    if let Some(detail) = Some(generated).filter(|text| !text.is_empty()).and_then(|text| {
        // What follows is part of the same word.
        problem(rule(resource), &format!("{}a", text.strip_suffix('-').unwrap_or(text)))
    }) {
        errors.push(FieldError::invalid("metadata.generateName", generated, detail));
    }
    if name.is_empty() {
        errors.push(FieldError::required("metadata.name", "name or generateName is required"));
    } else if let Some(detail) = problem(rule(resource), name) {
        errors.push(FieldError::invalid("metadata.name", name, detail));
    }
    metadata(resource, object, &mut errors);
    if resource.group.is_empty() && matches!(resource.plural.as_str(), "configmaps" | "secrets") {
        for field in ["data", "binaryData"] {
            for key in object[field].as_object().into_iter().flatten().map(|(key, _)| key) {
                if key.is_empty() || !key.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c)) {
                    errors.push(FieldError::invalid(format!("{field}[{key}]"), key.as_str(), CONFIG_KEY));
                }
            }
        }
    }
    if errors.is_empty() { Ok(()) } else { Err(Status::invalid(resource, name, &errors)) }
}

fn metadata(resource: &Resource, object: &Value, errors: &mut Vec<FieldError>) {
    let metadata = meta::meta(object);
    let entries = |field: &str| metadata[field].as_object().into_iter().flatten();
    for (key, value) in entries("labels") {
        if let Some(detail) = label_key_problem(key) {
            errors.push(FieldError::invalid("metadata.labels", key.as_str(), detail));
        }
        let value = value.as_str().unwrap_or_default();
        if let Some(detail) = label_value_problem(value) {
            errors.push(FieldError::invalid("metadata.labels", value, detail));
        }
    }
    for (key, _) in entries("annotations") {
        if let Some(detail) = label_key_problem(&key.to_lowercase()) {
            errors.push(FieldError::invalid("metadata.annotations", key.as_str(), detail));
        }
    }
    let list = |field: &str| metadata[field].as_array().into_iter().flatten();
    for (at, finalizer) in list("finalizers").filter_map(Value::as_str).enumerate() {
        let field = format!("metadata.finalizers[{at}]");
        if let Some(detail) = label_key_problem(finalizer) {
            errors.push(FieldError::invalid(field, finalizer, detail));
        } else if !resource.is_custom()
            && !finalizer.contains('/')
            && !STANDARD_FINALIZERS.contains(&finalizer)
        {
            let detail = "name is neither a standard finalizer name nor is it fully qualified";
            errors.push(FieldError::invalid(field, finalizer, detail));
        }
    }
    for owner in list("ownerReferences") {
        let details = [
            ("apiVersion", "version must not be empty"),
            ("kind", "must not be empty"),
            ("name", "must not be empty"),
            ("uid", "must not be empty"),
        ];
        for (field, detail) in details {
            if owner[field].as_str().is_none_or(str::is_empty) {
                errors.push(FieldError::invalid(format!("metadata.ownerReferences.{field}"), "", detail));
            }
        }
    }
}

/// What is wrong with the key of a label: `name`, or `domain/name`.
pub(crate) fn label_key_problem(key: &str) -> Option<String> {
    let (domain, name) = key.rsplit_once('/').map_or((None, key), |(domain, name)| (Some(domain), name));
    if let Some(domain) = domain.filter(|domain| !domain.split('.').all(is_label)) {
        let what = if domain.is_empty() { "must be non-empty" } else { SUBDOMAIN };
        return Some(format!("prefix part {what}"));
    }
    if name.is_empty() {
        return Some("name part must be non-empty".to_owned());
    }
    if name.len() > LABEL_LENGTH_MAX {
        return Some(format!("name part must be no more than {LABEL_LENGTH_MAX} characters"));
    }
    (!is_word(name)).then(|| QUALIFIED_NAME.to_owned())
}

/// What is wrong with the value of a label.
pub(crate) fn label_value_problem(value: &str) -> Option<String> {
    if value.len() > LABEL_LENGTH_MAX {
        return Some(format!("must be no more than {LABEL_LENGTH_MAX} characters"));
    }
    (!value.is_empty() && !is_word(value)).then(|| LABEL_VALUE.to_owned())
}

/// Letters, digits and `-_.` within.
fn is_word(text: &str) -> bool {
    let ends = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    ends(text.chars().next())
        && ends(text.chars().next_back())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
}

fn rule(resource: &Resource) -> Rule {
    match (resource.group.as_str(), resource.plural.as_str()) {
        ("", "namespaces") => Rule::Label,
        ("", "services") => Rule::Label1035,
        ("rbac.authorization.k8s.io", _) => Rule::Segment,
        _ => Rule::Subdomain,
    }
}

fn problem(rule: Rule, name: &str) -> Option<String> {
    let (length_max, valid, message) = match rule {
        Rule::Subdomain => (SUBDOMAIN_LENGTH_MAX, name.split('.').all(is_label), SUBDOMAIN),
        Rule::Label => (LABEL_LENGTH_MAX, is_label(name), LABEL),
        Rule::Label1035 => (
            LABEL_LENGTH_MAX,
            is_label(name) && name.starts_with(|c: char| c.is_ascii_lowercase()),
            LABEL_1035,
        ),
        Rule::Segment => {
            return match name {
                "." | ".." => Some(format!("may not be '{name}'")),
                _ if name.contains('/') => Some("may not contain '/'".to_owned()),
                _ if name.contains('%') => Some("may not contain '%'".to_owned()),
                _ => None,
            };
        }
    };
    if name.len() > length_max {
        return Some(format!("must be no more than {length_max} characters"));
    }
    (!valid).then(|| message.to_owned())
}

fn is_label(text: &str) -> bool {
    let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    !text.is_empty() && text.chars().all(inner) && !text.starts_with('-') && !text.ends_with('-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_the_rule_of_their_kind() {
        let long = "a".repeat(254);
        for (rule, name, valid) in [
            (Rule::Subdomain, "a.b-c.0", true),
            (Rule::Subdomain, "Bad_Name", false),
            (Rule::Subdomain, "a..b", false),
            (Rule::Subdomain, "-a", false),
            (Rule::Subdomain, &long, false),
            (Rule::Label, "a.b", false),
            (Rule::Label, "0a", true),
            (Rule::Label1035, "0a", false),
            (Rule::Label1035, "a0", true),
            (Rule::Segment, "system:node", true),
            (Rule::Segment, "a/b", false),
            (Rule::Segment, "..", false),
        ] {
            assert_eq!(problem(rule, name).is_none(), valid, "{name}");
        }
    }
}

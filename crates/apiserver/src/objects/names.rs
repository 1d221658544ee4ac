//! Validation of metadata: names by the rule of the kind, labels, annotations, finalizers, owners. The errors have the
//! wording of a kube-apiserver.

use kube_wire::internals::names;
use serde_json::Value;

use super::meta;
use crate::crd::FieldError;
use crate::http::Status;
use crate::resources::Resource;

/// `generateName` is truncated to this length so that the suffix fits.
pub(crate) const GENERATED_BASE_LENGTH_MAX: usize = 58;

#[derive(Clone, Copy)]
enum Rule {
    Subdomain,
    Label,
    Label1035,
    /// One segment of a path.
    Segment,
}

const CONFIG_KEY: &str = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  \
                          or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')";

/// Finalizers that need no domain prefix.
const STANDARD_FINALIZERS: &[&str] =
    &["orphan", "foregroundDeletion", "kubernetes", super::definitions::CLEANUP];

/// Validates the metadata, and the keys of ConfigMaps and Secrets.
pub(crate) fn check(resource: &Resource, object: &Value) -> Result<(), Status> {
    let mut errors = Vec::new();
    let name = meta::name(object);
    let generated = meta::text(object, "generateName");
    if let Some(detail) = Some(generated).filter(|text| !text.is_empty()).and_then(|text| {
        // Validate as if a suffix followed.
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
        if let Some(detail) = names::label_key(key) {
            errors.push(FieldError::invalid("metadata.labels", key.as_str(), detail));
        }
        let value = value.as_str().unwrap_or_default();
        if let Some(detail) = names::label_value(value) {
            errors.push(FieldError::invalid("metadata.labels", value, detail));
        }
    }
    for (key, _) in entries("annotations") {
        if let Some(detail) = names::label_key(&key.to_lowercase()) {
            errors.push(FieldError::invalid("metadata.annotations", key.as_str(), detail));
        }
    }
    let list = |field: &str| metadata[field].as_array().into_iter().flatten();
    for (at, finalizer) in list("finalizers").filter_map(Value::as_str).enumerate() {
        let field = format!("metadata.finalizers[{at}]");
        if let Some(detail) = names::label_key(finalizer) {
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

fn rule(resource: &Resource) -> Rule {
    match (resource.group.as_str(), resource.plural.as_str()) {
        ("", "namespaces") => Rule::Label,
        ("", "services") => Rule::Label1035,
        ("rbac.authorization.k8s.io", _) => Rule::Segment,
        _ => Rule::Subdomain,
    }
}

fn problem(rule: Rule, name: &str) -> Option<String> {
    match rule {
        Rule::Subdomain => names::dns_subdomain(name),
        Rule::Label => names::dns_label(name),
        Rule::Label1035 => names::dns_1035_label(name),
        Rule::Segment if matches!(name, "." | "..") => Some(format!("may not be '{name}'")),
        Rule::Segment => {
            let found = ["/", "%"].into_iter().find(|part| name.contains(part))?;
            Some(format!("may not contain '{found}'"))
        }
    }
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

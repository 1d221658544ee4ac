//! Validation of CustomResourceDefinitions, in the wording of a kube-apiserver.
//!
//! Checks names, versions, storage, subresources, columns, selectable fields, and that schemas are structural. CEL
//! rules are neither compiled nor costed.

mod names;
mod schema;
mod version;

use kube_wire::internals::names::{dns_1035_label, dns_subdomain};
pub(crate) use schema::schema;
use serde_json::json;

use super::{FieldError, raw::Raw};

/// All errors in a definition.
pub(crate) fn definition(raw: &Raw, old: Option<&Raw>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let spec = &raw.spec;
    let name = &raw.metadata.name;
    errors.extend(dns_subdomain(name).map(|what| FieldError::invalid("metadata.name", name.as_str(), what)));
    if *name != format!("{}.{}", spec.names.plural, spec.group) {
        let what = "must be spec.names.plural+\".\"+spec.group";
        errors.push(FieldError::invalid("metadata.name", name.as_str(), what));
    }
    group(&spec.group, &mut errors);
    match spec.scope.as_str() {
        "" => errors.push(FieldError::required("spec.scope", "")),
        "Cluster" | "Namespaced" => {}
        other => errors.push(FieldError::not_supported("spec.scope", other, &["Cluster", "Namespaced"])),
    }
    version::versions(spec, &mut errors);
    names::names(&spec.names, &mut errors);
    conversion(raw, &mut errors);
    stored_versions(raw, &mut errors);
    if spec.preserve_unknown_fields {
        let what = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in \
                    spec.versions[*].schema instead";
        errors.push(FieldError::invalid("spec.preserveUnknownFields", true, what));
    }
    approval(raw, old, &mut errors);
    if let Some(old) = old {
        unchanged(raw, old, &mut errors);
    }
    errors
}

fn group(group: &str, errors: &mut Vec<FieldError>) {
    if group.is_empty() {
        errors.push(FieldError::required("spec.group", ""));
    } else if let Some(what) = dns_subdomain(group) {
        errors.push(FieldError::invalid("spec.group", group, what));
    } else if !group.contains('.') {
        errors.push(FieldError::invalid("spec.group", group, "should be a domain with at least one dot"));
    }
}

fn conversion(raw: &Raw, errors: &mut Vec<FieldError>) {
    let Some(conversion) = &raw.spec.conversion else { return };
    let webhook = conversion.webhook.as_ref();
    let versions = webhook.map(|webhook| webhook.conversion_review_versions.as_slice()).unwrap_or_default();
    let client = webhook.and_then(|webhook| webhook.client_config.as_ref());
    let (client_path, versions_path) =
        ("spec.conversion.webhookClientConfig", "spec.conversion.conversionReviewVersions");
    match conversion.strategy.as_str() {
        "" => errors.push(FieldError::required("spec.conversion.strategy", "")),
        "None" => {
            let what = "should not be set when strategy is not set to Webhook";
            if client.is_some() {
                errors.push(FieldError::forbidden(client_path, what));
            }
            if !versions.is_empty() {
                errors.push(FieldError::forbidden(versions_path, what));
            }
        }
        "Webhook" => {
            if client.is_none() {
                errors.push(FieldError::required(client_path, "required when strategy is set to Webhook"));
            }
            if versions.is_empty() {
                errors.push(FieldError::required(versions_path, ""));
            }
        }
        other => {
            errors.push(FieldError::not_supported("spec.conversion.strategy", other, &["None", "Webhook"]));
        }
    }
}

fn stored_versions(raw: &Raw, errors: &mut Vec<FieldError>) {
    let (path, stored) = ("status.storedVersions", &raw.status.stored_versions);
    if stored.is_empty() {
        errors.push(FieldError::invalid(path, json!(null), "must have at least one stored version"));
        return;
    }
    for version in
        raw.spec.versions.iter().filter(|version| version.storage && !stored.contains(&version.name))
    {
        let what = format!("must have the storage version {}", version.name);
        errors.push(FieldError::invalid(path, json!(stored), what));
    }
    for (at, name) in stored.iter().enumerate() {
        if !raw.spec.versions.iter().any(|version| version.name == *name) {
            let what = format!(
                "missing from spec.versions; {name} was previously a storage version, and must remain in \
                 spec.versions until a storage migration ensures no data remains persisted in {name} and removes \
                 {name} from status.storedVersions"
            );
            errors.push(FieldError::invalid(format!("{path}[{at}]"), name.as_str(), what));
        }
    }
}

/// Kubernetes' own groups require an annotation with the API's approval.
fn approval(raw: &Raw, old: Option<&Raw>, errors: &mut Vec<FieldError>) {
    const ANNOTATION: &str = "api-approved.kubernetes.io";
    let group = raw.spec.group.as_str();
    let protected = ["k8s.io", "kubernetes.io"]
        .iter()
        .any(|suffix| group.strip_suffix(suffix).is_some_and(|rest| rest.is_empty() || rest.ends_with('.')));
    let approved = |raw: &Raw| raw.metadata.annotations.get(ANNOTATION).is_some_and(|by| !by.is_empty());
    if protected && !approved(raw) && old.is_none_or(approved) {
        let what = format!(
            "protected groups must have approval annotation \"{ANNOTATION}\", see \
             https://github.com/kubernetes/enhancements/pull/1111"
        );
        errors.push(FieldError::required(format!("metadata.annotations[{ANNOTATION}]"), what));
    }
}

fn unchanged(raw: &Raw, old: &Raw, errors: &mut Vec<FieldError>) {
    let established = old.status.conditions.iter().any(|c| c.ty == "Established" && c.status == "True");
    let mut same = |path: &str, new: &str, old: &str| {
        if new != old {
            errors.push(FieldError::invalid(path, new, "field is immutable"));
        }
    };
    if established {
        same("spec.scope", &raw.spec.scope, &old.spec.scope);
        same("spec.names.kind", &raw.spec.names.kind, &old.spec.names.kind);
    }
    same("spec.group", &raw.spec.group, &old.spec.group);
    same("spec.names.plural", &raw.spec.names.plural, &old.spec.names.plural);
}

/// Checks that a field holds a DNS label.
fn label(path: impl Into<String>, text: &str, errors: &mut Vec<FieldError>) {
    errors.extend(dns_1035_label(text).map(|what| FieldError::invalid(path, text, what)));
}

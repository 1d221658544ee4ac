//! The selectable fields of each kind.

use kube_wire::FieldSelector;
use serde_json::Value;

use crate::resources::{Flavour, Resource};
use crate::storage::Attributes;

/// Selectable fields in addition to `metadata.name` and `metadata.namespace`, by group and plural name.
const SELECTABLE: &[(&str, &str, &[&str])] = &[
    (
        "",
        "pods",
        &[
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            "status.phase",
            "status.podIP",
            "status.podIPs",
            "status.nominatedNodeName",
        ],
    ),
    ("", "nodes", &["spec.unschedulable"]),
    ("", "namespaces", &["status.phase"]),
    ("", "secrets", &["type"]),
    ("", "services", &["spec.clusterIP", "spec.type"]),
    ("", "replicationcontrollers", &["status.replicas"]),
    ("batch", "jobs", &["status.successful"]),
    ("certificates.k8s.io", "certificatesigningrequests", &["spec.signerName"]),
    (
        "",
        "events",
        &[
            "involvedObject.kind",
            "involvedObject.namespace",
            "involvedObject.name",
            "involvedObject.uid",
            "involvedObject.apiVersion",
            "involvedObject.resourceVersion",
            "involvedObject.fieldPath",
            "reason",
            "reportingComponent",
            "source",
            "type",
        ],
    ),
];

const NAME: &str = "metadata.name";
const NAMESPACE: &str = "metadata.namespace";

/// Parses a selector over stored fields. Returns an error if the resource does not support a field.
pub(super) fn parse(resource: &Resource, text: &str) -> Result<FieldSelector, String> {
    let selector = FieldSelector::from_request(text).map_err(|error| error.kubernetes_message())?;
    selector.try_map_paths(|path| stored_path(resource, path).ok_or_else(|| unsupported(resource, path)))
}

/// Whether a selector over stored fields matches an object.
pub(super) fn matches(
    selector: &FieldSelector,
    namespace: &str,
    name: &str,
    attributes: &Attributes,
) -> bool {
    selector.matches_by(|path| match path {
        NAME => name,
        NAMESPACE => namespace,
        path => attributes.field(path),
    })
}

/// Calls `found` for each selectable field of the object.
pub(crate) fn selectable_fields(resource: &Resource, object: &Value, mut found: impl FnMut(&str, &str)) {
    if let Some(version) = resource.custom() {
        for path in &version.selectable_fields {
            found(path, &version.selectable_value(object, path).unwrap_or_default());
        }
    }
    for path in selectable(resource).unwrap_or_default() {
        match *path {
            "spec.hostNetwork" | "spec.unschedulable" => {
                found(
                    path,
                    if at(object, path).and_then(Value::as_bool) == Some(true) { "true" } else { "false" },
                );
            }
            "status.podIPs" => {
                let ips = at(object, path).and_then(Value::as_array).into_iter().flatten();
                let ips: Vec<&str> = ips.filter_map(|ip| ip.get("ip")?.as_str()).collect();
                found(path, &ips.join(","));
            }
            "status.successful" => found(path, &number(at(object, "status.succeeded"))),
            "status.replicas" => found(path, &number(at(object, path))),
            "source" => {
                let source =
                    at(object, "source.component").and_then(Value::as_str).filter(|text| !text.is_empty());
                let reporting = at(object, "reportingComponent").and_then(Value::as_str);
                found(path, source.or(reporting).unwrap_or_default());
            }
            _ => found(path, at(object, path).and_then(Value::as_str).unwrap_or_default()),
        }
    }
}

fn selectable(resource: &Resource) -> Option<&'static [&'static str]> {
    let group = if resource.group == "events.k8s.io" { "" } else { resource.group.as_str() };
    let row = SELECTABLE.iter().find(|(g, plural, _)| *g == group && *plural == resource.plural)?;
    Some(row.2)
}

/// The stored field for a path in a selector of the resource; `None` if it is not selectable.
fn stored_path(resource: &Resource, path: &str) -> Option<String> {
    if path == NAME || path == NAMESPACE {
        return Some(path.to_owned());
    }
    if matches!(resource.flavour, Flavour::Events) {
        return core_event_path(path);
    }
    let builtin = selectable(resource).unwrap_or_default().contains(&path);
    let custom = resource.custom().is_some_and(|version| version.selectable_fields.iter().any(|f| f == path));
    (builtin || custom).then(|| path.to_owned())
}

/// `events.k8s.io` names fields of the core event differently and omits some.
fn core_event_path(path: &str) -> Option<String> {
    match path {
        "reason" | "type" => Some(path.to_owned()),
        "reportingController" => Some("reportingComponent".to_owned()),
        _ => {
            let core = format!("involvedObject.{}", path.strip_prefix("regarding.")?);
            let known = SELECTABLE.iter().any(|(.., paths)| paths.contains(&core.as_str()));
            known.then_some(core)
        }
    }
}

fn unsupported(resource: &Resource, path: &str) -> String {
    if selectable(resource).is_some() || resource.is_custom() {
        return format!("field label not supported: {path}");
    }
    format!("\"{path}\" is not a known field selector: only \"{NAME}\", \"{NAMESPACE}\"")
}

fn at<'a>(object: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('.').try_fold(object, |value, part| value.get(part))
}

fn number(value: Option<&Value>) -> String {
    value.and_then(Value::as_i64).unwrap_or(0).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors_compare_names_and_stored_fields() {
        let mut attributes = Attributes::builder();
        attributes.field("spec.nodeName", "a,b=c");
        let attributes = attributes.finish();
        for (text, expected) in [
            ("", true),
            ("metadata.name=x", true),
            ("metadata.name==x,metadata.namespace=ns", true),
            ("metadata.name!=x", false),
            (r"spec.nodeName=a\,b\=c", true),
            ("spec.nodeName!=", true),
            ("status.phase=", true),
        ] {
            let selector = FieldSelector::from_request(text).unwrap();
            assert_eq!(matches(&selector, "ns", "x", &attributes), expected, "{text}");
        }
    }
}

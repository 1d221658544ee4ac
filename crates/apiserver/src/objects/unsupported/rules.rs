//! Whether admission would have applied to a write: matches the rules and selectors of webhooks and policies.

use kube_wire::LabelSelector;
use serde_json::Value;

use super::applicable::namespace_labels;
use super::{Subject, WriteOperation};
use crate::objects::Writer;
use crate::resources::Resource;
use crate::selector;
use crate::storage::Attributes;

/// Whether a webhook or a policy covers the write. `rules` is the member that contains its rules. CEL conditions
/// (`matchConditions`) cannot be evaluated and count as true.
pub(super) fn covers(writer: &Writer<'_>, subject: &Subject<'_>, constraints: &Value, rules: &str) -> bool {
    any_matches(writer, subject, constraints, rules) && selected(writer, subject, constraints)
}

/// Whether a binding applies its policy to the write. A binding may have rules of its own, which must also match.
pub(super) fn admits(writer: &Writer<'_>, subject: &Subject<'_>, binding: &Value) -> bool {
    let rules = "resourceRules";
    (binding[rules].is_null() || any_matches(writer, subject, binding, rules))
        && selected(writer, subject, binding)
}

/// Whether the selectors match and no exclusion does.
fn selected(writer: &Writer<'_>, subject: &Subject<'_>, constraints: &Value) -> bool {
    let in_namespace = namespace_labels(writer, subject)
        .is_none_or(|found| selects_all_if_absent(&constraints["namespaceSelector"], &found));
    in_namespace
        && !any_matches(writer, subject, constraints, "excludeResourceRules")
        && selects_all_if_absent(&constraints["objectSelector"], &labels(subject.object))
}

fn any_matches(writer: &Writer<'_>, subject: &Subject<'_>, constraints: &Value, rules: &str) -> bool {
    let exact = constraints["matchPolicy"] == "Exact";
    let mut rules = constraints[rules].as_array().into_iter().flatten();
    rules.any(|rule| matches(writer, subject, rule, exact))
}

fn matches(writer: &Writer<'_>, subject: &Subject<'_>, rule: &Value, exact: bool) -> bool {
    let resource = &subject.target.resource;
    let has = |member: &str, wanted: &str| {
        let texts = rule[member].as_array().into_iter().flatten().filter_map(Value::as_str);
        texts.into_iter().any(|text| text == "*" || text == wanted)
    };
    let operation = match subject.operation {
        WriteOperation::Create => "CREATE",
        WriteOperation::Update => "UPDATE",
        WriteOperation::Delete => "DELETE",
    };
    let version = || {
        let registry = writer.registry();
        let mut same = registry.iter().filter(|other| other.is(&resource.group, &resource.plural));
        has("apiVersions", &resource.version)
            || (!exact && same.any(|other| has("apiVersions", &other.version)))
    };
    let named = || rule["resourceNames"].is_null() || has("resourceNames", &subject.target.name);
    has("apiGroups", &resource.group)
        && has("operations", operation)
        && version()
        && named()
        && in_scope(rule, resource)
        && of_resource(rule, resource, &subject.target.subresource)
}

fn in_scope(rule: &Value, resource: &Resource) -> bool {
    match rule["scope"].as_str() {
        Some("Namespaced") => resource.namespaced(),
        Some("Cluster") => !resource.namespaced(),
        _ => true,
    }
}

/// `pods`, `pods/status`, `pods/*`, `*/status`, `*` (no subresources), `*/*`.
fn of_resource(rule: &Value, resource: &Resource, subresource: &str) -> bool {
    let texts = rule["resources"].as_array().into_iter().flatten().filter_map(Value::as_str);
    texts.into_iter().any(|text| {
        let (plural, part) = text.split_once('/').unwrap_or((text, ""));
        let everything = text == "*/*";
        let part_matches = part == subresource || (part == "*" && !subresource.is_empty());
        everything || ((plural == "*" || plural == resource.plural) && part_matches)
    })
}

/// The labels of an object.
pub(super) fn labels(object: &Value) -> Attributes {
    let mut attributes = Attributes::builder();
    for (name, value) in object["metadata"]["labels"].as_object().into_iter().flatten() {
        attributes.label(name, value.as_str().unwrap_or_default());
    }
    attributes.finish()
}

fn selects_all_if_absent(selector: &Value, found: &Attributes) -> bool {
    selector.is_null() || selects(selector, found)
}

/// Whether a `LabelSelector` object matches these labels. An invalid selector matches everything.
pub(super) fn selects(selector: &Value, found: &Attributes) -> bool {
    let selector = LabelSelector::text_of(selector).parse::<LabelSelector>();
    selector.map_or(true, |selector| selector::has_labels(&selector, found))
}

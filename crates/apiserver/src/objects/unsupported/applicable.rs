//! Which configured object would have applied to a write.
//!
//! These checks run on every client write. Each therefore first checks whether its feature is configured at all, which
//! is one lookup in a collection that is usually empty.

use serde_json::Value;

use super::rules::{self, labels};
use super::{ADMISSION, Subject, WriteOperation};
use crate::codec;
use crate::objects::Writer;
use crate::resources::{Flavour, Resource};
use crate::storage::{Attributes, CollectionId};

const SECURITY_LEVELS: [&str; 3] = [
    "pod-security.kubernetes.io/enforce",
    "pod-security.kubernetes.io/audit",
    "pod-security.kubernetes.io/warn",
];

/// Resources that are or create pods.
const WITH_PODS: &[(&str, &str)] = &[
    ("", "pods"),
    ("", "podtemplates"),
    ("", "replicationcontrollers"),
    ("apps", "daemonsets"),
    ("apps", "deployments"),
    ("apps", "replicasets"),
    ("apps", "statefulsets"),
    ("batch", "cronjobs"),
    ("batch", "jobs"),
];

/// Whether a schema contains rules at any depth.
pub(super) fn has_rules(schema: &Value) -> bool {
    crate::crd::has_validation_rules(schema)
}

/// Whether the labels set a pod security level that restricts anything.
pub(super) fn has_security_level(labels: &Value) -> bool {
    SECURITY_LEVELS.iter().any(|label| labels[*label].as_str().is_some_and(restricts))
}

fn restricts(level: &str) -> bool {
    level != "privileged"
}

pub(super) fn validation_rules(_: &Writer<'_>, subject: &Subject<'_>) -> Option<String> {
    let resource = &subject.target.resource;
    let ruled = resource.custom().is_some_and(|version| version.has_rules);
    (ruled && subject.operation != WriteOperation::Delete)
        .then(|| format!("CustomResourceDefinition {:?}", resource.qualified()))
}

pub(super) fn conversion(_: &Writer<'_>, subject: &Subject<'_>) -> Option<String> {
    let resource = &subject.target.resource;
    let Flavour::Custom { definition, .. } = &resource.flavour else { return None };
    let stored = resource.custom().is_some_and(|version| version.storage);
    (definition.converted_by_webhook && !stored)
        .then(|| format!("CustomResourceDefinition {:?}", resource.qualified()))
}

pub(super) fn webhooks(writer: &Writer<'_>, subject: &Subject<'_>) -> Option<String> {
    let known = &writer.configurations;
    [known.validating_webhooks, known.mutating_webhooks].into_iter().find_map(|collection| {
        configured(writer, collection, "").find_map(|(resource, configuration)| {
            // Webhooks are not called for their own configuration.
            let own = subject.target.resource.group == ADMISSION;
            let mut webhooks = configuration["webhooks"].as_array().into_iter().flatten();
            let covers = !own && webhooks.any(|webhook| rules::covers(writer, subject, webhook, "rules"));
            covers.then(|| named(&resource, &configuration))
        })
    })
}

pub(super) fn policies(writer: &Writer<'_>, subject: &Subject<'_>) -> Option<String> {
    let known = &writer.configurations;
    let kinds = [
        (known.validating_bindings, "validatingadmissionpolicies"),
        (known.mutating_bindings, "mutatingadmissionpolicies"),
    ];
    kinds.into_iter().find_map(|(collection, plural)| {
        configured(writer, collection, "").find_map(|(_, binding)| {
            if subject.target.resource.group == ADMISSION {
                return None;
            }
            let registry = writer.registry();
            let resource = registry.find(ADMISSION, "v1", plural)?;
            let name = binding["spec"]["policyName"].as_str().unwrap_or_default();
            let stored = writer.storage.get(resource.collection, name)?;
            let policy = codec::decode(resource, &stored.bytes);
            let constraints = &policy["spec"]["matchConstraints"];
            let covers = rules::covers(writer, subject, constraints, "resourceRules")
                && rules::admits(writer, subject, &binding["spec"]["matchResources"]);
            covers.then(|| named(resource, &policy))
        })
    })
}

pub(super) fn permissions(writer: &Writer<'_>, subject: &Subject<'_>) -> Option<String> {
    if subject.target.resource.group == "authorization.k8s.io" {
        return Some("an authorizer".to_owned());
    }
    let account = writer.service_account(writer.bearer()?)?;
    Some(format!("the permissions of {:?}", account.name()))
}

pub(super) fn quota(writer: &Writer<'_>, subject: &Subject<'_>) -> Option<String> {
    let target = subject.target;
    if subject.operation != WriteOperation::Create
        || !target.subresource.is_empty()
        || target.namespace.is_empty()
    {
        return None;
    }
    configured(writer, writer.configurations.quotas, &target.namespace).find_map(|(resource, quota)| {
        let mut limits = quota["spec"]["hard"].as_object().into_iter().flatten();
        limits.any(|(name, _)| counts(name, &target.resource)).then(|| named(&resource, &quota))
    })
}

/// Whether a quota's limit of this name counts objects of the resource.
fn counts(limit: &str, resource: &Resource) -> bool {
    if let Some(counted) = limit.strip_prefix("count/") {
        return counted == resource.qualified();
    }
    if resource.is("", "persistentvolumeclaims") {
        return limit == "persistentvolumeclaims" || limit.contains("storage");
    }
    let objects = [
        "configmaps",
        "persistentvolumeclaims",
        "replicationcontrollers",
        "resourcequotas",
        "secrets",
        "services",
    ];
    let first = limit.split('.').next().unwrap_or_default();
    if objects.contains(&first) {
        return resource.is("", first);
    }
    // Everything else is pods, or a resource that pods consume.
    resource.is("", "pods") && !limit.contains("storageclass")
}

pub(super) fn limit_range(writer: &Writer<'_>, subject: &Subject<'_>) -> Option<String> {
    let target = subject.target;
    let limited = target.resource.is("", "pods") || target.resource.is("", "persistentvolumeclaims");
    if !limited || subject.operation == WriteOperation::Delete || !target.subresource.is_empty() {
        return None;
    }
    let mut ranges = configured(writer, writer.configurations.limits, &target.namespace);
    ranges.next().map(|(resource, range)| named(&resource, &range))
}

pub(super) fn pod_security(writer: &Writer<'_>, subject: &Subject<'_>) -> Option<String> {
    let target = subject.target;
    let resource = &target.resource;
    let holds_pods = WITH_PODS.iter().any(|(group, plural)| resource.is(group, plural));
    if !holds_pods || subject.operation == WriteOperation::Delete || !target.subresource.is_empty() {
        return None;
    }
    let namespace = writer.storage.get(writer.configurations.namespaces, &target.namespace)?;
    let level = |label: &&str| namespace.attributes.label(label).is_some_and(restricts);
    SECURITY_LEVELS.iter().any(level).then(|| format!("Namespace {:?}", target.namespace))
}

pub(super) fn budget(writer: &Writer<'_>, subject: &Subject<'_>) -> Option<String> {
    let target = subject.target;
    if target.subresource != "eviction" {
        return None;
    }
    let pod = writer.get(target).ok()?;
    configured(writer, writer.configurations.budgets, &target.namespace).find_map(|(resource, budget)| {
        let selects = rules::selects(&budget["spec"]["selector"], &pod.attributes);
        selects.then(|| named(&resource, &budget))
    })
}

pub(super) fn pod_class(_: &Writer<'_>, subject: &Subject<'_>) -> Option<String> {
    let Subject { operation, target, object } = *subject;
    if operation != WriteOperation::Create
        || !target.resource.is("", "pods")
        || !target.subresource.is_empty()
    {
        return None;
    }
    let class = |field: &str, kind: &str| {
        let name = object["spec"][field].as_str().filter(|name| !name.is_empty())?;
        Some(format!("{kind} {name:?}"))
    };
    class("priorityClassName", "PriorityClass").or_else(|| class("runtimeClassName", "RuntimeClass"))
}

/// The objects of a collection, in one namespace or in all.
fn configured<'a>(
    writer: &'a Writer<'_>,
    collection: CollectionId,
    namespace: &str,
) -> impl Iterator<Item = (std::sync::Arc<Resource>, Value)> + use<'a> {
    let prefix = if namespace.is_empty() { String::new() } else { format!("{namespace}/") };
    let objects = if writer.storage.is_empty(collection, &prefix) {
        Vec::new()
    } else {
        writer.storage.all(collection, &prefix).0
    };
    let resource =
        (!objects.is_empty()).then(|| writer.registry().of_collection(collection).cloned()).flatten();
    objects.into_iter().filter_map(move |stored| {
        let resource = resource.clone()?;
        let object = codec::decode(&resource, &stored.bytes);
        Some((resource, object))
    })
}

fn named(resource: &Resource, object: &Value) -> String {
    format!("{} {:?}", resource.kind, crate::objects::meta::name(object))
}

/// The labels that a namespace selector matches: those of the object's namespace, or a namespace's own. Other
/// cluster-scoped objects have none, and a namespace selector never excludes them.
pub(super) fn namespace_labels(writer: &Writer<'_>, subject: &Subject<'_>) -> Option<Attributes> {
    let target = subject.target;
    if target.resource.is("", "namespaces") {
        return Some(labels(subject.object));
    }
    let namespace = writer.storage.get(writer.configurations.namespaces, &target.namespace)?;
    Some(namespace.attributes.clone())
}

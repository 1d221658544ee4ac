//! Features of a kube-apiserver whose configuration is stored here, and which then do nothing.
//!
//! A test that relies on one of them would pass without having tested anything. So a write that configures such a
//! feature, and a write that the feature would have judged, is answered with a warning; a strict server refuses both.
//! [`FEATURES`] is the one list of them: the documentation is checked against it.

mod judges;
mod rules;

use serde_json::Value;

use super::{Target, Writer};
use crate::http::Status;
use crate::resources::{Registry, Resource};
use crate::storage::CollectionId;

/// What the server does about a write that involves a feature it does not have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unsupported {
    /// The write is done, and its answer carries a `Warning` header.
    #[default]
    Warn,
    /// The write is refused with 501.
    Refuse,
}

/// A feature that is not there.
struct Feature {
    /// In the plural, as warnings begin with it.
    name: &'static str,
    /// What does not happen.
    missing: &'static str,
    /// The objects that configure it.
    configured_by: &'static str,
    /// Whether an object configures it.
    configures: fn(&Resource, &Value) -> bool,
    /// What would have judged a write; `None` if the feature has nothing to do with it.
    judge: fn(&Writer<'_>, &Subject<'_>) -> Option<String>,
}

/// What a write does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WriteOperation {
    Create,
    Update,
    Delete,
}

/// A write that features may judge.
#[derive(Clone, Copy, Debug)]
pub(super) struct Subject<'a> {
    pub(super) operation: WriteOperation,
    pub(super) target: &'a Target,
    /// The new object, or the deleted one.
    pub(super) object: &'a Value,
}

/// The collections of the objects that judges look at; built-in ones never change.
#[derive(Debug)]
pub(crate) struct Configurations {
    validating_webhooks: CollectionId,
    mutating_webhooks: CollectionId,
    validating_bindings: CollectionId,
    mutating_bindings: CollectionId,
    quotas: CollectionId,
    limits: CollectionId,
    budgets: CollectionId,
    namespaces: CollectionId,
}

const ADMISSION: &str = "admissionregistration.k8s.io";
const RBAC: &str = "rbac.authorization.k8s.io";

/// All features that are accepted and do nothing.
const FEATURES: &[Feature] = &[
    Feature {
        name: "CEL validation rules",
        missing: "`x-kubernetes-validations` are not evaluated",
        configured_by: "a CustomResourceDefinition with `x-kubernetes-validations`",
        configures: |resource, object| {
            resource.is("apiextensions.k8s.io", "customresourcedefinitions")
                && judges::has_rules(&object["spec"]["versions"])
        },
        judge: judges::validation_rules,
    },
    Feature {
        name: "conversion webhooks",
        missing: "another version of a custom resource differs only in its apiVersion",
        configured_by: "a CustomResourceDefinition whose conversion strategy is `Webhook`",
        configures: |resource, object| {
            resource.is("apiextensions.k8s.io", "customresourcedefinitions")
                && object["spec"]["conversion"]["strategy"] == "Webhook"
        },
        judge: judges::conversion,
    },
    Feature {
        name: "admission webhooks",
        missing: "webhooks are not called",
        configured_by: "ValidatingWebhookConfiguration, MutatingWebhookConfiguration",
        configures: |resource, object| {
            is_one_of(
                resource,
                ADMISSION,
                &["validatingwebhookconfigurations", "mutatingwebhookconfigurations"],
            ) && object["webhooks"].as_array().is_some_and(|webhooks| !webhooks.is_empty())
        },
        judge: judges::webhooks,
    },
    Feature {
        name: "admission policies",
        missing: "policies are not evaluated",
        configured_by: "ValidatingAdmissionPolicy, MutatingAdmissionPolicy, and their bindings",
        configures: |resource, _| {
            let policies = ["validatingadmissionpolicies", "mutatingadmissionpolicies"];
            let bindings = ["validatingadmissionpolicybindings", "mutatingadmissionpolicybindings"];
            is_one_of(resource, ADMISSION, &policies) || is_one_of(resource, ADMISSION, &bindings)
        },
        judge: judges::policies,
    },
    Feature {
        name: "RBAC permissions",
        missing: "every request is allowed, and access reviews say so",
        configured_by: "Role, ClusterRole, RoleBinding, ClusterRoleBinding",
        configures: |resource, _| resource.group == RBAC,
        judge: judges::permissions,
    },
    Feature {
        name: "resource quotas",
        missing: "usage is not counted or limited",
        configured_by: "ResourceQuota",
        configures: |resource, _| resource.is("", "resourcequotas"),
        judge: judges::quota,
    },
    Feature {
        name: "limit ranges",
        missing: "neither defaults nor limits are applied to pods and claims",
        configured_by: "LimitRange",
        configures: |resource, _| resource.is("", "limitranges"),
        judge: judges::limit_range,
    },
    Feature {
        name: "pod security levels",
        missing: "pods are not checked",
        configured_by: "a Namespace with a `pod-security.kubernetes.io` label other than `privileged`",
        configures: |resource, object| {
            resource.is("", "namespaces") && judges::has_security_level(&object["metadata"]["labels"])
        },
        judge: judges::pod_security,
    },
    Feature {
        name: "disruption budgets",
        missing: "evictions are not limited",
        configured_by: "PodDisruptionBudget",
        configures: |resource, _| resource.is("policy", "poddisruptionbudgets"),
        judge: judges::budget,
    },
    Feature {
        name: "pod classes",
        missing: "a pod gets neither the priority nor the overhead of its class",
        configured_by: "PriorityClass, RuntimeClass",
        configures: |resource, _| {
            resource.is("scheduling.k8s.io", "priorityclasses")
                || resource.is("node.k8s.io", "runtimeclasses")
        },
        judge: judges::pod_class,
    },
    Feature {
        name: "priority and fairness",
        missing: "requests are not queued or rejected by level",
        configured_by: "FlowSchema, PriorityLevelConfiguration",
        configures: |resource, _| resource.group == "flowcontrol.apiserver.k8s.io",
        judge: |_, _| None,
    },
];

// === impl Unsupported ===

impl Unsupported {
    /// The features that are accepted and do nothing: the name of each, the objects that configure it, and what does not
    /// happen.
    #[doc(hidden)]
    pub fn features() -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
        FEATURES.iter().map(|feature| (feature.name, feature.configured_by, feature.missing))
    }
}

fn is_one_of(resource: &Resource, group: &str, plurals: &[&str]) -> bool {
    resource.group == group && plurals.contains(&resource.plural.as_str())
}

// === impl Configurations ===

impl Configurations {
    pub(crate) fn new(registry: &Registry) -> Self {
        let collection = |group: &str, plural: &str| {
            let found = registry.iter().find(|resource| resource.is(group, plural));
            // The built-in table holds all of these.
            found.map(|resource| resource.collection).unwrap_or_else(|| unreachable!("{plural} is built in"))
        };
        Self {
            validating_webhooks: collection(ADMISSION, "validatingwebhookconfigurations"),
            mutating_webhooks: collection(ADMISSION, "mutatingwebhookconfigurations"),
            validating_bindings: collection(ADMISSION, "validatingadmissionpolicybindings"),
            mutating_bindings: collection(ADMISSION, "mutatingadmissionpolicybindings"),
            quotas: collection("", "resourcequotas"),
            limits: collection("", "limitranges"),
            budgets: collection("policy", "poddisruptionbudgets"),
            namespaces: collection("", "namespaces"),
        }
    }
}

impl Writer<'_> {
    /// Warnings about the features that a client's write configures or should have been judged by.
    ///
    /// # Errors
    /// With 501, if the server refuses such writes.
    pub(super) fn check_supported(&self, subject: &Subject<'_>) -> Result<Vec<String>, Status> {
        if !self.is_clients() {
            return Ok(Vec::new());
        }
        let warnings: Vec<String> =
            FEATURES.iter().filter_map(|feature| feature.warning(self, subject)).collect();
        match (self.options.unsupported, warnings.first()) {
            (Unsupported::Refuse, Some(warning)) => {
                Err(Status::not_implemented(&subject.target.resource, warning))
            }
            _ => Ok(warnings),
        }
    }
}

// === impl Feature ===

impl Feature {
    fn warning(&self, writer: &Writer<'_>, subject: &Subject<'_>) -> Option<String> {
        let Self { name, missing, .. } = self;
        let resource = &subject.target.resource;
        let whole = subject.target.subresource.is_empty();
        if whole && subject.operation != WriteOperation::Delete && (self.configures)(resource, subject.object)
        {
            return Some(format!("{name} are not supported: the {} has no effect, {missing}", resource.kind));
        }
        let judge = (self.judge)(writer, subject)?;
        Some(format!("{name} are not supported: {judge} would have judged this request, but {missing}"))
    }
}

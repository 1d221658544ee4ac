//! Features of a kube-apiserver whose configuration this server stores but does not act on.
//!
//! A test that relies on such a feature would pass without testing it. Therefore writes that configure a feature, and
//! writes that it would have applied to, get a warning; a strict server rejects both. [`FEATURES`] is the single list
//! of them; a test checks the documentation against it.

mod applicable;
mod rules;

use serde_json::Value;

use super::{Target, Writer};
use crate::http::Status;
use crate::resources::{Registry, Resource};
use crate::storage::CollectionId;

/// How the server treats a write that involves an unsupported feature.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unsupported {
    /// Performs the write and adds a `Warning` header to the response.
    #[default]
    Warn,
    /// Rejects the write with 501.
    Refuse,
}

/// An unsupported feature.
struct Feature {
    /// The name in the plural; warnings begin with it.
    name: &'static str,
    /// What does not happen.
    missing: &'static str,
    /// The objects that configure it.
    configured_by: &'static str,
    /// Whether an object configures it.
    configures: fn(&Resource, &Value) -> bool,
    /// The configured object that would have applied to a write, if any.
    applicable: fn(&Writer<'_>, &Subject<'_>) -> Option<String>,
}

/// The operation of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WriteOperation {
    Create,
    Update,
    Delete,
}

/// A write to check against the features.
#[derive(Clone, Copy, Debug)]
pub(super) struct Subject<'a> {
    pub(super) operation: WriteOperation,
    pub(super) target: &'a Target,
    /// The new object, or the deleted one.
    pub(super) object: &'a Value,
}

/// The collections of the configuring objects. These are built in and never change.
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

/// All features that are accepted but have no effect.
const FEATURES: &[Feature] = &[
    Feature {
        name: "CEL validation rules",
        missing: "`x-kubernetes-validations` are not evaluated",
        configured_by: "a CustomResourceDefinition with `x-kubernetes-validations`",
        configures: |resource, object| {
            resource.is("apiextensions.k8s.io", "customresourcedefinitions")
                && applicable::has_rules(&object["spec"]["versions"])
        },
        applicable: applicable::validation_rules,
    },
    Feature {
        name: "conversion webhooks",
        missing: "converting a custom resource changes only its apiVersion",
        configured_by: "a CustomResourceDefinition whose conversion strategy is `Webhook`",
        configures: |resource, object| {
            resource.is("apiextensions.k8s.io", "customresourcedefinitions")
                && object["spec"]["conversion"]["strategy"] == "Webhook"
        },
        applicable: applicable::conversion,
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
        applicable: applicable::webhooks,
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
        applicable: applicable::policies,
    },
    Feature {
        name: "RBAC permissions",
        missing: "every request is allowed, and access reviews report so",
        configured_by: "Role, ClusterRole, RoleBinding, ClusterRoleBinding",
        configures: |resource, _| resource.group == RBAC,
        applicable: applicable::permissions,
    },
    Feature {
        name: "resource quotas",
        missing: "usage is not counted or limited",
        configured_by: "ResourceQuota",
        configures: |resource, _| resource.is("", "resourcequotas"),
        applicable: applicable::quota,
    },
    Feature {
        name: "limit ranges",
        missing: "neither defaults nor limits are applied to pods and claims",
        configured_by: "LimitRange",
        configures: |resource, _| resource.is("", "limitranges"),
        applicable: applicable::limit_range,
    },
    Feature {
        name: "pod security levels",
        missing: "pods are not checked",
        configured_by: "a Namespace with a `pod-security.kubernetes.io` label other than `privileged`",
        configures: |resource, object| {
            resource.is("", "namespaces") && applicable::has_security_level(&object["metadata"]["labels"])
        },
        applicable: applicable::pod_security,
    },
    Feature {
        name: "disruption budgets",
        missing: "evictions are not limited",
        configured_by: "PodDisruptionBudget",
        configures: |resource, _| resource.is("policy", "poddisruptionbudgets"),
        applicable: applicable::budget,
    },
    Feature {
        name: "pod classes",
        missing: "a pod gets neither the priority nor the overhead of its class",
        configured_by: "PriorityClass, RuntimeClass",
        configures: |resource, _| {
            resource.is("scheduling.k8s.io", "priorityclasses")
                || resource.is("node.k8s.io", "runtimeclasses")
        },
        applicable: applicable::pod_class,
    },
    Feature {
        name: "priority and fairness",
        missing: "requests are not queued or rejected by level",
        configured_by: "FlowSchema, PriorityLevelConfiguration",
        configures: |resource, _| resource.group == "flowcontrol.apiserver.k8s.io",
        applicable: |_, _| None,
    },
];

// === impl Unsupported ===

impl Unsupported {
    /// The unsupported features: the name, the objects that configure it, and what does not happen.
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
            // The built-in table contains all of these.
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
    /// Warnings about the features that a client's write configures or would have been subject to.
    ///
    /// # Errors
    /// 501, if the server rejects such writes.
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
        let object = (self.applicable)(writer, subject)?;
        Some(format!("{name} are not supported: {object} would have applied to this request, but {missing}"))
    }
}

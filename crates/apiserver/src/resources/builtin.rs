//! The resources of a kube-apiserver 1.37, as its discovery lists them. Data only: special behavior of a resource is
//! implemented elsewhere, by its group and plural name.
//!
//! `autoscaling/v1` is absent: it is the only version whose objects differ in shape from the stored ones.

use super::Scope;

/// One row of the table.
#[derive(Debug)]
pub(crate) struct Builtin {
    pub(crate) group: &'static str,
    pub(crate) version: &'static str,
    pub(crate) plural: &'static str,
    pub(crate) singular: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) scope: Scope,
    pub(crate) verbs: &'static [&'static str],
    pub(crate) short_names: &'static [&'static str],
    pub(crate) categories: &'static [&'static str],
    pub(crate) subresources: &'static [BuiltinSubresource],
    /// `storageVersionHash` of legacy discovery.
    pub(crate) hash: &'static str,
}

/// A subresource of a row.
#[derive(Debug)]
pub(crate) struct BuiltinSubresource {
    pub(crate) name: &'static str,
    pub(crate) verbs: &'static [&'static str],
    /// Group, version and kind, if they differ from the resource's own.
    pub(crate) kind: Option<(&'static str, &'static str, &'static str)>,
}

const ALL: &[&str] = &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
const NO_COLLECTION: &[&str] = &["create", "delete", "get", "list", "patch", "update", "watch"];
const READ: &[&str] = &["get", "list"];
const CREATE: &[&str] = &["create"];
const UPDATE: &[&str] = &["update"];
const GET: &[&str] = &["get"];
const RW: &[&str] = &["get", "patch", "update"];
const CONNECT: &[&str] = &["create", "get"];
const PROXY: &[&str] = &["create", "delete", "get", "patch", "update"];

const fn own(name: &'static str, verbs: &'static [&'static str]) -> BuiltinSubresource {
    BuiltinSubresource { name, verbs, kind: None }
}

const fn other(
    name: &'static str,
    verbs: &'static [&'static str],
    group: &'static str,
    version: &'static str,
    kind: &'static str,
) -> BuiltinSubresource {
    BuiltinSubresource { name, verbs, kind: Some((group, version, kind)) }
}

/// All built-in resources, in discovery order.
#[rustfmt::skip]
pub(crate) const BUILTIN: &[Builtin] = &[
    Builtin { group: "", version: "v1", plural: "bindings", singular: "binding", kind: "Binding", scope: Scope::Namespaced, verbs: CREATE, short_names: &[], categories: &[], subresources: &[], hash: "" },
    Builtin { group: "", version: "v1", plural: "componentstatuses", singular: "componentstatus", kind: "ComponentStatus", scope: Scope::Cluster, verbs: READ, short_names: &["cs"], categories: &[], subresources: &[], hash: "" },
    Builtin { group: "", version: "v1", plural: "configmaps", singular: "configmap", kind: "ConfigMap", scope: Scope::Namespaced, verbs: ALL, short_names: &["cm"], categories: &[], subresources: &[], hash: "qFsyl6wFWjQ=" },
    Builtin { group: "", version: "v1", plural: "endpoints", singular: "endpoints", kind: "Endpoints", scope: Scope::Namespaced, verbs: ALL, short_names: &["ep"], categories: &[], subresources: &[], hash: "fWeeMqaN/OA=" },
    Builtin { group: "", version: "v1", plural: "events", singular: "event", kind: "Event", scope: Scope::Namespaced, verbs: ALL, short_names: &["ev"], categories: &[], subresources: &[], hash: "r2yiGXH7wu8=" },
    Builtin { group: "", version: "v1", plural: "limitranges", singular: "limitrange", kind: "LimitRange", scope: Scope::Namespaced, verbs: ALL, short_names: &["limits"], categories: &[], subresources: &[], hash: "EBKMFVe6cwo=" },
    Builtin { group: "", version: "v1", plural: "namespaces", singular: "namespace", kind: "Namespace", scope: Scope::Cluster, verbs: NO_COLLECTION, short_names: &["ns"], categories: &[], subresources: &[own("finalize", UPDATE), own("status", RW)], hash: "Q3oi5N2YM8M=" },
    Builtin { group: "", version: "v1", plural: "nodes", singular: "node", kind: "Node", scope: Scope::Cluster, verbs: ALL, short_names: &["no"], categories: &[], subresources: &[other("proxy", PROXY, "", "", "NodeProxyOptions"), own("status", RW)], hash: "XwShjMxG9Fs=" },
    Builtin { group: "", version: "v1", plural: "persistentvolumeclaims", singular: "persistentvolumeclaim", kind: "PersistentVolumeClaim", scope: Scope::Namespaced, verbs: ALL, short_names: &["pvc"], categories: &[], subresources: &[own("status", RW)], hash: "QWTyNDq0dC4=" },
    Builtin { group: "", version: "v1", plural: "persistentvolumes", singular: "persistentvolume", kind: "PersistentVolume", scope: Scope::Cluster, verbs: ALL, short_names: &["pv"], categories: &[], subresources: &[own("status", RW)], hash: "HN/zwEC+JgM=" },
    Builtin { group: "", version: "v1", plural: "pods", singular: "pod", kind: "Pod", scope: Scope::Namespaced, verbs: ALL, short_names: &["po"], categories: &["all"], subresources: &[other("attach", CONNECT, "", "", "PodAttachOptions"), other("binding", CREATE, "", "", "Binding"), own("ephemeralcontainers", RW), other("eviction", CREATE, "policy", "v1", "Eviction"), other("exec", CONNECT, "", "", "PodExecOptions"), own("log", GET), other("portforward", CONNECT, "", "", "PodPortForwardOptions"), other("proxy", PROXY, "", "", "PodProxyOptions"), own("resize", RW), own("status", RW)], hash: "xPOwRZ+Yhw8=" },
    Builtin { group: "", version: "v1", plural: "podtemplates", singular: "podtemplate", kind: "PodTemplate", scope: Scope::Namespaced, verbs: ALL, short_names: &[], categories: &[], subresources: &[], hash: "LIXB2x4IFpk=" },
    Builtin { group: "", version: "v1", plural: "replicationcontrollers", singular: "replicationcontroller", kind: "ReplicationController", scope: Scope::Namespaced, verbs: ALL, short_names: &["rc"], categories: &["all"], subresources: &[other("scale", RW, "autoscaling", "v1", "Scale"), own("status", RW)], hash: "Jond2If31h0=" },
    Builtin { group: "", version: "v1", plural: "resourcequotas", singular: "resourcequota", kind: "ResourceQuota", scope: Scope::Namespaced, verbs: ALL, short_names: &["quota"], categories: &[], subresources: &[own("status", RW)], hash: "8uhSgffRX6w=" },
    Builtin { group: "", version: "v1", plural: "secrets", singular: "secret", kind: "Secret", scope: Scope::Namespaced, verbs: ALL, short_names: &[], categories: &[], subresources: &[], hash: "S6u1pOWzb84=" },
    Builtin { group: "", version: "v1", plural: "serviceaccounts", singular: "serviceaccount", kind: "ServiceAccount", scope: Scope::Namespaced, verbs: ALL, short_names: &["sa"], categories: &[], subresources: &[other("token", CREATE, "authentication.k8s.io", "v1", "TokenRequest")], hash: "pbx9ZvyFpBE=" },
    Builtin { group: "", version: "v1", plural: "services", singular: "service", kind: "Service", scope: Scope::Namespaced, verbs: ALL, short_names: &["svc"], categories: &["all"], subresources: &[other("proxy", PROXY, "", "", "ServiceProxyOptions"), own("status", RW)], hash: "0/CO1lhkEBI=" },
    Builtin { group: "apiregistration.k8s.io", version: "v1", plural: "apiservices", singular: "apiservice", kind: "APIService", scope: Scope::Cluster, verbs: ALL, short_names: &[], categories: &["api-extensions"], subresources: &[own("status", RW)], hash: "InPBPD7+PqM=" },
    Builtin { group: "apps", version: "v1", plural: "controllerrevisions", singular: "controllerrevision", kind: "ControllerRevision", scope: Scope::Namespaced, verbs: ALL, short_names: &[], categories: &[], subresources: &[], hash: "85nkx63pcBU=" },
    Builtin { group: "apps", version: "v1", plural: "daemonsets", singular: "daemonset", kind: "DaemonSet", scope: Scope::Namespaced, verbs: ALL, short_names: &["ds"], categories: &["all"], subresources: &[own("status", RW)], hash: "dd7pWHUlMKQ=" },
    Builtin { group: "apps", version: "v1", plural: "deployments", singular: "deployment", kind: "Deployment", scope: Scope::Namespaced, verbs: ALL, short_names: &["deploy"], categories: &["all"], subresources: &[other("scale", RW, "autoscaling", "v1", "Scale"), own("status", RW)], hash: "8aSe+NMegvE=" },
    Builtin { group: "apps", version: "v1", plural: "replicasets", singular: "replicaset", kind: "ReplicaSet", scope: Scope::Namespaced, verbs: ALL, short_names: &["rs"], categories: &["all"], subresources: &[other("scale", RW, "autoscaling", "v1", "Scale"), own("status", RW)], hash: "P1RzHs8/mWQ=" },
    Builtin { group: "apps", version: "v1", plural: "statefulsets", singular: "statefulset", kind: "StatefulSet", scope: Scope::Namespaced, verbs: ALL, short_names: &["sts"], categories: &["all"], subresources: &[other("scale", RW, "autoscaling", "v1", "Scale"), own("status", RW)], hash: "H+vl74LkKdo=" },
    Builtin { group: "events.k8s.io", version: "v1", plural: "events", singular: "event", kind: "Event", scope: Scope::Namespaced, verbs: ALL, short_names: &["ev"], categories: &[], subresources: &[], hash: "r2yiGXH7wu8=" },
    Builtin { group: "authentication.k8s.io", version: "v1", plural: "selfsubjectreviews", singular: "selfsubjectreview", kind: "SelfSubjectReview", scope: Scope::Cluster, verbs: CREATE, short_names: &[], categories: &[], subresources: &[], hash: "" },
    Builtin { group: "authentication.k8s.io", version: "v1", plural: "tokenreviews", singular: "tokenreview", kind: "TokenReview", scope: Scope::Cluster, verbs: CREATE, short_names: &[], categories: &[], subresources: &[], hash: "" },
    Builtin { group: "authorization.k8s.io", version: "v1", plural: "localsubjectaccessreviews", singular: "localsubjectaccessreview", kind: "LocalSubjectAccessReview", scope: Scope::Namespaced, verbs: CREATE, short_names: &[], categories: &[], subresources: &[], hash: "" },
    Builtin { group: "authorization.k8s.io", version: "v1", plural: "selfsubjectaccessreviews", singular: "selfsubjectaccessreview", kind: "SelfSubjectAccessReview", scope: Scope::Cluster, verbs: CREATE, short_names: &[], categories: &[], subresources: &[], hash: "" },
    Builtin { group: "authorization.k8s.io", version: "v1", plural: "selfsubjectrulesreviews", singular: "selfsubjectrulesreview", kind: "SelfSubjectRulesReview", scope: Scope::Cluster, verbs: CREATE, short_names: &[], categories: &[], subresources: &[], hash: "" },
    Builtin { group: "authorization.k8s.io", version: "v1", plural: "subjectaccessreviews", singular: "subjectaccessreview", kind: "SubjectAccessReview", scope: Scope::Cluster, verbs: CREATE, short_names: &[], categories: &[], subresources: &[], hash: "" },
    Builtin { group: "autoscaling", version: "v2", plural: "horizontalpodautoscalers", singular: "horizontalpodautoscaler", kind: "HorizontalPodAutoscaler", scope: Scope::Namespaced, verbs: ALL, short_names: &["hpa"], categories: &["all"], subresources: &[own("status", RW)], hash: "qwQve8ut294=" },
    Builtin { group: "batch", version: "v1", plural: "cronjobs", singular: "cronjob", kind: "CronJob", scope: Scope::Namespaced, verbs: ALL, short_names: &["cj"], categories: &["all"], subresources: &[own("status", RW)], hash: "sd5LIXh4Fjs=" },
    Builtin { group: "batch", version: "v1", plural: "jobs", singular: "job", kind: "Job", scope: Scope::Namespaced, verbs: ALL, short_names: &[], categories: &["all"], subresources: &[own("status", RW)], hash: "mudhfqk/qZY=" },
    Builtin { group: "certificates.k8s.io", version: "v1", plural: "certificatesigningrequests", singular: "certificatesigningrequest", kind: "CertificateSigningRequest", scope: Scope::Cluster, verbs: ALL, short_names: &["csr"], categories: &[], subresources: &[own("approval", RW), own("status", RW)], hash: "95fRKMXA+00=" },
    Builtin { group: "certificates.k8s.io", version: "v1", plural: "clustertrustbundles", singular: "clustertrustbundle", kind: "ClusterTrustBundle", scope: Scope::Cluster, verbs: ALL, short_names: &[], categories: &[], subresources: &[], hash: "v5yhuVertL4=" },
    Builtin { group: "certificates.k8s.io", version: "v1", plural: "podcertificaterequests", singular: "podcertificaterequest", kind: "PodCertificateRequest", scope: Scope::Namespaced, verbs: ALL, short_names: &[], categories: &[], subresources: &[own("status", RW)], hash: "wYA9yXQH8fg=" },
    Builtin { group: "networking.k8s.io", version: "v1", plural: "ingressclasses", singular: "ingressclass", kind: "IngressClass", scope: Scope::Cluster, verbs: ALL, short_names: &[], categories: &[], subresources: &[], hash: "l/iqIbDgFyQ=" },
    Builtin { group: "networking.k8s.io", version: "v1", plural: "ingresses", singular: "ingress", kind: "Ingress", scope: Scope::Namespaced, verbs: ALL, short_names: &["ing"], categories: &[], subresources: &[own("status", RW)], hash: "39NQlfNR+bo=" },
    Builtin { group: "networking.k8s.io", version: "v1", plural: "ipaddresses", singular: "ipaddress", kind: "IPAddress", scope: Scope::Cluster, verbs: ALL, short_names: &["ip"], categories: &[], subresources: &[], hash: "3f/plJFChNE=" },
    Builtin { group: "networking.k8s.io", version: "v1", plural: "networkpolicies", singular: "networkpolicy", kind: "NetworkPolicy", scope: Scope::Namespaced, verbs: ALL, short_names: &["netpol"], categories: &[], subresources: &[], hash: "YpfwF18m1G8=" },
    Builtin { group: "networking.k8s.io", version: "v1", plural: "servicecidrs", singular: "servicecidr", kind: "ServiceCIDR", scope: Scope::Cluster, verbs: ALL, short_names: &[], categories: &[], subresources: &[own("status", RW)], hash: "gNLvruQhW2g=" },
    Builtin { group: "policy", version: "v1", plural: "poddisruptionbudgets", singular: "poddisruptionbudget", kind: "PodDisruptionBudget", scope: Scope::Namespaced, verbs: ALL, short_names: &["pdb"], categories: &[], subresources: &[own("status", RW)], hash: "EVWiDmWqyJw=" },
    Builtin { group: "rbac.authorization.k8s.io", version: "v1", plural: "clusterrolebindings", singular: "clusterrolebinding", kind: "ClusterRoleBinding", scope: Scope::Cluster, verbs: ALL, short_names: &[], categories: &[], subresources: &[], hash: "48tpQ8gZHFc=" },
    Builtin { group: "rbac.authorization.k8s.io", version: "v1", plural: "clusterroles", singular: "clusterrole", kind: "ClusterRole", scope: Scope::Cluster, verbs: ALL, short_names: &[], categories: &[], subresources: &[], hash: "bYE5ZWDrJ44=" },
    Builtin { group: "rbac.authorization.k8s.io", version: "v1", plural: "rolebindings", singular: "rolebinding", kind: "RoleBinding", scope: Scope::Namespaced, verbs: ALL, short_names: &[], categories: &[], subresources: &[], hash: "eGsCzGH6b1g=" },
    Builtin { group: "rbac.authorization.k8s.io", version: "v1", plural: "roles", singular: "role", kind: "Role", scope: Scope::Namespaced, verbs: ALL, short_names: &[], categories: &[], subresources: &[], hash: "7FuwZcIIItM=" },
    Builtin { group: "storage.k8s.io", version: "v1", plural: "csidrivers", singular: "csidriver", kind: "CSIDriver", scope: Scope::Cluster, verbs: ALL, short_names: &[], categories: &[], subresources: &[], hash: "hL6j/rwBV5w=" },
    Builtin { group: "storage.k8s.io", version: "v1", plural: "csinodes", singular: "csinode", kind: "CSINode", scope: Scope::Cluster, verbs: ALL, short_names: &[], categories: &[], subresources: &[own("status", RW)], hash: "Pe62DkZtjuo=" },
    Builtin { group: "storage.k8s.io", version: "v1", plural: "csistoragecapacities", singular: "csistoragecapacity", kind: "CSIStorageCapacity", scope: Scope::Namespaced, verbs: ALL, short_names: &[], categories: &[], subresources: &[], hash: "xeVl+2Ly1kE=" },
    Builtin { group: "storage.k8s.io", version: "v1", plural: "storageclasses", singular: "storageclass", kind: "StorageClass", scope: Scope::Cluster, verbs: ALL, short_names: &["sc"], categories: &[], subresources: &[], hash: "K+m6uJwbjGY=" },
    Builtin { group: "storage.k8s.io", version: "v1", plural: "volumeattachments", singular: "volumeattachment", kind: "VolumeAttachment", scope: Scope::Cluster, verbs: ALL, short_names: &[], categories: &[], subresources: &[own("status", RW)], hash: "tJx/ezt6UDU=" },
    Builtin { group: "storage.k8s.io", version: "v1", plural: "volumeattributesclasses", singular: "volumeattributesclass", kind: "VolumeAttributesClass", scope: Scope::Cluster, verbs: ALL, short_names: &["vac"], categories: &[], subresources: &[], hash: "tIjydgKBC5w=" },
    Builtin { group: "admissionregistration.k8s.io", version: "v1", plural: "mutatingadmissionpolicies", singular: "mutatingadmissionpolicy", kind: "MutatingAdmissionPolicy", scope: Scope::Cluster, verbs: ALL, short_names: &[], categories: &["api-extensions"], subresources: &[], hash: "mHCkTKpUTrE=" },
    Builtin { group: "admissionregistration.k8s.io", version: "v1", plural: "mutatingadmissionpolicybindings", singular: "mutatingadmissionpolicybinding", kind: "MutatingAdmissionPolicyBinding", scope: Scope::Cluster, verbs: ALL, short_names: &[], categories: &["api-extensions"], subresources: &[], hash: "ZKgZT1uTmZ0=" },
    Builtin { group: "admissionregistration.k8s.io", version: "v1", plural: "mutatingwebhookconfigurations", singular: "mutatingwebhookconfiguration", kind: "MutatingWebhookConfiguration", scope: Scope::Cluster, verbs: ALL, short_names: &[], categories: &["api-extensions"], subresources: &[], hash: "Sqi0GUgDaX0=" },
    Builtin { group: "admissionregistration.k8s.io", version: "v1", plural: "validatingadmissionpolicies", singular: "validatingadmissionpolicy", kind: "ValidatingAdmissionPolicy", scope: Scope::Cluster, verbs: ALL, short_names: &[], categories: &["api-extensions"], subresources: &[own("status", RW)], hash: "6OxvlMmQ6is=" },
    Builtin { group: "admissionregistration.k8s.io", version: "v1", plural: "validatingadmissionpolicybindings", singular: "validatingadmissionpolicybinding", kind: "ValidatingAdmissionPolicyBinding", scope: Scope::Cluster, verbs: ALL, short_names: &[], categories: &["api-extensions"], subresources: &[], hash: "v9715VZqakg=" },
    Builtin { group: "admissionregistration.k8s.io", version: "v1", plural: "validatingwebhookconfigurations", singular: "validatingwebhookconfiguration", kind: "ValidatingWebhookConfiguration", scope: Scope::Cluster, verbs: ALL, short_names: &[], categories: &["api-extensions"], subresources: &[], hash: "B0wHjQmsGNk=" },
    Builtin { group: "apiextensions.k8s.io", version: "v1", plural: "customresourcedefinitions", singular: "customresourcedefinition", kind: "CustomResourceDefinition", scope: Scope::Cluster, verbs: ALL, short_names: &["crd", "crds"], categories: &["api-extensions"], subresources: &[own("status", RW)], hash: "jfWCUB31mvA=" },
    Builtin { group: "scheduling.k8s.io", version: "v1", plural: "priorityclasses", singular: "priorityclass", kind: "PriorityClass", scope: Scope::Cluster, verbs: ALL, short_names: &["pc"], categories: &[], subresources: &[], hash: "1QwjyaZjj3Y=" },
    Builtin { group: "coordination.k8s.io", version: "v1", plural: "leases", singular: "lease", kind: "Lease", scope: Scope::Namespaced, verbs: ALL, short_names: &[], categories: &[], subresources: &[], hash: "gqkMMb/YqFM=" },
    Builtin { group: "node.k8s.io", version: "v1", plural: "runtimeclasses", singular: "runtimeclass", kind: "RuntimeClass", scope: Scope::Cluster, verbs: ALL, short_names: &[], categories: &[], subresources: &[], hash: "WQTu1GL3T2Q=" },
    Builtin { group: "discovery.k8s.io", version: "v1", plural: "endpointslices", singular: "endpointslice", kind: "EndpointSlice", scope: Scope::Namespaced, verbs: ALL, short_names: &[], categories: &[], subresources: &[], hash: "qgS0xkrxYAI=" },
    Builtin { group: "resource.k8s.io", version: "v1", plural: "deviceclasses", singular: "deviceclass", kind: "DeviceClass", scope: Scope::Cluster, verbs: ALL, short_names: &[], categories: &[], subresources: &[], hash: "Yk2PTc1Ybxk=" },
    Builtin { group: "resource.k8s.io", version: "v1", plural: "devicetaintrules", singular: "devicetaintrule", kind: "DeviceTaintRule", scope: Scope::Cluster, verbs: ALL, short_names: &[], categories: &[], subresources: &[own("status", RW)], hash: "i+85+TcIKpA=" },
    Builtin { group: "resource.k8s.io", version: "v1", plural: "resourceclaims", singular: "resourceclaim", kind: "ResourceClaim", scope: Scope::Namespaced, verbs: ALL, short_names: &[], categories: &[], subresources: &[own("status", RW)], hash: "wgAZaHcZxUg=" },
    Builtin { group: "resource.k8s.io", version: "v1", plural: "resourceclaimtemplates", singular: "resourceclaimtemplate", kind: "ResourceClaimTemplate", scope: Scope::Namespaced, verbs: ALL, short_names: &[], categories: &[], subresources: &[], hash: "TuzjC49aUfM=" },
    Builtin { group: "resource.k8s.io", version: "v1", plural: "resourceslices", singular: "resourceslice", kind: "ResourceSlice", scope: Scope::Cluster, verbs: ALL, short_names: &[], categories: &[], subresources: &[], hash: "KsC072WgaEY=" },
    Builtin { group: "flowcontrol.apiserver.k8s.io", version: "v1", plural: "flowschemas", singular: "flowschema", kind: "FlowSchema", scope: Scope::Cluster, verbs: ALL, short_names: &[], categories: &[], subresources: &[own("status", RW)], hash: "GJVAJZSZBIw=" },
    Builtin { group: "flowcontrol.apiserver.k8s.io", version: "v1", plural: "prioritylevelconfigurations", singular: "prioritylevelconfiguration", kind: "PriorityLevelConfiguration", scope: Scope::Cluster, verbs: ALL, short_names: &[], categories: &[], subresources: &[own("status", RW)], hash: "Kir5PVfvNeI=" },
    Builtin { group: "storagemigration.k8s.io", version: "v1", plural: "storageversionmigrations", singular: "storageversionmigration", kind: "StorageVersionMigration", scope: Scope::Cluster, verbs: ALL, short_names: &[], categories: &[], subresources: &[own("status", RW)], hash: "pCjmmKOkLy4=" },
];

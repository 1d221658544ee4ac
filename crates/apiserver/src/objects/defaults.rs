//! What the server fills in that a client left out, where other things depend on it.
//!
//! A kube-apiserver defaults several hundred fields. Here are those that clients and controllers look at: what a pod, a
//! workload or a service is without them would surprise whoever reads it back.

use serde_json::{Map, Value, json};

use super::meta::{self, object_member};
use crate::crd;
use crate::resources::Resource;

/// When defaults are filled in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Moment {
    Create,
    Update,
}

/// Fills in the defaults of the object's kind.
pub(super) fn fill(resource: &Resource, object: &mut Value, moment: Moment) {
    if let Some(version) = resource.custom() {
        return crd::set_defaults(object, &version.schema);
    }
    match (resource.group.as_str(), resource.plural.as_str()) {
        ("", "namespaces") => namespace(object, moment),
        ("", "pods") => pod(object, moment),
        ("", "replicationcontrollers") | ("apps", "replicasets") => {
            default(object_member(object, "spec"), "replicas", json!(1));
            template(object);
            default_status(object, moment, json!({"replicas": 0}));
        }
        ("apps", "deployments") => deployment(object, moment),
        ("apps", "statefulsets") => stateful_set(object, moment),
        ("apps", "daemonsets") => daemon_set(object, moment),
        ("batch", "jobs") => job(object, moment),
        ("", "services") => service(object),
        ("", "secrets") => {
            if let Some(object) = object.as_object_mut() {
                default(object, "type", json!("Opaque"));
            }
        }
        _ => {}
    }
}

/// Fills in what the server adds on its own account, which belongs to no field manager.
pub(super) fn admit(resource: &Resource, object: &mut Value, moment: Moment) {
    if moment == Moment::Update {
        return;
    }
    if resource.is("", "namespaces") {
        object_member(object, "spec").insert("finalizers".to_owned(), json!(["kubernetes"]));
    }
    if resource.is("", "pods") {
        let spec = object_member(object, "spec");
        default(spec, "priority", json!(0));
        default(spec, "preemptionPolicy", json!("PreemptLowerPriority"));
        tolerate_node_trouble(spec);
    }
}

fn default(object: &mut Map<String, Value>, name: &str, value: Value) {
    let entry = object.entry(name).or_insert(Value::Null);
    if entry.is_null() {
        *entry = value;
    }
}

fn default_status(object: &mut Value, moment: Moment, status: Value) {
    if moment == Moment::Create {
        object["status"] = status;
    }
}

fn namespace(object: &mut Value, moment: Moment) {
    let name = meta::name(object).to_owned();
    let labels = meta::meta_mut(object).entry("labels").or_insert_with(|| json!({}));
    if let Some(labels) = labels.as_object_mut() {
        labels.insert("kubernetes.io/metadata.name".to_owned(), name.into());
    }
    if moment == Moment::Create {
        object["status"] = json!({"phase": "Active"});
    }
}

fn pod(object: &mut Value, moment: Moment) {
    pod_spec(object_member(object, "spec"));
    if moment == Moment::Create {
        let class = quality_of_service(object);
        object["status"] = json!({"phase": "Pending", "qosClass": class});
    }
}

/// A pod stays five minutes on a node that is in trouble, unless it says otherwise.
fn tolerate_node_trouble(spec: &mut Map<String, Value>) {
    let tolerations = spec.entry("tolerations").or_insert_with(|| json!([]));
    let Some(tolerations) = tolerations.as_array_mut() else { return };
    for key in ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"] {
        if !tolerations.iter().any(|toleration| toleration["key"] == key) {
            let toleration =
                json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300});
            tolerations.push(toleration);
        }
    }
}

/// `Guaranteed` if every container limits what it requests, `BestEffort` if none requests anything.
fn quality_of_service(pod: &Value) -> &'static str {
    let containers = || pod["spec"]["containers"].as_array().into_iter().flatten();
    let asks = |container: &Value, what: &str| {
        container["resources"][what].as_object().is_some_and(|resources| !resources.is_empty())
    };
    let guaranteed = |container: &Value| {
        let resources = &container["resources"];
        ["cpu", "memory"].iter().all(|name| {
            let limit = &resources["limits"][*name];
            let request = &resources["requests"][*name];
            !limit.is_null() && (request.is_null() || request == limit)
        })
    };
    if containers().all(|container| !asks(container, "limits") && !asks(container, "requests")) {
        "BestEffort"
    } else if containers().all(guaranteed) {
        "Guaranteed"
    } else {
        "Burstable"
    }
}

fn pod_spec(spec: &mut Map<String, Value>) {
    for list in ["containers", "initContainers"] {
        for container in spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            let Some(container) = container.as_object_mut() else { continue };
            let image = container.get("image").and_then(Value::as_str).unwrap_or_default();
            let policy = if pulls_always(image) { "Always" } else { "IfNotPresent" };
            default(container, "resources", json!({}));
            default(container, "terminationMessagePath", json!("/dev/termination-log"));
            default(container, "terminationMessagePolicy", json!("File"));
            default(container, "imagePullPolicy", json!(policy));
            for port in container.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten() {
                if let Some(port) = port.as_object_mut() {
                    default(port, "protocol", json!("TCP"));
                }
            }
        }
    }
    default(spec, "restartPolicy", json!("Always"));
    default(spec, "terminationGracePeriodSeconds", json!(30));
    default(spec, "dnsPolicy", json!("ClusterFirst"));
    default(spec, "securityContext", json!({}));
    default(spec, "schedulerName", json!("default-scheduler"));
    default(spec, "enableServiceLinks", json!(true));
}

/// Images without a tag, or with `latest`, are pulled always.
fn pulls_always(image: &str) -> bool {
    if image.contains('@') {
        return false;
    }
    let name = image.rsplit('/').next().unwrap_or_default();
    name.split_once(':').is_none_or(|(_, tag)| tag == "latest")
}

/// The pod template of a workload. Pods are no part of it: a template has neither priority nor tolerations of its own.
fn template(object: &mut Value) {
    let template = object_member(object, "spec").entry("template").or_insert_with(|| json!({}));
    if template.get("spec").is_some_and(Value::is_object) {
        pod_spec(object_member(template, "spec"));
    }
}

fn deployment(object: &mut Value, moment: Moment) {
    template(object);
    let spec = object_member(object, "spec");
    default(spec, "replicas", json!(1));
    default(spec, "revisionHistoryLimit", json!(10));
    default(spec, "progressDeadlineSeconds", json!(600));
    default(spec, "strategy", json!({}));
    if let Some(strategy) = spec.get_mut("strategy").and_then(Value::as_object_mut) {
        default(strategy, "type", json!("RollingUpdate"));
        if strategy.get("type") == Some(&json!("RollingUpdate")) {
            default(strategy, "rollingUpdate", json!({}));
            if let Some(rolling) = strategy.get_mut("rollingUpdate").and_then(Value::as_object_mut) {
                default(rolling, "maxUnavailable", json!("25%"));
                default(rolling, "maxSurge", json!("25%"));
            }
        }
    }
    default_status(object, moment, json!({}));
}

fn stateful_set(object: &mut Value, moment: Moment) {
    template(object);
    let spec = object_member(object, "spec");
    default(spec, "replicas", json!(1));
    default(spec, "revisionHistoryLimit", json!(10));
    default(spec, "podManagementPolicy", json!("OrderedReady"));
    default(spec, "updateStrategy", json!({"type": "RollingUpdate", "rollingUpdate": {"partition": 0}}));
    default(
        spec,
        "persistentVolumeClaimRetentionPolicy",
        json!({"whenDeleted": "Retain", "whenScaled": "Retain"}),
    );
    default_status(object, moment, json!({"replicas": 0, "availableReplicas": 0}));
}

fn daemon_set(object: &mut Value, moment: Moment) {
    template(object);
    let spec = object_member(object, "spec");
    default(spec, "revisionHistoryLimit", json!(10));
    default(
        spec,
        "updateStrategy",
        json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}}),
    );
    let zero = ["currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady"];
    default_status(object, moment, zero.iter().map(|name| ((*name).to_owned(), json!(0))).collect());
}

fn job(object: &mut Value, moment: Moment) {
    template(object);
    let uid = meta::uid(object).to_owned();
    let name = meta::name(object).to_owned();
    let spec = object_member(object, "spec");
    for (field, value) in [("parallelism", json!(1)), ("completions", json!(1)), ("backoffLimit", json!(6))] {
        default(spec, field, value);
    }
    default(spec, "completionMode", json!("NonIndexed"));
    default(spec, "suspend", json!(false));
    default(spec, "podReplacementPolicy", json!("TerminatingOrFailed"));
    if moment == Moment::Create && spec.get("manualSelector") != Some(&json!(true)) {
        default(spec, "selector", json!({"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}));
        let template = spec.entry("template").or_insert_with(|| json!({}));
        let labels = meta::meta_mut(template).entry("labels").or_insert_with(|| json!({}));
        // Labels that are no object are refused when the job is encoded.
        if let Some(labels) = labels.as_object_mut() {
            for prefix in ["", "batch.kubernetes.io/"] {
                labels.insert(format!("{prefix}controller-uid"), uid.clone().into());
                labels.insert(format!("{prefix}job-name"), name.clone().into());
            }
        }
    }
    default_status(object, moment, json!({}));
}

fn service(object: &mut Value) {
    let spec = object_member(object, "spec");
    default(spec, "type", json!("ClusterIP"));
    default(spec, "sessionAffinity", json!("None"));
    default(spec, "internalTrafficPolicy", json!("Cluster"));
    for port in spec.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten() {
        let Some(port) = port.as_object_mut() else { continue };
        default(port, "protocol", json!("TCP"));
        let number = port.get("port").cloned().unwrap_or_default();
        default(port, "targetPort", number);
    }
    if object.get("status").is_none_or(Value::is_null) {
        object["status"] = json!({"loadBalancer": {}});
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_without_a_tag_or_with_latest_are_pulled_always() {
        for (image, expected) in [
            ("i", true),
            ("host:5000/i", true),
            ("i:latest", true),
            ("i:1", false),
            ("host:5000/i:1", false),
            ("i@sha256:0", false),
        ] {
            assert_eq!(pulls_always(image), expected, "{image}");
        }
    }

    #[test]
    fn the_quality_of_service_follows_from_requests_and_limits() {
        let both = json!({"limits": {"cpu": "1", "memory": "1Gi"}});
        for (resources, expected) in [
            (json!({}), "BestEffort"),
            (both, "Guaranteed"),
            (json!({"requests": {"cpu": "1"}}), "Burstable"),
        ] {
            let pod = json!({"spec": {"containers": [{"resources": resources}]}});
            assert_eq!(quality_of_service(&pod), expected);
        }
    }
}

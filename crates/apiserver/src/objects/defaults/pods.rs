//! Pods, and the pod templates of workloads.

use serde_json::{Map, Value, json};

use super::{Moment, default, each, inner, object_member};

/// Mode of files in projected volumes.
const FILE_MODE: i64 = 0o644;

pub(super) fn pod(object: &mut Value, moment: Moment) {
    let spec = object_member(object, "spec");
    pod_spec(spec);
    default(spec, "enableServiceLinks", json!(true));
    for list in ["containers", "initContainers"] {
        each(spec, list).for_each(request_what_is_limited);
    }
    if moment == Moment::Create {
        let class = quality_of_service(object);
        object["status"] = json!({"phase": "Pending", "qosClass": class});
    }
}

/// The fields that admission adds to a pod.
pub(super) fn admit(spec: &mut Map<String, Value>) {
    default(spec, "priority", json!(0));
    default(spec, "preemptionPolicy", json!("PreemptLowerPriority"));
    let tolerations = spec.entry("tolerations").or_insert_with(|| json!([]));
    let Some(tolerations) = tolerations.as_array_mut() else { return };
    // By default, a pod stays on an unready or unreachable node for five minutes.
    for key in ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"] {
        if !tolerations.iter().any(|toleration| toleration["key"] == key) {
            let toleration =
                json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300});
            tolerations.push(toleration);
        }
    }
}

/// The spec of a pod or of a pod template.
pub(super) fn pod_spec(spec: &mut Map<String, Value>) {
    for list in ["containers", "initContainers", "ephemeralContainers"] {
        each(spec, list).for_each(container);
    }
    each(spec, "volumes").for_each(volume);
    let account = spec.get("serviceAccountName").cloned().unwrap_or_default();
    default(spec, "serviceAccount", account);
    default(spec, "restartPolicy", json!("Always"));
    default(spec, "terminationGracePeriodSeconds", json!(30));
    default(spec, "dnsPolicy", json!("ClusterFirst"));
    default(spec, "securityContext", json!({}));
    default(spec, "schedulerName", json!("default-scheduler"));
}

fn container(container: &mut Map<String, Value>) {
    let image = container.get("image").and_then(Value::as_str).unwrap_or_default();
    let policy = if pulls_always(image) { "Always" } else { "IfNotPresent" };
    default(container, "resources", json!({}));
    default(container, "terminationMessagePath", json!("/dev/termination-log"));
    default(container, "terminationMessagePolicy", json!("File"));
    default(container, "imagePullPolicy", json!(policy));
    each(container, "ports").for_each(|port| default(port, "protocol", json!("TCP")));
    for variable in each(container, "env") {
        if let Some(field) = inner(variable, "valueFrom").and_then(|from| inner(from, "fieldRef")) {
            default(field, "apiVersion", json!("v1"));
        }
    }
    for name in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(probe) = inner(container, name) {
            for (field, value) in [
                ("timeoutSeconds", 1),
                ("periodSeconds", 10),
                ("successThreshold", 1),
                ("failureThreshold", 3),
            ] {
                default(probe, field, json!(value));
            }
            handler(probe);
        }
    }
    if let Some(lifecycle) = inner(container, "lifecycle") {
        for hook in ["postStart", "preStop"] {
            if let Some(hook) = inner(lifecycle, hook) {
                handler(hook);
            }
        }
    }
}

/// The action of a probe or a lifecycle hook.
fn handler(handler: &mut Map<String, Value>) {
    if let Some(get) = inner(handler, "httpGet") {
        default(get, "path", json!("/"));
        default(get, "scheme", json!("HTTP"));
    }
    if let Some(call) = inner(handler, "grpc") {
        default(call, "service", json!(""));
    }
}

fn volume(volume: &mut Map<String, Value>) {
    for source in ["configMap", "secret", "downwardAPI", "projected"] {
        let Some(source) = inner(volume, source) else { continue };
        default(source, "defaultMode", json!(FILE_MODE));
        each(source, "items").for_each(projected_file);
        for part in each(source, "sources") {
            if let Some(token) = inner(part, "serviceAccountToken") {
                default(token, "expirationSeconds", json!(3600));
            }
            if let Some(files) = inner(part, "downwardAPI") {
                each(files, "items").for_each(projected_file);
            }
        }
    }
    if let Some(path) = inner(volume, "hostPath") {
        default(path, "type", json!(""));
    }
}

fn projected_file(file: &mut Map<String, Value>) {
    if let Some(field) = inner(file, "fieldRef") {
        default(field, "apiVersion", json!("v1"));
    }
}

/// A limit without a request also becomes the request.
fn request_what_is_limited(container: &mut Map<String, Value>) {
    let Some(resources) = inner(container, "resources") else { return };
    let Some(limits) = resources.get("limits").and_then(Value::as_object).cloned() else { return };
    let requests = resources.entry("requests").or_insert_with(|| json!({}));
    let Some(requests) = requests.as_object_mut() else { return };
    for (name, limit) in limits {
        default(requests, &name, limit);
    }
}

/// `Guaranteed` if every container's limits equal its requests, `BestEffort` if no container requests anything.
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

/// Images without a tag, or with `latest`, are always pulled.
fn pulls_always(image: &str) -> bool {
    if image.contains('@') {
        return false;
    }
    let name = image.rsplit('/').next().unwrap_or_default();
    name.split_once(':').is_none_or(|(_, tag)| tag == "latest")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_without_a_tag_or_with_latest_are_always_pulled() {
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

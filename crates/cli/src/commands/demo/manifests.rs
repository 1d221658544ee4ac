//! The objects of the simulated cluster.

use serde_json::{Value, json};

pub(super) const NAMESPACES: [&str; 8] =
    ["shop", "search", "billing", "batch", "identity", "media", "analytics", "platform"];
pub(super) const APPS: [&str; 10] =
    ["api", "web", "worker", "cache", "queue", "gateway", "indexer", "mailer", "scheduler", "ledger"];

pub(super) fn namespace(name: &str) -> Value {
    json!({"metadata": {"name": name}})
}

pub(super) fn node(number: usize) -> Value {
    let zone = ["a", "b", "c"][number % 3];
    json!({"metadata": {"name": node_name(number), "labels": {
        "kubernetes.io/hostname": node_name(number), "topology.kubernetes.io/zone": format!("zone-{zone}"),
        "node-role.kubernetes.io/worker": ""}}})
}

pub(super) fn node_name(number: usize) -> String {
    format!("node-{number}")
}

pub(super) fn node_status(number: usize, ready: bool, now: &str) -> Value {
    let (status, reason) = if ready { ("True", "KubeletReady") } else { ("Unknown", "NodeStatusUnknown") };
    json!({"status": {
        "capacity": {"cpu": "16", "memory": "64Gi", "pods": "110"},
        "addresses": [{"type": "InternalIP", "address": format!("10.0.{}.{}", number / 250, number % 250 + 1)}],
        "conditions": [{"type": "Ready", "status": status, "reason": reason, "lastHeartbeatTime": now,
            "lastTransitionTime": now}],
        "nodeInfo": {"kubeletVersion": "v1.37.1", "osImage": "Debian GNU/Linux 13", "kernelVersion": "6.12.41",
            "containerRuntimeVersion": "containerd://2.1.4", "architecture": "amd64", "operatingSystem": "linux",
            "bootID": "", "kubeProxyVersion": "", "machineID": "", "systemUUID": ""}}})
}

fn template(app: &str, tag: u32, hash: Option<&str>) -> Value {
    let mut labels = json!({"app": app});
    if let Some(hash) = hash {
        labels["pod-template-hash"] = hash.into();
    }
    json!({"metadata": {"labels": labels}, "spec": {"terminationGracePeriodSeconds": 1,
        "containers": [{"name": app, "image": image(app, tag)}]}})
}

pub(super) fn image(app: &str, tag: u32) -> String {
    format!("registry.example/{app}:1.{tag}")
}

pub(super) fn deployment(name: &str, app: &str, tag: u32, replicas: usize) -> Value {
    json!({"metadata": {"name": name, "labels": {"app": app}}, "spec": {"replicas": replicas,
        "selector": {"matchLabels": {"app": app}}, "template": template(app, tag, None)}})
}

/// `since` is when the condition took this status.
pub(super) fn deployment_status([all, updated, ready]: [usize; 3], available: &str, since: &str) -> Value {
    let reason = if available == "True" { "MinimumReplicasAvailable" } else { "MinimumReplicasUnavailable" };
    json!({"status": {"replicas": all, "updatedReplicas": updated, "readyReplicas": ready, "availableReplicas": ready,
        "conditions": [{"type": "Available", "status": available, "reason": reason, "lastTransitionTime": since,
            "lastUpdateTime": since}]}})
}

/// Whether a Deployment with this many wanted and ready pods is available, as its condition says it. The demo's Deployments
/// have the default `maxUnavailable`: 25 %, rounded down.
pub(super) fn availability(wanted: usize, ready: usize) -> &'static str {
    let unavailable_max = wanted / 4;
    if ready + unavailable_max >= wanted { "True" } else { "False" }
}

pub(super) fn replica_set(
    name: &str,
    hash: &str,
    app: &str,
    tag: u32,
    replicas: usize,
    owner: (&str, &str),
) -> Value {
    json!({"metadata": {"name": name, "labels": {"app": app, "pod-template-hash": hash},
            "ownerReferences": [owned_by("Deployment", owner.0, owner.1)]},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": app, "pod-template-hash": hash}},
            "template": template(app, tag, Some(hash))}})
}

pub(super) fn pod(name: &str, hash: &str, app: &str, tag: u32, node: usize, owner: (&str, &str)) -> Value {
    let mut pod = template(app, tag, Some(hash));
    pod["metadata"]["name"] = name.into();
    pod["metadata"]["ownerReferences"] = json!([owned_by("ReplicaSet", owner.0, owner.1)]);
    pod["spec"]["nodeName"] = node_name(node).into();
    pod
}

fn owned_by(kind: &str, name: &str, uid: &str) -> Value {
    json!({"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": uid, "controller": true, "blockOwnerDeletion": true})
}

/// The status that a kubelet reports for a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Health {
    Starting,
    Running,
    Crashed,
    Evicted,
}

/// `since` is when the pod became ready or unready.
pub(super) fn pod_status(
    (app, tag): (&str, u32),
    health: Health,
    restarts: u32,
    ip: &str,
    since: &str,
    now: &str,
) -> Value {
    let ready = health == Health::Running;
    let (phase, state) = match health {
        Health::Starting => ("Pending", json!({"waiting": {"reason": "ContainerCreating"}})),
        Health::Running => ("Running", json!({"running": {"startedAt": now}})),
        Health::Crashed => (
            "Running",
            json!({"waiting": {"reason": "CrashLoopBackOff", "message": "back-off restarting failed container"}}),
        ),
        Health::Evicted => {
            return json!({"status": {"phase": "Failed", "reason": "Evicted", "message": "The node was low on resource: memory.",
                "containerStatuses": null,
                "conditions": [{"type": "Ready", "status": "False", "lastTransitionTime": since}]}});
        }
    };
    let last = match restarts {
        0 => json!({}),
        _ => json!({"terminated": {"exitCode": 137, "reason": "OOMKilled", "finishedAt": now}}),
    };
    json!({"status": {"phase": phase, "podIP": ip, "podIPs": [{"ip": ip}], "startTime": now,
        "conditions": [{"type": "Ready", "status": if ready { "True" } else { "False" },
            "lastTransitionTime": since}],
        "containerStatuses": [{"name": app, "image": image(app, tag), "imageID": "", "ready": ready, "restartCount": restarts,
            "state": state, "lastState": last}]}})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quarter_of_the_pods_rounded_down_may_be_unready() {
        let cases = [
            (6, 5, "True"),
            (6, 4, "False"),
            (3, 2, "False"),
            (4, 3, "True"),
            (8, 6, "True"),
            (8, 5, "False"),
            (0, 0, "True"),
        ];
        for (wanted, ready, available) in cases {
            assert_eq!(availability(wanted, ready), available, "{ready} of {wanted}");
        }
    }
}

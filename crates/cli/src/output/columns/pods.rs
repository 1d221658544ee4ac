//! The columns of pods. STATUS summarizes phase, reasons, containers and deletion, as in kubectl.

use jiff::Timestamp;
use serde_json::Value;

use super::{CREATED, Columns, RowFields, age_of, items, name, text_or};
use crate::output::age;

pub(super) const COLUMNS: Columns = Columns {
    usual: &["NAME", "READY", "STATUS", "RESTARTS", "AGE"],
    wide: &["IP", "NODE", "NOMINATED NODE", "READINESS GATES"],
    fields: &[
        "spec.nodeName",
        "spec.readinessGates",
        "spec.containers[*].name",
        "spec.initContainers[*].name",
        "spec.initContainers[*].restartPolicy",
        "status.phase",
        "status.reason",
        "status.podIP",
        "status.podIPs",
        "status.nominatedNodeName",
        "status.conditions[*].type",
        "status.conditions[*].status",
        "status.conditions[*].reason",
        "status.initContainerStatuses[*].name",
        "status.initContainerStatuses[*].ready",
        "status.initContainerStatuses[*].started",
        "status.initContainerStatuses[*].restartCount",
        "status.initContainerStatuses[*].lastState.terminated.finishedAt",
        "status.initContainerStatuses[*].state.waiting.reason",
        "status.initContainerStatuses[*].state.terminated.reason",
        "status.initContainerStatuses[*].state.terminated.signal",
        "status.initContainerStatuses[*].state.terminated.exitCode",
        "status.containerStatuses[*].ready",
        "status.containerStatuses[*].restartCount",
        "status.containerStatuses[*].lastState.terminated.finishedAt",
        "status.containerStatuses[*].state.running",
        "status.containerStatuses[*].state.waiting.reason",
        "status.containerStatuses[*].state.terminated.reason",
        "status.containerStatuses[*].state.terminated.signal",
        "status.containerStatuses[*].state.terminated.exitCode",
    ],
    times: CREATED,
    cells,
};

fn cells(pod: &RowFields<'_>, now: Timestamp) -> Vec<String> {
    let conditions = pod.get("status.conditions");
    let Containers { ready, total, status, restarts, last_restart } = containers(pod, &conditions);
    let restarts = match last_restart {
        Some(time) if restarts > 0 => {
            format!("{restarts} ({} ago)", age::duration(now.as_second() - time.as_second()))
        }
        _ => restarts.to_string(),
    };
    let ip = match items(&pod.get("status.podIPs")).first() {
        Some(ip) => text_or(&ip["ip"], "<none>"),
        None => pod.text_or("status.podIP", "<none>"),
    };
    vec![
        name(pod),
        format!("{ready}/{total}"),
        status,
        restarts,
        age_of(pod, now),
        ip,
        pod.text_or("spec.nodeName", "<none>"),
        pod.text_or("status.nominatedNodeName", "<none>"),
        readiness_gates(&pod.get("spec.readinessGates"), &conditions),
    ]
}

/// A summary of the containers of a pod.
struct Containers {
    ready: usize,
    total: usize,
    status: String,
    restarts: i64,
    last_restart: Option<Timestamp>,
}

fn containers(pod: &RowFields<'_>, conditions: &Value) -> Containers {
    let (phase, reason) = (pod.text("status.phase"), pod.text("status.reason"));
    let mut found = Containers {
        ready: 0,
        total: items(&pod.get("spec.containers")).len(),
        status: if reason.is_empty() { phase.clone() } else { reason.clone() },
        restarts: 0,
        last_restart: None,
    };
    if condition(conditions, "PodScheduled").is_some_and(|condition| condition["reason"] == "SchedulingGated")
    {
        "SchedulingGated".clone_into(&mut found.status);
    }
    let init_containers = pod.get("spec.initContainers");
    let sidecars = items(&init_containers);
    let is_sidecar = |name: &Value| {
        sidecars.iter().any(|container| container["name"] == *name && container["restartPolicy"] == "Always")
    };
    found.total += sidecars.iter().filter(|container| container["restartPolicy"] == "Always").count();
    let init_statuses = pod.get("status.initContainerStatuses");
    let initializing = found.add_init_containers(items(&init_statuses), sidecars.len(), &is_sidecar);
    if !initializing || is_true(conditions, "Initialized") {
        let statuses = pod.get("status.containerStatuses");
        found.add_containers(items(&statuses), items(&init_statuses), conditions, &is_sidecar);
    }
    let is_over = matches!(phase.as_str(), "Succeeded" | "Failed");
    if !pod.get("metadata.deletionTimestamp").is_null() {
        if reason == "NodeLost" {
            "Unknown".clone_into(&mut found.status);
        } else if !is_over {
            "Terminating".clone_into(&mut found.status);
        }
    }
    found
}

impl Containers {
    /// Whether init containers are still running.
    fn add_init_containers(
        &mut self,
        statuses: &[Value],
        count: usize,
        is_sidecar: &impl Fn(&Value) -> bool,
    ) -> bool {
        for (at, container) in statuses.iter().enumerate() {
            self.add_restarts(container);
            let (terminated, waiting) = (&container["state"]["terminated"], &container["state"]["waiting"]);
            if !terminated.is_null() && terminated["exitCode"].as_i64().unwrap_or(0) == 0 {
                continue;
            }
            if is_sidecar(&container["name"]) && container["started"] == true {
                self.ready += usize::from(container["ready"] == true);
                continue;
            }
            self.status = if !terminated.is_null() {
                format!("Init:{}", ended(terminated))
            } else {
                match waiting["reason"].as_str() {
                    Some(reason) if !reason.is_empty() && reason != "PodInitializing" => {
                        format!("Init:{reason}")
                    }
                    _ => format!("Init:{at}/{count}"),
                }
            };
            return true;
        }
        false
    }

    fn add_containers(
        &mut self,
        statuses: &[Value],
        init_statuses: &[Value],
        conditions: &Value,
        is_sidecar: &impl Fn(&Value) -> bool,
    ) {
        // Once the containers run, finished init containers do not count; those that still run do.
        (self.restarts, self.last_restart) = (0, None);
        let sidecars = init_statuses.iter().filter(|container| is_sidecar(&container["name"]));
        sidecars.for_each(|container| self.add_restarts(container));
        let mut running = false;
        for container in statuses.iter().rev() {
            self.add_restarts(container);
            let state = &container["state"];
            let waiting = state["waiting"]["reason"].as_str().unwrap_or_default();
            if !waiting.is_empty() {
                waiting.clone_into(&mut self.status);
            } else if !state["terminated"].is_null() {
                self.status = ended(&state["terminated"]);
            } else if container["ready"] == true && !state["running"].is_null() {
                running = true;
                self.ready += 1;
            }
        }
        if self.status == "Completed" && running {
            if is_true(conditions, "Ready") { "Running" } else { "NotReady" }.clone_into(&mut self.status);
        }
    }

    fn add_restarts(&mut self, container: &Value) {
        self.restarts += container["restartCount"].as_i64().unwrap_or(0);
        let time = container["lastState"]["terminated"]["finishedAt"].as_str();
        self.last_restart = self.last_restart.max(time.and_then(|time| time.parse().ok()));
    }
}

/// Why a container has terminated.
fn ended(terminated: &Value) -> String {
    let reason = text_or(&terminated["reason"], "");
    match terminated["signal"].as_i64().unwrap_or(0) {
        _ if !reason.is_empty() => reason,
        0 => format!("ExitCode:{}", terminated["exitCode"].as_i64().unwrap_or(0)),
        signal => format!("Signal:{signal}"),
    }
}

fn condition<'p>(conditions: &'p Value, wanted: &str) -> Option<&'p Value> {
    items(conditions).iter().find(|condition| condition["type"] == wanted)
}

fn is_true(conditions: &Value, wanted: &str) -> bool {
    condition(conditions, wanted).is_some_and(|condition| condition["status"] == "True")
}

fn readiness_gates(gates: &Value, conditions: &Value) -> String {
    let gates = items(gates);
    if gates.is_empty() {
        return "<none>".to_owned();
    }
    let passed = |gate: &&Value| is_true(conditions, gate["conditionType"].as_str().unwrap_or_default());
    format!("{}/{}", gates.iter().filter(passed).count(), gates.len())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_status_of_a_pod_is_shown_as_by_kubectl() {
        let running = json!({"name": "a", "ready": true, "state": {"running": {}}});
        let crashed = json!({"name": "a", "restartCount": 3, "state": {"waiting": {"reason": "CrashLoopBackOff"}},
            "lastState": {"terminated": {"finishedAt": "2026-01-01T00:00:00Z"}}});
        let ended = |reason: &str, code: i64| json!({"name": "a", "state": {"terminated": {"reason": reason, "exitCode": code}}});
        let deleted = json!({"deletionTimestamp": "2026-01-01T00:00:00Z"});
        for (status, metadata, shown) in [
            (json!({"phase": "Pending"}), json!({}), "0/1 Pending 0"),
            (json!({"phase": "Running", "containerStatuses": [running]}), json!({}), "1/1 Running 0"),
            (
                json!({"phase": "Running", "containerStatuses": [crashed]}),
                json!({}),
                "0/1 CrashLoopBackOff 3 (60s ago)",
            ),
            (json!({"phase": "Failed", "reason": "Evicted"}), json!({}), "0/1 Evicted 0"),
            (
                json!({"phase": "Succeeded", "containerStatuses": [ended("Completed", 0)]}),
                json!({}),
                "0/1 Completed 0",
            ),
            (json!({"phase": "Failed", "containerStatuses": [ended("", 2)]}), json!({}), "0/1 ExitCode:2 0"),
            (
                json!({"phase": "Running", "containerStatuses": [running]}),
                deleted.clone(),
                "1/1 Terminating 0",
            ),
            (json!({"phase": "Succeeded"}), deleted.clone(), "0/1 Succeeded 0"),
            (json!({"phase": "Running", "reason": "NodeLost"}), deleted, "0/1 Unknown 0"),
            (
                json!({"phase": "Pending", "initContainerStatuses": [{"name": "i", "state": {"running": {}}}]}),
                json!({}),
                "0/1 Init:0/1 0",
            ),
            (
                json!({"phase": "Pending", "initContainerStatuses": [ended("Error", 1)]}),
                json!({}),
                "0/1 Init:Error 0",
            ),
            (
                json!({"phase": "Pending", "conditions": [{"type": "PodScheduled", "reason": "SchedulingGated"}]}),
                json!({}),
                "0/1 SchedulingGated 0",
            ),
        ] {
            let init = if status.get("initContainerStatuses").is_some() {
                json!([{"name": "i"}])
            } else {
                json!([])
            };
            let pod = json!({"metadata": metadata, "spec": {"containers": [{"name": "a"}], "initContainers": init}, "status": status});
            let cells = cells(&RowFields::Decoded(&pod), "2026-01-01T00:01:00Z".parse().unwrap());
            assert_eq!(cells[1..4].join(" "), shown, "{pod}");
        }
    }
}

//! The columns of pods. STATUS sums up phase, reasons, containers and deletion, as kubectl users know it.

use jiff::Timestamp;
use serde_json::Value;

use super::{Columns, age_of, items, name, text_or};
use crate::output::age;

pub(super) const COLUMNS: Columns = Columns {
    usual: &["NAME", "READY", "STATUS", "RESTARTS", "AGE"],
    wide: &["IP", "NODE", "NOMINATED NODE", "READINESS GATES"],
    cells,
};

fn cells(pod: &Value, now: Timestamp) -> Vec<String> {
    let Containers { ready, total, status, restarts, last_restart } = containers(pod);
    let restarts = match last_restart {
        Some(time) if restarts > 0 => {
            format!("{restarts} ({} ago)", age::duration(now.as_second() - time.as_second()))
        }
        _ => restarts.to_string(),
    };
    let ip = items(&pod["status"]["podIPs"]).first().map_or(&pod["status"]["podIP"], |ip| &ip["ip"]);
    vec![
        name(pod),
        format!("{ready}/{total}"),
        status,
        restarts,
        age_of(pod, now),
        text_or(ip, "<none>"),
        text_or(&pod["spec"]["nodeName"], "<none>"),
        text_or(&pod["status"]["nominatedNodeName"], "<none>"),
        readiness_gates(pod),
    ]
}

/// What the containers of a pod come to.
struct Containers {
    ready: usize,
    total: usize,
    status: String,
    restarts: i64,
    last_restart: Option<Timestamp>,
}

fn containers(pod: &Value) -> Containers {
    let status = &pod["status"];
    let phase = status["phase"].as_str().unwrap_or_default();
    let mut found = Containers {
        ready: 0,
        total: items(&pod["spec"]["containers"]).len(),
        status: text_or(&status["reason"], phase),
        restarts: 0,
        last_restart: None,
    };
    if condition(pod, "PodScheduled").is_some_and(|condition| condition["reason"] == "SchedulingGated") {
        "SchedulingGated".clone_into(&mut found.status);
    }
    let sidecars = items(&pod["spec"]["initContainers"]);
    let is_sidecar = |name: &Value| {
        sidecars.iter().any(|container| container["name"] == *name && container["restartPolicy"] == "Always")
    };
    found.total += sidecars.iter().filter(|container| container["restartPolicy"] == "Always").count();
    let initializing = found.add_init_containers(status, sidecars.len(), &is_sidecar);
    if !initializing || condition(pod, "Initialized").is_some_and(|condition| condition["status"] == "True") {
        found.add_containers(status, pod, &is_sidecar);
    }
    let is_over = matches!(phase, "Succeeded" | "Failed");
    if !pod["metadata"]["deletionTimestamp"].is_null() {
        if status["reason"] == "NodeLost" {
            "Unknown".clone_into(&mut found.status);
        } else if !is_over {
            "Terminating".clone_into(&mut found.status);
        }
    }
    found
}

impl Containers {
    /// Whether init containers are still at it.
    fn add_init_containers(
        &mut self,
        status: &Value,
        count: usize,
        is_sidecar: &impl Fn(&Value) -> bool,
    ) -> bool {
        for (at, container) in items(&status["initContainerStatuses"]).iter().enumerate() {
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

    fn add_containers(&mut self, status: &Value, pod: &Value, is_sidecar: &impl Fn(&Value) -> bool) {
        // Once the containers run, what the init containers did before does not count; those that still run do.
        (self.restarts, self.last_restart) = (0, None);
        let init = items(&status["initContainerStatuses"]).iter();
        init.filter(|container| is_sidecar(&container["name"]))
            .for_each(|container| self.add_restarts(container));
        let mut running = false;
        for container in items(&status["containerStatuses"]).iter().rev() {
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
            let ready = condition(pod, "Ready").is_some_and(|condition| condition["status"] == "True");
            if ready { "Running" } else { "NotReady" }.clone_into(&mut self.status);
        }
    }

    fn add_restarts(&mut self, container: &Value) {
        self.restarts += container["restartCount"].as_i64().unwrap_or(0);
        let time = container["lastState"]["terminated"]["finishedAt"].as_str();
        self.last_restart = self.last_restart.max(time.and_then(|time| time.parse().ok()));
    }
}

/// Why a container is no longer there.
fn ended(terminated: &Value) -> String {
    let reason = text_or(&terminated["reason"], "");
    match terminated["signal"].as_i64().unwrap_or(0) {
        _ if !reason.is_empty() => reason,
        0 => format!("ExitCode:{}", terminated["exitCode"].as_i64().unwrap_or(0)),
        signal => format!("Signal:{signal}"),
    }
}

fn condition<'p>(pod: &'p Value, wanted: &str) -> Option<&'p Value> {
    items(&pod["status"]["conditions"]).iter().find(|condition| condition["type"] == wanted)
}

fn readiness_gates(pod: &Value) -> String {
    let gates = items(&pod["spec"]["readinessGates"]);
    if gates.is_empty() {
        return "<none>".to_owned();
    }
    let is_true = |gate: &&Value| {
        let wanted = gate["conditionType"].as_str().unwrap_or_default();
        condition(pod, wanted).is_some_and(|condition| condition["status"] == "True")
    };
    format!("{}/{}", gates.iter().filter(is_true).count(), gates.len())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_status_of_a_pod_is_what_kubectl_shows() {
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
            let cells = cells(&pod, "2026-01-01T00:01:00Z".parse().unwrap());
            assert_eq!(cells[1..4].join(" "), shown, "{pod}");
        }
    }
}

//! The columns of nodes.

use jiff::Timestamp;
use serde_json::Value;

use super::{Columns, age_of, items, name, text_or};

pub(super) const COLUMNS: Columns = Columns {
    usual: &["NAME", "STATUS", "ROLES", "AGE", "VERSION"],
    wide: &["INTERNAL-IP", "EXTERNAL-IP", "OS-IMAGE", "KERNEL-VERSION", "CONTAINER-RUNTIME"],
    cells,
};

fn cells(node: &Value, now: Timestamp) -> Vec<String> {
    let info = &node["status"]["nodeInfo"];
    vec![
        name(node),
        status(node),
        roles(node),
        age_of(node, now),
        text_or(&info["kubeletVersion"], ""),
        address(node, "InternalIP"),
        address(node, "ExternalIP"),
        text_or(&info["osImage"], "<unknown>"),
        kernel(info),
        text_or(&info["containerRuntimeVersion"], "<unknown>"),
    ]
}

/// With the architecture, as servers have shown it since 1.36.
fn kernel(info: &Value) -> String {
    let kernel = text_or(&info["kernelVersion"], "<unknown>");
    match info["architecture"].as_str() {
        None | Some("") => kernel,
        Some(architecture) => format!("{kernel} ({architecture})"),
    }
}

fn status(node: &Value) -> String {
    let ready = items(&node["status"]["conditions"]).iter().find(|condition| condition["type"] == "Ready");
    let status = match ready.map(|condition| condition["status"] == "True") {
        Some(true) => "Ready",
        Some(false) => "NotReady",
        None => "Unknown",
    };
    let cordoned = if node["spec"]["unschedulable"] == true { ",SchedulingDisabled" } else { "" };
    format!("{status}{cordoned}")
}

fn roles(node: &Value) -> String {
    let labels = node["metadata"]["labels"].as_object().into_iter().flatten();
    let role = |(label, value): (&String, &Value)| match label.strip_prefix("node-role.kubernetes.io/") {
        Some(role) => Some(role.to_owned()),
        None if label == "kubernetes.io/role" => value.as_str().map(str::to_owned),
        None => None,
    };
    let mut roles = labels.filter_map(role).filter(|role| !role.is_empty()).collect::<Vec<_>>();
    roles.sort();
    roles.dedup();
    if roles.is_empty() { "<none>".to_owned() } else { roles.join(",") }
}

fn address(node: &Value, wanted: &str) -> String {
    let found = items(&node["status"]["addresses"]).iter().find(|address| address["type"] == wanted);
    found.map_or_else(|| "<none>".to_owned(), |address| text_or(&address["address"], "<none>"))
}

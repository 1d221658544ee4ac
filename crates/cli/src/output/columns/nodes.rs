//! The columns of nodes.

use jiff::Timestamp;
use serde_json::Value;

use super::{CREATED, Columns, RowFields, age_of, items, name, text_or};

pub(super) const COLUMNS: Columns = Columns {
    usual: &["NAME", "STATUS", "ROLES", "AGE", "VERSION"],
    wide: &["INTERNAL-IP", "EXTERNAL-IP", "OS-IMAGE", "KERNEL-VERSION", "CONTAINER-RUNTIME"],
    fields: &[
        "spec.unschedulable",
        "status.conditions[*].type",
        "status.conditions[*].status",
        "status.addresses",
        "status.nodeInfo.kubeletVersion",
        "status.nodeInfo.osImage",
        "status.nodeInfo.kernelVersion",
        "status.nodeInfo.architecture",
        "status.nodeInfo.containerRuntimeVersion",
    ],
    times: CREATED,
    cells,
};

fn cells(node: &RowFields<'_>, now: Timestamp) -> Vec<String> {
    let addresses = node.get("status.addresses");
    vec![
        name(node),
        status(node),
        roles(&node.get("metadata.labels")),
        age_of(node, now),
        node.text("status.nodeInfo.kubeletVersion"),
        address(&addresses, "InternalIP"),
        address(&addresses, "ExternalIP"),
        node.text_or("status.nodeInfo.osImage", "<unknown>"),
        kernel(node),
        node.text_or("status.nodeInfo.containerRuntimeVersion", "<unknown>"),
    ]
}

/// With the architecture, as servers have shown it since 1.36.
fn kernel(node: &RowFields<'_>) -> String {
    let kernel = node.text_or("status.nodeInfo.kernelVersion", "<unknown>");
    match node.text("status.nodeInfo.architecture").as_str() {
        "" => kernel,
        architecture => format!("{kernel} ({architecture})"),
    }
}

fn status(node: &RowFields<'_>) -> String {
    let conditions = node.get("status.conditions");
    let ready = items(&conditions).iter().find(|condition| condition["type"] == "Ready");
    let status = match ready.map(|condition| condition["status"] == "True") {
        Some(true) => "Ready",
        Some(false) => "NotReady",
        None => "Unknown",
    };
    let cordoned = if *node.get("spec.unschedulable") == true { ",SchedulingDisabled" } else { "" };
    format!("{status}{cordoned}")
}

fn roles(labels: &Value) -> String {
    let labels = labels.as_object().into_iter().flatten();
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

fn address(addresses: &Value, wanted: &str) -> String {
    let found = items(addresses).iter().find(|address| address["type"] == wanted);
    found.map_or_else(|| "<none>".to_owned(), |address| text_or(&address["address"], "<none>"))
}

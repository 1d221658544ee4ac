//! The columns of deployments and replica sets.

use jiff::Timestamp;
use serde_json::Value;

use super::{Columns, age_of, items, name, selector, text_or};

pub(super) const DEPLOYMENTS: Columns = Columns {
    usual: &["NAME", "READY", "UP-TO-DATE", "AVAILABLE", "AGE"],
    wide: &["CONTAINERS", "IMAGES", "SELECTOR"],
    cells: |object, now| {
        let (spec, status) = (&object["spec"], &object["status"]);
        let usual = vec![
            name(object),
            format!("{}/{}", number(&status["readyReplicas"]), number(&spec["replicas"])),
            number(&status["updatedReplicas"]),
            number(&status["availableReplicas"]),
        ];
        with_containers(usual, object, now)
    },
};

pub(super) const REPLICA_SETS: Columns = Columns {
    usual: &["NAME", "DESIRED", "CURRENT", "READY", "AGE"],
    wide: &["CONTAINERS", "IMAGES", "SELECTOR"],
    cells: |object, now| {
        let (spec, status) = (&object["spec"], &object["status"]);
        let usual = vec![
            name(object),
            number(&spec["replicas"]),
            number(&status["replicas"]),
            number(&status["readyReplicas"]),
        ];
        with_containers(usual, object, now)
    },
};

fn with_containers(mut cells: Vec<String>, object: &Value, now: Timestamp) -> Vec<String> {
    let containers = items(&object["spec"]["template"]["spec"]["containers"]);
    let all = |field: &str| {
        containers.iter().map(|container| text_or(&container[field], "")).collect::<Vec<_>>().join(",")
    };
    cells.extend([age_of(object, now), all("name"), all("image"), selector(&object["spec"]["selector"])]);
    cells
}

fn number(value: &Value) -> String {
    value.as_i64().unwrap_or(0).to_string()
}

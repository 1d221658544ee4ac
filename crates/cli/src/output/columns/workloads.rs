//! The columns of deployments and replica sets.

use jiff::Timestamp;

use super::{CREATED, Columns, RowFields, age_of, items, name, selector, text_or};

pub(super) const DEPLOYMENTS: Columns = Columns {
    usual: &["NAME", "READY", "UP-TO-DATE", "AVAILABLE", "AGE"],
    wide: &["CONTAINERS", "IMAGES", "SELECTOR"],
    fields: &[
        "spec.replicas",
        "spec.selector",
        "spec.template.spec.containers[*].name",
        "spec.template.spec.containers[*].image",
        "status.readyReplicas",
        "status.updatedReplicas",
        "status.availableReplicas",
    ],
    times: CREATED,
    cells: |object, now| {
        let number = |path| number(object, path);
        let usual = vec![
            name(object),
            format!("{}/{}", number("status.readyReplicas"), number("spec.replicas")),
            number("status.updatedReplicas"),
            number("status.availableReplicas"),
        ];
        with_containers(usual, object, now)
    },
};

pub(super) const REPLICA_SETS: Columns = Columns {
    usual: &["NAME", "DESIRED", "CURRENT", "READY", "AGE"],
    wide: &["CONTAINERS", "IMAGES", "SELECTOR"],
    fields: &[
        "spec.replicas",
        "spec.selector",
        "spec.template.spec.containers[*].name",
        "spec.template.spec.containers[*].image",
        "status.replicas",
        "status.readyReplicas",
    ],
    times: CREATED,
    cells: |object, now| {
        let number = |path| number(object, path);
        let usual = vec![
            name(object),
            number("spec.replicas"),
            number("status.replicas"),
            number("status.readyReplicas"),
        ];
        with_containers(usual, object, now)
    },
};

fn with_containers(mut cells: Vec<String>, object: &RowFields<'_>, now: Timestamp) -> Vec<String> {
    let containers = object.get("spec.template.spec.containers");
    let all = |field: &str| {
        let texts = items(&containers).iter().map(|container| text_or(&container[field], ""));
        texts.collect::<Vec<_>>().join(",")
    };
    cells.extend([age_of(object, now), all("name"), all("image"), selector(&object.get("spec.selector"))]);
    cells
}

fn number(object: &RowFields<'_>, path: &'static str) -> String {
    object.get(path).as_i64().unwrap_or(0).to_string()
}

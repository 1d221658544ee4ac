//! The columns of a few more common kinds.

use serde_json::Value;

use super::{CREATED, Columns, RowFields, age_of, items, name, text_or, time_of};
use crate::output::age;

pub(super) const NAMESPACES: Columns = Columns {
    usual: &["NAME", "STATUS", "AGE"],
    wide: &[],
    fields: &["status.phase"],
    times: CREATED,
    cells: |object, now| vec![name(object), object.text("status.phase"), age_of(object, now)],
};

pub(super) const CONFIG_MAPS: Columns = Columns {
    usual: &["NAME", "DATA", "AGE"],
    wide: &[],
    fields: &["data", "binaryData"],
    times: CREATED,
    cells: |object, now| {
        let count = entries(&object.get("data")) + entries(&object.get("binaryData"));
        vec![name(object), count.to_string(), age_of(object, now)]
    },
};

pub(super) const SECRETS: Columns = Columns {
    usual: &["NAME", "TYPE", "DATA", "AGE"],
    wide: &[],
    fields: &["type", "data"],
    times: CREATED,
    cells: |object, now| {
        vec![name(object), object.text("type"), entries(&object.get("data")).to_string(), age_of(object, now)]
    },
};

pub(super) const SERVICES: Columns = Columns {
    usual: &["NAME", "TYPE", "CLUSTER-IP", "EXTERNAL-IP", "PORT(S)", "AGE"],
    wide: &["SELECTOR"],
    fields: &[
        "spec.type",
        "spec.clusterIP",
        "spec.externalIPs",
        "spec.externalName",
        "spec.ports",
        "spec.selector",
        "status.loadBalancer.ingress",
    ],
    times: CREATED,
    cells: |object, now| {
        let selector = object.get("spec.selector");
        let selector = selector.as_object().into_iter().flatten();
        let selector =
            selector.map(|(label, value)| format!("{label}={}", text_or(value, ""))).collect::<Vec<_>>();
        vec![
            name(object),
            object.text("spec.type"),
            object.text_or("spec.clusterIP", "<none>"),
            external_ip(object),
            or_none(&items(&object.get("spec.ports")).iter().map(port).collect::<Vec<_>>()),
            age_of(object, now),
            or_none(&selector),
        ]
    },
};

pub(super) const EVENTS: Columns = Columns {
    usual: &["LAST SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"],
    wide: &["NAME"],
    fields: &[
        "series.lastObservedTime",
        "lastTimestamp",
        "eventTime",
        "involvedObject.kind",
        "involvedObject.name",
        "type",
        "reason",
        "message",
    ],
    times: LAST_SEEN,
    cells: |object, now| {
        let involved = object.text("involvedObject.kind").to_lowercase();
        vec![
            age::since(time_of(object, LAST_SEEN), now),
            object.text("type"),
            object.text("reason"),
            format!("{involved}/{}", object.text("involvedObject.name")),
            object.text("message").trim().replace('\n', "\\n"),
            name(object),
        ]
    },
};

const LAST_SEEN: &[&str] =
    &["series.lastObservedTime", "lastTimestamp", "eventTime", "metadata.creationTimestamp"];

fn entries(value: &Value) -> usize {
    value.as_object().map_or(0, serde_json::Map::len)
}

fn or_none(parts: &[String]) -> String {
    if parts.is_empty() { "<none>".to_owned() } else { parts.join(",") }
}

fn port(port: &Value) -> String {
    let number = &port["port"];
    let node_port = port["nodePort"].as_i64().filter(|port| *port > 0);
    let node_port = node_port.map_or(String::new(), |port| format!(":{port}"));
    format!("{number}{node_port}/{}", text_or(&port["protocol"], "TCP"))
}

fn external_ip(service: &RowFields<'_>) -> String {
    let texts = |list: &Value, of: fn(&Value) -> &Value| {
        items(list).iter().filter_map(|item| of(item).as_str().map(str::to_owned)).collect::<Vec<_>>()
    };
    let service_type = service.text("spec.type");
    let mut addresses = match service_type.as_str() {
        "ExternalName" => return service.text_or("spec.externalName", "<none>"),
        "LoadBalancer" => texts(&service.get("status.loadBalancer.ingress"), |ingress| {
            if ingress["ip"].is_null() { &ingress["hostname"] } else { &ingress["ip"] }
        }),
        _ => Vec::new(),
    };
    let pending = service_type == "LoadBalancer" && addresses.is_empty();
    addresses.extend(texts(&service.get("spec.externalIPs"), |ip| ip));
    if pending && addresses.is_empty() { "<pending>".to_owned() } else { or_none(&addresses) }
}

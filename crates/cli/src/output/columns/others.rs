//! The columns of a few more kinds that are often looked at.

use serde_json::Value;

use super::{Columns, age_of, items, name, text_or};
use crate::output::age;

pub(super) const NAMESPACES: Columns = Columns {
    usual: &["NAME", "STATUS", "AGE"],
    wide: &[],
    cells: |object, now| vec![name(object), text_or(&object["status"]["phase"], ""), age_of(object, now)],
};

pub(super) const CONFIG_MAPS: Columns = Columns {
    usual: &["NAME", "DATA", "AGE"],
    wide: &[],
    cells: |object, now| {
        let count = entries(&object["data"]) + entries(&object["binaryData"]);
        vec![name(object), count.to_string(), age_of(object, now)]
    },
};

pub(super) const SECRETS: Columns = Columns {
    usual: &["NAME", "TYPE", "DATA", "AGE"],
    wide: &[],
    cells: |object, now| {
        vec![
            name(object),
            text_or(&object["type"], ""),
            entries(&object["data"]).to_string(),
            age_of(object, now),
        ]
    },
};

pub(super) const SERVICES: Columns = Columns {
    usual: &["NAME", "TYPE", "CLUSTER-IP", "EXTERNAL-IP", "PORT(S)", "AGE"],
    wide: &["SELECTOR"],
    cells: |object, now| {
        let spec = &object["spec"];
        let selector = spec["selector"].as_object().into_iter().flatten();
        let selector =
            selector.map(|(label, value)| format!("{label}={}", text_or(value, ""))).collect::<Vec<_>>();
        vec![
            name(object),
            text_or(&spec["type"], ""),
            text_or(&spec["clusterIP"], "<none>"),
            external_ip(object),
            or_none(&items(&spec["ports"]).iter().map(port).collect::<Vec<_>>()),
            age_of(object, now),
            or_none(&selector),
        ]
    },
};

pub(super) const EVENTS: Columns = Columns {
    usual: &["LAST SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"],
    wide: &["NAME"],
    cells: |object, now| {
        let times =
            ["/series/lastObservedTime", "/lastTimestamp", "/eventTime", "/metadata/creationTimestamp"];
        let time = times.iter().filter_map(|path| object.pointer(path)).find(|time| !time.is_null());
        let involved = &object["involvedObject"];
        vec![
            age::since(time.unwrap_or(&Value::Null), now),
            text_or(&object["type"], ""),
            text_or(&object["reason"], ""),
            format!("{}/{}", text_or(&involved["kind"], "").to_lowercase(), text_or(&involved["name"], "")),
            text_or(&object["message"], "").trim().replace('\n', "\\n"),
            name(object),
        ]
    },
};

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

fn external_ip(service: &Value) -> String {
    let texts = |list: &Value, of: fn(&Value) -> &Value| {
        items(list).iter().filter_map(|item| of(item).as_str().map(str::to_owned)).collect::<Vec<_>>()
    };
    let (spec, status) = (&service["spec"], &service["status"]);
    let mut addresses = match spec["type"].as_str() {
        Some("ExternalName") => return text_or(&spec["externalName"], "<none>"),
        Some("LoadBalancer") => texts(&status["loadBalancer"]["ingress"], |ingress| {
            if ingress["ip"].is_null() { &ingress["hostname"] } else { &ingress["ip"] }
        }),
        _ => Vec::new(),
    };
    let pending = spec["type"] == "LoadBalancer" && addresses.is_empty();
    addresses.extend(texts(&spec["externalIPs"], |ip| ip));
    if pending && addresses.is_empty() { "<pending>".to_owned() } else { or_none(&addresses) }
}

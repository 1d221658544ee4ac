//! Defaults of all other kinds.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use super::{Moment, default, default_members, default_status, each, inner, meta, object_member};
use crate::clock::Chance;

pub(super) fn namespace(object: &mut Value, moment: Moment) {
    let name = meta::name(object).to_owned();
    let labels = meta::meta_mut(object).entry("labels").or_insert_with(|| json!({}));
    if let Some(labels) = labels.as_object_mut() {
        labels.insert("kubernetes.io/metadata.name".to_owned(), name.into());
    }
    default_status(object, moment, json!({"phase": "Active"}));
}

pub(super) fn service(object: &mut Value) {
    let spec = object_member(object, "spec");
    default(spec, "type", json!("ClusterIP"));
    default(spec, "sessionAffinity", json!("None"));
    if spec.get("type") != Some(&json!("ExternalName")) {
        default(spec, "internalTrafficPolicy", json!("Cluster"));
    }
    for port in each(spec, "ports") {
        default(port, "protocol", json!("TCP"));
        let number = port.get("port").cloned().unwrap_or_default();
        default(port, "targetPort", number);
    }
    default_members(object, &[("status", json!({"loadBalancer": {}}))]);
}

/// Assigns a service an address in 10.0.0.0/16, unless it is headless. The first address belongs to the API server.
pub(super) fn admit_service(spec: &mut Map<String, Value>, chance: &Chance) {
    if spec.get("type") == Some(&json!("ExternalName")) {
        return;
    }
    let address = || format!("10.0.{}.{}", (chance.unit() * 256.0) as u8, 2 + (chance.unit() * 253.0) as u8);
    if spec.get("clusterIP").and_then(Value::as_str).is_none_or(str::is_empty) {
        spec.insert("clusterIP".to_owned(), address().into());
    }
    let ip = spec.get("clusterIP").cloned().unwrap_or_default();
    default(spec, "clusterIPs", json!([ip]));
    default(spec, "ipFamilies", json!(["IPv4"]));
    default(spec, "ipFamilyPolicy", json!("SingleStack"));
}

/// Merges `stringData`, the write-only form of `data` without base64, into `data`.
pub(super) fn secret(object: &mut Value) {
    default_members(object, &[("type", json!("Opaque"))]);
    let Some(members) = object.as_object_mut() else { return };
    let plain = match members.get("stringData") {
        Some(Value::Object(plain)) if plain.values().all(Value::is_string) => plain.clone(),
        // Anything but a map of strings is rejected when the object is encoded.
        _ => return,
    };
    members.remove("stringData");
    let data = members.entry("data").or_insert_with(|| json!({}));
    if data.is_null() {
        *data = json!({});
    }
    if let Some(data) = data.as_object_mut() {
        for (name, text) in plain {
            data.insert(name, STANDARD.encode(text.as_str().unwrap_or_default()).into());
        }
    }
}

pub(super) fn endpoints(object: &mut Value) {
    let Some(object) = object.as_object_mut() else { return };
    for subset in each(object, "subsets") {
        each(subset, "ports").for_each(|port| default(port, "protocol", json!("TCP")));
    }
}

pub(super) fn endpoint_slice(object: &mut Value) {
    let Some(object) = object.as_object_mut() else { return };
    for port in each(object, "ports") {
        default(port, "name", json!(""));
        default(port, "protocol", json!("TCP"));
    }
}

/// A container's default limit is also its default request.
pub(super) fn limit_range(object: &mut Value) {
    for limit in each(object_member(object, "spec"), "limits") {
        if limit.get("type") == Some(&json!("Container")) {
            let limits = limit.get("default").cloned().unwrap_or_default();
            default(limit, "defaultRequest", limits);
        }
    }
}

pub(super) fn claim(object: &mut Value, moment: Moment) {
    default(object_member(object, "spec"), "volumeMode", json!("Filesystem"));
    default_status(object, moment, json!({"phase": "Pending"}));
}

pub(super) fn volume(object: &mut Value, moment: Moment) {
    let spec = object_member(object, "spec");
    default(spec, "volumeMode", json!("Filesystem"));
    default(spec, "persistentVolumeReclaimPolicy", json!("Retain"));
    if let Some(path) = inner(spec, "hostPath") {
        default(path, "type", json!(""));
    }
    default_status(object, moment, json!({"phase": "Pending"}));
}

pub(super) fn network_policy(object: &mut Value) {
    let spec = object_member(object, "spec");
    let egress = spec.get("egress").and_then(Value::as_array).is_some_and(|rules| !rules.is_empty());
    let types = if egress { json!(["Ingress", "Egress"]) } else { json!(["Ingress"]) };
    default(spec, "policyTypes", types);
    for direction in ["ingress", "egress"] {
        for rule in each(spec, direction) {
            each(rule, "ports").for_each(|port| default(port, "protocol", json!("TCP")));
        }
    }
}

pub(super) fn autoscaler(object: &mut Value) {
    let spec = object_member(object, "spec");
    default(spec, "minReplicas", json!(1));
    let target = json!({"type": "Utilization", "averageUtilization": 80});
    default(spec, "metrics", json!([{"type": "Resource", "resource": {"name": "cpu", "target": target}}]));
}

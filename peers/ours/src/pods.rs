//! Running pods like those of a cluster: two containers, ten pods per ReplicaSet, scheduled, with a status.
//! `client-go-peer pods` creates the same. Uids, container ids and digests are random, so they compress like real ones.

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};

/// Returns pod `number`, which is the same in every run.
pub(crate) fn pod(number: u64, namespaces: u64) -> Value {
    let set = number / 10;
    let (random, owner) = (&mut StdRng::seed_from_u64(number), &mut StdRng::seed_from_u64(!set));
    let (app, hash) = (format!("app-{set}"), hexadecimal(owner, 5));
    let began = format!("2025-10-09T{:02}:{:02}:{:02}Z", number / 3600 % 24, number / 60 % 60, number % 60);
    let address = format!("10.{}.{}.{}", 1 + (number >> 16), number >> 8 & 255, number & 255);
    let tier = ["frontend", "backend", "batch"][set as usize % 3];
    let conditions = ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"];
    let condition = |kind: &str| json!({"type": kind, "status": "True", "lastTransitionTime": began});
    let (own_uid, checksum, owner) = (uid(random), hexadecimal(owner, 32), uid(owner));
    let statuses = ["main", "sidecar"].map(|name| {
        json!({
            "name": name, "image": image(name), "ready": true, "started": true, "restartCount": 0,
            "imageID": format!("registry.example.com/shop/{name}@sha256:{}", hexadecimal(random, 32)),
            "containerID": format!("containerd://{}", hexadecimal(random, 32)),
            "state": {"running": {"startedAt": began}},
        })
    });
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": format!("{app}-{hash}-{number}"),
            "namespace": format!("team-{}", set % namespaces),
            "uid": own_uid,
            "creationTimestamp": began,
            "labels": {
                "app.kubernetes.io/name": app, "app.kubernetes.io/part-of": "shop", "pod-template-hash": hash,
                "tier": tier,
            },
            "annotations": {"prometheus.io/scrape": "true", "checksum/config": checksum},
            "ownerReferences": [{
                "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": format!("{app}-{hash}"), "uid": owner,
                "controller": true, "blockOwnerDeletion": true,
            }],
        },
        "spec": {
            "nodeName": format!("node-{}", number % 500),
            "terminationGracePeriodSeconds": 30,
            "containers": [container("main", "http", 8080), container("sidecar", "metrics", 15090)],
            "tolerations": [
                {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"},
                {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute"},
            ],
            "volumes": [{"name": "config", "configMap": {"name": app}}],
        },
        "status": {
            "phase": "Running", "hostIP": format!("192.168.{}.{}", number % 500 / 250, number % 250),
            "podIP": address, "podIPs": [{"ip": address}], "startTime": began, "qosClass": "Burstable",
            "conditions": conditions.map(condition),
            "containerStatuses": statuses,
        },
    })
}

fn container(name: &str, port_name: &str, port: u16) -> Value {
    let probe = json!({"httpGet": {"path": "/healthz", "port": port}});
    json!({
        "name": name, "image": image(name),
        "args": ["--config=/etc/shop/config.yaml", format!("--listen=:{port}")],
        "ports": [{"name": port_name, "containerPort": port}],
        "env": [
            {"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            {"name": "LOG_LEVEL", "value": "info"},
        ],
        "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "256Mi"}},
        "livenessProbe": probe, "readinessProbe": probe,
        "volumeMounts": [{"name": "config", "mountPath": "/etc/shop", "readOnly": true}],
    })
}

fn image(name: &str) -> String {
    format!("registry.example.com/shop/{name}:v1.4.2")
}

pub(crate) fn hexadecimal(random: &mut StdRng, bytes: usize) -> String {
    (0..bytes).map(|_| format!("{:02x}", random.random::<u8>())).collect()
}

pub(crate) fn uid(random: &mut StdRng) -> String {
    let text = hexadecimal(random, 16);
    format!("{}-{}-{}-{}-{}", &text[..8], &text[8..12], &text[12..16], &text[16..20], &text[20..])
}

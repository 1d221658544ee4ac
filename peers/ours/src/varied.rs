//! Pods that have little in common, as in a cluster of many small teams: each has its own template, with other
//! containers, variables, volumes and annotations. A store gains little from their similarity.

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::{Map, Value, json};

use crate::pods::{self, hexadecimal};

/// The pod with a number. It is the same in every run. Its name, owner, node and status are those of [`pods::pod`].
pub(crate) fn pod(number: u64, namespaces: u64) -> Value {
    let random = &mut StdRng::seed_from_u64(number ^ 0x5eed);
    // The first pod of a set of ten, so that no two have an owner in common.
    let mut pod = pods::pod(number * 10, namespaces);
    let count = random.random_range(1..=4);
    let containers: Vec<Value> = (0..count).map(|_| container(random)).collect();
    let statuses: Vec<Value> = containers.iter().map(|container| status(random, container)).collect();
    let volumes: Vec<Value> = (0..random.random_range(0..5)).map(|_| volume(random)).collect();
    pod["spec"]["nodeName"] = format!("node-{}", number % 500).into();
    pod["spec"]["containers"] = containers.into();
    pod["spec"]["volumes"] = volumes.into();
    pod["spec"]["serviceAccountName"] = word(random).into();
    pod["status"]["containerStatuses"] = statuses.into();
    for part in ["labels", "annotations"] {
        pod["metadata"][part] = Value::Object(words(random, 2, 10));
    }
    pod
}

fn container(random: &mut StdRng) -> Value {
    let variables: Vec<Value> = (0..random.random_range(3..20))
        .map(|_| json!({"name": word(random).to_uppercase(), "value": hexadecimal(random, 12)}))
        .collect();
    let arguments: Vec<String> =
        (0..random.random_range(0..6)).map(|_| format!("--{}={}", word(random), word(random))).collect();
    let port = random.random_range(1_024..65_535);
    json!({
        "name": word(random),
        "image": format!("{}.example.com/{}:{}", word(random), word(random), hexadecimal(random, 4)),
        "args": arguments,
        "env": variables,
        "ports": [{"name": word(random), "containerPort": port}],
        "resources": {
            "requests": {"cpu": format!("{}m", random.random_range(10..2_000)), "memory": format!("{}Mi", random.random_range(16..4_096))},
        },
        "readinessProbe": {"httpGet": {"path": format!("/{}", word(random)), "port": port}, "periodSeconds": random.random_range(1..60)},
    })
}

fn status(random: &mut StdRng, container: &Value) -> Value {
    json!({
        "name": container["name"], "image": container["image"], "ready": true, "started": true,
        "restartCount": random.random_range(0..20),
        "imageID": format!("registry.example.com/{}@sha256:{}", word(random), hexadecimal(random, 32)),
        "containerID": format!("containerd://{}", hexadecimal(random, 32)),
        "state": {"running": {"startedAt": "2025-10-09T08:15:30Z"}},
    })
}

fn volume(random: &mut StdRng) -> Value {
    let name = word(random);
    match random.random_range(0..3) {
        0 => json!({"name": name, "configMap": {"name": word(random)}}),
        1 => json!({"name": name, "secret": {"secretName": word(random)}}),
        _ => json!({"name": name, "emptyDir": {"sizeLimit": format!("{}Mi", random.random_range(1..1_024))}}),
    }
}

fn words(random: &mut StdRng, least: usize, most: usize) -> Map<String, Value> {
    let count = random.random_range(least..=most);
    (0..count)
        .map(|_| (format!("{}.example.com/{}", word(random), word(random)), word(random).into()))
        .collect()
}

/// Four to twelve random letters: a word that no other pod has.
fn word(random: &mut StdRng) -> String {
    (0..random.random_range(4..=12)).map(|_| char::from(random.random_range(b'a'..=b'z'))).collect()
}

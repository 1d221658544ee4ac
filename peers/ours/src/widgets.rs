//! Custom resources like those of operators: a nested spec, and a status with conditions.

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};

use crate::pods::{hexadecimal, uid};

pub(crate) const GROUP: &str = "bench.example.com";
pub(crate) const VERSION: &str = "v1";
pub(crate) const PLURAL: &str = "widgets";

/// The CustomResourceDefinition.
pub(crate) fn definition() -> Value {
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{PLURAL}.{GROUP}")},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {"plural": PLURAL, "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
            "versions": [{
                "name": VERSION, "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": open, "status": open}}},
            }],
        },
    })
}

/// The custom resource with a number. It is the same in every run.
pub(crate) fn widget(number: u64, namespaces: u64) -> Value {
    let random = &mut StdRng::seed_from_u64(number);
    let app = format!("site-{number}");
    let own_uid = uid(random);
    let rules: Vec<Value> = (0..1 + number % 4)
        .map(|rule| {
            json!({
                "host": format!("{app}-{rule}.example.com"), "path": format!("/{}", hexadecimal(random, 4)),
                "backend": {"service": format!("{app}-{rule}"), "port": 8000 + rule},
                "timeouts": {"connect": "5s", "read": format!("{}s", random.random_range(10..120))},
            })
        })
        .collect();
    let condition = |kind: &str| {
        json!({
            "type": kind, "status": "True", "reason": "Reconciled", "message": "", "observedGeneration": 1,
            "lastTransitionTime": "2025-10-09T08:15:30Z",
        })
    };
    let conditions = ["Ready", "Available", "Synced"].map(condition);
    json!({
        "apiVersion": format!("{GROUP}/{VERSION}"),
        "kind": "Widget",
        "metadata": {
            "name": app,
            "namespace": format!("team-{}", number % namespaces),
            "uid": own_uid,
            "generation": 1,
            "creationTimestamp": "2025-10-09T08:15:30Z",
            "labels": {"app.kubernetes.io/name": app, "app.kubernetes.io/part-of": "shop"},
            "finalizers": [format!("{GROUP}/cleanup")],
        },
        "spec": {
            "replicas": random.random_range(1..10),
            "image": format!("registry.example.com/shop/site@sha256:{}", hexadecimal(random, 32)),
            "rules": rules,
            "settings": {"cacheSize": format!("{}Mi", random.random_range(16..512)), "logLevel": "info", "compress": true},
        },
        "status": {
            "observedGeneration": 1, "url": format!("https://{}.example.com", hexadecimal(random, 6)),
            "conditions": conditions,
        },
    })
}

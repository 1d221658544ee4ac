//! `get --watch`: rows of objects that change, as in kubectl.

use embedded_apiserver::{Action, Fault, Match, Verb};
use serde_json::{Value, json};

use crate::support::{World, rows};

#[tokio::test(flavor = "multi_thread")]
async fn existing_objects_are_printed_then_one_row_per_change() {
    let world = World::populated().await;
    let mut watch = world.start(&["get", "pods", "-w", "-L", "app"]);
    assert_eq!(rows(&watch.line_with(&[]).await), ["NAME READY STATUS RESTARTS AGE APP"]);
    assert_eq!(rows(&watch.line_with(&[]).await), ["api-1 0/1 Pending 0 AGE api"]);
    assert_eq!(rows(&watch.line_with(&[]).await), ["api-2 0/1 Pending 0 AGE api"]);
    world.set_phase("default", "api-2", "Running").await;
    assert_eq!(rows(&watch.line_with(&[]).await), ["api-2 0/1 Running 0 AGE api"]);
    assert_eq!(watch.end().await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn types_of_events_are_shown_on_request() {
    let world = World::populated().await;
    let mut changes =
        world.start(&["get", "pods", "-n", "shop", "-l", "new", "--watch-only", "--output-watch-events"]);
    changes.error_with("no objects yet").await;
    let mut json = world.start(&["get", "pods", "api-1", "-w", "--output-watch-events", "-o", "json"]);
    let mut plain = world.start(&["get", "pods", "api-1", "-w", "-o", "json"]);
    let mut names = world.start(&["get", "pods", "-w", "-o", "name"]);
    assert_eq!(names.line_with(&[]).await, "pod/api-1");
    let added: Value = serde_json::from_str(&json.line_with(&[]).await).unwrap();
    assert_eq!((&added["type"], &added["object"]["kind"]), (&json!("ADDED"), &json!("Pod")));
    // Without types the documents are those of `get`.
    assert_eq!(plain.line_with(&[]).await, "{");
    assert_eq!(plain.line_with(&["\"kind\""]).await.trim(), "\"kind\": \"Pod\",");
    world.set_phase("default", "api-1", "Running").await;
    let modified: Value = serde_json::from_str(&json.line_with(&[]).await).unwrap();
    assert_eq!(modified["type"], "MODIFIED");
    world.patch("/api/v1/namespaces/shop/pods/web-1", json!({"metadata": {"labels": {"new": "1"}}})).await;
    world.delete("/api/v1/namespaces/shop/pods/web-1").await;
    assert_eq!(rows(&changes.line_with(&[]).await), ["EVENT NAME READY STATUS RESTARTS AGE"]);
    assert_eq!(rows(&changes.line_with(&[]).await), ["ADDED web-1 0/1 Pending 0 AGE"]);
    assert_eq!(rows(&changes.line_with(&["DELETED"]).await), ["DELETED web-1 0/1 Terminating 0 AGE"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_object_is_an_error_unless_it_is_ignored() {
    let world = World::populated().await;
    let file = world.directory.path().join("gone.yaml");
    std::fs::write(&file, "apiVersion: v1\nkind: Pod\nmetadata: {name: gone, namespace: shop}\n").unwrap();
    for arguments in [
        &["get", "pod/gone", "-w"][..],
        &["get", "pods", "api-1", "gone", "--watch-only"],
        &["get", "pods", "gone", "-n", "default,shop", "-w"],
        &["get", "node/gone", "-w", "-o", "json"],
        &["get", "-f", file.to_str().unwrap(), "-w"],
    ] {
        let ended = world.run(arguments).await;
        assert_eq!((ended.code, ended.stdout.as_str()), (5, ""), "{arguments:?}: {ended:?}");
        assert!(ended.stderr.contains("\"gone\" not found"), "{arguments:?}: {ended:?}");
    }
    // It exists in one of the namespaces.
    let mut one = world.start(&["get", "pods", "web-1", "-n", "default,shop", "-w", "--no-headers"]);
    assert_eq!(rows(&one.line_with(&["web-1"]).await), ["shop web-1 0/1 Pending 0 AGE"]);
    let mut ignored = world.start(&["get", "pods", "later", "-w", "--ignore-not-found", "--no-headers"]);
    ignored.error_with("no objects yet").await;
    world.create_pod("default", "later", "node-7").await;
    assert_eq!(rows(&ignored.line_with(&[]).await), ["later 0/1 Pending 0 AGE"]);
    for watch in [one, ignored] {
        assert_eq!(watch.end().await, 0);
    }
}

/// A kind of custom resources with columns, and one object of it.
async fn create_widget(world: &World) {
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    let columns = json!([
        {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
        {"name": "Ready", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Ready\")].status"},
        {"name": "Note", "type": "string", "jsonPath": ".spec.note", "priority": 1},
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    ]);
    let version = json!({"name": "v1", "served": true, "storage": true, "schema": schema, "additionalPrinterColumns": columns});
    let names = json!({"plural": "widgets", "singular": "widget", "kind": "Widget"});
    let definition = json!({"metadata": {"name": "widgets.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version]}});
    world.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition).await;
    let widget = json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "one"},
        "spec": {"size": 3, "note": "small"}});
    world.create("/apis/example.com/v1/namespaces/default/widgets", widget).await;
}

const WIDGET: &str = "/apis/example.com/v1/namespaces/default/widgets/one";

#[tokio::test(flavor = "multi_thread")]
async fn custom_resources_have_the_columns_of_their_definition() {
    let world = World::populated().await;
    create_widget(&world).await;
    let mut usual = world.start(&["get", "widgets", "-w"]);
    let mut wide = world.start(&["get", "widgets", "-w", "-o", "wide", "--output-watch-events"]);
    let mut several = world.start(&["get", "widgets,pods/api-1", "-w", "--no-headers"]);
    assert_eq!(rows(&usual.line_with(&[]).await), ["NAME SIZE READY AGE"]);
    assert_eq!(rows(&usual.line_with(&[]).await), ["one 3 <none> AGE"]);
    assert_eq!(rows(&wide.line_with(&[]).await), ["EVENT NAME SIZE READY NOTE AGE"]);
    assert_eq!(rows(&wide.line_with(&[]).await), ["ADDED one 3 <none> small AGE"]);
    assert_eq!(rows(&several.line_with(&["widget"]).await), ["widget.example.com/one 3 <none> AGE"]);
    let ready = json!({"spec": {"size": 4}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}});
    world.patch(WIDGET, ready).await;
    assert_eq!(rows(&usual.line_with(&[]).await), ["one 4 True AGE"]);
    assert_eq!(rows(&wide.line_with(&[]).await), ["MODIFIED one 4 True small AGE"]);
    assert_eq!(rows(&several.line_with(&["widget"]).await), ["widget.example.com/one 4 True AGE"]);
    for watch in [usual, wide, several] {
        assert_eq!(watch.end().await, 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn custom_resources_have_a_name_and_an_age_if_their_definition_cannot_be_read() {
    let world = World::new().await;
    create_widget(&world).await;
    let refusal = Action::Status {
        code: 403,
        reason: "Forbidden".to_owned(),
        message: "no".to_owned(),
        retry_after_seconds: 0,
    };
    world
        .server
        .faults()
        .arm(Fault::new(refusal).on(Match::verb(Verb::Get).resource("customresourcedefinitions")));
    let mut watch = world.start(&["get", "widgets", "-w"]);
    assert_eq!(rows(&watch.line_with(&[]).await), ["NAME AGE"]);
    assert_eq!(rows(&watch.line_with(&[]).await), ["one AGE"]);
    assert_eq!(watch.end().await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_of_manifests_are_watched() {
    let world = World::populated().await;
    let file = world.directory.path().join("manifest.yaml");
    std::fs::write(&file, "apiVersion: v1\nkind: Pod\nmetadata: {name: web-1, namespace: shop}\n").unwrap();
    let mut watch = world.start(&["get", "-f", file.to_str().unwrap(), "-w", "--no-headers"]);
    assert_eq!(rows(&watch.line_with(&[]).await), ["web-1 0/1 Pending 0 AGE"]);
    world.set_phase("default", "api-1", "Running").await;
    world.set_phase("shop", "web-1", "Running").await;
    assert_eq!(rows(&watch.line_with(&[]).await), ["web-1 0/1 Running 0 AGE"]);
    assert_eq!(watch.end().await, 0);
}

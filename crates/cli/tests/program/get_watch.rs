//! `get --watch`: rows of objects that change, as in kubectl.

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

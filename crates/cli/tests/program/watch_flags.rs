//! `watch`: fields, types of events, times, and the width of a terminal.

use serde_json::{Value, json};

use crate::support::{World, rows};
use crate::terminal::{OnTerminal, USUAL};

#[tokio::test(flavor = "multi_thread")]
async fn an_object_that_starts_or_stops_matching_a_field_is_reported_as_added_or_deleted() {
    let world = World::populated().await;
    world.set_phase("default", "api-2", "Running").await;
    let mut watch = world.start(&["watch", "pods", "--field", "status.phase=Running", "--no-headers"]);
    assert_eq!(rows(&watch.line_with(&[]).await), ["ADDED api-2 0/1 Running"]);
    world.set_phase("default", "api-1", "Failed").await;
    world.set_phase("default", "api-1", "Running").await;
    assert_eq!(rows(&watch.line_with(&[]).await), ["ADDED api-1 status.phase: Failed → Running"]);
    world.patch("/api/v1/namespaces/default/pods/api-1", json!({"metadata": {"labels": {"a": "1"}}})).await;
    assert_eq!(rows(&watch.line_with(&[]).await), ["MODIFIED api-1 +metadata.labels.a: 1"]);
    world.set_phase("default", "api-1", "Succeeded").await;
    assert_eq!(rows(&watch.line_with(&[]).await), ["DELETED api-1 no longer matches --field"]);
    world.delete("/api/v1/namespaces/default/pods/api-1").await;
    world.delete("/api/v1/namespaces/default/pods/api-2").await;
    assert_eq!(rows(&watch.line_with(&["DELETED"]).await), ["DELETED api-2"]);
    let masked = world.run(&["watch", "secrets", "--field", "data.password=x"]).await;
    assert!(masked.code == 2 && masked.stderr.contains("--show-secrets"), "{masked:?}");
    let unknown = world.run(&["watch", "pods", "--field", "spec.nodename=x"]).await;
    assert!(unknown.code == 2 && unknown.stderr.contains("nodename"), "{unknown:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_requested_types_of_events_are_printed() {
    let world = World::new().await;
    let mut watch = world.start(&["watch", "pods", "--type", "modified,Deleted", "--no-headers"]);
    watch.error_with("no objects yet").await;
    world.create_pod("default", "api-1", "node-7").await;
    world.set_phase("default", "api-1", "Running").await;
    world.delete("/api/v1/namespaces/default/pods/api-1").await;
    assert_eq!(rows(&watch.line_with(&[]).await), ["MODIFIED api-1 status.phase: Pending → Running"]);
    assert_eq!(rows(&watch.line_with(&["DELETED"]).await), ["DELETED api-1"]);
    let wrong = world.run(&["watch", "pods", "--type", "changed"]).await;
    assert!(wrong.code == 2 && wrong.stderr.contains("possible values"), "{wrong:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn events_have_absolute_times_on_request() {
    let world = World::populated().await;
    let mut watch = world.start(&["watch", "pods", "--timestamps"]);
    assert_eq!(rows(&watch.line_with(&[]).await), ["TIME EVENT NAME CHANGE"]);
    let line = watch.line_with(&["api-1"]).await;
    let time = line.split(' ').next().unwrap();
    assert!(time.ends_with('Z') && time.len() == "2026-01-02T03:04:05.678Z".len(), "{line}");
    let mut json = world.start(&["watch", "pods", "--timestamps", "-o", "json"]);
    let event: Value = serde_json::from_str(&json.line_with(&[]).await).unwrap();
    assert!(event["time"].as_str().unwrap().ends_with('Z') && event["type"] == json!("ADDED"), "{event}");
    let both = world.run(&["watch", "pods", "--timestamps", "--since-start"]).await;
    assert_eq!(both.code, 2, "{both:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_are_cut_to_the_width_of_a_terminal_and_complete_in_a_pipe() {
    let world = World::new().await;
    let long = "x".repeat(300);
    let map = json!({"metadata": {"name": "m", "labels": {"a": "1"}}, "data": {"text": "old"}});
    world.create("/api/v1/namespaces/default/configmaps", map).await;
    let mut terminal = OnTerminal::start(&world, &["watch", "cm"], USUAL, true);
    terminal.until("ADDED").await;
    let mut pipe = world.start(&["watch", "cm"]);
    pipe.line_with(&["ADDED"]).await;
    let patch = json!({"data": {"a": long, "b": long, "c": long}});
    world.patch("/api/v1/namespaces/default/configmaps/m", patch).await;
    let written = terminal.until("…\r\n").await;
    let row = written.lines().last().unwrap();
    assert_eq!(row.chars().count(), 100, "{row:?}");
    let row = pipe.line_with(&["MODIFIED"]).await;
    assert!(row.chars().count() > 100, "{row}");
    assert_eq!(terminal.ctrl_c().await, Some(0));
}

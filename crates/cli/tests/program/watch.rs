//! `watch`: events in every format, and errors during a watch.

use embedded_apiserver::{Action, Fault, Match, Restart, Server};
use serde_json::{Value, json};

use crate::support::{World, rows};

#[tokio::test(flavor = "multi_thread")]
async fn existing_objects_come_first_then_one_line_per_change() {
    let world = World::populated().await;
    let mut watch = world.start(&["watch", "pods", "-A"]);
    assert_eq!(rows(&watch.line_with(&["EVENT"]).await), ["EVENT NAMESPACE NAME CHANGE"]);
    assert_eq!(rows(&watch.line_with(&["api-1"]).await), ["ADDED default api-1 0/1 Pending"]);
    watch.line_with(&["web-1"]).await;
    world.set_phase("shop", "web-1", "Running").await;
    let line = watch.line_with(&["web-1"]).await;
    assert_eq!(rows(&line), ["MODIFIED shop web-1 status.phase: Pending → Running"]);
    assert!(!line.contains('\x1b'), "no colours in a pipe: {line}");
    world.delete("/api/v1/namespaces/shop/pods/web-1").await;
    assert_eq!(rows(&watch.line_with(&["DELETED"]).await), ["DELETED shop web-1"]);
    assert_eq!(watch.end().await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_format_prints_each_event() {
    let world = World::new().await;
    let formats = [
        "json",
        "yaml",
        "name",
        "wide",
        "jsonpath={.metadata.name} {.status.phase}",
        "custom-columns=WHO:.metadata.name,PHASE:.status.phase",
    ];
    let mut watches = Vec::new();
    for format in formats {
        let mut watch = world.start(&["watch", "pods", "--events-only", "-o", format]);
        watch.error_with("no objects yet").await;
        watches.push(watch);
    }
    world.create_pod("default", "api-1", "node-7").await;
    world.set_phase("default", "api-1", "Running").await;
    let [json, yaml, name, wide, path, columns] = watches.as_mut_slice() else { panic!("one each") };

    let added: Value = serde_json::from_str(&json.line_with(&[]).await).unwrap();
    assert_eq!((&added["type"], &added["object"]["status"]["phase"]), (&json!("ADDED"), &json!("Pending")));
    let modified: Value = serde_json::from_str(&json.line_with(&[]).await).unwrap();
    assert_eq!(
        (&modified["type"], &modified["object"]["status"]["phase"]),
        (&json!("MODIFIED"), &json!("Running"))
    );

    assert_eq!(yaml.line_with(&[]).await, "---");
    assert_eq!(yaml.line_with(&[]).await, "type: ADDED");
    assert_eq!(yaml.line_with(&[]).await, "object:");
    assert_eq!(yaml.line_with(&["phase:"]).await.trim(), "phase: Pending");

    assert_eq!([name.line_with(&[]).await, name.line_with(&[]).await], ["pod/api-1", "pod/api-1"]);

    let titles = "EVENT NAME READY STATUS RESTARTS AGE IP NODE NOMINATED NODE READINESS GATES CHANGE";
    assert_eq!(rows(&wide.line_with(&[]).await), [titles]);
    assert_eq!(
        rows(&wide.line_with(&[]).await),
        ["ADDED api-1 0/1 Pending 0 AGE <none> node-7 <none> <none>"]
    );
    assert_eq!(
        rows(&wide.line_with(&[]).await),
        ["MODIFIED api-1 0/1 Running 0 AGE <none> node-7 <none> <none> status.phase: Pending → Running"]
    );

    assert_eq!([path.line_with(&[]).await, path.line_with(&[]).await], ["api-1 Pending", "api-1 Running"]);

    assert_eq!(rows(&columns.line_with(&[]).await), ["EVENT WHO PHASE"]);
    assert_eq!(rows(&columns.line_with(&[]).await), ["ADDED api-1 Pending"]);
    assert_eq!(rows(&columns.line_with(&[]).await), ["MODIFIED api-1 Running"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forbidden_kind_does_not_end_the_others() {
    let world = World::populated().await;
    let message = "secrets is forbidden: User \"ann\" cannot list resource \"secrets\" in API group \"\" in the namespace \"default\"";
    let forbidden = Action::Status {
        code: 403,
        reason: "Forbidden".into(),
        message: message.into(),
        retry_after_seconds: 0,
    };
    world.server.faults().arm(Fault::new(forbidden).on(Match::default().resource("secrets")));
    let mut watch = world.start(&["watch", "pods,secrets", "--no-headers"]);
    assert!(watch.error_with("forbidden").await.contains(message));
    assert_eq!(rows(&watch.line_with(&["pod/api-1"]).await), ["ADDED pod/api-1 0/1 Pending"]);
    world.set_phase("default", "api-1", "Running").await;
    watch.line_with(&["MODIFIED", "pod/api-1", "Running"]).await;
    assert_eq!(watch.end().await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_during_a_disconnect_are_relisted() {
    let world = World::populated().await;
    let mut watch = world.start(&["watch", "pods"]);
    watch.line_with(&["api-2"]).await;
    // The watch is down during these changes, and the server loses its history afterwards.
    world.server.refuse_connections().await;
    world.set_phase("default", "api-1", "Failed").await;
    world.delete("/api/v1/namespaces/default/pods/api-2").await;
    world.server.restart(&Restart::HistoryLost);
    world.server.accept_connections().await.unwrap();
    assert_eq!(
        rows(&watch.line_with(&["DELETED"]).await),
        ["DELETED api-2 deleted while the watch was down"]
    );
    assert_eq!(
        rows(&watch.line_with(&["RELISTED"]).await),
        ["RELISTED api-1 status.phase: Pending → Failed"]
    );
    watch.error_with("pods: ").await;
    assert_eq!(watch.end().await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_secret_is_printed_without_its_value() {
    let world = World::populated().await;
    let mut watch = world.start(&["watch", "secrets", "--since-start"]);
    assert_eq!(rows(&watch.line_with(&["EVENT"]).await), ["SINCE START EVENT NAME CHANGE"]);
    assert!(watch.line_with(&["login"]).await.starts_with('+'));
    world.patch("/api/v1/namespaces/default/secrets/login", json!({"data": {"password": "bmV3"}})).await;
    let line = watch.line_with(&["MODIFIED"]).await;
    assert!(line.ends_with("data.password: *** → ***"), "{line}");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_object_is_watched_by_its_name_and_many_kinds_by_a_category() {
    let world = World::populated().await;
    let mut one = world.start(&["watch", "pods", "api-2", "-o", "name"]);
    assert_eq!(one.line_with(&[]).await, "pod/api-2");
    let mut all = world.start(&["watch", "all", "-A", "-o", "name"]);
    let mut names = Vec::new();
    while names.len() < 5 {
        names.push(all.line_with(&[]).await);
    }
    names.sort();
    assert_eq!(names, ["deployment.apps/web", "pod/api-1", "pod/api-2", "pod/web-1", "service/kubernetes"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_without_watch_lists_are_watched_as_well() {
    let world = World::with(Server::builder().watch_list(embedded_apiserver::WatchListMode::Off)).await;
    world.create_pod("default", "api-1", "node-7").await;
    let mut watch = world.start(&["watch", "po", "-o", "name"]);
    assert_eq!(watch.line_with(&[]).await, "pod/api-1");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_closed_pipe_ends_the_watch_without_an_error() {
    let world = World::populated().await;
    let mut watch = world.start(&["watch", "pods"]);
    watch.line_with(&["api-1"]).await;
    // As with `| head`. There is no event afterwards, and the program still ends.
    let crate::support::Running { mut child, stdout, mut stderr } = watch;
    drop(stdout);
    assert_eq!(child.wait().await.unwrap().code(), Some(0));
    assert_eq!(stderr.next_line().await.unwrap(), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_includes_kinds_that_are_defined_later() {
    let world = World::new().await;
    let mut watch = world.start(&["watch", "everything", "-A"]);
    watch.line_with(&["ADDED", "namespace/default"]).await;
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    let definition = json!({"metadata": {"name": "widgets.example.com"}, "spec": {"group": "example.com", "scope": "Namespaced",
        "names": {"plural": "widgets", "singular": "widget", "kind": "Widget"},
        "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}]}});
    world.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition).await;
    let widget = json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "one"}});
    world.create("/apis/example.com/v1/namespaces/default/widgets", widget).await;
    watch.line_with(&["ADDED", "widget.example.com/one"]).await;
    assert_eq!(watch.end().await, 0);
}

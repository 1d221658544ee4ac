//! `wait`, and `watch --for`.

use serde_json::json;

use crate::support::{World, rows};

async fn set_ready(world: &World, name: &str, status: &str) {
    let ready = json!({"status": {"conditions": [{"type": "Ready", "status": status}]}});
    world.patch(&format!("/api/v1/namespaces/default/pods/{name}/status"), ready).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn conditions_are_waited_for() {
    let world = World::populated().await;
    let mut wait = world.start(&["wait", "pods", "api-1", "api-2", "--for=condition=Ready", "--timeout=1m"]);
    set_ready(&world, "api-1", "True").await;
    assert_eq!(wait.line_with(&[]).await, "pod/api-1 condition met");
    set_ready(&world, "api-2", "False").await;
    set_ready(&world, "api-2", "True").await;
    assert_eq!(wait.line_with(&[]).await, "pod/api-2 condition met");
    assert_eq!(wait.child.wait().await.unwrap().code(), Some(0));
    // Met already.
    for condition in ["--for=condition=ready", "--for=jsonpath={.spec.nodeName}=node-7", "--for=create"] {
        assert_eq!(world.output(&["wait", "pod/api-1", condition]).await, "pod/api-1 condition met\n");
    }
    let all = world.output(&["wait", "pods", "--all", "--for=jsonpath={.status.phase}=Pending", "-A"]).await;
    assert_eq!(all.lines().count(), 3, "{all}");
}

#[tokio::test(flavor = "multi_thread")]
async fn creation_and_deletion_are_waited_for() {
    let world = World::populated().await;
    let mut created = world.start(&["wait", "pod/new", "--for=create", "--timeout=1m"]);
    let mut deleted = world.start(&["wait", "pods", "-l", "app=api", "--for=delete", "--timeout=1m"]);
    world.create_pod("default", "new", "node-1").await;
    assert_eq!(created.line_with(&[]).await, "pod/new condition met");
    assert_eq!(created.child.wait().await.unwrap().code(), Some(0));
    // The objects that existed at the start are waited for.
    let mut probe = world.start(&["watch", "pods"]);
    probe.line_with(&["api-1"]).await;
    world.delete("/api/v1/namespaces/default/pods/api-1").await;
    world.delete("/api/v1/namespaces/default/pods/api-2").await;
    assert_eq!(deleted.child.wait().await.unwrap().code(), Some(0));
    assert_eq!(world.output(&["wait", "pod/api-1", "--for=delete"]).await, "pod/api-1 condition met\n");
    assert_eq!(world.output(&["wait", "pods", "-l", "app=api", "--for=delete"]).await, "");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_condition_that_is_not_met_is_an_error_with_its_own_code() {
    let world = World::populated().await;
    for (timeout, words) in [
        ("0", "condition not met: pods/default/api-1 to have condition Ready=true"),
        ("2s", "timed out after 2s waiting for pods/default/api-1 to have condition Ready=true"),
    ] {
        let ended = world.run(&["wait", "pod/api-1", "--for=condition=Ready", "--timeout", timeout]).await;
        assert_eq!((ended.code, ended.stdout.as_str()), (6, ""), "{ended:?}");
        assert_eq!(ended.stderr, format!("kube-informer: {words}\n"));
    }
    for (arguments, code, words) in [
        (&["wait", "pod/gone", "--for=condition=Ready"][..], 5, "pods \"gone\" not found"),
        (&["wait", "pods", "-l", "a=b", "--for=condition=Ready"], 5, "no pods in namespace default found"),
        (
            &["wait", "pods", "--for=condition=Ready"],
            2,
            "cannot wait for pods: no objects selected; name them",
        ),
        (&["wait", "pods", "-l", "a=b", "--for=create"], 2, "--for=create needs the name"),
        (&["wait", "pod/api-1", "--for=ready"], 2, "condition=NAME[=STATUS]"),
        (&["wait", "pod/api-1"], 2, "--for <CONDITION>"),
        (&["wait", "pod/api-1", "-A", "--for=delete"], 2, "a name belongs to one namespace"),
        (
            &["wait", "secret/login", "--for=jsonpath={.data.password}=x"],
            2,
            "the values of Secrets are masked",
        ),
    ] {
        let ended = world.run(arguments).await;
        assert!(ended.code == code && ended.stderr.contains(words), "{arguments:?}: {ended:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_ends_when_its_condition_is_met_or_its_time_is_over() {
    let world = World::populated().await;
    let mut watch = world.start(&["watch", "pod/api-1", "--for=condition=Ready", "--no-headers"]);
    assert_eq!(rows(&watch.line_with(&[]).await), ["ADDED api-1 0/1 Pending"]);
    world.set_phase("default", "api-1", "Running").await;
    watch.line_with(&["MODIFIED", "Running"]).await;
    set_ready(&world, "api-1", "True").await;
    watch.line_with(&["MODIFIED"]).await;
    assert_eq!(watch.child.wait().await.unwrap().code(), Some(0));

    let ended = world.run(&["watch", "pods", "--timeout", "2s", "--no-headers"]).await;
    assert_eq!((ended.code, ended.stdout.lines().count()), (0, 2), "{ended:?}");
    let ended = world.run(&["watch", "pods", "--timeout", "2s", "--for=delete"]).await;
    assert!(ended.code == 6 && ended.stderr.contains("api-2 to be deleted"), "{ended:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_condition_applies_to_the_objects_that_match_the_fields() {
    let world = World::populated().await;
    world.set_phase("default", "api-1", "Running").await;
    world.set_phase("default", "api-2", "Pending").await;
    let phase = |phase| format!("status.phase={phase}");
    // Only api-1 is awaited, and it is no longer selected when it meets the condition.
    let succeeded = "--for=jsonpath={.status.phase}=Succeeded";
    let mut watch = world.start(&[
        "watch",
        "pods",
        "--field",
        &phase("Running"),
        succeeded,
        "--timeout=1m",
        "--no-headers",
    ]);
    watch.line_with(&["ADDED", "api-1"]).await;
    world.set_phase("default", "api-1", "Succeeded").await;
    assert_eq!(watch.child.wait().await.unwrap().code(), Some(0));
    // An object that no longer matches is reported as deleted, and counts as deleted.
    let mut watch = world.start(&[
        "watch",
        "pods",
        "--field",
        &phase("Pending"),
        "--for=delete",
        "--timeout=1m",
        "--no-headers",
    ]);
    watch.line_with(&["ADDED", "api-2"]).await;
    world.set_phase("default", "api-2", "Running").await;
    assert_eq!(watch.child.wait().await.unwrap().code(), Some(0));
    for (arguments, code, says) in [
        (&["watch", "pods", "--for=delete"][..], 0, ""),
        (
            &["watch", "pods", "--for=condition=Ready"],
            5,
            "no pods in namespace default that match --field found",
        ),
        (&["watch", "pod/api-1", "--for=condition=Ready"], 5, "pods \"api-1\" does not match --field"),
    ] {
        let field = phase("Unknown");
        let ended = world.run(&[arguments, &["--field", &field, "--timeout=1m"]].concat()).await;
        assert!(ended.code == code && ended.stderr.contains(says), "{ended:?}");
    }
}

//! `get`: selectors, fields, indexes, and every format.

use serde_json::{Value, json};

use crate::support::{World, rows};

#[tokio::test(flavor = "multi_thread")]
async fn columns_are_kubectls_for_pods_deployments_and_nodes() {
    let world = World::populated().await;
    assert_eq!(
        rows(&world.output(&["get", "pods"]).await),
        ["NAME READY STATUS RESTARTS AGE", "api-1 0/1 Pending 0 AGE", "api-2 0/1 Pending 0 AGE"]
    );
    assert_eq!(
        rows(&world.output(&["get", "po", "-A", "-o", "wide"]).await),
        [
            "NAMESPACE NAME READY STATUS RESTARTS AGE IP NODE NOMINATED NODE READINESS GATES",
            "default api-1 0/1 Pending 0 AGE <none> node-7 <none> <none>",
            "default api-2 0/1 Pending 0 AGE <none> node-8 <none> <none>",
            "shop web-1 0/1 Pending 0 AGE <none> node-7 <none> <none>",
        ]
    );
    assert_eq!(
        rows(&world.output(&["get", "deploy", "-n", "shop", "-o", "wide"]).await),
        [
            "NAME READY UP-TO-DATE AVAILABLE AGE CONTAINERS IMAGES SELECTOR",
            "web 0/2 0 0 AGE main example/main:1 app=web",
        ]
    );
    assert_eq!(
        rows(&world.output(&["get", "nodes", "-o", "wide", "--no-headers"]).await),
        ["node-7 Ready <none> AGE v1.37.1 <none> <none> <unknown> <unknown> <unknown>"]
    );
    assert_eq!(
        rows(&world.output(&["get", "deploy,pods", "-n", "shop"]).await),
        [
            "NAME READY UP-TO-DATE AVAILABLE AGE",
            "deployment.apps/web 0/2 0 0 AGE",
            "",
            "NAME READY STATUS RESTARTS AGE",
            "pod/web-1 0/1 Pending 0 AGE",
        ]
    );
    let own = world.output(&["get", "pods", "-A", "-o", "wide", "--server-print=false"]).await;
    assert_eq!(rows(&own), rows(&world.output(&["get", "pods", "-A", "-o", "wide"]).await));
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_are_selected_by_labels_by_the_servers_fields_and_by_any_field() {
    let world = World::populated().await;
    for (arguments, names) in [
        (&["-A", "-l", "app=api"][..], "pod/api-1\npod/api-2\n"),
        (&["-A", "-l", "app in (web)"], "pod/web-1\n"),
        (&["-A", "--field-selector", "metadata.name=web-1"], "pod/web-1\n"),
        (&["-A", "--field", "spec.nodeName=node-7"], "pod/api-1\npod/web-1\n"),
        (&["-A", "--field", "spec.nodeName=node-7", "--field", "metadata.namespace=shop"], "pod/web-1\n"),
        (&["-A", "--field", "spec.containers[*].image=example/main:1", "-l", "app=web"], "pod/web-1\n"),
        (&["-A", "--field", "spec.nodeName!=node-7"], "pod/api-2\n"),
        (&["-A", "--field", "status.phase!=Running"], "pod/api-1\npod/api-2\npod/web-1\n"),
        (&["-A", "--field", "spec.nodeName in (node-8, node-9)"], "pod/api-2\n"),
        (&["-A", "--field", "spec.nodeName notin (node-8)"], "pod/api-1\npod/web-1\n"),
        (&["-A", "--field", "spec.hostname"], ""),
        (&["-n", "shop", "--field", "!spec.hostname"], "pod/web-1\n"),
        (
            &["-A", "--field", "metadata.creationTimestamp>2020-01-01T00:00:00Z", "-l", "app=web"],
            "pod/web-1\n",
        ),
        (&["-A", "--field", "spec.terminationGracePeriodSeconds>30"], ""),
        (&["-n", "shop"], "pod/web-1\n"),
        (&["api-2"], "pod/api-2\n"),
        (&["api-2", "--field", "spec.nodeName=node-7"], ""),
        (&["-l", "app=nothing"], ""),
    ] {
        let all = [&["get", "pods", "-o", "name"], arguments].concat();
        assert_eq!(world.output(&all).await, names, "{arguments:?}");
    }
    let by_field = world.output(&["get", "pods", "-A", "--field", "spec.nodeName=node-7"]).await;
    assert_eq!(rows(&by_field)[1..], ["default api-1 0/1 Pending 0 AGE", "shop web-1 0/1 Pending 0 AGE"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_index_counts_objects_per_value() {
    let world = World::populated().await;
    let table = world.output(&["get", "pods", "-A", "--index", "spec.nodeName"]).await;
    assert_eq!(rows(&table), ["SPEC.NODENAME PODS", "node-7 2", "node-8 1"]);
    let narrowed = world
        .output(&["get", "pods", "-A", "--index", "spec.nodeName", "--field", "metadata.namespace=default"])
        .await;
    assert_eq!(rows(&narrowed)[1..], ["node-7 1", "node-8 1"]);
    let json = world.output(&["get", "pods", "-A", "--index", "spec.nodeName", "-o", "json"]).await;
    assert_eq!(serde_json::from_str::<Value>(&json).unwrap(), json!({"node-7": 2, "node-8": 1}));
}

#[tokio::test(flavor = "multi_thread")]
async fn every_format_shows_the_same_objects() {
    let world = World::populated().await;
    let list: Value = serde_json::from_str(&world.output(&["get", "pods", "-o", "json"]).await).unwrap();
    assert_eq!((&list["kind"], list["items"].as_array().unwrap().len()), (&json!("List"), 2));
    assert!(list["items"][0]["metadata"]["managedFields"].is_null());
    let one: Value = serde_json::from_str(&world.output(&["get", "pod/api-1", "-o", "json"]).await).unwrap();
    assert_eq!(one, list["items"][0]);
    let with_managers = world.output(&["get", "pods", "-o", "json", "--show-managed-fields"]).await;
    assert!(with_managers.contains("\"managedFields\""), "{with_managers}");

    let yaml = world.output(&["get", "pod", "api-1", "-o", "yaml"]).await;
    assert!(yaml.starts_with("apiVersion: v1\nkind: Pod\nmetadata:\n") && yaml.ends_with('\n'), "{yaml}");
    assert_eq!(serde_saphyr::from_str::<Value>(&yaml).unwrap(), one);

    let template = r#"-ojsonpath={range .items[*]}{.metadata.name}={.spec.nodeName}{"\n"}{end}"#;
    assert_eq!(world.output(&["get", "pods", template]).await, "api-1=node-7\napi-2=node-8\n");
    let columns = "-ocustom-columns=POD:.metadata.name,IP:.status.podIP";
    assert_eq!(
        rows(&world.output(&["get", "pods", columns]).await),
        ["POD IP", "api-1 <none>", "api-2 <none>"]
    );
    assert_eq!(world.output(&["get", "pods", "-oname"]).await, "pod/api-1\npod/api-2\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_values_of_secrets_are_masked_unless_asked_for() {
    let world = World::populated().await;
    for format in ["json", "yaml", "jsonpath={.data}{.items[*].data}", "custom-columns=DATA:.data.password"] {
        for what in [&["secrets"][..], &["secret/login"]] {
            let all = [&["get", "-o", format], what].concat();
            let masked = world.output(&all).await;
            assert!(masked.contains("***") && !masked.contains("aHVudGVyMg"), "{format}: {masked}");
            let shown = world.output(&[&all[..], &["--show-secrets"]].concat()).await;
            assert!(shown.contains("aHVudGVyMg=="), "{format}: {shown}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn custom_resources_are_found_by_all_their_names() {
    let world = World::new().await;
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    world
        .create(
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
            json!({"metadata": {"name": "widgets.example.com"}, "spec": {"group": "example.com", "scope": "Namespaced",
                "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "shortNames": ["wd"]},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}]}}),
        )
        .await;
    world
        .create(
            "/apis/example.com/v1/namespaces/default/widgets",
            json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "one"}, "spec": {"size": 3}}),
        )
        .await;
    for name in ["widgets", "widget", "wd", "Widget", "widgets.example.com", "widgets.v1.example.com"] {
        assert_eq!(world.output(&["get", name, "-o", "name"]).await, "widget.example.com/one\n", "{name}");
    }
    let by_field =
        world.output(&["get", "wd", "--field", "spec.size=3", "-o", "jsonpath={.items[0].spec.size}"]).await;
    assert_eq!(by_field, "3");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_result_is_reported_and_is_not_an_error() {
    let world = World::new().await;
    let ended = world.run(&["get", "pods"]).await;
    assert_eq!((ended.code, ended.stdout.as_str()), (0, ""));
    assert_eq!(ended.stderr, "kube-informer: no pods in namespace default found\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn several_objects_are_shown_by_name_and_missing_ones_are_reported() {
    let world = World::populated().await;
    let both = world.output(&["get", "pods", "api-2", "api-1"]).await;
    assert_eq!(
        rows(&both),
        ["NAME READY STATUS RESTARTS AGE", "api-2 0/1 Pending 0 AGE", "api-1 0/1 Pending 0 AGE"]
    );
    assert_eq!(
        world.output(&["get", "pods", "api-2", "api-1", "-o", "name"]).await,
        "pod/api-2\npod/api-1\n"
    );
    let json = world.output(&["get", "pods", "api-2", "api-1", "-o", "json"]).await;
    assert_eq!(serde_json::from_str::<Value>(&json).unwrap()["items"].as_array().unwrap().len(), 2);
    for format in [&[][..], &["-o", "name"]] {
        let ended = world.run(&[&["get", "pods", "gone-1", "api-1", "gone-2"], format].concat()).await;
        assert!(ended.code == 5 && ended.stdout.contains("api-1"), "{ended:?}");
        assert!(ended.stderr.contains("\"gone-1\" not found"), "{ended:?}");
        assert!(ended.stderr.contains("\"gone-2\" not found"), "{ended:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn names_that_would_change_the_url_are_rejected() {
    let world = World::populated().await;
    for arguments in [
        &["get", "pod/x/y"][..],
        &["get", "pods", ".."],
        &["get", "pods", "a%2fb"],
        &["get", "pods", "-n", "../../api/v1/nodes"],
        &["get", "pods", "-n", "a/b", "-o", "name"],
        &["watch", "pods", "-n", ".."],
    ] {
        let ended = world.run(arguments).await;
        assert!(ended.code == 2 && ended.stderr.contains("invalid name"), "{arguments:?}: {ended:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_field_that_the_kind_lacks_is_an_error() {
    let world = World::populated().await;
    let ended = world.run(&["get", "pods", "--field", "spec.nodename=x"]).await;
    assert!(ended.code == 2 && ended.stderr.contains("nodename"), "{ended:?}");
}

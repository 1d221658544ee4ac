//! `get`: kubectl's flags for columns, order, files and namespaces, and the fields that are read from the bytes.

use std::process::Stdio;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::gateway::{self, Canned};
use crate::support::{World, deployment, peak_memory, rows, run};

/// The number of objects that a run decoded, from its log.
async fn decoded(world: &World, arguments: &[&str]) -> (String, u64) {
    let mut command = world.command(arguments);
    command.env("RUST_LOG", "kube_informer=debug");
    let ended = run(command).await;
    assert_eq!(ended.code, 0, "{arguments:?}: {ended:?}");
    let count = ended.stderr.split("decoded=").nth(1).unwrap_or_else(|| panic!("{arguments:?}: {ended:?}"));
    let digits = count.split(|c: char| !c.is_ascii_digit()).next().unwrap();
    (ended.stdout, digits.parse().unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn names_columns_templates_and_sort_keys_are_read_without_decoding() {
    let world = World::populated().await;
    let range = r#"jsonpath={range .items[*]}{.metadata.name}={.spec.nodeName}{"\n"}{end}"#;
    for (arguments, printed) in [
        (&["-o", "name"][..], "pod/api-1\npod/api-2\npod/web-1\n"),
        (&["-o", "name", "--field", "spec.nodeName=node-7"], "pod/api-1\npod/web-1\n"),
        (&["-o", "name", "--field", "metadata.labels.app in (web)"], "pod/web-1\n"),
        (&["-o", "name", "--sort-by", ".spec.nodeName"], "pod/api-1\npod/web-1\npod/api-2\n"),
        (&["-o", "custom-columns=N:.metadata.name", "--no-headers"], "api-1\napi-2\nweb-1\n"),
        (&["-o", range], "api-1=node-7\napi-2=node-8\nweb-1=node-7\n"),
        (
            &["-o", "jsonpath={.items[*].spec.containers[0].image}"],
            "example/main:1 example/main:1 example/main:1",
        ),
    ] {
        let all = [&["get", "pods", "-A"], arguments].concat();
        assert_eq!(decoded(&world, &all).await, (printed.to_owned(), 0), "{arguments:?}");
    }
    assert_eq!(decoded(&world, &["get", "pods", "-A", "--index", "spec.nodeName"]).await.1, 0);
    // Formats that print complete objects, or need more than single fields, decode each object once.
    for format in ["json", "yaml", "custom-columns=N:.metadata.labels.*", "jsonpath={.items[*]..image}"] {
        let all = ["get", "pods", "-A", "--server-print=false", "-o", format];
        assert_eq!(decoded(&world, &all).await.1, 3, "{format}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_programs_own_tables_are_read_without_decoding() {
    let world = World::populated().await;
    // A pod whose cells need the states of its containers.
    let ended =
        json!({"terminated": {"exitCode": 137, "reason": "OOMKilled", "finishedAt": "2026-01-01T00:00:00Z"}});
    let container = |name: &str, ready: bool, restarts: i64| {
        json!({"name": name, "ready": ready, "restartCount": restarts, "image": "i", "imageID": "i",
            "state": if ready { json!({"running": {"startedAt": "2026-01-01T00:00:00Z"}}) } else { ended.clone() }})
    };
    let pod = json!({"metadata": {"name": "two"}, "spec": {"containers": [
        {"name": "a", "image": "i"}, {"name": "b", "image": "i"}], "readinessGates": [{"conditionType": "example.com/lit"}]}});
    world.create("/api/v1/namespaces/shop/pods", pod).await;
    let status = json!({"status": {"phase": "Running", "podIPs": [{"ip": "10.0.0.7"}],
        "conditions": [{"type": "example.com/lit", "status": "True"}],
        "containerStatuses": [container("a", true, 0), container("b", false, 3)]}});
    world.patch("/api/v1/namespaces/shop/pods/two/status", status).await;

    let own = ["--server-print=false", "--no-headers"];
    for (what, expected) in [
        (&["pods", "-n", "shop"][..], &["two 1/2 OOMKilled 3 AGE", "web-1 0/1 Pending 0 AGE"][..]),
        (
            &["pods", "-n", "shop", "-o", "wide", "--sort-by", ".metadata.name", "-L", "app"],
            &[
                "two 1/2 OOMKilled 3 AGE 10.0.0.7 <none> <none> 1/1",
                "web-1 0/1 Pending 0 AGE <none> node-7 <none> <none> web",
            ],
        ),
        (&["pods", "two", "-n", "shop"], &["two 1/2 OOMKilled 3 AGE"]),
        (
            &["pods", "-A", "--field", "status.podIPs[*].ip=10.0.0.7", "--show-labels"],
            &["shop two 1/2 OOMKilled 3 AGE <none>"],
        ),
        (&["deploy", "-A"], &["shop web 0/2 0 0 AGE"]),
        (&["deploy", "-A", "-o", "wide"], &["shop web 0/2 0 0 AGE main example/main:1 app=web"]),
        (&["nodes"], &["node-7 Ready <none> AGE v1.37.1"]),
        (
            &["nodes", "-o", "wide"],
            &["node-7 Ready <none> AGE v1.37.1 <none> <none> <unknown> <unknown> <unknown>"],
        ),
        (&["services", "-A"], &["default kubernetes ClusterIP 10.0.0.1 <none> 443/TCP AGE"]),
        (&["namespaces", "--field", "metadata.name=shop"], &["shop Active AGE"]),
    ] {
        let (table, count) = decoded(&world, &[&["get"], what, &own].concat()).await;
        assert_eq!(
            (rows(&table), count),
            (expected.iter().map(|row| (*row).to_owned()).collect(), 0),
            "{what:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn fields_are_read_from_custom_resources_and_unknown_fields_are_none() {
    let world = World::populated().await;
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    let definition = json!({"metadata": {"name": "widgets.example.com"}, "spec": {"group": "example.com", "scope": "Namespaced",
        "names": {"plural": "widgets", "singular": "widget", "kind": "Widget"},
        "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}]}});
    world.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition).await;
    for (name, sizes) in [("one", json!([1, 2])), ("two", json!({"a": 3}))] {
        let widget = json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name},
            "spec": {"sizes": sizes, "deep": {"x": name}}});
        world.create("/apis/example.com/v1/namespaces/default/widgets", widget).await;
    }
    let columns = "custom-columns=X:.spec.deep.x,S:.spec.sizes[*],A:.spec.sizes,K:.kind,F:.spec.future";
    let table = world.output(&["get", "widgets", "-o", columns, "--no-headers"]).await;
    assert_eq!(rows(&table), ["one 1,2 [1,2] Widget <none>", "two 3 {\"a\":3} Widget <none>"]);
    let columns = "custom-columns=N:.metadata.name,F:.spec.future,K:.kind,C:.spec.containers";
    let pods = world.output(&["get", "pods", "-o", columns, "--no-headers"]).await;
    let first = rows(&pods)[0].clone();
    assert!(
        first.starts_with("api-1 <none> Pod [{") && first.contains("\"image\":\"example/main:1\""),
        "{first}"
    );
    // Kinds of different types in one list.
    let both = world.output(&["get", "pods,widgets", "-o", "jsonpath={.items[*].kind}"]).await;
    assert_eq!(both, "Pod Pod Widget Widget");
}

#[tokio::test(flavor = "multi_thread")]
async fn documents_of_many_objects_are_valid() {
    let world = World::new().await;
    let names = (0..600).map(|number| format!("m{number:03}")).collect::<Vec<_>>();
    for name in &names {
        let map = json!({"metadata": {"name": name}, "data": {"text": "a\n\n b\n", "n": name}});
        world.create("/api/v1/namespaces/default/configmaps", map).await;
    }
    let list: Value = serde_json::from_str(&world.output(&["get", "cm", "-o", "json"]).await).unwrap();
    let found = list["items"].as_array().unwrap().iter().map(|item| item["data"]["n"].as_str().unwrap());
    assert_eq!(found.collect::<Vec<_>>(), names);
    let yaml = world.output(&["get", "cm", "-o", "yaml"]).await;
    assert_eq!(serde_saphyr::from_str::<Value>(&yaml).unwrap(), list);
    let none: Value = serde_json::from_str(&world.output(&["get", "pods", "-o", "json"]).await).unwrap();
    assert_eq!(none["items"], json!([]));
}

/// The bytes that a run prints, and its peak memory when it has printed most of them.
async fn printed(world: &World, arguments: &[&str], most: usize) -> (usize, usize) {
    let mut child = world.command(arguments).stdout(Stdio::piped()).spawn().unwrap();
    let mut stdout = child.stdout.take().unwrap();
    let mut bytes = vec![0; 1 << 16];
    let (mut total, mut peak) = (0, None);
    loop {
        let count = stdout.read(&mut bytes).await.unwrap();
        total += count;
        if peak.is_none() && total >= most {
            // The rest does not fit into the pipe, so the program is still running.
            peak = Some(peak_memory(&child));
        }
        if count == 0 {
            break;
        }
    }
    assert_eq!(child.wait().await.unwrap().code(), Some(0), "{arguments:?}");
    (total, peak.unwrap_or_else(|| panic!("{arguments:?} printed {total} bytes")))
}

#[tokio::test(flavor = "multi_thread")]
async fn documents_of_many_objects_take_little_memory() {
    const POD_BYTES: usize = 20_000;
    let world = World::new().await;
    for (namespace, count) in [("few", 50), ("many", 1500)] {
        world.create_namespace(namespace).await;
        for number in 0..count {
            // It compresses about as well as a real pod.
            let text =
                (0..POD_BYTES / 20).map(|word| format!("{:>8} {number:>4} field", word * 7919 % 10_007));
            let pod = json!({"metadata": {"name": format!("p{number}"), "annotations": {"text": text.collect::<String>()}},
                "spec": {"containers": [{"name": "a", "image": "i"}]}});
            world.create(&format!("/api/v1/namespaces/{namespace}/pods"), pod).await;
        }
    }
    for format in ["json", "yaml"] {
        let get = |namespace| ["get", "pods", "-n", namespace, "-o", format];
        let (_, base) = printed(&world, &get("few"), 40 * POD_BYTES).await;
        let (bytes, peak) = printed(&world, &get("many"), 1450 * POD_BYTES).await;
        let grown = peak.saturating_sub(base);
        assert!(grown < bytes / 2, "-o {format}: {bytes} bytes took {grown} bytes more than a few objects");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_are_sorted_by_any_field() {
    let world = World::populated().await;
    for (name, replicas) in [("a", 10), ("b", 9), ("c", 100)] {
        let mut object = deployment(name);
        object["spec"]["replicas"] = json!(replicas);
        world.create("/apis/apps/v1/namespaces/default/deployments", object).await;
    }
    for path in [".spec.replicas", "{.spec.replicas}", "spec.replicas"] {
        let names = world.output(&["get", "deploy", "-o", "name", "--sort-by", path]).await;
        assert_eq!(names, "deployment.apps/b\ndeployment.apps/a\ndeployment.apps/c\n", "{path}");
    }
    let table = world.output(&["get", "deploy", "--sort-by", ".spec.replicas", "--no-headers"]).await;
    assert_eq!(rows(&table).iter().map(|row| &row[..1]).collect::<String>(), "bac");
    let json = world.output(&["get", "deploy", "-o", "json", "--sort-by=.spec.replicas"]).await;
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["items"][0]["metadata"]["name"], "b");
    for format in [&[][..], &["-o", "name"]] {
        let wrong = world.run(&[&["get", "deploy", "--sort-by", ".spec.nothing"], format].concat()).await;
        assert!(wrong.code == 2 && wrong.stderr.contains("no selected object has this field"), "{wrong:?}");
    }
    let secret = world.run(&["get", "secrets", "--sort-by", ".data.password"]).await;
    assert!(secret.code == 2 && secret.stderr.contains("--show-secrets"), "{secret:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn labels_are_shown_as_columns() {
    let world = World::populated().await;
    let table = world.output(&["get", "pods", "-L", "app,tier", "--show-labels"]).await;
    assert_eq!(
        rows(&table),
        [
            "NAME READY STATUS RESTARTS AGE APP TIER LABELS",
            "api-1 0/1 Pending 0 AGE api app=api",
            "api-2 0/1 Pending 0 AGE api app=api",
        ]
    );
    let ended = world.run(&["get", "pods", "-L", "app", "-o", "name"]).await;
    assert!(ended.code == 2 && ended.stderr.contains("apply to columns only"), "{ended:?}");
}

/// Two rows of a server's table with complete objects, in the wrong order.
const TABLE: &str = r#"{"apiVersion":"meta.k8s.io/v1","kind":"Table","metadata":{"resourceVersion":"7"},
    "columnDefinitions":[{"name":"Name","type":"string"},{"name":"Extra","type":"string","priority":1}],
    "rows":[{"cells":["b","x"],"object":{"metadata":{"namespace":"default","labels":{"app":"two"}},"spec":{"n":10}}},
            {"cells":["a","y"],"object":{"metadata":{"namespace":"default","labels":{"app":"one"}},"spec":{"n":9}}}]}"#;

#[tokio::test(flavor = "multi_thread")]
async fn the_servers_columns_have_labels_and_are_sorted_by_any_field() {
    let world = World::populated().await;
    gateway::before(&world, |target, _| {
        let lists = target.split('?').next().is_some_and(|path| path.ends_with("/pods"));
        (lists && target.contains("limit=")).then(|| Canned::json(TABLE))
    })
    .await;
    let table = world.output(&["get", "pods", "--sort-by", ".spec.n", "-L", "app"]).await;
    assert_eq!(rows(&table), ["NAME APP", "a one", "b two"]);
    let table = world.output(&["get", "pods", "-o", "wide", "--show-labels"]).await;
    assert_eq!(rows(&table), ["NAME EXTRA LABELS", "b x app=two", "a y app=one"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sorted_table_requests_complete_objects_only_for_keys_outside_of_metadata() {
    let world = World::populated().await;
    let targets = Arc::new(Mutex::new(Vec::new()));
    let seen = targets.clone();
    gateway::before(&world, move |target, _| {
        seen.lock().unwrap().push(target.to_owned());
        let lists = target.split('?').next().is_some_and(|path| path.ends_with("/pods"));
        (lists && target.contains("limit=")).then(|| Canned::json(TABLE))
    })
    .await;
    for (path, complete) in [(".metadata.labels.app", false), (".spec.n", true)] {
        targets.lock().unwrap().clear();
        let table = world.output(&["get", "pods", "--sort-by", path]).await;
        assert_eq!(rows(&table), ["NAME", "a", "b"], "{path}");
        let targets = targets.lock().unwrap();
        let lists = targets.iter().filter(|target| target.contains("limit=")).collect::<Vec<_>>();
        assert_eq!(lists.len(), 1, "{lists:?}");
        assert_eq!(lists[0].contains("includeObject=Object"), complete, "{path}: {lists:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_objects_can_be_ignored() {
    let world = World::populated().await;
    for format in [&[][..], &["-o", "name"], &["-o", "json"]] {
        let arguments = [&["get", "pod/gone", "--ignore-not-found"], format].concat();
        let ended = world.run(&arguments).await;
        assert_eq!((ended.code, ended.stdout.as_str(), ended.stderr.as_str()), (0, "", ""), "{format:?}");
        let both =
            world.output(&[&["get", "pods", "gone", "api-1", "--ignore-not-found"], format].concat()).await;
        assert!(both.contains("api-1"), "{format:?}: {both}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn names_and_label_selectors_cannot_be_combined() {
    let world = World::populated().await;
    for format in [&[][..], &["-o", "name"], &["-o", "json"], &["--server-print=false"]] {
        for what in [&["pod", "api-1"][..], &["pod/api-1"]] {
            for labels in ["app=nothing", "app in ("] {
                let ended = world.run(&[&["get"], what, &["-l", labels], format].concat()).await;
                assert_eq!((ended.code, ended.stdout.as_str()), (2, ""), "{what:?} {labels} {format:?}");
                assert!(ended.stderr.contains("cannot combine -l with names"), "{ended:?}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_of_manifests_are_found() {
    let world = World::populated().await;
    let file = world.directory.path().join("manifest.yaml");
    let manifest = "apiVersion: v1\nkind: Pod\nmetadata: {name: web-1, namespace: shop}\n---\n\
        # nothing\n---\napiVersion: v1\nkind: List\nitems:\n\
        - {apiVersion: apps/v1, kind: Deployment, metadata: {name: web, namespace: shop}}\n\
        - {apiVersion: v1, kind: Pod, metadata: {name: api-1}}\n";
    std::fs::write(&file, manifest).unwrap();
    let path = file.to_str().unwrap();
    let names = "pod/web-1\ndeployment.apps/web\npod/api-1\n";
    assert_eq!(world.output(&["get", "-f", path, "-o", "name"]).await, names);
    let mut command = world.command(&["get", "-f", "-", "-o", "name"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(manifest.as_bytes()).await.unwrap();
    assert_eq!(String::from_utf8(child.wait_with_output().await.unwrap().stdout).unwrap(), names);

    for (manifest, words) in [
        ("apiVersion: v1\nkind: Gateway\nmetadata: {name: a}\n", "unknown kind \"Gateway\" in \"v1\""),
        ("apiVersion: v1\nkind: Pod\n", "invalid name \"\""),
        ("a: [", "invalid manifest"),
    ] {
        std::fs::write(&file, manifest).unwrap();
        let ended = world.run(&["get", "-f", path]).await;
        assert!(ended.code == 2 && ended.stderr.contains(words), "{manifest:?}: {ended:?}");
    }
    let missing = world.run(&["get", "-f", "/nowhere/manifest"]).await;
    assert!(missing.code == 2 && missing.stderr.contains("cannot read /nowhere/manifest"), "{missing:?}");
    let nothing = world.run(&["get"]).await;
    assert_eq!(nothing.code, 2, "{nothing:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn several_namespaces_are_read() {
    let world = World::populated().await;
    world.create_namespace("other").await;
    world.create_pod("other", "api-1", "node-9").await;
    for flags in [&["-n", "shop,default"][..], &["-n", "shop", "-n", "default"]] {
        let names = world.output(&[&["get", "pods", "-o", "name"], flags].concat()).await;
        assert_eq!(names, "pod/api-1\npod/api-2\npod/web-1\n", "{flags:?}");
        let table = world.output(&[&["get", "pods", "--no-headers"], flags].concat()).await;
        let namespaces =
            rows(&table).iter().map(|row| row.split(' ').next().unwrap().to_owned()).collect::<Vec<_>>();
        assert_eq!(namespaces, ["default", "default", "shop"], "{flags:?}");
    }
    let table = world.output(&["get", "pod", "api-1", "-n", "default,other,shop"]).await;
    assert_eq!(
        rows(&table)[1..],
        ["default api-1 0/1 Pending 0 AGE", "other api-1 0/1 Pending 0 AGE"],
        "a name in several namespaces"
    );
    let none = world.run(&["get", "pod", "gone", "-n", "default,shop"]).await;
    assert!(none.code == 5 && none.stderr.contains("pods in namespaces default, shop"), "{none:?}");
    let nodes = world.output(&["get", "nodes", "-n", "default,shop", "-o", "name"]).await;
    assert_eq!(nodes, "node/node-7\n");
    let mut watch = world.start(&["watch", "pods", "-n", "shop,other"]);
    watch.line_with(&["EVENT", "NAMESPACE"]).await;
    watch.line_with(&["ADDED", "web-1"]).await;
    world.set_phase("other", "api-1", "Running").await;
    watch.line_with(&["MODIFIED", "other", "api-1"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_fields_are_counted_together() {
    let world = World::populated().await;
    world.create_pod("shop", "web-2", "node-7").await;
    world.set_phase("default", "api-1", "Running").await;
    let index = ["get", "pods", "-A", "--index", "spec.nodeName", "--index", "status.phase"];
    let table = world.output(&index).await;
    assert_eq!(
        rows(&table),
        ["SPEC.NODENAME STATUS.PHASE PODS", "node-7 Pending 2", "node-7 Running 1", "node-8 Pending 1"]
    );
    assert_eq!(rows(&world.output(&[&index[..], &["--top", "1"]].concat()).await)[1..], ["node-7 Pending 2"]);
    let json = world.output(&[&index[..], &["-o", "json"]].concat()).await;
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json, json!({"node-7": {"Pending": 2, "Running": 1}, "node-8": {"Pending": 1}}));
    let top = world.output(&["get", "pods", "-A", "--index", "spec.nodeName", "--top", "1"]).await;
    assert_eq!(rows(&top)[1..], ["node-7 3"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn flags_that_contradict_each_other_are_rejected() {
    let world = World::new().await;
    for (flags, words) in [
        (&["--index", "a", "--index", "b", "--index", "c"][..], "at most twice"),
        (&["--top", "3"], "--index"),
        (&["--index", "spec.nodeName", "--top", "0"], "give a number of at least 1"),
        (&["-w", "--index", "spec.nodeName"], "--index cannot be combined with --watch"),
        (&["-w", "--sort-by", ".kind"], "--sort-by cannot be combined with --watch"),
        (&["--output-watch-events"], "requires --watch"),
        (&["--show-labels", "-o", "json"], "apply to columns only"),
        (&["--sort-by", ".a[", "-o", "name"], "--sort-by .a["),
        (&["-n", "a", "-A"], "cannot be used with"),
        (&["--token", "a", "--token-file", "b"], "cannot be used with"),
        (&["--server", "localhost:80"], "invalid --server"),
        (&["--server", "ftp://host"], "invalid --server"),
    ] {
        let ended = world.run(&[&["get", "pods"], flags].concat()).await;
        assert!(ended.code == 2 && ended.stderr.contains(words), "{flags:?}: {ended:?}");
        assert_eq!(ended.stdout, "", "{flags:?}");
    }
}

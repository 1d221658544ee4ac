//! Compares the output of the program with kubectl on the same kube-apiserver: names, columns and objects.

use std::path::PathBuf;
use std::process::Command;

use kube_informer_conformance::{Programs, RealServer};
use serde_json::{Value, json};

use crate::common;

#[tokio::test]
async fn kubectl_and_the_program_print_the_same() {
    let programs = Programs::required();
    let program = build_program();
    let server = RealServer::builder(programs).start().await.unwrap();
    populate(&server).await;
    let minor = common::minor_version(&server.client().await.unwrap()).await;
    let ours = |arguments: &[&str]| run(&program, &server, arguments);

    for arguments in [
        &["get", "pods", "-A", "-o", "wide"][..],
        &["get", "pods", "-n", "shop", "-o", "wide"],
        &["get", "pods", "-n", "shop"],
        &["get", "deployments", "-n", "shop", "-o", "wide"],
        &["get", "deploy", "-A"],
        &["get", "replicasets", "-n", "shop", "-o", "wide"],
        &["get", "nodes", "-o", "wide"],
        &["get", "nodes", "--no-headers"],
        &["get", "configmaps,secrets", "-n", "shop"],
        &["get", "services", "-A", "-o", "wide"],
        &["get", "namespaces"],
        &["get", "widgets", "-n", "shop"],
        &["get", "pods", "-n", "shop", "-l", "app=web"],
        &["get", "pods", "-n", "shop", "--field-selector", "status.phase=Running"],
        &["get", "pods", "-n", "shop", "running"],
        &["get", "deploy/web", "-n", "shop"],
        &["get", "deploy/web", "pod/running", "-n", "shop"],
        &["get", "pods", "-n", "shop", "-L", "app,tier", "--show-labels"],
        &[
            "get",
            "pods",
            "-n",
            "shop",
            "-o",
            "custom-columns=NAME:.metadata.name,NODE:.spec.nodeName,IMAGES:.spec.containers[*].image",
        ],
        &[
            "get",
            "pods",
            "-n",
            "shop",
            "-o",
            r#"jsonpath={range .items[*]}{.metadata.name}{"\t"}{.status.phase}{"\n"}{end}"#,
        ],
        &[
            "get",
            "pods",
            "-n",
            "shop",
            "-o",
            r#"jsonpath={.items[?(@.status.phase=="Running")].metadata.name}"#,
        ],
        &["get", "pod", "running", "-n", "shop", "-o", "jsonpath={.spec.containers[0]['name','image']}"],
    ] {
        let theirs = server.kubectl(arguments).await.unwrap();
        assert_eq!(normal(&ours(arguments)), normal(&theirs), "{arguments:?}");
    }
    // The program's own columns, for live views and for servers without tables, equal those of a 1.36 server. Earlier
    // servers do not show the architecture next to a node's kernel.
    let as_the_server = |text: &str| if minor >= 36 { text.to_owned() } else { text.replace(" (amd64)", "") };
    for what in
        ["pods", "deployments", "replicasets", "nodes", "services", "configmaps", "secrets", "namespaces"]
    {
        let kubectl = server.kubectl(&["get", what, "-A", "-o", "wide"]).await.unwrap();
        let own = ours(&["get", what, "-A", "-o", "wide", "--server-print=false"]);
        assert_eq!(normal(&as_the_server(&own)), normal(&kubectl), "{what}");
    }
    for what in
        ["pods,deployments,nodes", "all", "po", "deploy.apps", "deployments.v1.apps", "pods.v1.", "wd", "crd"]
    {
        let kubectl = server.kubectl(&["get", what, "-A", "-o", "name"]).await.unwrap();
        assert_eq!(ours(&["get", what, "-A", "-o", "name"]), kubectl, "{what}");
    }
    for what in [&["pods", "-A"][..], &["deploy", "web", "-n", "shop"], &["nodes"], &["wd", "-n", "shop"]] {
        for more in [&[][..], &["--show-managed-fields"]] {
            let arguments = [&["get", "-o", "json"], what, more].concat();
            let kubectl = server.kubectl(&arguments).await.unwrap();
            assert_eq!(ours(&arguments), kubectl, "{arguments:?}");
        }
    }
    // The two quote different strings in YAML.
    let kubectl = server.kubectl(&["get", "pods", "-n", "shop", "-o", "yaml"]).await.unwrap();
    let own = ours(&["get", "pods", "-n", "shop", "-o", "yaml"]);
    assert_eq!(own.replace('"', ""), kubectl.replace('"', ""));
}

/// Creates nodes, and pods in all states that have their own output.
async fn populate(server: &RealServer) {
    for (name, ready) in [("node-1", "True"), ("node-2", "Unknown"), ("node-3", "True")] {
        let labels = json!({"node-role.kubernetes.io/worker": "", "node-role.kubernetes.io/edge": ""});
        let labels = if name == "node-1" { labels } else { json!({}) };
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels},
            "spec": {"unschedulable": name == "node-3"}});
        apply(server, &node).await;
        let status = json!({"status": {"conditions": [{"type": "Ready", "status": ready}],
            "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}, {"type": "ExternalIP", "address": "192.0.2.1"}],
            "nodeInfo": {"kubeletVersion": "v1.37.1", "osImage": "Debian GNU/Linux 13", "kernelVersion": "6.12",
                "containerRuntimeVersion": "containerd://2.1", "architecture": "amd64", "operatingSystem": "linux",
                "bootID": "b", "kubeProxyVersion": "", "machineID": "m", "systemUUID": "s"}}});
        set_status(server, "node", name, &status).await;
    }
    server.kubectl(&["create", "namespace", "shop"]).await.unwrap();
    server.kubectl(&["create", "configmap", "settings", "-n", "shop", "--from-literal=a=b"]).await.unwrap();
    server
        .kubectl(&["create", "secret", "generic", "login", "-n", "shop", "--from-literal=a=b"])
        .await
        .unwrap();
    server.kubectl(&["create", "service", "nodeport", "web", "-n", "shop", "--tcp=80:8080"]).await.unwrap();
    server
        .kubectl(&["create", "service", "externalname", "far", "-n", "shop", "--external-name=example.com"])
        .await
        .unwrap();
    let template = json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [
        {"name": "main", "image": "example/main:1"}, {"name": "side", "image": "example/side:2"}]}});
    let selector = json!({"matchLabels": {"app": "web"}, "matchExpressions": [{"key": "tier", "operator": "DoesNotExist"}]});
    for kind in ["Deployment", "ReplicaSet"] {
        let object = json!({"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": "web", "namespace": "shop"},
            "spec": {"replicas": 3, "selector": selector, "template": template}});
        apply(server, &object).await;
        let status = json!({"status": {"replicas": 3, "readyReplicas": 2, "updatedReplicas": 1, "availableReplicas": 2}});
        let status = if kind == "Deployment" {
            status
        } else {
            json!({"status": {"replicas": 3, "readyReplicas": 2}})
        };
        set_status(server, &kind.to_lowercase(), "web", &status).await;
    }
    for (name, status) in pod_states() {
        let init =
            if name.starts_with("init") { json!([{"name": "first", "image": "i"}]) } else { json!([]) };
        let gates =
            if name == "running" { json!([{"conditionType": "example.com/gate"}]) } else { json!([]) };
        let pod = json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "namespace": "shop", "labels": {"app": if name == "running" { "web" } else { "other" }}},
            "spec": {"nodeName": if name == "pending" { Value::Null } else { "node-1".into() }, "readinessGates": gates,
                "automountServiceAccountToken": false,
                "containers": [{"name": "main", "image": "example/main:1"}], "initContainers": init}});
        apply(server, &pod).await;
        set_status(server, "pod", name, &json!({"status": status})).await;
    }
    // Deleted, but within its grace period: a kubelet would end it.
    server.kubectl(&["delete", "pod", "terminating", "-n", "shop", "--wait=false"]).await.unwrap();
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"}, "spec": {"group": "example.com", "scope": "Namespaced",
        "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "shortNames": ["wd"]},
        "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema, "additionalPrinterColumns": [
            {"name": "Size", "type": "integer", "jsonPath": ".spec.size"}]}]}});
    apply(server, &definition).await;
    server.kubectl(&["wait", "--for=condition=Established", "crd/widgets.example.com"]).await.unwrap();
    let widget = json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "one", "namespace": "shop"},
        "spec": {"size": 3}});
    apply(server, &widget).await;
}

fn pod_states() -> Vec<(&'static str, Value)> {
    let container = |ready: bool, restarts: i64, state: Value, last: Value| {
        json!([{"name": "main", "image": "i", "imageID": "", "ready": ready, "restartCount": restarts, "state": state,
            "lastState": last}])
    };
    let running = json!({"running": {"startedAt": "2026-01-01T00:00:00Z"}});
    let ended = |code: i64, reason: &str| json!({"terminated": {"exitCode": code, "reason": reason, "finishedAt": "2026-01-01T00:00:00Z"}});
    let ready = json!([{"type": "Ready", "status": "True"}, {"type": "Initialized", "status": "True"}]);
    vec![
        ("pending", json!({"phase": "Pending"})),
        (
            "running",
            json!({"phase": "Running", "podIP": "10.1.2.3", "podIPs": [{"ip": "10.1.2.3"}], "conditions": ready,
            "containerStatuses": container(true, 0, running.clone(), json!({}))}),
        ),
        (
            "restarted",
            json!({"phase": "Running", "containerStatuses": container(true, 4, running.clone(), ended(1, "Error"))}),
        ),
        (
            "crashing",
            json!({"phase": "Running", "containerStatuses":
            container(false, 2, json!({"waiting": {"reason": "CrashLoopBackOff"}}), ended(137, "OOMKilled"))}),
        ),
        (
            "creating",
            json!({"phase": "Pending", "containerStatuses":
            container(false, 0, json!({"waiting": {"reason": "ContainerCreating"}}), json!({}))}),
        ),
        (
            "completed",
            json!({"phase": "Succeeded", "containerStatuses": container(false, 0, ended(0, "Completed"), json!({}))}),
        ),
        (
            "failed",
            json!({"phase": "Failed", "containerStatuses": container(false, 0, ended(3, ""), json!({}))}),
        ),
        ("evicted", json!({"phase": "Failed", "reason": "Evicted"})),
        (
            "init-waits",
            json!({"phase": "Pending", "initContainerStatuses": [{"name": "first", "image": "i", "imageID": "",
            "ready": false, "restartCount": 0, "state": running, "lastState": {}}]}),
        ),
        (
            "init-fails",
            json!({"phase": "Pending", "initContainerStatuses": [{"name": "first", "image": "i", "imageID": "",
            "ready": false, "restartCount": 1, "state": ended(1, "Error"), "lastState": {}}]}),
        ),
        (
            "terminating",
            json!({"phase": "Running", "containerStatuses": container(true, 0, running, json!({}))}),
        ),
    ]
}

async fn apply(server: &RealServer, object: &Value) {
    server.kubectl_with(&["create", "-f", "-"], &object.to_string()).await.unwrap();
}

async fn set_status(server: &RealServer, kind: &str, name: &str, status: &Value) {
    let status = status.to_string();
    let arguments =
        ["patch", kind, name, "-n", "shop", "--subresource=status", "--type=merge", "-p", &status];
    server.kubectl(&arguments).await.unwrap();
}

/// Builds the program. It is in another package, so cargo does not build it for this test.
fn build_program() -> PathBuf {
    let output = Command::new(env!("CARGO"))
        .args([
            "build",
            "--quiet",
            "-p",
            "kube-informer-cli",
            "--bin",
            "kube-informer",
            "--message-format=json",
        ])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let messages = String::from_utf8(output.stdout).unwrap();
    let built = messages.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    built.filter_map(|message| message["executable"].as_str().map(PathBuf::from)).next_back().unwrap()
}

fn run(program: &PathBuf, server: &RealServer, arguments: &[&str]) -> String {
    let output = Command::new(program)
        .args(arguments)
        .arg("--show-secrets")
        .env_clear()
        .env("KUBECONFIG", server.kubeconfig())
        .env("HOME", server.directory())
        .output()
        .unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Replaces ages, which change between two commands, and the spaces that align them.
fn normal(output: &str) -> Vec<String> {
    let is_age = |word: &str| {
        let word = word.trim_start_matches('(');
        word.starts_with(|c: char| c.is_ascii_digit())
            && word.ends_with(['s', 'm', 'h', 'd', 'y'])
            && word.chars().all(|c| c.is_ascii_digit() || "smhdy".contains(c))
    };
    let line = |line: &str| {
        let words = line.split_whitespace().map(|word| if is_age(word) { "AGE" } else { word });
        words.collect::<Vec<_>>().join(" ")
    };
    output.lines().map(line).collect()
}

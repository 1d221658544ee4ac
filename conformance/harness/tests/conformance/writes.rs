//! Responses to writes, and the objects that exist from the start, on a real kube-apiserver and on the embedded server.

use http::{Request, StatusCode};
use http_body_util::BodyExt as _;
use kube_client::Client;
use kube_informer_conformance::raw;
use serde_json::{Value, json};

use crate::common::both::{AnyServer, Features};
use crate::common::things::{CRDS, THINGS, define, definition, post};
use crate::common::{MAPS, get, minor_version, names};

const REVIEWS: &str = "/apis/authentication.k8s.io/v1/tokenreviews";
const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";
const JSON: &str = "application/json";
const MERGE_PATCH: &str = "application/merge-patch+json";

on_both! {
    the_kubernetes_service_exists_from_the_start: Features::Default,
    events_are_selected_by_the_fields_of_their_group: Features::Default,
    a_status_write_keeps_or_resets_metadata_depending_on_the_kind: Features::Default,
    a_new_object_may_have_a_resource_version_only_in_a_dry_run: Features::Default,
    a_token_review_names_the_service_account_of_a_requested_token: Features::Default,
    token_requests_are_checked: Features::Default,
    responses_of_a_deprecated_version_have_a_warning: Features::Default,
}

async fn send(client: &Client, method: &str, path: &str, kind: &str, body: &Value) -> (u16, Value) {
    let request = Request::builder().method(method).uri(path).header("content-type", kind);
    let answer = client.send(request.body(body.to_string().into_bytes().into()).unwrap()).await.unwrap();
    let (head, body) = answer.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    (head.status.as_u16(), serde_json::from_slice(&body).unwrap_or_default())
}

async fn the_kubernetes_service_exists_from_the_start(_server: AnyServer, client: Client) {
    // A real server creates it some time after it is ready.
    let path = "/api/v1/namespaces/default/services?watch=1&resourceVersion=0&timeoutSeconds=60&fieldSelector=metadata.name%3Dkubernetes";
    let mut watch = raw::watch(&client, path, raw::JSON).await.unwrap();
    let service = watch.line().await.unwrap().unwrap()["object"].take();
    assert_eq!(service["metadata"]["labels"], json!({"component": "apiserver", "provider": "kubernetes"}));
    assert_eq!(service["status"], json!({"loadBalancer": {}}));
    let mut spec = service["spec"].clone();
    assert!(spec["ports"][0]["targetPort"].take().is_u64(), "{service}");
    let expected = json!({
        "clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"], "internalTrafficPolicy": "Cluster", "ipFamilies": ["IPv4"],
        "ipFamilyPolicy": "SingleStack", "sessionAffinity": "None", "type": "ClusterIP",
        "ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": null}],
    });
    assert_eq!(spec, expected);
    let managers: Vec<&Value> = service["metadata"]["managedFields"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| &entry["manager"])
        .collect();
    assert_eq!(managers, ["kube-apiserver"]);
}

async fn events_are_selected_by_the_fields_of_their_group(_server: AnyServer, client: Client) {
    let pod = |name: &str| {
        json!({"kind": "Pod", "namespace": "default", "name": name, "uid": format!("uid-{name}"), "apiVersion": "v1",
               "resourceVersion": "7", "fieldPath": "spec.containers{c}"})
    };
    let core = json!({
        "metadata": {"name": "core"}, "involvedObject": pod("p"), "reason": "Started", "message": "m", "type": "Normal",
        "source": {"component": "kubelet"},
    });
    let new = json!({
        "metadata": {"name": "new"}, "regarding": pod("q"), "reason": "Pulled", "note": "n", "type": "Warning",
        "eventTime": "2026-11-16T00:00:00.000000Z", "reportingController": "example.com/c", "reportingInstance": "i",
        "action": "Pull",
    });
    let (old_path, new_path) =
        ("/api/v1/namespaces/default/events", "/apis/events.k8s.io/v1/namespaces/default/events");
    post(&client, old_path, &core).await;
    post(&client, new_path, &new).await;
    // (path of the group, selector, events that it selects; `None` if the group has no such field)
    let table: &[(&str, &str, Option<&[&str]>)] = &[
        (old_path, "involvedObject.name=p", Some(&["core"])),
        (old_path, "involvedObject.name=q,involvedObject.kind=Pod", Some(&["new"])),
        (old_path, "involvedObject.uid=uid-q", Some(&["new"])),
        (old_path, "reason=Pulled", Some(&["new"])),
        (old_path, "type!=Warning", Some(&["core"])),
        (old_path, "source=kubelet", Some(&["core"])),
        (old_path, "source=example.com/c", Some(&["new"])),
        (old_path, "reportingComponent=example.com/c", Some(&["new"])),
        (old_path, "regarding.name=p", None),
        (new_path, "regarding.name=p", Some(&["core"])),
        (new_path, "regarding.name=q,regarding.kind=Pod,regarding.namespace=default", Some(&["new"])),
        (
            new_path,
            "regarding.uid=uid-p,regarding.apiVersion=v1,regarding.resourceVersion=7",
            Some(&["core"]),
        ),
        (new_path, "regarding.fieldPath=spec.containers{c}", Some(&["core", "new"])),
        (new_path, "regarding.name!=p", Some(&["new"])),
        (new_path, "reason=Started", Some(&["core"])),
        (new_path, "type=Warning", Some(&["new"])),
        (new_path, "reportingController=example.com/c", Some(&["new"])),
        (new_path, "metadata.name=core", Some(&["core"])),
        (new_path, "involvedObject.name=p", None),
        (new_path, "source=kubelet", None),
        (new_path, "reportingComponent=example.com/c", None),
    ];
    for (path, selector, selected) in table {
        let query = selector.replace('=', "%3D").replace('{', "%7B").replace('}', "%7D");
        let answer = get(&client, &format!("{path}?fieldSelector={query}")).await;
        let list = answer.json();
        match selected {
            Some(selected) => {
                // A server can write Events about its own Services.
                let ours: Vec<&str> =
                    names(&list).into_iter().filter(|name| ["core", "new"].contains(name)).collect();
                assert_eq!(ours, *selected, "{path} {selector}: {list}");
            }
            None => {
                let label = selector.split('=').next().unwrap();
                assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{path} {selector}");
                assert_eq!(
                    list["message"],
                    format!("field label not supported: {label}"),
                    "{path} {selector}"
                );
            }
        }
    }
}

/// The parts of the metadata that a status write sets or keeps, depending on the kind.
const PARTS: [&str; 4] = ["annotations", "finalizers", "labels", "ownerReferences"];

async fn a_status_write_keeps_or_resets_metadata_depending_on_the_kind(_server: AnyServer, client: Client) {
    define(&client, &definition()).await;
    let all = &PARTS[..];
    let template =
        json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let workload = json!({"selector": {"matchLabels": {"a": "b"}}, "template": template});
    let mut once = template.clone();
    once["spec"]["restartPolicy"] = "Never".into();
    let backend = json!({"service": {"name": "s", "port": {"number": 80}}});
    let rule = json!({"apiGroups": ["example.com"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["things"]});
    let claim = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
    let scaled = json!({"kind": "Deployment", "name": "d", "apiVersion": "apps/v1"});
    let core = |plural: &str| format!("/api/v1/namespaces/default/{plural}");
    let apps = |plural: &str| format!("/apis/apps/v1/namespaces/default/{plural}");
    let batch = |plural: &str| format!("/apis/batch/v1/namespaces/default/{plural}");
    // (collection, spec of an object, parts of its metadata that a status write sets)
    let table: Vec<(String, Value, &[&str])> = vec![
        (core("pods"), template["spec"].clone(), &["annotations", "finalizers", "labels"]),
        (core("services"), json!({"ports": [{"port": 80}]}), all),
        (core("persistentvolumeclaims"), claim, all),
        (core("resourcequotas"), json!({"hard": {"secrets": "9"}}), all),
        (core("replicationcontrollers"), json!({"selector": {"a": "b"}, "template": template}), all),
        ("/api/v1/nodes".into(), json!({}), all),
        ("/api/v1/namespaces".into(), json!({}), all),
        (apps("deployments"), workload.clone(), &["annotations", "finalizers", "ownerReferences"]),
        (apps("daemonsets"), workload.clone(), all),
        (apps("replicasets"), workload.clone(), all),
        (apps("statefulsets"), workload, all),
        (batch("jobs"), json!({"template": once}), all),
        (
            batch("cronjobs"),
            json!({"schedule": "* * * * *", "jobTemplate": {"spec": {"template": once}}}),
            all,
        ),
        (
            "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers".into(),
            json!({"maxReplicas": 3, "scaleTargetRef": scaled}),
            all,
        ),
        (
            "/apis/networking.k8s.io/v1/namespaces/default/ingresses".into(),
            json!({"defaultBackend": backend}),
            all,
        ),
        (
            "/apis/policy/v1/namespaces/default/poddisruptionbudgets".into(),
            json!({"minAvailable": 1, "selector": {"matchLabels": {"a": "b"}}}),
            all,
        ),
        (
            "/apis/storage.k8s.io/v1/volumeattachments".into(),
            json!({"attacher": "a", "nodeName": "n", "source": {"persistentVolumeName": "p"}}),
            &[],
        ),
        (
            "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies".into(),
            json!({"matchConstraints": {"resourceRules": [rule]}, "validations": [{"expression": "true"}]}),
            &[],
        ),
        (
            "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas".into(),
            json!({"priorityLevelConfiguration": {"name": "global-default"}, "matchingPrecedence": 9000}),
            &[],
        ),
        (THINGS.into(), json!({"colour": "red"}), &[]),
    ];
    for (collection, spec, kept) in table {
        let mut object = json!({"metadata": {"name": "x", "labels": {"own": "yes"}}, "spec": spec});
        if collection == THINGS {
            object["apiVersion"] = "example.com/v1".into();
            object["kind"] = "Thing".into();
        }
        post(&client, &collection, &object).await;
        check_status_write(&client, &format!("{collection}/x"), kept).await;
    }
    check_status_write(&client, &format!("{CRDS}/things.example.com"), all).await;
}

async fn check_status_write(client: &Client, path: &str, kept: &[&str]) {
    let owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": "00000000-0000-4000-8000-000000000000"});
    let sent = json!({
        "labels": {"sent": "yes"}, "annotations": {"sent": "yes"}, "finalizers": ["example.com/sent"],
        "ownerReferences": [owner],
    });
    let patch = json!({"metadata": sent});
    let status = format!("{path}/status?fieldManager=status-writer");
    let (code, object) = send(client, "PATCH", &status, MERGE_PATCH, &patch).await;
    assert_eq!(code, 200, "{path}: {object}");
    let found = |part: &&&str| match **part {
        part @ ("labels" | "annotations") => object["metadata"][part]["sent"] == "yes",
        part => object["metadata"][part].as_array().is_some_and(|list| {
            list.iter().any(|entry| {
                *entry == sent[part][0] || entry["uid"] == sent[part][0]["uid"] && entry["uid"].is_string()
            })
        }),
    };
    assert_eq!(PARTS.iter().filter(found).copied().collect::<Vec<_>>(), kept, "{path}: {object}");
    let entries = object["metadata"]["managedFields"].as_array().unwrap().iter();
    let owned: Vec<String> = entries
        .filter(|entry| entry["manager"] == "status-writer" && entry["subresource"] == "status")
        .flat_map(|entry| entry["fieldsV1"]["f:metadata"].as_object().into_iter().flatten())
        .map(|(name, _)| name.trim_start_matches("f:").to_owned())
        .collect();
    // Before 1.36, a custom resource claims what the write did not keep, and a definition does not claim what it kept.
    let expected = match minor_version(client).await {
        ..36 if path.starts_with(THINGS) => &PARTS[..],
        ..36 if path.starts_with(CRDS) => &[],
        _ => kept,
    };
    assert_eq!(owned, expected, "{path}: {object}");
}

async fn a_new_object_may_have_a_resource_version_only_in_a_dry_run(_server: AnyServer, client: Client) {
    let map = |name: &str, version: &str| json!({"metadata": {"name": name, "resourceVersion": version}});
    let refused = "resourceVersion should not be set on objects to be created";
    let missing = "/api/v1/namespaces/missing/configmaps";
    // (collection, query, name, version, code, part of the message)
    let table = [
        (MAPS, "?dryRun=All", "a", "5", 201, ""),
        (MAPS, "", "a", "5", 500, refused),
        (MAPS, "", "a", "0", 201, ""),
        (MAPS, "", "b", "five", 201, ""),
        (MAPS, "?dryRun=All", "a", "5", 409, "already exists"),
        (MAPS, "", "a", "5", 500, refused),
        (MAPS, "", "A", "5", 422, "Invalid value"),
        (missing, "", "a", "5", 404, "namespaces \"missing\" not found"),
    ];
    for (collection, query, name, version, code, message) in table {
        let object = map(name, version);
        let (found, answer) = send(&client, "POST", &format!("{collection}{query}"), JSON, &object).await;
        assert_eq!(found, code, "{name} at {version:?}{query}: {answer}");
        let text = answer["message"].as_str().unwrap_or_default();
        assert!(text.contains(message), "{name} at {version:?}{query}: {text}");
    }
    define(&client, &definition()).await;
    let thing = json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "t", "resourceVersion": "5"}});
    let (code, answer) = send(&client, "POST", &format!("{THINGS}?dryRun=All"), JSON, &thing).await;
    assert_eq!(code, 201, "{answer}");
}

async fn a_token_review_names_the_service_account_of_a_requested_token(_server: AnyServer, client: Client) {
    let account = post(&client, ACCOUNTS, &json!({"metadata": {"name": "robot"}})).await;
    let request =
        post(&client, &format!("{ACCOUNTS}/robot/token"), &json!({"spec": {"expirationSeconds": 1200}}))
            .await;
    assert_eq!(request["kind"], "TokenRequest");
    assert_eq!(request["metadata"]["name"], "robot");
    assert_eq!(request["spec"]["expirationSeconds"], 1200);
    assert!(request["status"]["expirationTimestamp"].is_string(), "{request}");
    let token = request["status"]["token"].as_str().unwrap().to_owned();
    let review = post(&client, REVIEWS, &json!({"spec": {"token": token}})).await;
    let status = &review["status"];
    assert_eq!(status["authenticated"], true, "{review}");
    assert_eq!(status["audiences"], request["spec"]["audiences"]);
    let user = &status["user"];
    assert_eq!(user["username"], "system:serviceaccount:default:robot");
    assert_eq!(user["uid"], account["metadata"]["uid"]);
    assert_eq!(
        user["groups"],
        json!(["system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated"])
    );
    let credential = user["extra"]["authentication.kubernetes.io/credential-id"][0].as_str().unwrap();
    assert!(credential.starts_with("JTI="), "{credential}");

    for (what, spec) in [
        ("another audience", json!({"token": token, "audiences": ["https://elsewhere.example.com"]})),
        ("a broken signature", json!({"token": format!("{token}x")})),
        ("no token at all", json!({"token": "garbage"})),
    ] {
        assert_unauthenticated(&client, &spec, what).await;
    }
    let audience = json!({"spec": {"audiences": ["https://elsewhere.example.com"]}});
    let elsewhere =
        post(&client, &format!("{ACCOUNTS}/robot/token"), &audience).await["status"]["token"].take();
    assert_unauthenticated(&client, &json!({"token": elsewhere}), "a token for another audience").await;
    let spec = json!({"token": elsewhere, "audiences": ["https://elsewhere.example.com", "https://nowhere.example.com"]});
    let review = post(&client, REVIEWS, &json!({"spec": spec})).await;
    assert_eq!(review["status"]["audiences"], json!(["https://elsewhere.example.com"]), "{review}");

    let (code, answer) = send(&client, "POST", REVIEWS, JSON, &json!({"spec": {}})).await;
    assert_eq!(
        (code, &answer["message"]),
        (400, &json!("token is required for TokenReview in authentication"))
    );
}

async fn assert_unauthenticated(client: &Client, spec: &Value, what: &str) {
    let review = post(client, REVIEWS, &json!({"spec": spec})).await;
    assert!(review["status"]["authenticated"].is_null(), "{what}: {review}");
    assert!(review["status"]["error"].as_str().unwrap().contains("token"), "{what}: {review}");
    assert_eq!(review["status"]["user"], json!({}), "{what}: {review}");
}

async fn token_requests_are_checked(_server: AnyServer, client: Client) {
    post(&client, ACCOUNTS, &json!({"metadata": {"name": "robot"}})).await;
    let pods = "/api/v1/namespaces/default/pods";
    let pod = |name: &str, account: &str| json!({"metadata": {"name": name}, "spec": {"serviceAccountName": account, "containers": [{"name": "c", "image": "i"}]}});
    let own = post(&client, pods, &pod("own", "robot")).await;
    post(&client, pods, &pod("other", "another")).await;
    let bound =
        |kind: &str, name: &str| json!({"boundObjectRef": {"apiVersion": "v1", "kind": kind, "name": name}});
    // (account, spec, code, part of the message)
    let table = [
        ("robot", json!({"expirationSeconds": 599}), 422, "may not specify a duration less than 10 minutes"),
        (
            "robot",
            json!({"expirationSeconds": 4_294_967_297_u64}),
            422,
            "may not specify a duration larger than 2^32 seconds",
        ),
        ("robot", bound("Pod", "missing"), 404, "pods \"missing\" not found"),
        (
            "robot",
            bound("Pod", "other"),
            400,
            "cannot bind token for serviceaccount \"robot\" to pod running with different serviceaccount name.",
        ),
        ("robot", bound("ConfigMap", "x"), 400, "cannot bind token to object of type /v1, Kind=ConfigMap"),
        ("missing", json!({}), 404, "serviceaccounts \"missing\" not found"),
    ];
    for (account, spec, code, message) in table {
        let request = json!({"spec": spec});
        let (found, answer) =
            send(&client, "POST", &format!("{ACCOUNTS}/{account}/token"), JSON, &request).await;
        assert_eq!(found, code, "{spec}: {answer}");
        assert!(answer["message"].as_str().unwrap().contains(message), "{spec}: {answer}");
    }
    let request =
        post(&client, &format!("{ACCOUNTS}/robot/token"), &json!({"spec": bound("Pod", "own")})).await;
    let spec = json!({"token": request["status"]["token"]});
    let review = post(&client, REVIEWS, &json!({"spec": spec})).await;
    let extra = &review["status"]["user"]["extra"];
    assert_eq!(extra["authentication.kubernetes.io/pod-name"], json!(["own"]), "{review}");
    assert_eq!(extra["authentication.kubernetes.io/pod-uid"], json!([own["metadata"]["uid"]]), "{review}");
}

async fn responses_of_a_deprecated_version_have_a_warning(_server: AnyServer, client: Client) {
    let mut definition = definition();
    let mut deprecated = definition["spec"]["versions"][0].take();
    deprecated["storage"] = false.into();
    deprecated["deprecated"] = true.into();
    let version = |name: &str, storage: bool, warning: Value| {
        let mut version = deprecated.clone();
        version["name"] = name.into();
        version["storage"] = storage.into();
        version["deprecated"] = (!warning.is_null()).into();
        if warning.is_string() {
            version["deprecationWarning"] = warning;
        }
        version
    };
    definition["spec"]["versions"] = json!([
        version("v1beta1", false, json!(true)),
        version("v1beta2", false, json!("use something else")),
        version("v1alpha1", false, Value::Null),
        version("v1", true, Value::Null),
    ]);
    define(&client, &definition).await;
    for (version, warning) in [
        ("v1beta1", "299 - \"example.com/v1beta1 Thing is deprecated; use example.com/v1 Thing\""),
        ("v1beta2", "299 - \"use something else\""),
        ("v1alpha1", ""),
        ("v1", ""),
    ] {
        let answer = get(&client, &format!("/apis/example.com/{version}/namespaces/default/things")).await;
        assert_eq!((answer.status, answer.header("warning")), (StatusCode::OK, warning), "{version}");
        let answer = get(&client, &format!("/apis/example.com/{version}/namespaces/default/things/x")).await;
        assert_eq!((answer.status, answer.header("warning")), (StatusCode::NOT_FOUND, warning), "{version}");
    }
}

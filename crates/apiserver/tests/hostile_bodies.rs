//! For any request body, the server responds, and what it stored can be read in both encodings.

use crate::support;

use embedded_apiserver::{Clock, Server};
use proptest::prelude::*;
use serde_json::{Value, json};
use support::Session;

/// Resources whose objects the server interprets.
const COLLECTIONS: &[&str] = &[
    "/api/v1/namespaces",
    "/api/v1/namespaces/default/pods",
    "/api/v1/namespaces/default/services",
    "/api/v1/namespaces/default/secrets",
    "/api/v1/namespaces/default/events",
    "/apis/events.k8s.io/v1/namespaces/default/events",
    "/apis/apps/v1/namespaces/default/deployments",
    "/apis/apps/v1/namespaces/default/statefulsets",
    "/apis/apps/v1/namespaces/default/daemonsets",
    "/apis/batch/v1/namespaces/default/jobs",
    "/apis/coordination.k8s.io/v1/namespaces/default/leases",
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
];

const SUBRESOURCES: &[&str] = &["", "", "", "/status", "/scale", "/finalize", "/binding", "/eviction"];

/// Names of members that the server interprets.
const NAMES: &[&str] = &[
    "metadata",
    "spec",
    "status",
    "template",
    "containers",
    "selector",
    "labels",
    "ports",
    "finalizers",
    "ownerReferences",
    "tolerations",
    "replicas",
    "strategy",
    "conditions",
    "versions",
    "names",
    "data",
    "involvedObject",
    "deleteOptions",
    "target",
    "uid",
    "name",
];

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        prop::sample::select(vec!["", "a", "x", "1", "RollingUpdate", "2026-01-01T00:00:00Z"])
            .prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::btree_map(prop::sample::select(NAMES), inner, 0..4).prop_map(|members| members
                .into_iter()
                .map(|(name, value)| (name.to_owned(), value))
                .collect()),
        ]
    })
}

/// A value that resembles an object called `x`.
fn object() -> impl Strategy<Value = Value> {
    (value(), value(), value(), any::<bool>()).prop_map(|(spec, status, metadata, named)| {
        let mut object = json!({"spec": spec, "status": status, "metadata": metadata});
        if named {
            let mut metadata = object["metadata"].as_object().cloned().unwrap_or_default();
            metadata.insert("name".to_owned(), "x".into());
            object["metadata"] = metadata.into();
        }
        object
    })
}

#[derive(Clone, Debug)]
struct Sent {
    method: &'static str,
    content_type: &'static str,
    collection: &'static str,
    subresource: &'static str,
    body: Value,
}

fn sent() -> impl Strategy<Value = Sent> {
    let kinds = vec![
        ("POST", "application/json"),
        ("POST", "application/json"),
        ("PUT", "application/json"),
        ("PATCH", "application/merge-patch+json"),
        ("PATCH", "application/strategic-merge-patch+json"),
        ("PATCH", "application/json-patch+json"),
        ("PATCH", "application/apply-patch+yaml"),
        ("DELETE", "application/json"),
    ];
    let kind = prop::sample::select(kinds);
    let place = (prop::sample::select(COLLECTIONS), prop::sample::select(SUBRESOURCES));
    (kind, place, prop_oneof![4 => object(), 1 => value()]).prop_map(
        |((method, content_type), (collection, subresource), body)| Sent {
            method,
            content_type,
            collection,
            subresource,
            body,
        },
    )
}

async fn play(requests: Vec<Sent>) {
    let clock = Clock::starting_at(std::time::UNIX_EPOCH);
    let session =
        Session::new(Server::builder().without_socket().seed(5).clock(clock).start().await.unwrap());
    for Sent { method, content_type, collection, subresource, body } in requests {
        let path = match (method, subresource) {
            ("POST", "") => collection.to_owned(),
            _ => format!("{collection}/x{subresource}"),
        };
        let path = format!("{path}?fieldManager=test");
        let headers = [("content-type", content_type)];
        let answer = session.request(method, &path, &headers, body.to_string().into()).await;
        let is_json = answer.headers["content-type"] == "application/json";
        assert!(!is_json || serde_json::from_slice::<Value>(&answer.body).is_ok(), "{method} {path} {body}");
    }
    for collection in COLLECTIONS.iter().filter(|collection| !collection.contains("reviews")) {
        let protobuf = [("accept", "application/vnd.kubernetes.protobuf")];
        let list = session.json("GET", collection, Value::Null).await;
        let raw = session.request("GET", collection, &protobuf, Vec::new()).await;
        assert_eq!(raw.code, 200, "{collection}");
        for item in list["items"].as_array().unwrap() {
            assert!(
                item["metadata"]["uid"].is_string() && item["metadata"]["resourceVersion"].is_string(),
                "{item}"
            );
        }
        let opened = kube_wire::internals::envelope::Envelope::open(&raw.body).unwrap();
        let message = kube_wire::schema::Schema::builtin().kind(opened.api_version, opened.kind).unwrap();
        let same: Value = kube_wire::internals::de::from_slice(opened.raw, message).unwrap();
        assert_eq!(same["items"].as_array().map_or(0, Vec::len), list["items"].as_array().unwrap().len());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_server_answers_any_request(requests in prop::collection::vec(sent(), 1..30)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(play(requests));
    }
}

//! Follow-up work of concurrent writes: when a write is answered, all its consequences are complete, regardless of
//! other requests.

use crate::support;

use std::sync::Arc;

use embedded_apiserver::Server;
use serde_json::{Value, json};
use support::Session;

const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
/// Keys in a large config map: validating and recording it takes far longer than deleting an empty namespace.
const LARGE_KEYS: usize = 500;

async fn session() -> Arc<Session> {
    Arc::new(Session::new(Server::builder().without_socket().start().await.unwrap()))
}

async fn code(session: &Session, method: &str, path: &str, body: Value) -> u16 {
    let headers = [("content-type", "application/json")];
    session.request(method, path, &headers, body.to_string().into()).await.code
}

fn definition(plural: &str) -> Value {
    json!({
        "metadata": {"name": format!("{plural}.example.com")},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": {"plural": plural, "kind": plural.to_uppercase()},
                 "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]},
    })
}

fn custom_object(plural: &str) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": plural.to_uppercase(), "metadata": {"name": "x"}})
}

fn large_map() -> Value {
    let data: serde_json::Map<_, _> = (0..LARGE_KEYS).map(|n| (format!("key-{n}"), json!("value"))).collect();
    json!({"metadata": {"name": "late"}, "data": data})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_definition_is_served_when_its_creation_is_answered() {
    const DEFINITIONS_PER_WRITER: usize = 12;
    let session = session().await;
    let writers = (0..4).map(|writer| {
        let session = session.clone();
        tokio::spawn(async move {
            let mut refused = Vec::new();
            for n in 0..DEFINITIONS_PER_WRITER {
                let plural = format!("things{writer}x{n}");
                assert_eq!(code(&session, "POST", CRDS, definition(&plural)).await, 201);
                let path = format!("/apis/example.com/v1/namespaces/default/{plural}");
                let created = code(&session, "POST", &path, custom_object(&plural)).await;
                if created != 201 {
                    refused.push((plural, created));
                }
            }
            refused
        })
    });
    let mut refused = Vec::new();
    for writer in writers.collect::<Vec<_>>() {
        refused.extend(writer.await.unwrap());
    }
    assert!(refused.is_empty(), "objects refused right after their definition: {refused:?}");
}

/// Creates objects until one is rejected; returns its status code.
async fn create_until_refused(session: Arc<Session>, maps: String, writer: usize) -> u16 {
    for n in 0.. {
        let map = json!({"metadata": {"name": format!("map-{writer}-{n}")}, "data": large_map()["data"]});
        let answered = code(&session, "POST", &maps, map).await;
        if answered != 201 {
            return answered;
        }
    }
    unreachable!("the namespace goes")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn creates_racing_with_namespace_deletion_do_not_block_it() {
    let session = session().await;
    for round in 0..5 {
        let namespace = format!("/api/v1/namespaces/n{round}");
        let named = json!({"metadata": {"name": format!("n{round}")}});
        assert_eq!(code(&session, "POST", "/api/v1/namespaces", named).await, 201);
        let maps = format!("{namespace}/configmaps");
        let writers: Vec<_> = (0..4)
            .map(|writer| tokio::spawn(create_until_refused(session.clone(), maps.clone(), writer)))
            .collect();
        while code(&session, "GET", &format!("{maps}/map-0-1"), json!({})).await != 200 {
            tokio::task::yield_now().await;
        }
        assert_eq!(code(&session, "DELETE", &namespace, json!({})).await, 200);
        for writer in writers {
            let refused = writer.await.unwrap();
            assert!([403, 404].contains(&refused), "{refused}");
        }
        assert_eq!(code(&session, "GET", &namespace, json!({})).await, 404, "round {round}");
        let left = session.json("GET", "/api/v1/configmaps", json!({})).await;
        assert_eq!(
            left["items"].as_array().unwrap().len(),
            0,
            "round {round}: objects outlived their namespace"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_create_racing_with_definition_deletion_does_not_block_it() {
    let session = session().await;
    for round in 0..20 {
        let plural = format!("races{round}");
        assert_eq!(code(&session, "POST", CRDS, definition(&plural)).await, 201);
        let objects = format!("/apis/example.com/v1/namespaces/default/{plural}");
        let mut object = custom_object(&plural);
        object["data"] = large_map()["data"].clone();
        let create = tokio::spawn({
            let (session, objects) = (session.clone(), objects.clone());
            async move { code(&session, "POST", &objects, object).await }
        });
        tokio::task::yield_now().await;
        let definition_path = format!("{CRDS}/{plural}.example.com");
        assert_eq!(code(&session, "DELETE", &definition_path, json!({})).await, 200);
        let created = create.await.unwrap();
        assert!([201, 404, 405].contains(&created), "{created}");
        let left = code(&session, "GET", &definition_path, json!({})).await;
        assert_eq!(left, 404, "round {round}: create gave {created}");
        assert_eq!(code(&session, "POST", CRDS, definition(&plural)).await, 201);
        let found = code(&session, "GET", &format!("{objects}/x"), json!({})).await;
        assert_eq!(found, 404, "round {round}: an object outlived its definition");
    }
}

#[tokio::test]
async fn nothing_can_be_created_while_its_definition_terminates() {
    let session = session().await;
    session.json("POST", CRDS, definition("held")).await;
    let objects = "/apis/example.com/v1/namespaces/default/held";
    let mut object = custom_object("held");
    object["metadata"]["finalizers"] = json!(["example.com/hold"]);
    session.json("POST", objects, object).await;
    session.json("DELETE", &format!("{CRDS}/held.example.com"), json!({})).await;
    let mut other = custom_object("held");
    other["metadata"]["name"] = "other".into();
    let headers = [("content-type", "application/json")];
    let refused = session.request("POST", objects, &headers, other.to_string().into()).await;
    let status: Value = serde_json::from_slice(&refused.body).unwrap();
    assert_eq!((refused.code, &status["reason"]), (405, &json!("MethodNotAllowed")));
    assert_eq!(status["message"], "create not allowed while custom resource definition is terminating");
    session.json("PATCH", &format!("{objects}/x"), json!({"metadata": {"finalizers": null}})).await;
    assert_eq!(code(&session, "GET", &format!("{CRDS}/held.example.com"), json!({})).await, 404);
}

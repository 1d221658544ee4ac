//! Things: the custom resources of the tests, and how they are created.

use http::{Request, StatusCode};
use kube_client::Client;
use kube_informer_conformance::raw;
use serde_json::{Value, json};

use super::get;

pub(crate) const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
/// The things of the default namespace.
pub(crate) const THINGS: &str = "/apis/example.com/v1/namespaces/default/things";

/// The definition of things with any fields, and with a status.
pub(crate) fn definition() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": "things", "kind": "Thing"},
            "versions": [{
                "name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
            }],
        },
    })
}

/// Creates a definition of things, and waits until the server serves them.
pub(crate) async fn define(client: &Client, definition: &Value) {
    post(client, CRDS, definition).await;
    while get(client, THINGS).await.status != StatusCode::OK {
        tokio::task::yield_now().await;
    }
}

/// Creates an object.
pub(crate) async fn post(client: &Client, path: &str, object: &Value) -> Value {
    let request = Request::post(path).header("content-type", raw::JSON);
    let created = client.request(request.body(object.to_string().into_bytes()).unwrap()).await;
    created.unwrap_or_else(|error| panic!("{path}: {error}"))
}

//! What the tests share: a server with a few config maps, and looking at answers.
#![allow(dead_code)] // Each test file is a program of its own and uses a part of this.

#[macro_use]
pub(crate) mod both;
pub(crate) mod informers;
pub(crate) mod kubelet;
pub(crate) mod webhook;
pub(crate) mod writes;

use k8s_openapi::{api::core::v1::ConfigMap, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube_client::{Api, Client, api::PostParams};
use kube_informer_conformance::{Programs, RealServer, raw};
use serde_json::Value;

/// The config maps of the default namespace, where the server puts none by itself.
pub(crate) const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// A server as it comes, with a client.
pub(crate) async fn server() -> (RealServer, Client) {
    let server = RealServer::builder(Programs::required()).start().await.unwrap();
    let client = server.client().await.unwrap();
    (server, client)
}

/// Creates config maps with these names, labelled `shop=yes`, and gives their resource versions.
pub(crate) async fn create(client: &Client, names: &[&str]) -> Vec<u64> {
    let api = Api::<ConfigMap>::namespaced(client.clone(), "default");
    let mut versions = Vec::new();
    for name in names {
        let metadata = ObjectMeta {
            name: Some((*name).to_owned()),
            labels: Some([("shop".to_owned(), "yes".to_owned())].into()),
            ..Default::default()
        };
        let map = ConfigMap { metadata, ..Default::default() };
        let created = api.create(&PostParams::default(), &map).await.unwrap();
        versions.push(created.metadata.resource_version.unwrap().parse().unwrap());
    }
    versions
}

/// Asks for JSON.
pub(crate) async fn get(client: &Client, path: &str) -> raw::Answer {
    raw::get(client, path, raw::JSON).await.unwrap()
}

/// The names of a list's items.
pub(crate) fn names(list: &Value) -> Vec<&str> {
    let items = list["items"].as_array().unwrap_or_else(|| panic!("no list: {list}"));
    items.iter().map(|item| item["metadata"]["name"].as_str().unwrap()).collect()
}

/// A resource version as a number.
pub(crate) fn version_of(object: &Value) -> u64 {
    let version = object["metadata"]["resourceVersion"].as_str();
    version.and_then(|version| version.parse().ok()).unwrap_or_else(|| panic!("no version: {object}"))
}

/// The server's minor version, for the rules that changed.
pub(crate) async fn minor_version(client: &Client) -> u32 {
    get(client, "/version").await.json()["minor"].as_str().unwrap().parse().unwrap()
}

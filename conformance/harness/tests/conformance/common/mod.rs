//! Helpers of the tests: a server, config maps, and readers of responses.

#[macro_use]
pub(crate) mod both;
#[cfg(feature = "real-server")]
pub(crate) mod informers;
#[cfg(feature = "real-server")]
pub(crate) mod kubelet;
pub(crate) mod things;
#[cfg(feature = "real-server")]
pub(crate) mod webhook;
#[cfg(feature = "real-server")]
pub(crate) mod writes;

use k8s_openapi::{api::core::v1::ConfigMap, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube_client::{Api, Client, api::PostParams};
use kube_informer_conformance::raw;
#[cfg(feature = "real-server")]
use kube_informer_conformance::{Programs, RealServer};
use serde_json::Value;

/// The config maps of the default namespace. A server without kube-controller-manager creates none there.
pub(crate) const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// A server with default settings, and a client of its administrator.
#[cfg(feature = "real-server")]
pub(crate) async fn server() -> (RealServer, Client) {
    let server = RealServer::builder(Programs::required()).start().await.unwrap();
    let client = server.client().await.unwrap();
    (server, client)
}

/// Creates config maps with these names, with the label `shop=yes`. Returns their resource versions.
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

/// Gets a path in JSON.
pub(crate) async fn get(client: &Client, path: &str) -> raw::Answer {
    raw::get(client, path, raw::JSON).await.unwrap()
}

/// The names of a list's items.
pub(crate) fn names(list: &Value) -> Vec<&str> {
    let items = list["items"].as_array().unwrap_or_else(|| panic!("not a list: {list}"));
    items.iter().map(|item| item["metadata"]["name"].as_str().unwrap()).collect()
}

/// A resource version as a number.
pub(crate) fn version_of(object: &Value) -> u64 {
    let version = object["metadata"]["resourceVersion"].as_str();
    version.and_then(|version| version.parse().ok()).unwrap_or_else(|| panic!("no resourceVersion: {object}"))
}

/// The server's minor version, for rules that differ between versions.
pub(crate) async fn minor_version(client: &Client) -> u32 {
    get(client, "/version").await.json()["minor"].as_str().unwrap().parse().unwrap()
}

//! The API server of the examples: in this process, on a local port. With a real cluster, use `Cluster::infer().await?`
//! instead; nothing else changes.
#![allow(dead_code, reason = "each example uses a part")]

use embedded_apiserver::Server;
use kube_client::api::PostParams;
use kube_client::{Api, Client};
use kube_informer::Cluster;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// Any error ends an example.
pub type Result<T, E = Box<dyn std::error::Error>> = std::result::Result<T, E>;

/// A server, and clients for it. Logs warnings: install a subscriber in your program, too.
pub async fn start() -> Result<(Server, Cluster)> {
    tracing_subscriber::fmt().with_max_level(tracing::Level::WARN).with_writer(std::io::stderr).init();
    let server = Server::start().await?;
    let config = server.config().ok_or("a server with a port has a config")?;
    Ok((server, Cluster::from_config(config)?))
}

/// Creates an object, and its namespace if it does not exist.
pub async fn create<K>(client: &Client, namespace: &str, object: Value) -> Result<K>
where
    K: kube_core::Resource<DynamicType = (), Scope = kube_core::NamespaceResourceScope>,
    K: Clone + std::fmt::Debug + Serialize + DeserializeOwned,
{
    let namespaces: Api<k8s_openapi::api::core::v1::Namespace> = Api::all(client.clone());
    if namespaces.get_opt(namespace).await?.is_none() {
        let created = serde_json::from_value(json!({"metadata": {"name": namespace}}))?;
        namespaces.create(&PostParams::default(), &created).await?;
    }
    let api: Api<K> = Api::namespaced(client.clone(), namespace);
    Ok(api.create(&PostParams::default(), &serde_json::from_value(object)?).await?)
}

/// A pod with one container.
pub fn pod(name: &str, tier: &str, node: &str) -> Value {
    json!({
        "metadata": {"name": name, "labels": {"tier": tier}},
        "spec": {"nodeName": node, "containers": [{"name": "main", "image": "registry/main:1"}]},
    })
}

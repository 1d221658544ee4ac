//! One controller over three clusters that come and go. Every ConfigMap gets a Secret of its name, in its own cluster.
//!
//! The clusters are embedded API servers, so it runs anywhere: `cargo run -p kube-informer-controller --example clusters`.
#![allow(clippy::print_stdout, reason = "an example shows what happens")]

use embedded_apiserver::Server;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube_client::api::{Api, DeleteParams, ListParams, ObjectMeta};
use kube_core::ResourceExt as _;
use kube_informer::{Informer, Key};
use kube_informer_controller::{
    Action, ClusterTriggers, Clusters, Context, Controller, Error, Manager, testing,
};
use serde_json::json;

async fn reconcile(ctx: Context, key: Key) -> Result<Action, Error> {
    // The cache and the client of the key's cluster.
    let Some(map) = ctx.object::<ConfigMap>() else { return Ok(Action::Done) };
    let metadata = ObjectMeta { name: Some(map.name().to_owned()), ..ObjectMeta::default() };
    ctx.apply(&Secret { metadata, ..Secret::default() }).await?;
    println!("reconciled {key} of cluster {}", key.cluster().unwrap_or_default());
    Ok(Action::Done)
}

/// A cluster with one ConfigMap. In production: a `Cluster` of a kubeconfig's context.
async fn start_cluster(map: &str) -> anyhow::Result<Server> {
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": map, "namespace": "web"}});
    Ok(Server::builder().without_socket().objects([map]).start().await?)
}

/// A cluster joins: its informers start, and the controller follows them.
fn join(clusters: &Clusters, name: &str, server: &Server) -> anyhow::Result<()> {
    let maps = Informer::<ConfigMap>::builder(server.client()?).namespaces(["web"]).start()?;
    let secrets = Informer::<Secret>::builder(server.client()?).start()?;
    clusters.add(name, ClusterTriggers::on(&maps).owns(&secrets))?;
    Ok(())
}

/// The Secrets of a cluster.
async fn secrets(server: &Server) -> anyhow::Result<Vec<String>> {
    let secrets = Api::<Secret>::namespaced(server.client()?, "web").list(&ListParams::default()).await?;
    Ok(secrets.iter().map(|secret| secret.name_any()).collect())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    tracing_subscriber::fmt().with_max_level(tracing::Level::WARN).with_writer(std::io::stderr).init();
    let controller = Controller::of_clusters("mirror").concurrency(4).build((), reconcile)?;
    let clusters = controller.clusters();
    // A program calls `Manager::run`, and does not wait until the controller has nothing left to do.
    let manager = testing::start(Manager::new().controller(controller));

    let (east, west, north) =
        (start_cluster("e").await?, start_cluster("w").await?, start_cluster("n").await?);
    join(&clusters, "east", &east)?;
    join(&clusters, "west", &west)?;
    testing::settle_clusters(&[("east", &east), ("west", &west)], &manager).await?;
    assert_eq!((secrets(&east).await?, secrets(&west).await?), (vec!["e".to_owned()], vec!["w".to_owned()]));

    // A cluster leaves, and nothing in it is reconciled; another one joins.
    clusters.remove("east");
    join(&clusters, "north", &north)?;
    Api::<Secret>::namespaced(east.client()?, "web").delete("e", &DeleteParams::default()).await?;
    testing::settle_clusters(&[("west", &west), ("north", &north)], &manager).await?;
    assert_eq!(clusters.names(), ["north", "west"]);
    assert_eq!(secrets(&north).await?, ["n"]);
    assert!(secrets(&east).await?.is_empty(), "no controller creates it again");

    manager.stop().await?;
    Ok(())
}

//! Several namespaces in one informer: one watch per namespace, one store, one `synced`; with separate selectors where
//! needed.
#![allow(clippy::print_stdout, reason = "an example prints its results")]

mod cluster;

use k8s_openapi::api::core::v1::Pod;
use kube_informer::{Informer, Selectors};

#[tokio::main(flavor = "current_thread")]
async fn main() -> cluster::Result<()> {
    let (_server, cluster) = cluster::start().await?;
    for namespace in ["web", "api", "batch", "db"] {
        for (name, tier) in [("one", "backend"), ("two", "frontend")] {
            cluster::create::<Pod>(&cluster.client(), namespace, cluster::pod(name, tier, "node-1")).await?;
        }
    }

    let pods = Informer::<Pod>::builder(cluster.clone())
        .namespaces(["web", "api"])
        .namespace_with("batch", Selectors::default().labels("tier=backend"))
        .start()?;
    pods.synced().await?;
    println!("{} pods, {} of them in web", pods.lister().count(), pods.lister().namespace("web").count());
    for scope in pods.status() {
        println!("{}: {}, at resourceVersion {}", scope.resource, scope.state, scope.resource_version);
    }

    let elsewhere =
        cluster::create::<Pod>(&cluster.client(), "db", cluster::pod("three", "backend", "")).await?;
    if let Err(error) = pods.wait_for(&elsewhere).await {
        println!("{error}");
    }
    Ok(())
}

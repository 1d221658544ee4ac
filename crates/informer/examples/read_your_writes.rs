//! Reads own writes: a cache lags behind the server, and `wait_for` waits for it.
#![allow(clippy::print_stdout, reason = "an example prints its results")]

mod cluster;

use k8s_openapi::api::core::v1::ConfigMap;
use kube_client::Api;
use kube_client::api::{DeleteParams, Patch, PatchParams};
use kube_informer::Informer;
use serde_json::json;

#[tokio::main(flavor = "current_thread")]
async fn main() -> cluster::Result<()> {
    let (_server, cluster) = cluster::start().await?;
    let maps =
        Informer::<ConfigMap>::builder(cluster.clone()).namespaces(["web"]).labels("tier=backend").start()?;
    maps.synced().await?;

    let labelled = |name: &str, tier: &str| json!({"metadata": {"name": name, "labels": {"tier": tier}}});
    let created: ConfigMap =
        cluster::create(&cluster.client(), "web", labelled("settings", "backend")).await?;
    let seen = maps.wait_for(&created).await?.ok_or("already deleted")?;
    println!("{} is in the store at resourceVersion {}", seen.key(), seen.resource_version());

    let api: Api<ConfigMap> = Api::namespaced(cluster.client(), "web");
    let patch = Patch::Merge(json!({"data": {"colour": "red"}}));
    let patched = api.patch("settings", &PatchParams::default(), &patch).await?;
    let seen = maps.wait_for(&patched).await?.ok_or("already deleted")?;
    println!("its colour is {:?}", seen.decode()?.data.as_ref().and_then(|data| data.get("colour")));

    // Waiting for an object out of scope fails immediately.
    let other: ConfigMap = cluster::create(&cluster.client(), "web", labelled("page", "front")).await?;
    if let Err(error) = maps.wait_for(&other).await {
        println!("{error}");
    }

    api.delete("settings", &DeleteParams::default()).await?;
    maps.wait_deleted(&patched).await?;
    println!("{} is gone from the store: {} left", seen.key(), maps.lister().count());
    Ok(())
}

//! A handler that receives only events of some objects, and a handler that panics without affecting the other.
#![allow(clippy::print_stdout, reason = "an example prints its results")]

mod cluster;

use k8s_openapi::api::core::v1::Pod;
use kube_client::Api;
use kube_client::api::{DeleteParams, Patch, PatchParams};
use kube_informer::building_blocks::Filtered;
use kube_informer::{Event, Informer, Key, Object};
use serde_json::json;
use tokio::sync::mpsc;

#[tokio::main(flavor = "current_thread")]
async fn main() -> cluster::Result<()> {
    let (_server, cluster) = cluster::start().await?;
    for (name, tier) in [("api", "backend"), ("page", "front")] {
        cluster::create::<Pod>(&cluster.client(), "web", cluster::pod(name, tier, "")).await?;
    }
    let pods = Informer::<Pod>::builder(cluster.clone()).start()?;

    let (sender, mut receiver) = mpsc::channel(16);
    let is_backend = |pod: &Object<Pod>| pod.labels().get("tier").as_deref() == Some("backend");
    let backend = pods.add_handler(Filtered::new(is_backend, move |event: Event<Pod>| {
        let sender = sender.clone();
        async move {
            println!("{event:?}");
            let _ = sender.send(()).await;
        }
    }))?;
    let careless = pods.add_handler(async |event: Event<Pod>| {
        if let Some(pod) = event.object().and_then(|pod| pod.decode().ok()) {
            assert!(pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some()), "the pod has no node");
        }
    })?;
    backend.synced().await?;

    let api: Api<Pod> = Api::namespaced(cluster.client(), "web");
    let tier = |tier: &str| Patch::Merge(json!({"metadata": {"labels": {"tier": tier}}}));
    api.patch("page", &PatchParams::default(), &tier("backend")).await?; // now it passes: added
    api.patch("api", &PatchParams::default(), &tier("front")).await?; // now it does not: deleted
    api.delete("page", &DeleteParams::default()).await?; // deleted
    for _event in ["added api", "synced", "added page", "deleted api", "deleted page"] {
        receiver.recv().await;
    }

    backend.remove();
    backend.removed().await;
    let gone = Key::new("web", "page");
    println!("{gone} is {}", if pods.lister().get(&gone).is_some() { "there" } else { "gone" });
    careless.synced().await?;
    println!("the second handler has panicked and still runs: {}", careless.panics() > 0);
    Ok(())
}

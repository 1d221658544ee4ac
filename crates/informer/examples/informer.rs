//! A typed informer: waits for the initial list, reads, and follows changes.
#![allow(clippy::print_stdout, reason = "an example prints its results")]

mod cluster;

use futures::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube_client::Api;
use kube_client::api::{Patch, PatchParams};
use kube_informer::{Event, Informer};
use serde_json::json;

#[tokio::main(flavor = "current_thread")]
async fn main() -> cluster::Result<()> {
    let (_server, cluster) = cluster::start().await?;
    for name in ["api", "page"] {
        cluster::create::<Pod>(&cluster.client(), "web", cluster::pod(name, "backend", "")).await?;
    }

    let pods = Informer::<Pod>::builder(cluster.clone()).namespaces(["web"]).start()?;
    pods.synced().await?;
    println!("{} pods are in the store", pods.lister().count());

    let api: Api<Pod> = Api::namespaced(cluster.client(), "web");
    let mut events = pods.subscribe();
    while let Some(event) = events.next().await {
        match event {
            Event::Added { object, origin } => println!("{origin:?}: {} exists", object.key()),
            Event::Updated { old, new, .. } => {
                // Only here is the object decoded.
                println!("{}: {} → {}", new.key(), phase(&*old.decode()?), phase(&*new.decode()?));
                if new.name() == "api" {
                    api.delete("page", &Default::default()).await?;
                }
            }
            Event::Deleted { last, .. } => {
                println!("{} is gone", last.key());
                break;
            }
            Event::Synced => {
                println!("the initial list is complete; now the pods change");
                let running = Patch::Merge(json!({"status": {"phase": "Running"}}));
                api.patch_status("api", &PatchParams::default(), &running).await?;
            }
        }
    }
    pods.shutdown().await;
    Ok(())
}

fn phase(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or("Unknown")
}

//! A typed informer: wait for the first full state, read, and follow what happens.
//!
//! The server is a scripted one; with a cluster, `Informer::<Pod>::builder(Clients::infer().await?)` takes its place.
#![allow(clippy::print_stdout, reason = "an example talks")]

use std::sync::Arc;

use futures::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube_informer::testing::ScriptedSource;
use kube_informer::{Event, Informer};
use serde_json::json;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = ScriptedSource::new("v1", "Pod");
    server.put(pod("api", "Pending"));
    server.put(pod("page", "Running"));

    let pods = Informer::<Pod>::from_source(Arc::new(server.clone())).start()?;
    pods.synced().await?;
    println!("{} pods are in the store", pods.lister().count());

    let mut events = pods.subscribe();
    while let Some(event) = events.next().await {
        match event {
            Event::Added { object, origin } => println!("{origin:?}: {} is there", object.key()),
            Event::Updated { old, new, .. } => {
                println!("{}: {} → {}", new.key(), phase(&*old.decode()?), phase(&*new.decode()?));
            }
            Event::Deleted { last, .. } => {
                println!("{} is gone", last.key());
                break;
            }
            Event::Synced => {
                println!("that was everything; now things change");
                server.put(pod("api", "Running"));
                server.delete("web/page");
            }
        }
    }

    // Read your own writes: with a cluster, `written` is what `Api::patch` gave.
    server.put(pod("api", "Succeeded"));
    let api = "web/api".parse()?;
    let written: Pod = server.get(&api).ok_or("the server has it")?.decode()?;
    pods.wait_for(&written).await?;
    let read = pods.lister().get(&api).ok_or("it is there")?.decode()?;
    println!("web/api is {} in the store, too", phase(&read));

    pods.shutdown().await;
    Ok(())
}

fn pod(name: &str, phase: &str) -> serde_json::Value {
    json!({"metadata": {"namespace": "web", "name": name}, "status": {"phase": phase}})
}

fn phase(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or("Unknown")
}

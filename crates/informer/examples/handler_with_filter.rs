//! A handler that hears only of some objects, as if there were no others; and one that panics, which harms only itself.
#![allow(clippy::print_stdout, reason = "an example talks")]

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use kube_informer::testing::ScriptedSource;
use kube_informer::{Event, Filtered, Informer, Object};
use serde_json::json;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = ScriptedSource::new("v1", "Pod");
    server.put(pod("api", "backend"));
    server.put(pod("page", "front"));
    let pods = Informer::<Pod>::from_source(Arc::new(server.clone())).start()?;

    let is_backend = |pod: &Object<Pod>| pod.labels().get("tier").as_deref() == Some("backend");
    let backend =
        pods.add_handler(Filtered::new(is_backend, async |event: Event<Pod>| println!("{event:?}")))?;
    let careless = pods.add_handler(async |event: Event<Pod>| {
        // No pod here has a status.
        if let Some(pod) = event.object().and_then(|pod| pod.decode().ok()) {
            assert!(pod.status.is_some(), "I never thought of that");
        }
    })?;
    backend.synced().await?;
    careless.synced().await?;

    server.put(pod("page", "backend")); // now it passes: added
    server.put(pod("api", "front")); // now it does not: deleted
    let last = server.delete("web/page"); // deleted
    let deleted: Pod = serde_json::from_value(
        json!({"metadata": {"namespace": "web", "name": "page", "resourceVersion": last}}),
    )?;
    pods.wait_for(&deleted).await?;
    while backend.lag() + careless.lag() > 0 {
        tokio::task::yield_now().await;
    }

    backend.remove();
    backend.removed().await;
    println!("the careless one panicked {} times and went on", careless.panics());
    Ok(())
}

fn pod(name: &str, tier: &str) -> serde_json::Value {
    json!({"metadata": {"namespace": "web", "name": name, "labels": {"tier": tier}}})
}

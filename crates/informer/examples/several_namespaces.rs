//! Several namespaces as one informer: a watch each, one store, one `synced`.
//!
//! With a cluster: `Informer::<Pod>::builder(clients).namespaces(["web", "api"])`.
#![allow(clippy::print_stdout, reason = "an example talks")]

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use kube_informer::Informer;
use kube_informer::source::ListerWatcher;
use kube_informer::testing::ScriptedSource;
use serde_json::json;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let sources = ["web", "api"].map(|namespace| {
        let server = ScriptedSource::new("v1", "Pod");
        for name in ["one", "two"] {
            server.put(json!({"metadata": {"namespace": namespace, "name": name}}));
        }
        let server: Arc<dyn ListerWatcher> = Arc::new(server);
        (namespace, server)
    });

    let pods = Informer::<Pod>::from_sources(sources).start()?;
    pods.synced().await?;

    println!("{} pods, {} of them in web", pods.lister().count(), pods.lister().namespace("web").count());
    for scope in pods.status() {
        let namespace = scope.namespace.as_deref().unwrap_or("all");
        println!("{namespace}: {}, at resourceVersion {}", scope.reflector.state, scope.resource_version);
    }

    let elsewhere: Pod = serde_json::from_value(json!({"metadata": {"namespace": "db", "name": "x"}}))?;
    if let Err(error) = pods.wait_for(&elsewhere).await {
        println!("{error}");
    }
    Ok(())
}

//! The program: one replica, against the cluster of the kubeconfig or the pod it runs in.
#![allow(clippy::print_stdout, reason = "a program talks")]

use std::sync::Arc;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube_client::Api;
use kube_client::api::{Patch, PatchParams};
use kube_informer::Cluster;
use kube_informer_controller::{Error, Stop};
use prometheus_client::registry::Registry;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;
use website_operator::reconcile::Directory;
use website_operator::website::definition;
use website_operator::{Settings, operator};

/// Where probes and metrics are served, unless the environment's `LISTEN_ADDRESS` names another address.
const LISTEN_ADDRESS: &str = "0.0.0.0:8080";

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    // Failed reconciles, lost leases and refused events are logged: without a subscriber they would be invisible.
    let filter = EnvFilter::builder().with_default_directive(LevelFilter::INFO.into()).from_env_lossy();
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
    let cluster = Cluster::infer().await?;
    let client: kube_client::Client = (&cluster).into();
    let definitions = Api::<CustomResourceDefinition>::all(client);
    let apply = PatchParams::apply("website-operator").force();
    let crd = definition();
    definitions.patch(crd.metadata.name.as_deref().unwrap_or_default(), &apply, &Patch::Apply(&crd)).await?;

    let mut registry = Registry::default();
    let (manager, health) = operator(cluster, Directory::default(), &Settings::default(), &mut registry)?;
    let router = health.metrics(Arc::new(registry)).router();
    let address = std::env::var("LISTEN_ADDRESS").unwrap_or_else(|_| LISTEN_ADDRESS.to_owned());
    let listener = tokio::net::TcpListener::bind(&address).await?;
    println!("probes and metrics on {}", listener.local_addr()?);
    let manager = manager.runnable("http", async move |stop: Stop| {
        let server = axum::serve(listener, router);
        server.with_graceful_shutdown(async move { stop.stopping().await }).await.map_err(Error::new)
    });

    let stop = Stop::new();
    tokio::select! {
        ended = manager.run(&stop) => ended?,
        error = stop.on_signals() => return Err(error.into()),
    }
    Ok(())
}

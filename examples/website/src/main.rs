//! The program: one replica, against the cluster of the kubeconfig or the pod it runs in.
#![allow(clippy::print_stdout, reason = "a program talks")]

use std::sync::Arc;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube_client::Api;
use kube_client::api::{Patch, PatchParams};
use kube_informer::source::Clients;
use kube_informer_controller::Stop;
use prometheus_client::registry::Registry;
use website_operator::reconcile::Directory;
use website_operator::website::definition;
use website_operator::{Operator, Settings};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let clients = Clients::infer().await?;
    let client: kube_client::Client = (&clients).into();
    let definitions = Api::<CustomResourceDefinition>::all(client);
    let apply = PatchParams::apply("website-operator").force();
    let crd = definition();
    definitions.patch(crd.metadata.name.as_deref().unwrap_or_default(), &apply, &Patch::Apply(&crd)).await?;

    let mut registry = Registry::default();
    let operator = Operator::start(clients, Directory::default(), &Settings::default(), &mut registry)?;
    let router = operator.health().metrics(Arc::new(registry)).router();
    let listener = tokio::net::TcpListener::bind("0.0.0.0:8080").await?;
    println!("probes and metrics on {}", listener.local_addr()?);

    let stop = Stop::new();
    tokio::select! {
        ended = operator.run(&stop) => ended?,
        error = stop.on_signals() => return Err(error.into()),
        served = axum::serve(listener, router) => served?,
    }
    Ok(())
}

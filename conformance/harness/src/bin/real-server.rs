//! Starts a real server for manual experiments, prints its address and kubeconfig as a line of JSON, and stops it at
//! the first interrupt. Arguments go to kube-apiserver:
//! `cargo run -p kube-informer-conformance --bin real-server -- --watch-cache=false`.
#![allow(clippy::print_stdout)] // The program prints its result.

use std::error::Error;

use kube_informer_conformance::{Programs, RealServer};
use serde_json::json;
use tokio::signal::unix::{SignalKind, signal};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut interrupted = signal(SignalKind::interrupt())?;
    let mut terminated = signal(SignalKind::terminate())?;
    let mut builder = RealServer::builder(Programs::find()?);
    for flag in std::env::args().skip(1) {
        builder = builder.flag(flag);
    }
    let server = builder.start().await?;
    let about = json!({
        "address": server.address(),
        "kubeconfig": server.kubeconfig(),
        "kubectl": server.programs().path("kubectl"),
        "processes": server.process_ids(),
    });
    println!("{about}");
    tokio::select! {
        biased;
        _ = interrupted.recv() => {}
        _ = terminated.recv() => {}
    }
    Ok(())
}

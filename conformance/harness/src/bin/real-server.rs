//! Starts a real server for manual experiments, prints its address and kubeconfig as a line of JSON, and stops it at
//! the first signal. Arguments go to kube-apiserver:
//! `cargo run -p kube-informer-conformance --bin real-server -- --watch-cache=false`.
#![allow(clippy::print_stdout)] // The program prints its result.

use std::error::Error;

use kube_informer_conformance::{Programs, RealServer};
use kube_informer_controller::Signals;
use serde_json::json;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut signals = Signals::listen()?;
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
    signals.next().await;
    Ok(())
}

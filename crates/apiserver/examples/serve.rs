//! Runs the server until it is interrupted, so that other programs can talk to it:
//!
//! ```text
//! cargo run --example serve -- /tmp/kubeconfig &
//! kubectl --kubeconfig /tmp/kubeconfig get namespaces
//! ```

#![allow(clippy::print_stdout, reason = "a program of its own")]

use embedded_apiserver::Server;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("say where to write the kubeconfig")?;
    let server = Server::builder().tls().admin_endpoint(true).start().await?;
    std::fs::write(&path, server.kubeconfig().unwrap_or_default())?;
    println!("serving at {}, kubeconfig in {path}", server.url().unwrap_or_default());
    tokio::signal::ctrl_c().await?;
    server.shutdown().await;
    Ok(())
}

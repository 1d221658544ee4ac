//! Runs a standalone server for other programs:
//!
//! ```text
//! cargo run -p embedded-apiserver --example serve -- /tmp/kubeconfig &
//! kubectl --kubeconfig /tmp/kubeconfig get namespaces
//! ```
//!
//! Serves until interrupted. Without a path for the kubeconfig, prints the kubeconfig and exits.

#![allow(clippy::print_stdout, reason = "a program of its own")]

use embedded_apiserver::Server;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = Server::builder().tls().admin_endpoint(true).start().await?;
    let kubeconfig = server.kubeconfig().unwrap_or_default();
    match std::env::args().nth(1) {
        Some(path) => {
            std::fs::write(&path, kubeconfig)?;
            println!("serving at {}, kubeconfig in {path}", server.url().unwrap_or_default());
            tokio::signal::ctrl_c().await?;
        }
        None => println!("{kubeconfig}"),
    }
    server.shutdown().await;
    Ok(())
}

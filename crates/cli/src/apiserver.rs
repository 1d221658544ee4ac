//! `kube-informer apiserver`: the embedded server by itself.

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use anyhow::Context;
use embedded_apiserver::{Server, WatchListMode};

use crate::say;

/// How the server runs.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Port to listen on; 0 takes any free one.
    #[arg(long, default_value_t = 0)]
    port: u16,
    /// Address to listen on. Only this machine can reach the default.
    #[arg(long, default_value = "127.0.0.1")]
    address: IpAddr,
    /// Write a kubeconfig for the server to this file.
    #[arg(long, value_name = "FILE")]
    write_kubeconfig: Option<PathBuf>,
    /// Speak TLS, with a certificate made for this run.
    #[arg(long)]
    tls: bool,
    /// Let only those in who show this bearer token.
    #[arg(long)]
    token: Option<String>,
    /// Refuse watch-lists, as servers do that have the feature switched off.
    #[arg(long)]
    no_watch_list: bool,
}

pub(crate) async fn run(arguments: Arguments) -> anyhow::Result<()> {
    let mut builder = Server::builder().port(arguments.port).address(arguments.address);
    if arguments.tls {
        builder = builder.tls();
    }
    if let Some(token) = &arguments.token {
        builder = builder.token(token);
    }
    if arguments.no_watch_list {
        builder = builder.watch_list(WatchListMode::Off);
    }
    let server = builder.start().await.context("the API server could not be started")?;
    if let Some(file) = &arguments.write_kubeconfig {
        write_kubeconfig(&server, file)?;
    }
    let mut line = format!("serving on {}", server.url().unwrap_or_default());
    if let Some(file) = &arguments.write_kubeconfig {
        line += &format!("; kubectl --kubeconfig {} get namespaces", file.display());
    }
    if !arguments.address.is_loopback() && arguments.token.is_none() {
        line += "; WARNING: reachable from other machines, and anybody may do anything: give a --token";
    }
    say(&line);
    tokio::signal::ctrl_c().await.context("waiting for Ctrl-C")?;
    server.shutdown().await;
    Ok(())
}

/// Writes a kubeconfig for a server.
pub(crate) fn write_kubeconfig(server: &Server, file: &Path) -> anyhow::Result<()> {
    let kubeconfig = server.kubeconfig().context("a server without a socket has no kubeconfig")?;
    std::fs::write(file, kubeconfig).with_context(|| format!("writing the kubeconfig to {}", file.display()))
}

//! `kube-informer apiserver`: the embedded server by itself.

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use embedded_apiserver::{Server, StartError, Unsupported, WatchListMode};

use crate::failure::{Failure, root_cause};
use crate::signals::Signals;
use crate::terminal::{ColourChoice, Screen, StatusOn};

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
    /// Refuse writes that rely on a feature the server does not have (webhooks, CEL rules, RBAC and others) with 501,
    /// instead of warning about them.
    #[arg(long)]
    strict: bool,
}

pub(crate) async fn run(arguments: Arguments) -> Result<(), Failure> {
    let mut signals = Signals::listen()?;
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
    if arguments.strict {
        builder = builder.unsupported(Unsupported::Refuse);
    }
    let server = builder.start().await.map_err(|error| not_started(&error))?;
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
    let mut screen = Screen::new(ColourChoice::Never, StatusOn::Stderr);
    screen.line(&line)?;
    screen.flush()?;
    signals.next().await;
    server.shutdown().await;
    Ok(())
}

/// What to do about a server that does not start.
pub(crate) fn not_started(error: &StartError) -> Failure {
    match error {
        StartError::Bind { .. } => Failure::Usage(format!("{error} ({})", root_cause(error))),
        error => Failure::other("the API server could not be started", error),
    }
}

/// Writes a kubeconfig for a server, for its owner's eyes only: it may hold a token.
pub(crate) fn write_kubeconfig(server: &Server, file: &Path) -> Result<(), Failure> {
    let text = server.kubeconfig().unwrap_or_default();
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let written =
        options.open(file).and_then(|mut file| std::io::Write::write_all(&mut file, text.as_bytes()));
    written.map_err(|error| {
        Failure::Usage(format!("cannot write the kubeconfig to {}: {error}", file.display()))
    })
}

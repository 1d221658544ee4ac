//! `kube-informer apiserver`: the embedded API server on its own.

use std::io::Write;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use embedded_apiserver::{Server, StartError, Unsupported, WatchListMode};

use crate::failure::Failure;
use crate::signals;
use crate::terminal::{ColourChoice, Screen, StatusOn};

/// Settings of the server.
#[derive(clap::Args)]
pub(crate) struct ApiserverArguments {
    /// Port to listen on; 0 takes a free one.
    #[arg(long, default_value_t = 0)]
    port: u16,
    /// Address to listen on. Any other than a loopback address requires a token.
    #[arg(long, default_value = "127.0.0.1")]
    address: IpAddr,
    /// Write a kubeconfig for the server to this file.
    #[arg(long, value_name = "FILE")]
    write_kubeconfig: Option<PathBuf>,
    /// Serve HTTPS with a new certificate.
    #[arg(long)]
    tls: bool,
    /// Require this bearer token.
    #[arg(long, conflicts_with = "token_file")]
    token: Option<String>,
    /// File with the token. Prefer it to --token: other users of this machine can read command lines.
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Without a token, also accept requests to this host name, and from pages on it; can be repeated.
    #[arg(long = "allowed-host", value_name = "HOST")]
    allowed_hosts: Vec<String>,
    /// Reject watch-lists, as a server without that feature does.
    #[arg(long)]
    no_watch_list: bool,
    /// Support shardSelector in lists and watches, like a kube-apiserver with that feature gate.
    #[arg(long)]
    sharded_list_and_watch: bool,
    /// Reject writes that rely on a feature the server does not have (webhooks, CEL rules, RBAC and others) with 501,
    /// instead of warning about them.
    #[arg(long)]
    strict: bool,
}

pub(crate) async fn run(arguments: ApiserverArguments) -> Result<(), Failure> {
    let mut signals = signals::listen()?;
    let token = arguments.token()?;
    let mut builder = Server::builder().port(arguments.port).address(arguments.address);
    for host in &arguments.allowed_hosts {
        builder = builder.allowed_host(host);
    }
    if arguments.tls {
        builder = builder.tls();
    }
    if let Some(token) = token {
        builder = builder.token(token);
    }
    if arguments.no_watch_list {
        builder = builder.watch_list(WatchListMode::Off);
    }
    if arguments.sharded_list_and_watch {
        builder = builder.sharded_list_and_watch(true);
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
    let mut screen = Screen::new(ColourChoice::Never, StatusOn::Stderr);
    let serving = async {
        screen.line(line).await?;
        screen.flush().await?;
        std::future::pending().await
    };
    let ended = tokio::select! {
        biased;
        _ = signals.next() => Ok(()),
        ended = serving => ended,
    };
    tokio::select! {
        biased;
        () = server.shutdown() => {}
        _ = signals.next() => {}
    }
    ended
}

impl ApiserverArguments {
    /// The token of either flag. An address that other machines can reach requires one.
    fn token(&self) -> Result<Option<String>, Failure> {
        let token = match &self.token_file {
            Some(file) => {
                let text = std::fs::read_to_string(file).map_err(|error| {
                    Failure::Usage(format!("cannot read the token from {}: {error}", file.display()))
                })?;
                Some(text.trim().to_owned())
            }
            None => self.token.clone(),
        };
        if token.as_ref().is_some_and(String::is_empty) {
            return Err(Failure::Usage("invalid token: it is empty".to_owned()));
        }
        if token.is_none() && !self.address.is_loopback() {
            return Err(Failure::Usage(format!(
                "cannot listen on {} without a token: other machines can reach it; give a --token-file, or listen on \
                 127.0.0.1",
                self.address
            )));
        }
        Ok(token)
    }
}

/// The failure for a server that does not start, with the remedy.
pub(crate) fn not_started(error: &StartError) -> Failure {
    match error {
        StartError::Bind { .. } => Failure::Usage(error.to_string()),
        error => Failure::other("cannot start the API server", error),
    }
}

/// Writes a kubeconfig for a server, readable by its owner only: it may contain a token. An existing file or link of that name
/// is replaced atomically.
pub(crate) fn write_kubeconfig(server: &Server, file: &Path) -> Result<(), Failure> {
    let text = server.kubeconfig().unwrap_or_default();
    let directory = file.parent().filter(|directory| !directory.as_os_str().is_empty());
    let write = || -> std::io::Result<()> {
        // A temporary file has mode 0600 from the start.
        let mut new = tempfile::NamedTempFile::new_in(directory.unwrap_or(Path::new(".")))?;
        new.write_all(text.as_bytes())?;
        new.as_file().sync_all()?;
        new.persist(file)?;
        Ok(())
    };
    write().map_err(|error| {
        Failure::Usage(format!("cannot write the kubeconfig to {}: {error}", file.display()))
    })
}

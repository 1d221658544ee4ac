//! `kube-informer serve`: a long-running mirror with an HTTP API and a web page.
//!
//! It listens on the loopback interface. Any other address requires a token for everything but health checks and the page's files.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use kube_informer::{Index, InformerMetrics};
use prometheus_client::registry::Registry;

use crate::cluster::{Cluster, ClusterFlags};
use crate::discovery::{Catalogue, Wanted};
use crate::failure::Failure;
use crate::flags::SelectFlags;
use crate::masks;
use crate::mirror::{self, Mirror, MirrorErrors, MirrorOptions};
use crate::signals;
use crate::terminal::{ColourChoice, Screen, StatusOn, escape};
use crate::web::{self, Access, Endpoint, Served};

/// How long the last message may take to be written.
const LAST_REMARK_TIME_MAX: Duration = Duration::from_secs(1);

/// The kinds to mirror, and the access to them.
#[derive(clap::Args)]
pub(crate) struct ServeArguments {
    #[command(flatten)]
    wanted: Wanted,
    /// Port to listen on; 0 takes a free one.
    #[arg(long, default_value_t = 8080)]
    port: u16,
    /// Address to listen on. Any other than a loopback address requires a token.
    #[arg(long, default_value = "127.0.0.1")]
    address: IpAddr,
    /// Require this bearer token for everything but health checks and the page's files.
    #[arg(long, conflicts_with = "token_file")]
    token: Option<String>,
    /// File with the token. Prefer it to --token: other users of this machine can read command lines.
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Also accept requests to this host name, and from pages on it; can be repeated.
    #[arg(long = "allowed-host", value_name = "HOST")]
    allowed_hosts: Vec<String>,
    /// Index this field of every kind that has it, so that objects are found by its value without a scan; can be repeated.
    #[arg(long = "index", value_name = "PATH")]
    indexes: Vec<String>,
    /// Open the page in a browser.
    #[arg(long)]
    open: bool,
    #[command(flatten)]
    select: SelectFlags,
    #[command(flatten)]
    cluster: ClusterFlags,
}

pub(crate) async fn run(arguments: ServeArguments) -> Result<(), Failure> {
    let mut signals = signals::listen()?;
    let mut screen = Screen::new(ColourChoice::Never, StatusOn::Stderr);
    let token = arguments.token()?;
    let (listener, bound) = web::bind(arguments.address, arguments.port, "--port").await?;
    let start = async {
        let cluster = Cluster::connect(&arguments.cluster).await?;
        let catalogue = Catalogue::fetch(&cluster).await?;
        start(&arguments, &cluster, &catalogue, token)
    };
    let (served, errors) = tokio::select! {
        biased;
        _ = signals.next() => return Ok(()),
        started = start => started?,
    };
    let served = Arc::new(served);
    let endpoint = Endpoint::start(listener, served.clone());
    let kinds =
        served.mirrors.iter().map(|mirror| mirror.selected.kind.qualified()).collect::<Vec<_>>().join(", ");
    let page = format!("http://{}/", reachable(bound));
    let mirroring = async {
        screen.line(format!("mirroring {kinds}; {page}")).await?;
        screen.flush().await?;
        if arguments.open
            && let Err(error) = web::open(&page)
        {
            screen.remark(&format!("cannot open a browser: {error}")).await?;
        }
        report_errors(&served, errors, &mut screen).await
    };
    let ended = tokio::select! {
        biased;
        _ = signals.next() => Ok(()),
        ended = mirroring => ended,
    };
    // The shutdown does not wait for a blocked output.
    let words = screen.remark("shutting down; a second signal ends the program immediately");
    let words = tokio::time::timeout(LAST_REMARK_TIME_MAX, words);
    let down = async {
        endpoint.shutdown().await;
        for mirror in &served.mirrors {
            mirror.informer.shutdown().await;
        }
    };
    let down = async {
        let _ = tokio::join!(words, down);
    };
    tokio::select! {
        biased;
        () = down => {}
        _ = signals.next() => {}
    }
    ended
}

impl ServeArguments {
    fn token(&self) -> Result<Option<String>, Failure> {
        let token = match &self.token_file {
            Some(file) => {
                let text = std::fs::read_to_string(file);
                let text =
                    text.map_err(|error| Failure::Usage(format!("cannot read {}: {error}", file.display())))?;
                Some(text.trim().to_owned())
            }
            None => self.token.clone(),
        };
        if token.as_ref().is_some_and(String::is_empty) {
            return Err(Failure::Usage("invalid token: it is empty".to_owned()));
        }
        if token.is_none() && !self.address.is_loopback() {
            return Err(Failure::Usage(format!(
                "{} can be reached by others: give a --token-file, or listen on 127.0.0.1",
                self.address
            )));
        }
        Ok(token)
    }
}

/// The address under which this machine reaches a server: no browser needs to know that `0.0.0.0` means every address.
fn reachable(bound: SocketAddr) -> SocketAddr {
    let ip: IpAddr = match bound.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, bound.port())
}

/// Starts an informer for each kind.
fn start(
    arguments: &ServeArguments,
    cluster: &Cluster,
    catalogue: &Catalogue,
    token: Option<String>,
) -> Result<(Served, MirrorErrors), Failure> {
    let selected = catalogue.select(&arguments.wanted, &["list", "watch"])?;
    let mut registry = Registry::default();
    let metrics = InformerMetrics::register(&mut registry);
    let options = MirrorOptions { metrics: Some(&metrics), ..MirrorOptions::default() };
    let (sender, errors) = mirror::errors();
    let start = |(number, selected)| {
        Mirror::start(cluster, selected, &arguments.select, &options, number, sender.clone())
    };
    let mirrors = selected.into_iter().enumerate().map(start).collect::<Result<Vec<_>, _>>()?;
    for path in &arguments.indexes {
        add_index(&mirrors, path)?;
    }
    let access = Access::new(token, arguments.allowed_hosts.clone(), arguments.address);
    Ok((Served::new(mirrors, registry, access), errors))
}

/// Adds an index, named after its path, to every mirror whose kind has the field.
fn add_index(mirrors: &[Mirror], path: &str) -> Result<(), Failure> {
    let masked = mirrors.iter().any(|mirror| masks::are_secrets(&mirror.selected.kind.resource))
        && masks::hides_field(path);
    if masked || masks::is_last_applied(path) {
        return Err(Failure::Usage(format!("cannot index {path}: its values are masked")));
    }
    let mut added = false;
    let mut refused = None;
    for mirror in mirrors {
        match mirror.informer.add_index(&Index::field(path, path)) {
            Ok(()) => added = true,
            Err(error) => refused = Some(error),
        }
    }
    match refused {
        Some(error) if !added => Err(Failure::Usage(format!("--index {path}: {error}"))),
        _ => Ok(()),
    }
}

/// Prints an error unless it repeats the last one of its kind. Returns when the server has refused every kind.
async fn report_errors(
    served: &Served,
    mut errors: MirrorErrors,
    screen: &mut Screen,
) -> Result<(), Failure> {
    let mut reported = vec![String::new(); served.mirrors.len()];
    let mut refused = vec![false; served.mirrors.len()];
    while let Some((number, report)) = errors.recv().await {
        let mirror = &served.mirrors[number];
        if mirror::is_lack_of_watch_lists(&report) {
            continue;
        }
        let refusal = mirror.refusal(&report);
        refused[number] = refusal.is_some() && !mirror.informer.is_synced();
        if refused.iter().all(|refused| *refused) {
            return Err(refusal.unwrap_or_else(|| Failure::Other(report.to_string())));
        }
        let error = || escape::one_line(&report.error.to_string()).into_owned();
        let text = refusal.map_or_else(error, |refusal| refusal.to_string());
        if reported[number] != text {
            screen.remark(&format!("{}: {text}", mirror.selected.kind.qualified())).await?;
            reported[number] = text;
        }
    }
    // The mirrors hold the senders, so the channel is open as long as `served` exists.
    std::future::pending().await
}

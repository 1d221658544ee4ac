//! `kube-informer serve`: a mirror that runs as long as it is let, and can be looked at over HTTP.
//!
//! It listens on the loopback interface. Who wants others to reach it gives a token; only the health checks, which tell
//! nothing but that, are open to everybody.

mod browsers;
mod http;
mod process;
mod report;

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use kube_informer::InformerMetrics;
use prometheus_client::registry::Registry;
use tokio::net::TcpListener;

use crate::cluster::{Cluster, ClusterFlags};
use crate::discovery::{Catalogue, Wanted};
use crate::failure::Failure;
use crate::flags::SelectFlags;
use crate::mirror::{self, Mirror, MirrorErrors, MirrorOptions};
use crate::signals;
use crate::terminal::{ColourChoice, Screen, StatusOn, escape};
use http::Endpoint;

/// How long the remark that the program ends may take to be written.
const LAST_REMARK_TIME_MAX: Duration = Duration::from_secs(1);

/// What to mirror, and who may look.
#[derive(clap::Args)]
pub(crate) struct ServeArguments {
    #[command(flatten)]
    wanted: Wanted,
    /// Port to listen on; 0 takes any free one.
    #[arg(long, default_value_t = 8080)]
    port: u16,
    /// Address to listen on. Only this machine can reach the default; another one needs a token.
    #[arg(long, default_value = "127.0.0.1")]
    address: IpAddr,
    /// The bearer token for /metrics and /debug/informers.
    #[arg(long, conflicts_with = "token_file")]
    token: Option<String>,
    /// A file with the token: other users of this machine can read command lines.
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Without a token, answer requests to this host name, too, and pages from it; may be repeated.
    #[arg(long = "allowed-host", value_name = "HOST")]
    allowed_hosts: Vec<String>,
    #[command(flatten)]
    select: SelectFlags,
    #[command(flatten)]
    cluster: ClusterFlags,
}

/// What is served.
pub(crate) struct Served {
    mirrors: Vec<Mirror>,
    registry: Registry,
    token: Option<String>,
    allowed_hosts: Vec<String>,
}

pub(crate) async fn run(arguments: ServeArguments) -> Result<(), Failure> {
    let mut signals = signals::listen()?;
    let mut screen = Screen::new(ColourChoice::Never, StatusOn::Stderr);
    let token = arguments.token()?;
    let address = SocketAddr::new(arguments.address, arguments.port);
    let cannot = |error: std::io::Error| {
        Failure::Usage(format!("cannot listen on {address}: {error}; choose another --port, or 0 for any"))
    };
    let listener = TcpListener::bind(address).await.map_err(cannot)?;
    let bound = listener.local_addr().map_err(cannot)?;
    let start = async {
        let cluster = Cluster::connect(&arguments.cluster).await?;
        let catalogue = Catalogue::fetch(&cluster).await?;
        Served::start(&arguments, &cluster, &catalogue, token)
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
    let mirroring = async {
        screen.line(format!("mirroring {kinds}; http://{bound}/debug/informers")).await?;
        screen.flush().await?;
        report_errors(&served, errors, &mut screen).await
    };
    let ended = tokio::select! {
        biased;
        _ = signals.next() => Ok(()),
        ended = mirroring => ended,
    };
    // Ending does not depend on its being read.
    let words = screen.remark("ending; a second signal ends it immediately");
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
            return Err(Failure::Usage("the token is empty: everybody would know it".to_owned()));
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

impl Served {
    fn start(
        arguments: &ServeArguments,
        cluster: &Cluster,
        catalogue: &Catalogue,
        token: Option<String>,
    ) -> Result<(Self, MirrorErrors), Failure> {
        let selected = catalogue.select(&arguments.wanted, &["list", "watch"])?;
        let mut registry = Registry::default();
        let metrics = InformerMetrics::register(&mut registry);
        process::register(&mut registry);
        let options = MirrorOptions { metrics: Some(&metrics), ..MirrorOptions::default() };
        let (sender, errors) = mirror::errors();
        let start = |(number, selected)| {
            Mirror::start(cluster, selected, &arguments.select, &options, number, sender.clone())
        };
        let mirrors = selected.into_iter().enumerate().map(start).collect::<Result<Vec<_>, _>>()?;
        Ok((Self { mirrors, registry, token, allowed_hosts: arguments.allowed_hosts.clone() }, errors))
    }

    /// The kinds that have had no open watch for longer than this.
    pub(crate) fn stale(&self, max_age: Duration) -> Vec<String> {
        let age = |mirror: &Mirror| mirror.traffic.disconnected_for().filter(|age| *age > max_age);
        let name = |mirror: &Mirror, age: Duration| {
            format!("{} (no watch for {} s)", mirror.selected.kind.qualified(), age.as_secs())
        };
        self.mirrors.iter().filter_map(|mirror| Some(name(mirror, age(mirror)?))).collect()
    }

    /// The kinds whose initial state is not complete.
    pub(crate) fn unsynced(&self) -> Vec<String> {
        let unsynced = self.mirrors.iter().filter(|mirror| !mirror.informer.is_synced());
        unsynced.map(|mirror| mirror.selected.kind.qualified()).collect()
    }
}

/// Prints each error once, until another comes. Returns when the server has refused every kind.
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
    // The mirrors hold the senders: they are there as long as `served` is.
    std::future::pending().await
}

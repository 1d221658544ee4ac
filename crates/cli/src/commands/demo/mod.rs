//! `kube-informer demo`: an embedded API server, a simulated cluster on it, and informers that follow it live.
//!
//! The informers and the replicas of a small controller connect through a socket, like those of any other program. The simulation
//! writes to the server directly. A page shows both. At the end the demo compares the mirrors with the server, object by object.

mod api;
mod armed_faults;
mod chaos;
mod controller;
mod manifests;
mod playground;
mod populate;
mod proof;
mod view;
mod world;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use embedded_apiserver::Server;
use futures::stream::{BoxStream, SelectAll, select_all};
use futures::{FutureExt, StreamExt};
use kube_client::Client;
use kube_informer::{Event, Index, InformerMetrics};
use prometheus_client::registry::Registry;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior};

use super::apiserver::{not_started, write_kubeconfig};
use crate::cluster::Cluster;
use crate::discovery::{Catalogue, Wanted};
use crate::failure::Failure;
use crate::flags::SelectFlags;
use crate::list_limit::ListLimit;
use crate::mirror::{self, Mirror, MirrorOptions};
use crate::signals::{self, Signals};
use crate::terminal::{ColourChoice, Screen, StatusOn};
use crate::web::{self, Access, Endpoint, Served};
use chaos::Chaos;
use controller::{ReplicaMetrics, RunningReplicas};
use playground::{Stage, Strike};
use view::View;
use world::World;

/// The kinds that are mirrored.
const KINDS: &str = "nodes,namespaces,deployments,replicasets,pods";
/// The field of pods that is indexed, so that the page has an index to show.
const INDEXED: &str = "spec.nodeName";
/// How often the cluster changes.
const TICK: Duration = Duration::from_millis(20);
/// How long the writes of one tick may take, so that their events can be shown in time.
const TICK_WORK_MAX: Duration = Duration::from_millis(50);
/// Most events that are shown after the writes of one tick.
const EVENTS_PER_TICK: usize = 64;
const FOOTER: Duration = Duration::from_millis(250);
const SUMMARY: Duration = Duration::from_secs(2);
const CHAOS: Duration = Duration::from_secs(3);
/// How often the figures of the server on the page are updated.
const NOTE: Duration = Duration::from_millis(500);
/// How often the server sends bookmarks. A replica begins to work on new slots when its caches have caught up, and the caches of kinds
/// that do not change catch up with bookmarks.
const BOOKMARKS: Duration = Duration::from_secs(2);

/// Size and pace of the simulation.
#[derive(clap::Args)]
pub(crate) struct DemoArguments {
    /// Number of objects at the start.
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    objects: u32,
    /// Changes per second.
    #[arg(long, default_value_t = 20.0, value_parser = rate)]
    rate: f64,
    /// Inject a fault every three seconds: cut connections, lose history, delay or refuse watches.
    #[arg(long)]
    chaos: bool,
    /// Duration in seconds; 0 runs until Ctrl-C.
    #[arg(long, default_value_t = 0)]
    seconds: u64,
    /// Print summaries only, not every change.
    #[arg(long)]
    quiet: bool,
    /// Port of the API server; 0 takes a free one.
    #[arg(long, default_value_t = 0)]
    port: u16,
    /// Port of the page; 0 takes a free one.
    #[arg(long, default_value_t = 0)]
    page_port: u16,
    /// Open the page in a browser.
    #[arg(long)]
    open: bool,
    /// Write the kubeconfig for kubectl to this file; by default a temporary file that is removed at the end.
    #[arg(long, value_name = "FILE")]
    write_kubeconfig: Option<PathBuf>,
    /// Seed of the simulation.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// When to use colours.
    #[arg(long, value_enum, default_value_t)]
    color: ColourChoice,
}

fn rate(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(rate) if rate > 0.0 && rate <= 100_000.0 => Ok(rate),
        _ => Err("a number above 0, at most 100000".to_owned()),
    }
}

pub(crate) async fn run(arguments: DemoArguments) -> Result<(), Failure> {
    // Both listen from the start, so that no signal is missed.
    let (mut end, mut abort) = (signals::listen()?, signals::listen()?);
    let mut screen = Screen::new(arguments.color, StatusOn::Stdout);
    let server = Server::builder()
        .port(arguments.port)
        .seed(arguments.seed)
        .sharded_list_and_watch(true)
        .bookmark_interval(BOOKMARKS)
        .start()
        .await
        .map_err(|error| not_started(&error))?;
    let kubeconfig = Kubeconfig::write(&server, arguments.write_kubeconfig.as_deref())?;
    let listener = web::bind(Ipv4Addr::LOCALHOST.into(), arguments.page_port, "--page-port").await?;
    let show = async {
        let url = server.url().unwrap_or_default();
        screen.line(format!("API server on {url}; in another terminal:")).await?;
        screen.line(format!("  kubectl --kubeconfig {} get pods -A", kubeconfig.path.display())).await?;
        screen.flush().await?;
        let ended = demo(&arguments, &server, listener, &mut screen, &mut end).await;
        screen.clear_status();
        screen.flush().await?;
        server.shutdown().await;
        ended
    };
    tokio::select! {
        biased;
        // The second signal ends the demo immediately; the first one ends it gracefully.
        _ = async { (abort.next().await, abort.next().await) } => Ok(()),
        ended = show => ended,
    }
}

async fn demo(
    arguments: &DemoArguments,
    server: &Server,
    (listener, address): (TcpListener, SocketAddr),
    screen: &mut Screen,
    signals: &mut Signals,
) -> Result<(), Failure> {
    let objects = arguments.objects as usize;
    let started = Instant::now();
    let (progress, made) = tokio::sync::watch::channel(0);
    let filling = populate::populate(server, objects, arguments.seed, |done| {
        progress.send_replace(done);
    });
    let mut world = tokio::select! {
        biased;
        _ = signals.next() => return Ok(()),
        Err(failure) = show_progress(made, objects, screen) => return Err(failure),
        world = filling => world?,
    };
    screen.clear_status();
    screen.line(format!("created {objects} objects in {:.1?}", started.elapsed())).await?;
    screen.flush().await?;

    let cluster = cluster(server)?;
    let catalogue = Catalogue::fetch(&cluster).await?;
    let wanted = Wanted { what: vec![KINDS.to_owned()] };
    let select = SelectFlags { all_namespaces: true, ..SelectFlags::default() };
    let started = Instant::now();
    let mut registry = Registry::default();
    let metrics = InformerMetrics::register(&mut registry);
    let replica_metrics = ReplicaMetrics::register(&mut registry);
    let options = MirrorOptions { metrics: Some(&metrics), ..MirrorOptions::default() };
    // The state shows errors.
    let (errors, _) = mirror::errors();
    let start = |selected| Mirror::start(&cluster, selected, &select, &options, 0, errors.clone());
    let selected = catalogue.select(&wanted, &["list", "watch"])?;
    let mirrors = selected.into_iter().map(start).collect::<Result<Vec<_>, _>>()?;
    for mirror in mirrors.iter().filter(|mirror| mirror.selected.kind.resource.plural == "pods") {
        mirror
            .informer
            .add_index(&Index::field(INDEXED, INDEXED))
            .map_err(|error| Failure::other("cannot add an index", &error))?;
    }
    let (stage, strikes) = Stage::new(server);
    let stage = Arc::new(stage);
    let served = Served::new(mirrors, registry, Access::default()).with_playground(stage.clone());
    let served = Arc::new(served);
    let endpoint = Endpoint::start(listener, served.clone());
    show_page(arguments, address, screen).await?;
    let mirrors = &served.mirrors;
    let mut mirrored = 0;
    for mirror in mirrors {
        mirror.informer.synced().await.map_err(|error| Failure::other("cannot sync the mirror", &error))?;
        mirrored += mirror.informer.lister().count();
    }
    screen.line(format!("{mirrored} objects mirrored in {:.1?}", started.elapsed())).await?;

    let replicas = RunningReplicas::start(server, mirrors, &replica_metrics, &stage.replica())?;
    let mut show =
        Show { arguments, server, mirrors, stage: &stage, strikes, view: View::new(arguments.quiet) };
    show.run(&mut world, signals, screen).await?;
    screen.clear_status();
    server.faults().clear();
    replicas.shutdown().await;
    let equal = tokio::select! {
        biased;
        _ = signals.next() => return Ok(()),
        equal = proof::equal(&cluster, mirrors) => equal?,
    };
    show.view.summary(mirrors, screen).await?;
    screen.line(format!("the mirror equals the server: {equal} objects, same resourceVersions")).await?;
    endpoint.shutdown().await;
    for mirror in mirrors {
        mirror.informer.shutdown().await;
    }
    Ok(())
}

/// Prints the address of the page, and opens it with `--open`.
async fn show_page(
    arguments: &DemoArguments,
    address: SocketAddr,
    screen: &mut Screen,
) -> Result<(), Failure> {
    let url = format!("http://{address}/");
    screen.line(format!("page: {url}")).await?;
    if arguments.open
        && let Err(error) = web::open(&url)
    {
        screen.remark(&format!("cannot open a browser: {error}")).await?;
    }
    screen.flush().await
}

/// Shows how many objects have been created. Returns only on an error.
async fn show_progress(
    mut made: tokio::sync::watch::Receiver<usize>,
    objects: usize,
    screen: &mut Screen,
) -> Result<(), Failure> {
    while made.changed().await.is_ok() {
        let done = *made.borrow_and_update();
        screen.status([format!("creating objects: {done} of {objects}").into()]);
        screen.flush().await?;
    }
    std::future::pending().await
}

/// The demo itself.
struct Show<'a> {
    arguments: &'a DemoArguments,
    server: &'a Server,
    mirrors: &'a [Mirror],
    stage: &'a Stage,
    /// Faults that users of the page inject once.
    strikes: mpsc::Receiver<Strike>,
    view: View,
}

type Events = SelectAll<BoxStream<'static, (usize, Event<Value>)>>;

impl Show<'_> {
    /// Runs until the time is over, or until Ctrl-C.
    async fn run(
        &mut self,
        world: &mut World,
        signals: &mut Signals,
        screen: &mut Screen,
    ) -> Result<(), Failure> {
        let mut events = self.events();
        let periods = [TICK, FOOTER, SUMMARY, CHAOS, NOTE];
        let [mut tick, mut footer, mut summary, mut strike, mut note] = periods.map(|period| {
            let mut interval = tokio::time::interval_at(Instant::now() + period, period);
            interval.set_missed_tick_behavior(MissedTickBehavior::Skip);
            interval
        });
        let end = async {
            match self.arguments.seconds {
                0 => std::future::pending().await,
                seconds => tokio::time::sleep(Duration::from_secs(seconds)).await,
            }
        };
        tokio::pin!(end);
        let mut chaos = Chaos::default();
        // Changes that were due so far, and those that were made.
        let (started, mut scheduled, mut written) = (Instant::now(), 0_u64, 0_u64);
        let live = screen.has_status();
        loop {
            tokio::select! {
                biased;
                _ = signals.next() => return Ok(()),
                () = &mut end => return Ok(()),
                _ = footer.tick(), if live => {
                    self.view.footer(self.mirrors, screen);
                    screen.flush().await?;
                }
                _ = summary.tick(), if !live => self.view.summary(self.mirrors, screen).await?,
                _ = strike.tick(), if self.arguments.chaos => {
                    let reported = chaos.strike(self.server);
                    self.view.remark(reported, screen).await?;
                }
                _ = note.tick() => self.stage.note(self.server, written),
                Some(strike) = self.strikes.recv() => strike.carry_out(self.server),
                _ = tick.tick() => {
                    let due = (started.elapsed().as_secs_f64() * self.arguments.rate) as u64;
                    let begun = Instant::now();
                    while scheduled < due && begun.elapsed() < TICK_WORK_MAX {
                        scheduled += 1;
                        if let Some(write) = world.change().await? {
                            written += 1;
                            self.view.written(&write);
                        }
                    }
                    // Writes that did not fit into the tick are dropped, not made up for later.
                    scheduled = due;
                    // On a slow machine the next tick is due already, so events are shown here, too.
                    for _ in 0..EVENTS_PER_TICK {
                        let Some(Some((number, event))) = events.next().now_or_never() else { break };
                        self.view.show(&self.mirrors[number], &event, screen).await?;
                    }
                    screen.flush().await?;
                }
                event = events.next() => match event {
                    Some((number, event)) => self.view.show(&self.mirrors[number], &event, screen).await?,
                    None => return Ok(()),
                },
            }
        }
    }

    fn events(&self) -> Events {
        let streams = self.mirrors.iter().enumerate().map(|(number, mirror)| {
            let events = mirror.handlers.subscribe("terminal", &mirror.informer);
            events.map(move |event| (number, event)).boxed()
        });
        select_all(streams.collect::<Vec<_>>())
    }
}

fn cluster(server: &Server) -> Result<Cluster, Failure> {
    Ok(Cluster {
        client: client(server, "informers")?,
        url: server.url().unwrap_or_default(),
        default_namespace: "default".to_owned(),
        request_timeout: None,
        compress: false,
        list_limit: ListLimit::default(),
    })
}

/// A client over the socket. The page shows requests by the name of their client.
fn client(server: &Server, name: &'static str) -> Result<Client, Failure> {
    let mut config =
        server.config().ok_or_else(|| Failure::Other("the demo's server has no socket".to_owned()))?;
    config.headers.push((http::header::USER_AGENT, http::HeaderValue::from_static(name)));
    let cluster = kube_informer::Cluster::from_config(config)
        .map_err(|error| Failure::other("cannot create a client for the demo", &error))?;
    Ok(cluster.client())
}

/// The kubeconfig of the demo, and its temporary directory.
struct Kubeconfig {
    path: PathBuf,
    _directory: Option<tempfile::TempDir>,
}

impl Kubeconfig {
    fn write(server: &Server, wanted: Option<&Path>) -> Result<Self, Failure> {
        let (path, directory) = match wanted {
            Some(path) => (path.to_owned(), None),
            None => {
                let directory = tempfile::Builder::new().prefix("kube-informer-").tempdir();
                let directory = directory
                    .map_err(|error| Failure::other("cannot create a temporary directory", &error))?;
                (directory.path().join("kubeconfig"), Some(directory))
            }
        };
        write_kubeconfig(server, &path)?;
        Ok(Self { path, _directory: directory })
    }
}

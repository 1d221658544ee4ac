//! `kube-informer demo`: an embedded API server, a made-up cluster on it, and informers that follow it live.
//!
//! The informers come over a socket as those of any other program would; the cluster is changed past it. At the end the
//! mirrors are compared with the server, object by object.

mod api;
mod chaos;
mod manifests;
mod populate;
mod proof;
mod view;
mod world;

use std::path::{Path, PathBuf};
use std::time::Duration;

use embedded_apiserver::Server;
use futures::StreamExt;
use futures::stream::{BoxStream, SelectAll, select_all};
use kube_informer::Event;
use serde_json::Value;
use tokio::time::{Instant, MissedTickBehavior};

use super::apiserver::{not_started, write_kubeconfig};
use crate::cluster::Cluster;
use crate::discovery::{Catalogue, Wanted};
use crate::failure::{Failure, root_cause};
use crate::flags::SelectFlags;
use crate::list_limit::ListLimit;
use crate::mirror::{self, Mirror, MirrorOptions};
use crate::signals::{self, Signals};
use crate::terminal::{ColourChoice, Screen, StatusOn};
use chaos::Chaos;
use view::View;
use world::World;

/// The kinds that are mirrored.
const KINDS: &str = "nodes,namespaces,deployments,replicasets,pods";
/// How often the cluster changes, and the footer is drawn.
const TICK: Duration = Duration::from_millis(20);
/// How long one tick's writes may take, so that what happens is also shown.
const TICK_WORK_MAX: Duration = Duration::from_millis(50);
const FOOTER: Duration = Duration::from_millis(250);
const SUMMARY: Duration = Duration::from_secs(2);
const CHAOS: Duration = Duration::from_secs(3);

/// What is shown.
#[derive(clap::Args)]
pub(crate) struct DemoArguments {
    /// How many objects the cluster begins with.
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    objects: u32,
    /// Changes a second.
    #[arg(long, default_value_t = 20.0, value_parser = rate)]
    rate: f64,
    /// Cut connections, lose history, stall and overload the server now and then, to see the informers recover.
    #[arg(long)]
    chaos: bool,
    /// End after this many seconds; 0 runs until Ctrl-C.
    #[arg(long, default_value_t = 0)]
    seconds: u64,
    /// Show only summaries, not every change.
    #[arg(long)]
    quiet: bool,
    /// Port of the API server; 0 takes any free one.
    #[arg(long, default_value_t = 0)]
    port: u16,
    /// Where to write the kubeconfig for kubectl; else a file for temporary use, gone at the end.
    #[arg(long, value_name = "FILE")]
    write_kubeconfig: Option<PathBuf>,
    /// Seed of the made-up cluster.
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
    // Both listen from the beginning: a signal that comes before is lost.
    let (mut end, mut abort) = (signals::listen()?, signals::listen()?);
    let mut screen = Screen::new(arguments.color, StatusOn::Stdout);
    let server = Server::builder()
        .port(arguments.port)
        .seed(arguments.seed)
        .start()
        .await
        .map_err(|error| not_started(&error))?;
    let kubeconfig = Kubeconfig::write(&server, arguments.write_kubeconfig.as_deref())?;
    let show = async {
        let url = server.url().unwrap_or_default();
        screen.line(format!("API server on {url}; in another terminal:")).await?;
        screen.line(format!("  kubectl --kubeconfig {} get pods -A", kubeconfig.path.display())).await?;
        screen.flush().await?;
        let ended = demo(&arguments, &server, &mut screen, &mut end).await;
        screen.clear_status();
        screen.flush().await?;
        server.shutdown().await;
        ended
    };
    tokio::select! {
        biased;
        // The second one; the first ends the demo in order.
        _ = async { (abort.next().await, abort.next().await) } => Ok(()),
        ended = show => ended,
    }
}

async fn demo(
    arguments: &DemoArguments,
    server: &Server,
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
    screen.line(format!("a cluster of {objects} objects made in {:.1?}", started.elapsed())).await?;
    screen.flush().await?;

    let cluster = cluster(server)?;
    let catalogue = Catalogue::fetch(&cluster).await?;
    let wanted = Wanted { what: vec![KINDS.to_owned()] };
    let select = SelectFlags { all_namespaces: true, ..SelectFlags::default() };
    let started = Instant::now();
    // What goes wrong is shown by the state.
    let (errors, _) = mirror::errors();
    let start =
        |selected| Mirror::start(&cluster, selected, &select, &MirrorOptions::default(), 0, errors.clone());
    let selected = catalogue.select(&wanted, &["list", "watch"])?;
    let mirrors = selected.into_iter().map(start).collect::<Result<Vec<_>, _>>()?;
    let mut mirrored = 0;
    for mirror in &mirrors {
        mirror.informer.synced().await.map_err(|error| Failure::other("mirroring", &error))?;
        mirrored += mirror.informer.lister().count();
    }
    screen.line(format!("{mirrored} objects mirrored in {:.1?}", started.elapsed())).await?;

    let mut show = Show { arguments, server, mirrors: &mirrors, view: View::new(arguments.quiet) };
    show.run(&mut world, signals, screen).await?;
    screen.clear_status();
    server.faults().clear();
    let equal = tokio::select! {
        biased;
        _ = signals.next() => return Ok(()),
        equal = proof::equal(&cluster, &mirrors) => equal?,
    };
    show.view.summary(&mirrors, screen).await?;
    screen.line(format!("the mirror equals the server: {equal} objects, same resourceVersions")).await?;
    for mirror in &mirrors {
        mirror.informer.shutdown().await;
    }
    Ok(())
}

/// Shows how many objects have been made, until there is an error.
async fn show_progress(
    mut made: tokio::sync::watch::Receiver<usize>,
    objects: usize,
    screen: &mut Screen,
) -> Result<(), Failure> {
    while made.changed().await.is_ok() {
        let done = *made.borrow_and_update();
        screen.status([format!("making up a cluster: {done} of {objects} objects").into()]);
        screen.flush().await?;
    }
    std::future::pending().await
}

/// The demo itself.
struct Show<'a> {
    arguments: &'a DemoArguments,
    server: &'a Server,
    mirrors: &'a [Mirror],
    view: View,
}

type Events = SelectAll<BoxStream<'static, (usize, Event<Value>)>>;

impl Show<'_> {
    /// Until the time is over, or Ctrl-C.
    async fn run(
        &mut self,
        world: &mut World,
        signals: &mut Signals,
        screen: &mut Screen,
    ) -> Result<(), Failure> {
        let mut events = self.events();
        let [mut tick, mut footer, mut summary, mut strike] = [TICK, FOOTER, SUMMARY, CHAOS].map(|period| {
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
        let (started, mut written) = (Instant::now(), 0_u64);
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
                _ = tick.tick() => {
                    let due = (started.elapsed().as_secs_f64() * self.arguments.rate) as u64;
                    let begun = Instant::now();
                    while written < due && begun.elapsed() < TICK_WORK_MAX {
                        written += 1;
                        if let Some(write) = world.change().await? {
                            self.view.written(&write);
                        }
                    }
                    // What was not managed is not made up for.
                    written = due;
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
        let streams =
            self.mirrors.iter().enumerate().map(|(number, mirror)| {
                mirror.informer.subscribe().map(move |event| (number, event)).boxed()
            });
        select_all(streams.collect::<Vec<_>>())
    }
}

fn cluster(server: &Server) -> Result<Cluster, Failure> {
    let failed =
        |error: kube_client::Error| Failure::Other(format!("no client for the demo: {}", root_cause(&error)));
    let config =
        server.config().ok_or_else(|| Failure::Other("the demo's server has no socket".to_owned()))?;
    let cluster = kube_informer::Cluster::from_config(config).map_err(failed)?;
    let url = server.url().unwrap_or_default();
    Ok(Cluster {
        client: cluster.client(),
        url,
        default_namespace: "default".to_owned(),
        request_timeout: None,
        compress: false,
        list_limit: ListLimit::default(),
    })
}

/// The kubeconfig of the demo, and the directory that goes with it.
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
                let directory =
                    directory.map_err(|error| Failure::other("making a temporary directory", &error))?;
                (directory.path().join("kubeconfig"), Some(directory))
            }
        };
        write_kubeconfig(server, &path)?;
        Ok(Self { path, _directory: directory })
    }
}

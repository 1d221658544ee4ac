//! `kube-informer demo`: an embedded API server, a made-up cluster on it, and an informer that follows it live.

mod view;
mod world;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use embedded_apiserver::Server;
use futures::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube_client::Api;
use kube_client::api::ListParams;
use kube_informer::source::Clients;
use kube_informer::store::Index;
use kube_informer::{Informer, Key};
use tokio::time::Instant;

use crate::apiserver::write_kubeconfig;
use crate::say;
use view::View;
use world::World;

/// What is shown.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// How many pods the cluster begins with.
    #[arg(long, default_value_t = 1000)]
    objects: usize,
    /// Changes a second.
    #[arg(long, default_value_t = 20.0)]
    rate: f64,
    /// Cut connections, lose history and stall the server now and then, to see the informer recover.
    #[arg(long)]
    chaos: bool,
    /// End after this many seconds; 0 runs until Ctrl-C.
    #[arg(long, default_value_t = 0)]
    seconds: u64,
    /// Show only the summary lines, not every change.
    #[arg(long)]
    quiet: bool,
    /// Port of the API server; 0 takes any free one.
    #[arg(long, default_value_t = 0)]
    port: u16,
    /// Write a kubeconfig for the server to this file, so that kubectl works on it from another terminal.
    #[arg(long, value_name = "FILE")]
    write_kubeconfig: Option<PathBuf>,
    /// Seed of the made-up cluster.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

pub(crate) async fn run(arguments: Arguments) -> anyhow::Result<()> {
    anyhow::ensure!(
        arguments.rate > 0.0 && arguments.rate <= 100_000.0,
        "--rate must be above 0 and at most 100000"
    );
    let server = Server::builder()
        .port(arguments.port)
        .seed(arguments.seed)
        .start()
        .await
        .context("the API server could not be started; is the port taken?")?;
    say(&format!("API server on {}", server.url().unwrap_or_default()));
    if let Some(file) = &arguments.write_kubeconfig {
        write_kubeconfig(&server, file)?;
        say(&format!("in another terminal: kubectl --kubeconfig {} get pods -A", file.display()));
    }
    let mut world = World::new(&server, arguments.seed);
    let started = Instant::now();
    world.populate(arguments.objects).await?;
    say(&format!("{} pods created in {:.1?}", arguments.objects, started.elapsed()));

    let by_node = Index::field("node", "spec.nodeName");
    let config = server.config().context("a server with a socket has a configuration")?;
    let started = Instant::now();
    let pods = Informer::<Pod>::builder(Clients::from_config(config)?).index(&by_node).start()?;
    pods.synced().await?;
    say(&format!("{} pods mirrored in {:.1?}", pods.lister().count(), started.elapsed()));

    let mut view = View::new(pods.clone(), by_node, arguments.quiet);
    let mut events = pods.subscribe();
    let mut change = tokio::time::interval(Duration::from_secs_f64(1.0 / arguments.rate));
    change.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
    let mut summary = tokio::time::interval(Duration::from_secs(2));
    let mut chaos = tokio::time::interval(Duration::from_secs(3));
    let end = async {
        match arguments.seconds {
            0 => std::future::pending().await,
            seconds => tokio::time::sleep(Duration::from_secs(seconds)).await,
        }
    };
    tokio::pin!(end);
    loop {
        tokio::select! {
            biased;
            () = &mut end => break,
            _ = tokio::signal::ctrl_c() => break,
            Some(event) = events.next() => view.show(&event),
            _ = summary.tick() => view.summary(),
            _ = chaos.tick(), if arguments.chaos => say(&world.disturb()),
            _ = change.tick() => world.change().await?,
        }
    }
    // The proof: once the cluster is quiet, the mirror equals it.
    let on_server = listed(&server).await?;
    let deadline = Instant::now() + Duration::from_secs(90);
    while mirrored(&pods) != on_server {
        anyhow::ensure!(Instant::now() < deadline, "the mirror does not agree with the server");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    view.summary();
    say(&format!("the mirror equals the server: {} pods, same resourceVersions", on_server.len()));
    pods.shutdown().await;
    server.shutdown().await;
    Ok(())
}

/// What the server has: key and resourceVersion of every pod.
async fn listed(server: &Server) -> anyhow::Result<BTreeMap<Key, String>> {
    let pods = Api::<Pod>::all(server.client()?).list(&ListParams::default()).await?;
    let keyed = pods.items.into_iter().map(|pod| {
        let metadata = pod.metadata;
        let key = Key::new(&metadata.namespace.unwrap_or_default(), &metadata.name.unwrap_or_default());
        (key, metadata.resource_version.unwrap_or_default())
    });
    Ok(keyed.collect())
}

/// What the mirror has.
fn mirrored(pods: &Informer<Pod>) -> BTreeMap<Key, String> {
    let pods = pods.lister().list();
    pods.iter().map(|pod| (pod.key(), pod.resource_version().to_owned())).collect()
}

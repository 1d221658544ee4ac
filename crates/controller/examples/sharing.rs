//! Three replicas of a controller share the work on the embedded API server. One of them ends, and the others take its slots.
//!
//! `cargo run -p kube-informer-controller --example sharing`
#![allow(clippy::print_stdout, reason = "an example prints what happens")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use embedded_apiserver::Server;
use k8s_openapi::api::core::v1::ConfigMap;
use kube_client::api::PostParams;
use kube_client::{Api, Client};
use kube_informer::{Informer, Key};
use kube_informer_controller::{
    Action, Context, Controller, Error, LeaseTiming, RunError, ShardedLease, Stop,
};
use parking_lot::Mutex;
use tokio::task::JoinHandle;
use tokio::time::sleep;

/// How many keys each replica has reconciled.
type Counts = Arc<Mutex<BTreeMap<&'static str, usize>>>;

struct Replica {
    name: &'static str,
    lease: ShardedLease,
    stop: Stop,
    running: JoinHandle<Result<(), RunError>>,
}

async fn reconcile(ctx: Context<(&'static str, Counts)>, _key: Key) -> Result<Action, Error> {
    let (name, counts) = ctx.data();
    *counts.lock().entry(name).or_default() += 1;
    Ok(Action::Done)
}

fn start(
    client: &Client,
    name: &'static str,
    counts: &Counts,
) -> Result<Replica, Box<dyn std::error::Error>> {
    // A new group begins after the lease duration.
    let timing = LeaseTiming {
        lease_duration: Duration::from_secs(3),
        renew_deadline: Duration::from_secs(2),
        retry_period: Duration::from_millis(500),
    };
    let lease = ShardedLease::new(client.clone(), "default", "maps").identity(name).timing(timing);
    let maps = Informer::<ConfigMap>::builder(client.clone()).shard(lease.shard()).start()?;
    let controller =
        Controller::builder("maps", &maps).shared(&lease).build((name, counts.clone()), reconcile)?;
    let stop = Stop::new();
    let running = tokio::spawn({
        let stop = stop.clone();
        async move { controller.run(&stop).await }
    });
    Ok(Replica { name, lease, stop, running })
}

/// Prints what the replicas have, once all slots have an owner.
async fn print(replicas: &[Replica], counts: &Counts) {
    while replicas.iter().map(|replica| replica.lease.status().working.len()).sum::<usize>() < 64 {
        sleep(Duration::from_millis(50)).await;
    }
    sleep(Duration::from_millis(500)).await;
    for Replica { name, lease, .. } in replicas {
        let status = lease.status();
        let reconciled = counts.lock().get(name).copied().unwrap_or_default();
        println!("{name}: seat {:?}, {} slots, {reconciled} reconciles", status.seat, status.working.len());
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    tracing_subscriber::fmt().with_max_level(tracing::Level::WARN).with_writer(std::io::stderr).init();
    let server = Server::builder().without_socket().sharded_list_and_watch(true).start().await?;
    let client = server.client()?;
    for n in 0..300 {
        let mut map = ConfigMap::default();
        map.metadata.name = Some(format!("map-{n}"));
        Api::default_namespaced(client.clone()).create(&PostParams::default(), &map).await?;
    }
    let counts = Counts::default();
    let mut replicas = Vec::new();
    for name in ["one", "two", "three"] {
        replicas.push(start(&client, name, &counts)?);
    }
    sleep(Duration::from_secs(2)).await;
    print(&replicas, &counts).await;

    println!("two ends");
    let two = replicas.remove(1);
    two.stop.stop();
    two.running.await??;
    print(&replicas, &counts).await;
    Ok(())
}

//! A replica of a controller that shares its work with others. Each line on standard input is a command; the process ends at the
//! end of the input.
//!
//! ```text
//! status                      prints the slots, the cached objects, the reconciles so far, and the resident memory
//! wait MICROS                 reconciles each of its pods once; each reconcile waits
//! compute MICROS              the same; each reconcile computes
//! ```

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures::StreamExt as _;
use futures::channel::mpsc;
use k8s_openapi::api::core::v1::Pod;
use kube_informer::{Cluster, Informer, Key};
use kube_informer_controller::{Action, Context, Controller, Error, LeaseTiming, ShardedLease, Stop};
use tokio::sync::Notify;
use tokio::time::sleep;

use crate::Outcome;
use crate::arguments::Arguments;
use crate::measure::{micros, report, resident};

/// A group starts after the lease duration.
const TIMING: LeaseTiming = LeaseTiming {
    lease_duration: Duration::from_secs(6),
    renew_deadline: Duration::from_secs(4),
    retry_period: Duration::from_secs(1),
};
/// The reconciles that a replica runs at the same time.
const CONCURRENCY: usize = 64;

/// What a reconcile does, and how many have run.
#[derive(Default)]
struct Work {
    wait_micros: AtomicU64,
    compute_micros: AtomicU64,
    reconciled: AtomicUsize,
    progress: Notify,
}

pub(crate) async fn run(arguments: &Arguments) -> Outcome {
    let cluster = Cluster::from_config(arguments.config().await?)?;
    let (lease, name) = (arguments.text("--lease").ok_or("no --lease")?, arguments.text("--name"));
    let lease =
        ShardedLease::new(&cluster, "default", lease).identity(name.ok_or("no --name")?).timing(TIMING);
    let pods = Informer::<Pod>::builder(&cluster).shard(lease.shard()).start()?;
    let work = Arc::new(Work::default());
    let (rounds, all) = mpsc::unbounded();
    let controller = Controller::builder("bench", &pods)
        .shared(&lease)
        .concurrency(CONCURRENCY)
        .reconcile_all_on(all)
        .build(work.clone(), reconcile)?;
    let stop = Stop::new();
    let running = tokio::spawn({
        let stop = stop.clone();
        async move { controller.run(&stop).await }
    });
    let (sender, mut commands) = mpsc::unbounded::<String>();
    std::thread::spawn(move || {
        std::io::stdin().lines().map_while(Result::ok).try_for_each(|line| sender.unbounded_send(line))
    });
    while let Some(command) = commands.next().await {
        match command.split_once(' ') {
            None => {
                report("slots", lease.status().working.len(), "slots");
                report("objects", pods.lister().count(), "objects");
                report("reconciled", work.reconciled.load(Ordering::Relaxed), "reconciles");
                report("steady", resident()?, "B");
            }
            Some((kind, micros_each)) => {
                let each = micros_each.parse()?;
                let (wait, compute) = if kind == "wait" { (each, 0) } else { (0, each) };
                work.wait_micros.store(wait, Ordering::Relaxed);
                work.compute_micros.store(compute, Ordering::Relaxed);
                let count = pods.lister().count();
                let until = work.reconciled.load(Ordering::Relaxed) + count;
                report("began", micros(), "µs");
                rounds.unbounded_send(())?;
                while work.reconciled.load(Ordering::Relaxed) < until {
                    work.progress.notified().await;
                }
                report("ended", micros(), "µs");
                report("count", count, "reconciles");
            }
        }
        report("done", 1, "command");
    }
    stop.stop();
    running.await??;
    Ok(())
}

async fn reconcile(ctx: Context<Arc<Work>>, _key: Key) -> Result<Action, Error> {
    let work = ctx.data();
    let micros = |limit: &AtomicU64| Duration::from_micros(limit.load(Ordering::Relaxed));
    let (wait, compute) = (micros(&work.wait_micros), micros(&work.compute_micros));
    if !wait.is_zero() {
        sleep(wait).await;
    }
    let began = Instant::now();
    while began.elapsed() < compute {
        std::hint::spin_loop();
    }
    work.reconciled.fetch_add(1, Ordering::Relaxed);
    work.progress.notify_one();
    Ok(Action::Done)
}

//! The run: churn and faults between checkpoints, and a comparison of all caches with the server at each checkpoint.

use std::time::{Duration, Instant};

use kube_client::Client;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

use crate::Outcome;
use crate::clients::Clients;
use crate::mirror::Mirror;
use crate::options::Options;
use crate::plot;
use crate::record::{Checkpoint, judge, resident};
use crate::target::Target;
use crate::writer::Writer;

/// The time between two checkpoints.
const INTERVAL: Duration = Duration::from_secs(60);
/// The time within which every cache must equal the server after the last fault. A watch that falls silent is detected after three
/// minutes, if the reflector knows how often bookmarks arrive.
const CONVERGED_WITHIN: Duration = Duration::from_secs(240);
/// The pause between two comparisons.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// The shortest and longest pause between two faults, in seconds.
const FAULT_PAUSE: std::ops::Range<f64> = 0.5..6.0;
const CHANGES_PER_SECOND: u32 = 200;

/// Runs for the given time.
///
/// # Errors
/// Returns an error if a cache differs from the server at a checkpoint, or if memory or lag exceed their limits.
pub(crate) async fn run(options: &Options) -> Outcome {
    let mut target = Target::start(options.real).await?;
    let client = Client::try_from(target.config().await?)?;
    println!("creating {} objects", options.objects);
    let writer = Writer::fill(client.clone(), options.objects).await?;
    let clients = Clients::start(target.faulty_config().await?).await?;
    let mirror = Mirror::start(target.faulty_config().await?)?;
    let mut random = StdRng::seed_from_u64(options.seed);
    let began = Instant::now();
    let mut checkpoints = Vec::new();
    while began.elapsed() < options.time {
        let (changes, faults) = churn(&mut target, &writer, &mut random, INTERVAL).await?;
        target.heal().await?;
        writer.complete().await?;
        let converged = converge(&client, &clients).await?;
        let converged_in = converged.map_err(|difference| {
            let scopes = clients.scopes();
            format!("not converged {CONVERGED_WITHIN:?} after the last fault: {difference}\n{scopes}faults: {faults:?}")
        })?;
        let lag = clients.lags.lock().take();
        let at = began.elapsed().as_secs_f64();
        let checkpoint = Checkpoint { at, resident: resident()?, changes, lag, converged_in };
        println!("{checkpoint}");
        checkpoints.push(checkpoint);
    }
    mirror.stop().await?;
    clients.stop().await;
    let judged = judge(&checkpoints);
    let server = if options.real { "real kube-apiserver" } else { "embedded server" };
    let title = format!("Soak: {} objects, churn and faults, {server}", options.objects);
    if let Some(directory) = options.plot.parent() {
        std::fs::create_dir_all(directory)?;
    }
    std::fs::write(&options.plot, plot::svg(&title, &checkpoints))?;
    println!("{}; plot: {}", judged?, options.plot.display());
    Ok(())
}

/// Changes objects and injects faults for this time. Returns the number of changes, and the faults with their times.
async fn churn(
    target: &mut Target,
    writer: &Writer,
    random: &mut StdRng,
    time: Duration,
) -> Outcome<(u64, Vec<(f64, &'static str)>)> {
    let began = Instant::now();
    let end = began + time;
    let mut writes = StdRng::seed_from_u64(random.random());
    let changing = async {
        let mut changes = 0;
        let mut tick = tokio::time::interval(Duration::from_secs(1) / CHANGES_PER_SECOND);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        while Instant::now() < end {
            tick.tick().await;
            writer.change(&mut writes).await?;
            changes += 1;
        }
        Outcome::Ok(changes)
    };
    let disturbing = async {
        let mut faults = Vec::new();
        while Instant::now() < end {
            tokio::time::sleep(Duration::from_secs_f64(random.random_range(FAULT_PAUSE))).await;
            let fault = target.disturb(random).await?;
            faults.push((began.elapsed().as_secs_f64(), fault));
        }
        Outcome::Ok(faults)
    };
    tokio::try_join!(changing, disturbing)
}

/// Waits until every cache and every copy equals the server, and returns the time that it took. If they still differ after the limit,
/// returns the first difference.
async fn converge(client: &Client, clients: &Clients) -> Outcome<Result<Duration, String>> {
    let began = Instant::now();
    loop {
        let difference = match clients.difference(client).await? {
            None => Mirror::difference(client).await?,
            different => different,
        };
        let Some(difference) = difference else { return Ok(Ok(began.elapsed())) };
        if began.elapsed() > CONVERGED_WITHIN {
            return Ok(Err(difference));
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

//! kube-rs' side of the benchmarks: what `peers/ours` does with our informers, done with a kube-rs reflector. Each
//! subcommand prints lines of `figure <tab> value <tab> unit`.
//!
//! ```text
//! kube-rs-peer informer FILE [--watch-list] [--reads] [--idle SECONDS] [--relist]
//! kube-rs-peer watch FILE --changes N [--label]
//! kube-rs-peer start FILE [--namespaces N]
//! ```

mod measure;
mod reads;

use std::{
    error::Error,
    time::{Duration, Instant},
};

use futures::{Stream, StreamExt, future::join_all};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, Client, Config, ResourceExt,
    config::{KubeConfigOptions, Kubeconfig},
    runtime::{reflector, watcher},
};
use measure::{cpu_seconds, forget_peak, micros, peak, report, report_store, resident};

type Outcome<T = ()> = Result<T, Box<dyn Error>>;
type Events = std::pin::Pin<Box<dyn Stream<Item = watcher::Result<watcher::Event<Pod>>> + Send>>;

/// How long memory may settle.
const SETTLE: Duration = Duration::from_secs(1);
/// The replay's last change.
const LAST: u64 = 9_000_000_000_000_000;

#[tokio::main]
async fn main() -> Outcome {
    let arguments = Arguments(std::env::args().skip(1).collect());
    let kubeconfig = Kubeconfig::read_from(arguments.0.get(1).ok_or("no kubeconfig")?)?;
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    let client = Client::try_from(config)?;
    match arguments.0[0].as_str() {
        "informer" => informer(client, &arguments).await,
        "watch" => watch(client, &arguments).await,
        "start" => start(client, &arguments).await,
        other => Err(format!("no subcommand {other:?}").into()),
    }
}

struct Arguments(Vec<String>);

impl Arguments {
    fn has(&self, option: &str) -> bool {
        self.0.iter().any(|given| given == option)
    }

    fn option(&self, option: &str) -> Outcome<Option<u64>> {
        let place = self.0.iter().position(|given| given == option);
        let value = place.and_then(|place| self.0.get(place + 1));
        Ok(value.map(|value| value.parse()).transpose()?)
    }
}

async fn informer(client: Client, arguments: &Arguments) -> Outcome {
    let (wall, cpu) = (Instant::now(), cpu_seconds()?);
    let (store, mut events) = reflect(Api::all(client), arguments.has("--watch-list"));
    complete(&mut events).await?;
    report("wall", wall.elapsed().as_secs_f64(), "s");
    report("cpu", cpu_seconds()? - cpu, "s");
    report("peak", peak()?, "B");
    // The stream has to be polled for anything to happen.
    let following = tokio::spawn(async move {
        loop {
            complete(&mut events).await.map_err(|error| error.to_string())?;
            return Ok::<_, String>(events);
        }
    });
    tokio::time::sleep(SETTLE).await;
    report("steady", resident()?, "B");
    report_store(&store);
    if arguments.has("--reads") {
        reads::run(&store);
    }
    if let Some(seconds) = arguments.option("--idle")? {
        let cpu = cpu_seconds()?;
        tokio::time::sleep(Duration::from_secs(seconds)).await;
        report("idle cpu", (cpu_seconds()? - cpu) * 60_000.0 / seconds as f64, "ms/min");
    }
    if arguments.has("--relist") {
        forget_peak()?;
        let cpu = cpu_seconds()?;
        report("waiting", 1, "relist");
        let _events = following.await??;
        report("relist cpu", cpu_seconds()? - cpu, "s");
        report("relist peak", peak()?, "B");
        tokio::time::sleep(SETTLE).await;
        report("relist steady", resident()?, "B");
    }
    Ok(())
}

async fn watch(client: Client, arguments: &Arguments) -> Outcome {
    let changes = arguments.option("--changes")?.ok_or("--changes is missing")?;
    let (store, mut events) = reflect(Api::all(client), true);
    complete(&mut events).await?;
    report("waiting", 1, "changes");
    let mut begun = None;
    let mut late = Vec::with_capacity(changes as usize);
    loop {
        if let watcher::Event::Apply(pod) = events.next().await.ok_or("the stream ended")?? {
            if begun.is_none() {
                begun = Some((Instant::now(), cpu_seconds()?));
            }
            let sent = match arguments.has("--label") {
                true => pod.labels().get("sent").cloned(),
                false => pod.resource_version(),
            };
            match sent.unwrap_or_default().parse()? {
                LAST => break,
                sent => late.push(micros()?.saturating_sub(sent)),
            }
        }
    }
    let (wall, cpu) = begun.ok_or("no change")?;
    let (wall, cpu) = (wall.elapsed().as_secs_f64(), cpu_seconds()? - cpu);
    report("changes a second", changes as f64 / wall, "1/s");
    report("cpu a change", cpu / changes as f64 * 1e6, "µs");
    late.sort_unstable();
    for (name, part) in [("late, median", 0.5), ("late, 99 of 100", 0.99), ("late, 999 of 1000", 0.999)] {
        report(name, late[((late.len() - 1) as f64 * part) as usize] as f64 / 1e3, "ms");
    }
    report("peak", peak()?, "B");
    report_store(&store);
    Ok(())
}

async fn start(client: Client, arguments: &Arguments) -> Outcome {
    let namespaces = arguments.option("--namespaces")?.unwrap_or(50);
    let (wall, cpu) = (Instant::now(), cpu_seconds()?);
    let started = (0..namespaces).map(|namespace| {
        let api = Api::namespaced(client.clone(), &format!("team-{namespace}"));
        tokio::spawn(async move {
            let (store, mut events) = reflect(api, false);
            complete(&mut events).await.map_err(|error| error.to_string())?;
            Ok::<_, String>((store, events))
        })
    });
    let mut objects = 0;
    let mut open = Vec::new();
    for started in join_all(started).await {
        let (store, events) = started??;
        objects += store.len();
        open.push(events);
    }
    report("wall", wall.elapsed().as_secs_f64(), "s");
    report("cpu", cpu_seconds()? - cpu, "s");
    report("peak", peak()?, "B");
    report("objects", objects, "objects");
    Ok(())
}

fn reflect(api: Api<Pod>, streaming: bool) -> (reflector::Store<Pod>, Events) {
    let settings = watcher::Config::default();
    let settings = if streaming { settings.streaming_lists() } else { settings };
    let (store, writer) = reflector::store();
    (store, Box::pin(reflector(writer, watcher(api, settings))))
}

/// Follows events until a full state is complete. A watch that breaks is resumed by the next poll.
async fn complete(events: &mut Events) -> Outcome {
    loop {
        match events.next().await.ok_or("the stream ended")? {
            Ok(watcher::Event::InitDone) => return Ok(()),
            Ok(_)
            | Err(
                watcher::Error::WatchFailed(_)
                | watcher::Error::WatchError(_)
                | watcher::Error::WatchStartFailed(_),
            ) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

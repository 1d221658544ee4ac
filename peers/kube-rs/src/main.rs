//! The program for kube-rs in the benchmarks: the same work as `peers/ours`, with a kube-rs reflector. Each subcommand
//! prints lines of `figure <tab> value <tab> unit`.
//!
//! ```text
//! kube-rs-peer informer FILE [--objects LOAD] [--watch-list] [--strip] [--metadata] [--reads] [--idle SECONDS]
//!                            [--relist]
//! kube-rs-peer watch FILE --changes N [--watch-list] [--strip] [--label]
//! kube-rs-peer start FILE [--watch-list] [--strip] [--namespaces N]
//! ```
//!
//! A load is `pods`, `varied-pods`, `secrets` or `widgets`; widgets are custom resources, read as `DynamicObject`.

mod measure;
mod reads;

use std::{
    error::Error,
    fmt::Debug,
    hash::Hash,
    time::{Duration, Instant},
};

use futures::{Stream, StreamExt, future::join_all};
use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::{
    Api, Client, Config, Resource, ResourceExt,
    api::{ApiResource, DynamicObject, GroupVersionKind, PartialObjectMeta},
    config::{KubeConfigOptions, Kubeconfig},
    runtime::{WatchStreamExt, reflector, watcher},
};
use serde::de::DeserializeOwned;

use measure::{cpu_seconds, forget_peak, micros, peak, report, report_store, resident};

type Outcome<T = ()> = Result<T, Box<dyn Error>>;
type Events<K> = std::pin::Pin<Box<dyn Stream<Item = watcher::Result<watcher::Event<K>>> + Send>>;

/// How long memory may take to settle.
const SETTLE: Duration = Duration::from_secs(1);
/// The resourceVersion of the replay's last change.
const LAST: u64 = 9_000_000_000_000_000;

#[tokio::main]
async fn main() -> Outcome {
    let arguments = Arguments(std::env::args().skip(1).collect());
    let kubeconfig = Kubeconfig::read_from(arguments.0.get(1).ok_or("missing kubeconfig argument")?)?;
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    let client = Client::try_from(config)?;
    match arguments.0[0].as_str() {
        "informer" => informer(client, &arguments).await,
        "watch" => watch(client, &arguments).await,
        "start" => start(client, &arguments).await,
        other => Err(format!("unknown subcommand {other:?}").into()),
    }
}

struct Arguments(Vec<String>);

impl Arguments {
    fn has(&self, option: &str) -> bool {
        self.0.iter().any(|given| given == option)
    }

    fn text(&self, option: &str) -> Option<&str> {
        let place = self.0.iter().position(|given| given == option)?;
        self.0.get(place + 1).map(String::as_str)
    }

    fn option(&self, option: &str) -> Outcome<Option<u64>> {
        Ok(self.text(option).map(str::parse).transpose()?)
    }
}

async fn informer(client: Client, arguments: &Arguments) -> Outcome {
    let started = Started::now()?;
    let widgets = || {
        let kind = GroupVersionKind::gvk("bench.example.com", "v1", "Widget");
        ApiResource::from_gvk_with_plural(&kind, "widgets")
    };
    match (arguments.text("--objects").unwrap_or("pods"), arguments.has("--metadata")) {
        ("pods" | "varied-pods", false) if arguments.has("--reads") => {
            let (store, events) = reflect(Api::<Pod>::all(client), (), arguments);
            let (_store, _events) = first_state(store.clone(), events, &started).await?;
            reads::run(&store);
            Ok(())
        }
        ("pods" | "varied-pods", false) => {
            follow(reflect(Api::<Pod>::all(client), (), arguments), arguments, &started).await
        }
        ("pods" | "varied-pods", true) => {
            follow(reflect(Api::<PartialObjectMeta<Pod>>::all(client), (), arguments), arguments, &started)
                .await
        }
        ("secrets", false) => {
            follow(reflect(Api::<Secret>::all(client), (), arguments), arguments, &started).await
        }
        ("secrets", true) => {
            follow(reflect(Api::<PartialObjectMeta<Secret>>::all(client), (), arguments), arguments, &started)
                .await
        }
        ("widgets", false) => {
            let api = Api::<DynamicObject>::all_with(client, &widgets());
            follow(reflect(api, widgets(), arguments), arguments, &started).await
        }
        (other, _) => Err(format!("unknown load {other:?}").into()),
    }
}

/// When the measurement began, and the CPU time used before.
struct Started {
    wall: Instant,
    cpu: f64,
}

impl Started {
    fn now() -> Outcome<Self> {
        Ok(Self { wall: Instant::now(), cpu: cpu_seconds()? })
    }
}

/// Receives the initial list, then does the work that options request.
async fn follow<K: Held>(
    (store, events): (reflector::Store<K>, Events<K>),
    arguments: &Arguments,
    started: &Started,
) -> Outcome
where
    K::DynamicType: Eq + Hash + Clone,
{
    let (_store, following) = first_state(store, events, started).await?;
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

/// The task that polls the stream after the initial list. It ends with the next complete list.
type Following<K> = tokio::task::JoinHandle<Result<Events<K>, String>>;

async fn first_state<K: Held>(
    store: reflector::Store<K>,
    mut events: Events<K>,
    started: &Started,
) -> Outcome<(reflector::Store<K>, Following<K>)>
where
    K::DynamicType: Eq + Hash + Clone,
{
    complete(&mut events).await?;
    report("wall", started.wall.elapsed().as_secs_f64(), "s");
    report("cpu", cpu_seconds()? - started.cpu, "s");
    report("peak", peak()?, "B");
    // The reflector works only while its stream is polled.
    let following = tokio::spawn(async move {
        complete(&mut events).await.map_err(|error| error.to_string())?;
        Ok(events)
    });
    tokio::time::sleep(SETTLE).await;
    report("steady", resident()?, "B");
    report_store(&store);
    Ok((store, following))
}

async fn watch(client: Client, arguments: &Arguments) -> Outcome {
    let changes = arguments.option("--changes")?.ok_or("--changes is missing")?;
    let (store, mut events) = reflect(Api::<Pod>::all(client), (), arguments);
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
    report("changes per second", changes as f64 / wall, "1/s");
    report("cpu per change", cpu / changes as f64 * 1e6, "µs");
    late.sort_unstable();
    for (name, part) in [("lag p50", 0.5), ("lag p99", 0.99), ("lag p99.9", 0.999)] {
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
        let api = Api::<Pod>::namespaced(client.clone(), &format!("team-{namespace}"));
        let (store, mut events) = reflect(api, (), arguments);
        tokio::spawn(async move {
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

/// The bounds of objects in a reflector's store.
trait Held: Resource + Clone + Debug + DeserializeOwned + Send + Sync + 'static {}
impl<K: Resource + Clone + Debug + DeserializeOwned + Send + Sync + 'static> Held for K {}

/// A store and the events that fill it; without managedFields if `--strip` is given.
fn reflect<K: Held>(
    api: Api<K>,
    kind: K::DynamicType,
    arguments: &Arguments,
) -> (reflector::Store<K>, Events<K>)
where
    K::DynamicType: Eq + Hash + Clone + Unpin + Send + Sync,
{
    let writer = reflector::store::Writer::new(kind);
    let store = writer.as_reader();
    let events = watcher(api, settings(arguments));
    let events: Events<K> = match arguments.has("--strip") {
        true => Box::pin(reflector(writer, events.modify(|object| object.managed_fields_mut().clear()))),
        false => Box::pin(reflector(writer, events)),
    };
    (store, events)
}

fn settings(arguments: &Arguments) -> watcher::Config {
    let settings = watcher::Config::default();
    if arguments.has("--watch-list") { settings.streaming_lists() } else { settings }
}

/// Polls events until a list is complete. The next poll resumes a broken watch.
async fn complete<K>(events: &mut Events<K>) -> Outcome {
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

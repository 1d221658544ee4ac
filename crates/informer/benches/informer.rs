//! CPU cost of an informer from the bytes of a change to the handler call, latency from a write to a handler, and the cost
//! of reads meanwhile.
//!
//! Run with `cargo bench -p kube-informer --bench informer`. CPU is that of the whole process, both threads. With a real
//! server the socket adds to it (`cargo xtask bench` measures that, next to other clients).
#![allow(clippy::print_stdout, reason = "a benchmark prints its figures")]

mod pods;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use embedded_apiserver::Server;
use futures::StreamExt;
use futures::stream;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube_informer::building_blocks::{FunctionSource, ListPart, ListerWatcher};
use kube_informer::{Event, Informer, Key};
use kube_wire::{Encoding, Limits, ListHead, ObjectReader, Projection, WatchDecoder};
use parking_lot::Mutex;
use pods::PodReader;
use serde_json::json;
use tokio::sync::Notify;

const OBJECTS: usize = 10_000;
const CHANGES: usize = 200_000;
/// The size of reads from a socket.
const CHUNK: usize = 64 << 10;

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let chunks = recording();
    let bytes = chunks.iter().map(Bytes::len).sum::<usize>() / CHANGES;
    println!("{CHANGES} changes of {bytes} B (protobuf) to {OBJECTS} pods, from bytes to handler calls\n");
    println!("{:<40}{:>14}{:>16}", "", "changes/s", "CPU per change");
    replay(&chunks, 0, false).await;
    replay(&chunks, 1, false).await;
    replay(&chunks, 20, false).await;
    replay(&chunks, 1, true).await;
    replay(&chunks, 20, true).await;
    println!();
    latency().await;
    println!();
    reads_under_changes(&chunks).await;
}

/// The changes in their frames, cut into chunks.
fn recording() -> Arc<Vec<Bytes>> {
    let mut all = Vec::new();
    for change in 0..CHANGES {
        let version = (OBJECTS + change) as u64 + 1;
        all.extend(pods::watch_frame("MODIFIED", &pods::whole_pod(change % OBJECTS, version)));
    }
    let all = Bytes::from(all);
    let starts = (0..all.len()).step_by(CHUNK);
    Arc::new(starts.map(|start| all.slice(start..(start + CHUNK).min(all.len()))).collect())
}

/// Lists the pods, sends the changes after `start` is notified, then stays silent.
fn source(chunks: &Arc<Vec<Bytes>>, start: &Arc<Notify>) -> Arc<dyn ListerWatcher> {
    let list = |_| async {
        let mut reader = PodReader::new();
        let items =
            (0..OBJECTS).map(move |at| Ok(ListPart::Item(reader.read(&pods::whole_pod(at, at as u64 + 1)))));
        let mut head = ListHead::default();
        head.resource_version = OBJECTS.to_string();
        Ok(stream::iter(items.chain([Ok(ListPart::End(head))])).boxed())
    };
    let (chunks, start) = (chunks.clone(), start.clone());
    let watch = move |_| {
        let (chunks, start) = (chunks.clone(), start.clone());
        async move {
            let reader = ObjectReader::new(Projection::default(), Limits::default());
            let decoder = WatchDecoder::new(Encoding::Protobuf, reader);
            let begun = stream::once(async move { start.notified().await }).filter_map(async |()| None);
            let events = stream::unfold((decoder, chunks, 0), |(mut decoder, chunks, mut at)| async move {
                loop {
                    if let Some(event) = decoder.next_event() {
                        return Some((event.map_err(Into::into), (decoder, chunks, at)));
                    }
                    match chunks.get(at) {
                        Some(chunk) => decoder.push(chunk.clone()),
                        None => return std::future::pending().await,
                    }
                    at += 1;
                }
            });
            Ok(begun.chain(events).boxed())
        }
    };
    Arc::new(FunctionSource::new("pods of a recording", list, watch))
}

fn listing() -> kube_informer::building_blocks::ReflectorConfig {
    let mut config = kube_informer::building_blocks::ReflectorConfig::default();
    config.watch_list = kube_informer::WatchList::Off;
    config
}

async fn replay(chunks: &Arc<Vec<Bytes>>, handlers: usize, decodes: bool) {
    let start = Arc::new(Notify::new());
    let pods =
        Informer::<Pod>::from_source(source(chunks, &start)).reflector(listing()).start().expect("it starts");
    let called = Arc::new(AtomicU64::new(0));
    let mut handles = Vec::new();
    for _ in 0..handlers {
        let called = called.clone();
        let handler = move |event: Event<Pod>| {
            if let (true, Event::Updated { new, .. }) = (decodes, &event) {
                drop(std::hint::black_box(new.decode()));
            }
            called.fetch_add(1, Ordering::Relaxed);
            std::future::ready(())
        };
        handles.push(pods.add_handler(handler).expect("it runs"));
    }
    pods.synced().await.expect("it syncs");
    for handle in &handles {
        handle.synced().await.expect("it syncs");
    }
    called.store(0, Ordering::Relaxed);
    let (started, cpu_before) = (Instant::now(), cpu());
    start.notify_one();
    let last = format!("{}", OBJECTS + CHANGES);
    while pods.status()[0].resource_version != last || handles.iter().any(|handle| handle.lag() > 0) {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let (took, cpu) = (started.elapsed(), cpu() - cpu_before);
    let coalesced = handles.iter().map(|handle| handle.coalesced_count()).sum::<u64>();
    let what = match (handlers, decodes) {
        (0, _) => "no handler".to_owned(),
        (1, false) => "1 handler without decoding".to_owned(),
        (1, true) => "1 decoding handler".to_owned(),
        (handlers, false) => format!("{handlers} handlers without decoding"),
        (handlers, true) => format!("{handlers} decoding handlers"),
    };
    let behind = if coalesced > 0 {
        let received = called.load(Ordering::Relaxed) as f64 / (CHANGES * handlers) as f64;
        format!("   (coalesced {coalesced} times: received {:.0} %)", received * 100.0)
    } else {
        String::new()
    };
    println!(
        "{what:<40}{:>14.0}{:>13.2} µs{behind}",
        CHANGES as f64 / took.as_secs_f64(),
        cpu.as_secs_f64() * 1e6 / CHANGES as f64
    );
    pods.shutdown().await;
}

/// From a write on the embedded server, over HTTP/2 on a socket, to the handler call.
async fn latency() {
    let server = Server::start().await.expect("the server starts");
    let config = server.config().expect("it has a port");
    let cluster = kube_informer::Cluster::from_config(config).expect("a client");
    let maps = Informer::<ConfigMap>::builder(cluster).start().expect("it starts");
    let received = Arc::new((Mutex::new(None), Notify::new()));
    let receives = received.clone();
    let handle = maps.add_handler(move |event: Event<ConfigMap>| {
        if event.object().is_some() {
            *receives.0.lock() = Some(Instant::now());
            receives.1.notify_one();
        }
        std::future::ready(())
    });
    handle.expect("it runs").synced().await.expect("it syncs");
    let feed = server.feed("", "v1", "configmaps").expect("it is served");
    let mut revision = server.revision();
    let mut took = Vec::new();
    for round in 0..10_000 {
        revision += 1;
        let map = json!({"metadata": {"namespace": "default", "name": format!("map-{}", round % 100), "uid": format!("u{}", round % 100),
            "resourceVersion": revision.to_string()}, "data": {"padding": "x".repeat(1000)}});
        let written = Instant::now();
        feed.put(&map).expect("the server accepts it");
        received.1.notified().await;
        took.push(received.0.lock().take().expect("received") - written);
    }
    took.sort();
    let at = |share: usize| took[took.len() * share / 1000];
    println!(
        "write on the embedded server → handler: p50 {:?}, p99 {:?}, p99.9 {:?} (10,000 writes, one at a time)",
        at(500),
        at(990),
        at(999)
    );
}

/// Reads through the lister while changes arrive at full speed.
async fn reads_under_changes(chunks: &Arc<Vec<Bytes>>) {
    let start = Arc::new(Notify::new());
    let pods =
        Informer::<Pod>::from_source(source(chunks, &start)).reflector(listing()).start().expect("it starts");
    pods.synced().await.expect("it syncs");
    let lister = pods.lister();
    let keys = (0..OBJECTS).map(|at| Key::new(&pods::namespace(at), &pods::name(at))).collect::<Vec<_>>();
    let last = format!("{}", OBJECTS + CHANGES);
    let over = Arc::new(AtomicBool::new(false));
    let measure = |what: &str, over: &AtomicBool| {
        let (started, mut reads) = (Instant::now(), 0_u32);
        let mut decoded = Duration::ZERO;
        let mut decodes = 0_u32;
        for key in keys.iter().cycle().take(400_000) {
            let found = lister.get(key).expect("it is there");
            reads += 1;
            if reads % 100 == 0 {
                let began = Instant::now();
                drop(std::hint::black_box(found.decode()));
                decoded += began.elapsed();
                decodes += 1;
            }
            if over.load(Ordering::Relaxed) {
                break;
            }
        }
        let got = started.elapsed() - decoded;
        println!(
            "{what:<40} get {:>6.0} ns   get and decode {:>6.1} µs",
            got.as_nanos() as f64 / f64::from(reads),
            decoded.as_secs_f64() * 1e6 / f64::from(decodes.max(1))
        );
    };
    tokio::task::block_in_place(|| measure("lister, nothing changes", &AtomicBool::new(false)));
    start.notify_one();
    let watcher = tokio::spawn({
        let (pods, over) = (pods.clone(), over.clone());
        async move {
            while pods.status()[0].resource_version != last {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            over.store(true, Ordering::Relaxed);
        }
    });
    tokio::task::block_in_place(|| measure("lister, under changes at full speed", &over));
    watcher.await.expect("it ends");
}

/// CPU time of this process.
fn cpu() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or_default())
}

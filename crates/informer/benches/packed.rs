//! Costs and savings of packing: bytes stored per kind, writing to and reading from a packed store compared to a plain one,
//! and with `-- million` a million pods.
//!
//! Run with `cargo bench -p kube-informer --bench packed` (add a part: `kind`, `pods`, `few`, `informer`, `million`). Times are the
//! fastest of several rounds; memory is the growth of the process.
#![allow(clippy::print_stdout, reason = "a benchmark prints its figures")]

mod objects;

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::FutureExt;
use k8s_openapi::api::core::v1::{ConfigMap, Event, Pod, Secret};
use kube_core::DynamicObject;
use kube_informer::Scope;
use kube_informer::building_blocks::StoreSink;
use kube_informer::building_blocks::{Delta, Fifo, FifoConfig, Sink};
use kube_informer::building_blocks::{Store, StoreConfig};
use kube_informer::testing::ScriptedSource;
use kube_informer::{Index, Memory, StoredObject};
use kube_informer::{Informer, Key};
use kube_wire::path::PathReader;
use kube_wire::{Encoding, Limits, ObjectReader, Projection, RawObject, TypeMeta};
use objects::{Mint, Reader};
use serde::de::DeserializeOwned;
use serde_json::Value;

const SCOPE: Scope = Scope(0);
const ROUNDS: usize = 7;

fn main() {
    let parts: [(&str, fn()); 12] = [
        ("kind-pods", || kind::<Pod>("pods", 20_000, |at| objects::running_pod(at, at as u64), false)),
        ("kind-json", || kind::<Pod>("pods, JSON", 20_000, |at| objects::running_pod(at, at as u64), true)),
        ("kind-maps", || kind::<ConfigMap>("config maps of 50 KB", 1000, objects::config_map, false)),
        ("kind-secrets", || kind::<Secret>("secrets", 100_000, objects::secret, false)),
        ("kind-events", || kind::<Event>("events", 100_000, objects::event, false)),
        ("kind-custom", || {
            kind::<DynamicObject>("custom resources, JSON", 100_000, objects::certificate, true);
        }),
        ("pods-packed", || pods(&Memory::default(), 50_000)),
        ("pods-plain", || pods(&Memory::Uncompressed, 50_000)),
        ("few-packed", || pods(&Memory::default(), 10_000)),
        ("few-plain", || pods(&Memory::Uncompressed, 10_000)),
        ("informer", informer),
        ("million", million),
    ];
    let wanted = std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect::<Vec<_>>();
    if let [only] = &wanted[..]
        && let Some((_, part)) = parts.iter().find(|(name, _)| name == only)
    {
        return part();
    }
    // Each part in its own process: memory freed before would distort the figures.
    let is_wanted = |name: &str| match wanted.is_empty() {
        true => name != "million",
        false => wanted.iter().any(|wanted| name.starts_with(&**wanted)),
    };
    let this = std::env::current_exe().expect("the path of this program");
    for (name, _) in parts.into_iter().filter(|(name, _)| is_wanted(name)) {
        let done = std::process::Command::new(&this).arg(name).status().expect("it can be started again");
        assert!(done.success(), "{name}: {done}");
    }
}

// === kinds ===

/// Bytes of a kind: on the wire (without managedFields), stored, and decoded.
fn kind<K: DeserializeOwned>(name: &str, count: usize, make: fn(usize) -> Value, json: bool) {
    let mut reader = Reader::new();
    let mut read = |at| {
        let value = make(at);
        if json { reader.read_json(&value) } else { reader.read(&value) }
    };
    let wire = (0..count).step_by(10).map(|at| read(at).bytes().len()).sum::<usize>() * 10 / count;
    let store = Store::default();
    let before = resident();
    replace(&store, (0..count).map(&mut read));
    let kept = resident().saturating_sub(before) / count;
    let content = store.snapshot().stored_bytes() / count;
    let before = resident();
    let decode = |object: &StoredObject| object.raw().decode::<K>().expect("it fits its type");
    let decoded = store.snapshot().iter().take(10_000).map(decode).collect::<Vec<_>>();
    let decoded_bytes = resident().saturating_sub(before) / decoded.len();
    drop(decoded);
    println!(
        "{name:<28} wire {wire:>6} B   stored {kept:>6} B   of that names and content {content:>6} B   decoded {decoded_bytes:>6} B"
    );
}

// === pods ===

fn pods(memory: &Memory, count: usize) {
    let name = if matches!(memory, Memory::Uncompressed) { "plain" } else { "packed" };
    println!("\n{count} pods, {name}, two indexes (namespace, field spec.nodeName)");
    let mut minted = PodReader::of_a_list();
    let store = Arc::new(new_store(memory));
    let before = resident();
    let generating = fastest_of(1, || each(count, |at| drop(black_box(minted.read(at, 0)))));
    let started = Instant::now();
    replace(&store, (0..count).map(|at| minted.read(at, 0)));
    let each_pod = started.elapsed().as_nanos() as f64 / count as f64 - generating;
    show("initial list, per pod (without parsing)", each_pod);
    let after = resident();
    println!("{:<58}{:>12}", "memory per pod, total", format!("{} B", (after - before) / count));
    println!(
        "{:<58}{:>12}",
        "of that names and packed content",
        format!("{} B", store.snapshot().stored_bytes() / count)
    );
    let again = fastest_of(3, || {
        let started = Instant::now();
        replace(&store, (0..count).map(|at| minted.read(at, 0)));
        started.elapsed().as_nanos() as f64 / count as f64 - generating
    });
    show("unchanged relist, per pod (without parsing)", again);
    println!(
        "{:<58}{:>12}",
        "growth of the process after three unchanged relists",
        format!("{:.1} %", (resident().saturating_sub(after)) as f64 * 100.0 / (after - before) as f64)
    );
    reading(&store);
    writing(&store, &mut PodReader::of_a_watch(), count);
    deleting(&store, before);
}

fn reading(store: &Store) {
    let objects = scattered(store.snapshot().iter().cloned().collect());
    let many = objects.len() / ROUNDS / 4;
    let keys = objects.iter().map(StoredObject::key).collect::<Vec<_>>();
    show("get", fastest(keys.chunks(many), |key| drop(black_box(store.get(key)))));
    show("labels", fastest(objects.chunks(many), |object| drop(black_box(object.labels().get("tier")))));
    show(
        "owners",
        fastest(objects.chunks(many), |object| {
            black_box(object.owners().count());
        }),
    );
    let path = PathReader::new(&"spec.nodeName".parse().expect("a path"), &TypeMeta::new("v1", "Pod"));
    let path = path.expect("pods have it");
    let field = fastest(objects.chunks(many), |object| {
        let mut len = 0;
        object
            .for_each_field(&path, |value| len += value.text().map_or(0, |text| text.len()))
            .expect("readable");
        assert!(black_box(len) > 0);
    });
    show("field spec.nodeName", field);
    show("the bytes (raw)", fastest(objects.chunks(many), |object| drop(black_box(object.raw()))));
    let decode = |object: &StoredObject| object.decode::<Pod>().expect("it is a pod");
    show("typed value, cold", fastest(objects.chunks(many), |object| drop(black_box(decode(object)))));
    let raws = objects.iter().take(many * ROUNDS).map(StoredObject::raw).collect::<Vec<_>>();
    let from_bytes = |raw: &RawObject| drop(black_box(raw.decode::<Pod>().expect("it is a pod")));
    show("of that, decoding", fastest(raws.chunks(many), from_bytes));
    let nodes = (0..500).map(|node| format!("node-{node:03}")).collect::<Vec<_>>();
    let by_index = fastest(nodes.chunks(50), |node| {
        let found = store.by_index("node", node).expect("it is indexed");
        found.iter().take(50).for_each(|object| drop(black_box(decode(object))));
    });
    show("by index, 50 pods of a node, decoded", by_index);
    let all = fastest_of(2, || {
        let started = Instant::now();
        store.snapshot().iter().for_each(|object| drop(black_box(decode(object))));
        started.elapsed().as_nanos() as f64 / store.len() as f64
    });
    show("all pods, decoded sequentially, per pod", all);
    let parts = objects.chunks(objects.len().div_ceil(2));
    let parallel = fastest_of(2, || {
        let started = Instant::now();
        std::thread::scope(|scope| {
            for part in parts.clone() {
                scope.spawn(|| part.iter().for_each(|object| drop(black_box(decode(object)))));
            }
        });
        started.elapsed().as_nanos() as f64 / objects.len() as f64
    });
    show("the same with two threads", parallel);
}

fn writing(store: &Arc<Store>, minted: &mut PodReader, count: usize) {
    let fifo = Fifo::new(FifoConfig::default());
    let sink = StoreSink::new(fifo.clone(), store.clone());
    let many = 500;
    let mut version = 0;
    let mut round = |batch: usize| {
        version += 1;
        let changed = (0..many).map(|at| minted.read(at * 97 % count, version)).collect::<Vec<_>>();
        let started = Instant::now();
        for objects in changed.chunks(batch) {
            for object in objects {
                now(sink.update(SCOPE, object.clone())).expect("the queue is open");
            }
            let batch = now(fifo.take()).expect("the queue is open");
            assert_eq!(store.apply(batch.deltas()).changes().len(), objects.len());
            batch.done();
        }
        started.elapsed().as_nanos() as f64 / many as f64
    };
    show("watch event, object to indexed, alone", fastest_of(ROUNDS, || round(1)));
    show("the same, in batches", fastest_of(ROUNDS, || round(many)));
}

fn deleting(store: &Store, before: usize) {
    let full = resident() - before;
    let objects = scattered(store.snapshot().iter().cloned().collect());
    let gone = &objects[..objects.len() * 9 / 10];
    for part in gone.chunks(1000) {
        store.apply(&part.iter().cloned().map(Delta::Vanished).collect::<Vec<_>>());
    }
    drop(objects);
    // Bookmarks arrive regularly: each one compacts a few of the remaining objects.
    let bookmark = [Delta::Bookmark { scope: SCOPE, resource_version: "30000000".to_owned() }];
    (0..store.len()).for_each(|_| drop(store.apply(&bookmark)));
    let left = settled().saturating_sub(before);
    println!(
        "{:<58}{:>12}",
        "memory left after deleting 90 % at random",
        format!("{:.0} %", left as f64 * 100.0 / full as f64)
    );
}

// === informer ===

/// The cost for readers of an informer: recently decoded values are shared.
fn informer() {
    let source = ScriptedSource::new("v1", "Pod");
    for at in 0..1000 {
        source.put(objects::running_pod(at, 0));
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let pods = Informer::<Pod>::from_source(Arc::new(source)).start().expect("it starts");
        pods.synced().await.expect("it is synced");
        let lister = pods.lister();
        let keys = lister.list().iter().map(|object| object.key()).take(50).collect::<Vec<Key>>();
        let rounds = (0..ROUNDS).map(|_| keys.as_slice());
        let read = |key: &Key| {
            let object = lister.get(key).expect("it is there");
            drop(black_box(object.decode().expect("it is a pod")));
        };
        keys.iter().for_each(read);
        println!("\n1000 pods in JSON, through an informer");
        show("get and decode, hot", fastest(rounds, read));
    });
}

// === a million ===

fn million() {
    let count = 1_000_000;
    let mut minted = PodReader::of_a_list();
    let store = new_store(&Memory::default());
    let before = resident();
    let started = Instant::now();
    replace(&store, (0..count).map(|at| minted.read(at, 0)));
    println!("\n{count} pods, packed, two indexes (namespace, field spec.nodeName)");
    show("initial list, per pod (including generation)", started.elapsed().as_nanos() as f64 / count as f64);
    println!("{:<58}{:>12}", "memory", format!("{} MB", (resident() - before) >> 20));
    println!("{:<58}{:>12}", "peak memory", format!("{} MB", peak() >> 20));
    reading(&store);
    deleting(&store, before);
}

// === helpers ===

/// Pods as a source would read them.
struct PodReader(Mint, ObjectReader, TypeMeta);

impl PodReader {
    fn of_a_list() -> Self {
        let reader = ObjectReader::new(Projection::default(), Limits::default()).in_blocks();
        Self(Mint::new(), reader, TypeMeta::new("v1", "Pod"))
    }

    fn of_a_watch() -> Self {
        let reader = ObjectReader::new(Projection::default(), Limits::default());
        Self(Mint::new(), reader, TypeMeta::new("v1", "Pod"))
    }

    fn read(&mut self, at: usize, version: u64) -> RawObject {
        let message = self.0.pod(at, version);
        self.1.read(message, Encoding::Protobuf, Some(&self.2)).expect("a pod is readable")
    }
}

fn new_store(memory: &Memory) -> Store {
    let indexes =
        StoreConfig::default().index(Index::namespace()).index(Index::field("node", "spec.nodeName"));
    Store::new(indexes.memory(memory.clone())).expect("valid indexes")
}

fn replace(store: &Store, objects: impl Iterator<Item = RawObject>) {
    let mut replacement = store.begin_replace(SCOPE);
    for object in objects {
        replacement.put(object).expect("it has a name");
    }
    store.apply(&[Delta::ReplacedAll(Arc::new(replacement.finish("20000000")))]);
}

fn now<T>(future: impl Future<Output = T>) -> T {
    future.now_or_never().expect("it does not wait")
}

/// In a fixed pseudo-random order.
fn scattered(mut objects: Vec<StoredObject>) -> Vec<StoredObject> {
    objects.sort_unstable_by_key(StoredObject::content_hash);
    objects
}

fn show(what: &str, nanoseconds: f64) {
    println!("{what:<58}{:>12}", format!("{nanoseconds:.0} ns"));
}

fn each(count: usize, mut work: impl FnMut(usize)) -> f64 {
    let started = Instant::now();
    (0..count).for_each(&mut work);
    started.elapsed().as_nanos() as f64 / count as f64
}

/// Nanoseconds per item, in the fastest round.
fn fastest<'a, T: 'a>(rounds: impl IntoIterator<Item = &'a [T]>, mut work: impl FnMut(&'a T)) -> f64 {
    let mut round = |items: &'a [T]| {
        let started = Instant::now();
        items.iter().for_each(&mut work);
        started.elapsed().as_nanos() as f64 / items.len() as f64
    };
    rounds.into_iter().take(ROUNDS).map(&mut round).fold(f64::INFINITY, f64::min)
}

fn fastest_of(rounds: usize, mut round: impl FnMut() -> f64) -> f64 {
    (0..rounds).map(|_| round()).fold(f64::INFINITY, f64::min)
}

/// Resident memory of this process in bytes; 0 if unknown.
fn resident() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    statm.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok()).unwrap_or_default() * 4096
}

/// Resident memory once the allocator has stopped returning memory to the system: some do so gradually (jemalloc over 10 s).
fn settled() -> usize {
    const STABLE_FOR: Duration = Duration::from_secs(2);
    const LIMIT: Duration = Duration::from_secs(12);
    let began = Instant::now();
    let (mut least, mut since) = (resident(), began);
    while since.elapsed() < STABLE_FOR && began.elapsed() < LIMIT {
        std::thread::sleep(Duration::from_millis(50));
        let now = resident();
        if now < least {
            (least, since) = (now, Instant::now());
        }
    }
    least
}

/// Peak resident memory in bytes.
fn peak() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<usize>().ok());
    kilobytes.unwrap_or_default() << 10
}

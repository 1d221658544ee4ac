//! Costs of the store with ten thousand and with a million objects, compared to client-go 1.36 on the same kind of machine
//! (measured once, alone, with two indexes over decoded pods).
//!
//! Objects are held plain; the benchmark `packed` measures packing.
//!
//! Run with `cargo bench -p kube-informer --bench store` (add `-- 10000` for the small size only). Each figure is the
//! fastest of several rounds, because on a shared machine the least disturbed round is the most accurate. Memory is the
//! growth of the process.
#![allow(clippy::print_stdout, reason = "a benchmark prints its figures")]

mod pods;

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use bytes::Bytes;
use futures::FutureExt;
use kube_informer::Key;
use kube_informer::Scope;
use kube_informer::building_blocks::StoreSink;
use kube_informer::building_blocks::{Delta, Fifo, FifoConfig, Sink};
use kube_informer::building_blocks::{Store, StoreConfig};
use kube_informer::{Index, Memory, StoredObject};
use kube_wire::{Encoding, Limits, ObjectReader, Projection, RawObject, WatchDecoder, WatchEvent};
use pods::PodReader;

const SCOPE: Scope = Scope(0);
const ROUNDS: usize = 9;

fn main() {
    let wanted = std::env::args().filter_map(|argument| argument.parse::<usize>().ok()).collect::<Vec<_>>();
    for size in [10_000, 1_000_000] {
        if wanted.is_empty() || wanted.contains(&size) {
            measure(size);
        }
    }
}

fn measure(size: usize) {
    println!("\n{size} objects, two indexes (namespace, field spec.nodeName)");
    println!("{:<52}{:>14}{:>16}", "", "here", "client-go");
    let small = size < 100_000;
    let peer = |ten_thousand, million| if small { ten_thousand } else { million };

    let mut reader = PodReader::new();
    let mut order = Shuffled::new(size);
    let bytes_before = resident();
    let objects = (0..size).map(|at| stored(reader.read(&pods::small_pod(at, 1)))).collect::<Vec<_>>();
    let bytes_objects = resident();

    let store = Arc::new(new_store());
    let started = Instant::now();
    for at in 0..size {
        store.apply(&[Delta::Added(objects[order.order[at]].clone())]);
    }
    show("insert, one by one", started.elapsed().as_nanos() as f64 / size as f64, peer("660 ns", "2100 ns"));
    let bytes_stored = resident();

    // Each round measures the next part of the objects, in pseudo-random order.
    let many = (size / ROUNDS).min(20_000);
    let keys = order.next(many * ROUNDS).iter().map(|&at| objects[at].key()).collect::<Vec<Key>>();
    let get = fastest(keys.chunks(many), |key| drop(black_box(store.get(key))));
    show("get", get, peer("124 ns", "331 ns"));

    let nodes = order.next(many).iter().map(|&at| pods::node(at)).collect::<Vec<_>>();
    let by_index = fastest(nodes.chunks(many.div_ceil(ROUNDS)), |node| {
        assert_eq!(black_box(store.by_index("node", node)).map(|found| found.len()), Ok(pods::PODS_PER_NODE));
    });
    show("by index, 50 objects", by_index, peer("2000 ns", "8900 ns"));
    let snapshot = store.snapshot();
    let in_snapshot = fastest(nodes.chunks(many.div_ceil(ROUNDS)), |node| {
        assert_eq!(black_box(snapshot.by_index("node", node)).map(Iterator::count), Ok(pods::PODS_PER_NODE));
    });
    show("by index, 50 objects, in a snapshot", in_snapshot, "");
    drop(snapshot);

    let mut version = 1;
    let mut changed = |count: usize, reader: &mut PodReader, order: &mut Shuffled| {
        version += 1;
        let read = |at: &usize| Delta::Updated(stored(reader.read(&pods::small_pod(*at, version))));
        order.next(count).iter().map(read).collect::<Vec<_>>()
    };
    let updates = changed(many * ROUNDS, &mut reader, &mut order);
    let update = fastest(updates.chunks(many), |delta| drop(store.apply(std::slice::from_ref(delta))));
    show("update, one by one", update, "");
    let updates = changed(many * ROUNDS, &mut reader, &mut order);
    let batches = updates.chunks(Fifo::BATCH_MAX.min(many)).collect::<Vec<_>>();
    let update = fastest(batches.chunks(batches.len().div_ceil(ROUNDS)), |batch| {
        black_box(store.apply(batch));
    });
    show("update, in batches of 1000", update / Fifo::BATCH_MAX.min(many) as f64, "");

    let snapshots = [(); 9000];
    show("snapshot", fastest(snapshots.chunks(1000), |()| drop(black_box(store.snapshot()))), "");
    let updates = changed(many.min(2000) * ROUNDS, &mut reader, &mut order);
    let pinned = fastest(updates.chunks(many.min(2000)), |delta| {
        let snapshot = store.snapshot();
        store.apply(std::slice::from_ref(delta));
        drop(black_box(snapshot));
    });
    show("snapshot, and the first write under it", pinned, "");
    let updates = changed(many * ROUNDS, &mut reader, &mut order);
    let snapshot = store.snapshot();
    let under = fastest(updates.chunks(many), |delta| drop(store.apply(std::slice::from_ref(delta))));
    show("update under one long snapshot", under, "");
    drop(snapshot);
    reads_under_writes(&store, &keys, &updates);

    let relisted = size.min(100_000);
    let unchanged = fastest_of(3, || {
        let present = store.snapshot();
        let list = present.iter().take(relisted).map(StoredObject::raw).collect::<Vec<_>>();
        let rest = present.iter().skip(relisted).map(StoredObject::raw).collect::<Vec<_>>();
        let mut replacement = store.begin_replace(SCOPE);
        let mut put = |object: RawObject| replacement.put(object).expect("the object has a name");
        rest.into_iter().for_each(&mut put);
        let started = Instant::now();
        list.into_iter().for_each(&mut put);
        let list = Delta::ReplacedAll(Arc::new(replacement.finish("1000000")));
        assert!(store.apply(&[list]).changes().is_empty());
        started.elapsed().as_nanos() as f64 / relisted as f64
    });
    show(&format!("unchanged relist, per object ({relisted} objects)"), unchanged, peer("700 ns", "2500 ns"));

    let each = |bytes: usize| format!("{:.0} B", bytes as f64 / size as f64);
    println!("{:<52}{:>14}", "memory per object, including its bytes", each(bytes_objects - bytes_before));
    println!(
        "{:<52}{:>14}",
        "memory per key, in the store and both indexes",
        each(bytes_stored - bytes_objects)
    );
    drop(objects);
    watch_event(&store, size);
}

/// From the bytes of an event to the stored and indexed object.
fn watch_event(store: &Arc<Store>, size: usize) {
    let fifo = Fifo::new(FifoConfig::default());
    let sink = StoreSink::new(fifo.clone(), store.clone());
    let mut watch =
        WatchDecoder::new(Encoding::Protobuf, ObjectReader::new(Projection::default(), Limits::default()));
    let many = 500;
    let mut order = Shuffled::new(size);
    let frame = |at: &usize| Bytes::from(pods::watch_frame("MODIFIED", &pods::whole_pod(*at, 2_000_000)));
    let frames = order.next(many * ROUNDS).iter().map(frame).collect::<Vec<_>>();
    let bytes = frames.iter().map(Bytes::len).sum::<usize>() / frames.len();
    let one_by_one = fastest(frames.chunks(many), |frame| {
        watch.push(frame.clone());
        receive(&mut watch, &sink);
        process(&fifo, store);
    });
    show(&format!("watch event of {bytes} B, bytes to indexed, alone"), one_by_one, "35000 ns");
    let frame = |at: &usize| Bytes::from(pods::watch_frame("MODIFIED", &pods::whole_pod(*at, 3_000_000)));
    let frames = order.next(many * ROUNDS).iter().map(frame).collect::<Vec<_>>();
    let rounds = frames.chunks(many).collect::<Vec<_>>();
    let batched = fastest(rounds.chunks(1), |frames| {
        for frame in *frames {
            watch.push(frame.clone());
            receive(&mut watch, &sink);
        }
        while !fifo.is_empty() {
            process(&fifo, store);
        }
    });
    show("the same, in batches", batched / many as f64, "35000 ns");
}

fn receive(watch: &mut WatchDecoder, sink: &StoreSink) {
    let Some(Ok(WatchEvent::Modified(object))) = watch.next_event() else { panic!("expected a changed pod") };
    sink.update(SCOPE, object).now_or_never().expect("the queue has capacity").expect("the queue is open");
}

fn process(fifo: &Fifo, store: &Store) {
    let batch = fifo.take().now_or_never().flatten().expect("there is a batch");
    assert!(store.apply(batch.deltas()).changes().iter().all(|change| change.object().generation() == 0));
    batch.done();
}

/// Reads by one thread while another writes at full speed.
fn reads_under_writes(store: &Store, keys: &[Key], updates: &[Delta]) {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let (started, mut writes) = (Instant::now(), 0);
            let listed = updates.iter().filter_map(|delta| delta.object().cloned()).map(Delta::Replaced);
            let listed = listed.collect::<Vec<_>>();
            for delta in listed.iter().cycle() {
                store.apply(std::slice::from_ref(delta));
                writes += 1;
                if stop.load(Ordering::Relaxed) {
                    break;
                }
            }
            f64::from(writes) / started.elapsed().as_secs_f64()
        });
        let many = keys.len() / ROUNDS;
        let get = fastest(keys.chunks(many), |key| drop(black_box(store.get(key))));
        stop.store(true, Ordering::Relaxed);
        let writes = writer.join().expect("the writer does not panic");
        show(&format!("get, under {:.1} M writes per second", writes / 1e6), get, "");
    });
}

// === helpers ===

fn new_store() -> Store {
    let indexes = StoreConfig::default()
        .memory(Memory::Uncompressed)
        .index(Index::namespace())
        .index(Index::field("node", "spec.nodeName"));
    Store::new(indexes).expect("valid indexes")
}

fn stored(object: RawObject) -> StoredObject {
    StoredObject::new(SCOPE, object).expect("the object has a name")
}

fn show(what: &str, nanoseconds: f64, peer: &str) {
    println!("{what:<52}{:>14}{peer:>16}", format!("{nanoseconds:.0} ns"));
}

/// Nanoseconds per item, in the fastest round.
fn fastest<'a, T: 'a>(rounds: impl IntoIterator<Item = &'a [T]>, mut work: impl FnMut(&'a T)) -> f64 {
    let mut round = |items: &'a [T]| {
        let started = Instant::now();
        items.iter().for_each(&mut work);
        started.elapsed().as_nanos() as f64 / items.len() as f64
    };
    rounds.into_iter().map(&mut round).fold(f64::INFINITY, f64::min)
}

fn fastest_of(rounds: usize, mut round: impl FnMut() -> f64) -> f64 {
    (0..rounds).map(|_| round()).fold(f64::INFINITY, f64::min)
}

/// Numbers in a fixed pseudo-random order.
struct Shuffled {
    order: Vec<usize>,
    at: usize,
}

impl Shuffled {
    fn new(size: usize) -> Self {
        let mut order = (0..size).collect::<Vec<_>>();
        let mut seed = 12_345_u64;
        for at in (1..size).rev() {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            order.swap(at, (seed >> 33) as usize % (at + 1));
        }
        Self { order, at: 0 }
    }

    fn next(&mut self, count: usize) -> Vec<usize> {
        let from = self.at;
        self.at = (from + count) % self.order.len();
        self.order.iter().cycle().skip(from).take(count).copied().collect()
    }
}

/// Resident memory of this process in bytes; 0 if unknown.
fn resident() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    statm.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok()).unwrap_or_default() * 4096
}

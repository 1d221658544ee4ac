//! Counts allocations on the two hot paths: a relist without changes, and one watch event. Also checks that memory is freed
//! after a peak.
#![allow(clippy::print_stdout, reason = "prints the measured figures")]

#[path = "../benches/pods.rs"]
mod pods;

use std::sync::Arc;

use futures::FutureExt;
use k8s_openapi::api::core::v1::Pod;
use kube_informer::Scope;
use kube_informer::building_blocks::StoreSink;
use kube_informer::building_blocks::{Delta, Fifo, FifoConfig, Replace, Sink};
use kube_informer::building_blocks::{Packing, Store, StoreConfig};
use kube_informer::testing::ScriptedSource;
use kube_informer::{Index, Memory, StoredObject};
use kube_informer::{Informer, Key};
use kube_wire::{Encoding, Limits, ObjectReader, Projection, WatchDecoder, WatchEvent};
use parking_lot::{Mutex, MutexGuard};
use pods::PodReader;
use serde_json::json;

#[global_allocator]
static ALLOCATOR: dhat::Alloc = dhat::Alloc;

const SCOPE: Scope = Scope(0);

/// The number of allocations and bytes in `work`.
fn count(work: impl FnOnce()) -> (u64, u64) {
    let _profiler = dhat::Profiler::builder().testing().build();
    work();
    let stats = dhat::HeapStats::get();
    (stats.total_blocks, stats.total_bytes)
}

fn now<T>(future: impl Future<Output = T>) -> T {
    future.now_or_never().expect("it should not have to wait")
}

fn process(fifo: &Fifo, store: &Store) {
    let batch = now(fifo.take()).expect("the queue is open");
    assert!(store.apply(batch.deltas()).changes().len() < 100_001);
    batch.done();
}

fn indexed_store(memory: Memory) -> Arc<Store> {
    let config =
        StoreConfig::default().index(Index::namespace()).index(Index::field("node", "spec.nodeName"));
    Arc::new(Store::new(config.memory(memory)).expect("valid indexes"))
}

/// One test at a time: they share one allocator.
fn exclusive() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock()
}

#[test]
fn an_unchanged_relist_and_a_watch_event_allocate_almost_nothing() {
    let _guard = exclusive();
    println!("plain:");
    allocate_next_to_nothing(Memory::Uncompressed, 7.5);
    println!("packed:");
    allocate_next_to_nothing(Memory::default(), 9.5);
}

fn allocate_next_to_nothing(memory: Memory, event_max: f64) {
    const OBJECTS: usize = 100_000;
    let mut reader = PodReader::new();
    let store = indexed_store(memory);
    let fifo = Fifo::new(FifoConfig::default());
    let sink = StoreSink::new(fifo.clone(), store.clone());
    let mut list = || (0..OBJECTS).map(|at| reader.read(&pods::small_pod(at, 1))).collect::<Vec<_>>();
    let relist = |list: Vec<_>| {
        let mut replace = now(sink.begin_replace(SCOPE)).expect("the queue is open");
        for object in list {
            replace.put(object).expect("the object has a name");
        }
        now(replace.commit("10")).expect("the queue is open");
        process(&fifo, &store);
    };
    relist(list());
    assert_eq!(store.len(), OBJECTS);

    let unchanged = list();
    let (blocks, bytes) = count(|| relist(unchanged));
    println!("a relist of {OBJECTS} unchanged objects: {blocks} allocations, {bytes} bytes");
    assert!(blocks < 32 && bytes < 64 << 10, "{blocks} allocations, {bytes} bytes");

    const EVENTS: usize = 1000;
    let frames =
        (0..=EVENTS).map(|at| pods::watch_frame("MODIFIED", &pods::whole_pod(at * 90, 20 + at as u64)));
    let mut frames = frames.map(bytes::Bytes::from).collect::<Vec<_>>().into_iter();
    let objects = ObjectReader::new(Projection::default(), Limits::default());
    let mut watch = WatchDecoder::new(Encoding::Protobuf, objects);
    let mut event = |frame: bytes::Bytes| {
        watch.push(frame);
        let Some(Ok(WatchEvent::Modified(object))) = watch.next_event() else {
            panic!("expected a changed pod")
        };
        now(sink.update(SCOPE, object)).expect("the queue is open");
        process(&fifo, &store);
    };
    // The first event grows the buffers.
    event(frames.next().expect("there is a first frame"));
    let (blocks, bytes) = count(|| frames.for_each(event));
    let each = blocks as f64 / EVENTS as f64;
    println!("a watch event of 3.3 KB: {each:.2} allocations, {} bytes", bytes / EVENTS as u64);
    assert!(each < event_max, "{each} allocations per event");
    assert_eq!(store.len(), OBJECTS);
}

#[test]
fn buffers_for_large_index_values_are_freed_after_a_write() {
    let _guard = exclusive();
    let _profiler = dhat::Profiler::builder().testing().build();
    let store = indexed_store(Memory::Uncompressed);
    let mut reader = ObjectReader::new(Projection::default(), Limits::default());
    let mut large = |at: usize| {
        let meta = format!(r#"{{"namespace":"web","name":"pod-{at}","resourceVersion":"{}"}}"#, at + 1);
        let node = at.to_string().repeat(100_000);
        let pod =
            format!(r#"{{"apiVersion":"v1","kind":"Pod","metadata":{meta},"spec":{{"nodeName":"{node}"}}}}"#);
        let pod = reader.read(pod.as_bytes(), Encoding::Json, None).expect("it is a pod");
        StoredObject::new(SCOPE, pod).expect("it has a name")
    };
    let objects = (0..100).map(&mut large).collect::<Vec<_>>();
    store.apply(&objects.iter().cloned().map(Delta::Updated).collect::<Vec<_>>());
    assert_eq!(store.by_index("node", &"7".repeat(100_000)).map(|found| found.len()), Ok(1));
    store.apply(&objects.iter().cloned().map(Delta::Deleted).collect::<Vec<_>>());
    drop(objects);
    assert!(store.is_empty());
    let held = dhat::HeapStats::get().curr_bytes;
    println!("an empty store that had large values: {held} bytes");
    assert!(held < 512 << 10, "{held} bytes");
}

#[test]
fn later_reads_evict_dropped_values() {
    const PODS: usize = 4000;
    let _guard = exclusive();
    let source = ScriptedSource::new("v1", "Pod");
    for at in 0..PODS {
        source.put(json!({"metadata": {"namespace": "web", "name": format!("pod-{at}")}}));
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let pods = Informer::<Pod>::from_source(Arc::new(source)).hot_values_max(10).start();
        let pods = pods.expect("valid settings");
        pods.synced().await.expect("it is synced");
        let _profiler = dhat::Profiler::builder().testing().build();
        let held = || dhat::HeapStats::get().curr_bytes;
        let lister = pods.lister();
        let read = |at: usize| {
            let pod = lister.get(&Key::new("web", &format!("pod-{at}"))).expect("it is there");
            pod.decode().expect("it is a pod")
        };
        let all = lister.view().decode_parallel(1);
        let most = held();
        assert!(most > PODS * size_of::<Pod>(), "{most} bytes");
        drop(all);
        // Like readers that repeatedly read the same objects.
        (0..4 * PODS).for_each(|at| drop(read(at % 7)));
        let left = held();
        println!(
            "{PODS} pods decoded: {most} bytes; after they are dropped and others are read: {left} bytes"
        );
        assert!(left < most / 50, "{left} of {most} bytes");

        // The same when each object is decoded again.
        for at in 0..PODS {
            drop(read(at));
        }
        let left = held();
        assert!(left < most / 10, "{left} of {most} bytes");
    });
}

#[test]
fn interrupted_lists_leak_no_memory() {
    const ROUNDS: usize = 40;
    const PODS: usize = 200;
    let _guard = exclusive();
    let store = indexed_store(Packing::eager().into());
    let mut reader = ObjectReader::new(Projection::default(), Limits::default());
    let mut stage_and_drop = |round: usize| {
        let mut replacement = store.begin_replace(SCOPE);
        for at in 0..PODS {
            // Like the pods of jobs: no two have the same labels, and each attempt has different ones.
            let labels = json!({"job": format!("job-{round}-{at}-{}", "x".repeat(200))});
            let meta = json!({"namespace": "web", "name": format!("pod-{at}"), "labels": labels});
            let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": meta}).to_string();
            replacement
                .put(reader.read(pod.as_bytes(), Encoding::Json, None).expect("a pod"))
                .expect("a name");
        }
    };
    stage_and_drop(0);
    let _profiler = dhat::Profiler::builder().testing().build();
    (1..=ROUNDS).for_each(&mut stage_and_drop);
    let held = dhat::HeapStats::get().curr_bytes;
    println!("{ROUNDS} broken lists of {PODS} pods: {held} bytes are held");
    assert!(held < 8 * PODS * 300, "{held} bytes");
}

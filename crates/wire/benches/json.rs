//! Speed and allocations of copying, searching and walking JSON.
//!
//! The input is 256 pods of about 5.2 KB, two fifths of it managedFields. All pods differ: with a single text, the
//! branch predictor would learn it within a few rounds, and the figures would be better than for any real stream.
//!
//! `cargo bench -p kube-wire --features internals --bench json`

use bytes::Bytes;
use divan::counter::BytesCount;
use divan::{AllocProfiler, Bencher, black_box};
use kube_wire::{Encoding, Limits, ListDecoder, ObjectReader, Projection, WatchDecoder, internals};

#[global_allocator]
static ALLOC: AllocProfiler = AllocProfiler::system();

const POD: &str = include_str!("pod.json");

fn main() {
    divan::main();
}

/// The work per object on arrival: drop managedFields, find the head.
#[divan::bench]
fn copy_and_head(bencher: Bencher<'_, '_>) {
    let projection = Projection::default();
    let mut out = Vec::with_capacity(2 * POD.len());
    each(bencher, &pods(), |pod| {
        out.clear();
        internals::copy_and_head(pod, &projection, &mut out)
    });
}

#[divan::bench]
fn copy(bencher: Bencher<'_, '_>) {
    let projection = Projection::default();
    let mut out = Vec::with_capacity(2 * POD.len());
    each(bencher, &pods(), |pod| {
        out.clear();
        internals::copy(pod, &projection, &mut out)
    });
}

#[divan::bench]
fn copy_indented(bencher: Bencher<'_, '_>) {
    let indented: Vec<String> = pods()
        .iter()
        .map(|pod| {
            let value: serde_json::Value = serde_json::from_str(pod).expect("a pod is JSON");
            serde_json::to_string_pretty(&value).expect("a value can be written")
        })
        .collect();
    let projection = Projection::default();
    let mut out = Vec::with_capacity(4 * POD.len());
    each(bencher, &indented, |pod| {
        out.clear();
        internals::copy(pod, &projection, &mut out)
    });
}

/// A list of all pods, as from a socket: framing, copying, heads.
#[divan::bench]
fn list_of_256(bencher: Bencher<'_, '_>) {
    let body =
        format!(r#"{{"kind":"PodList","apiVersion":"v1","metadata":{{}},"items":[{}]}}"#, pods().join(","));
    let chunks = chunks(&body);
    bencher.counter(BytesCount::of_str(&body)).bench_local(|| {
        let mut list = ListDecoder::new(Encoding::Json, reader());
        let mut count = 0;
        for chunk in &chunks {
            list.push(chunk.clone());
            while let Some(item) = list.next_item() {
                black_box(item.expect("a pod"));
                count += 1;
            }
        }
        assert_eq!(count, 256);
        list.finish()
    });
}

/// All pods as the events of a watch.
#[divan::bench]
fn watch_of_256(bencher: Bencher<'_, '_>) {
    let body: String =
        pods().iter().map(|pod| format!(r#"{{"type":"ADDED","object":{pod}}}"#) + "\n").collect();
    let chunks = chunks(&body);
    bencher.counter(BytesCount::of_str(&body)).bench_local(|| {
        let mut watch = WatchDecoder::new(Encoding::Json, reader());
        let mut count = 0;
        for chunk in &chunks {
            watch.push(chunk.clone());
            while let Some(event) = watch.next_event() {
                black_box(event.expect("an event"));
                count += 1;
            }
        }
        assert_eq!(count, 256);
        watch.finish()
    });
}

/// Finds the end of the value.
#[divan::bench]
fn finder(bencher: Bencher<'_, '_>) {
    each(bencher, &pods(), internals::find_end);
}

/// Every member and element at every level.
#[divan::bench]
fn walk(bencher: Bencher<'_, '_>) {
    each(bencher, &pods(), internals::walk);
}

fn reader() -> ObjectReader {
    ObjectReader::new(Projection::default(), Limits::default())
}

/// The body in chunks like hyper's.
fn chunks(body: &str) -> Vec<Bytes> {
    body.as_bytes().chunks(16 << 10).map(Bytes::copy_from_slice).collect()
}

/// One round over all texts.
fn each<T>(bencher: Bencher<'_, '_>, texts: &[String], mut run: impl FnMut(&[u8]) -> T) {
    let bytes: usize = texts.iter().map(String::len).sum();
    bencher.counter(BytesCount::new(bytes)).bench_local(|| {
        for text in texts {
            black_box(run(black_box(text.as_bytes())));
        }
    });
}

/// Pods that differ in the length of their strings.
fn pods() -> Vec<String> {
    let mut chance = 1u64;
    let pods: Vec<_> = (0..256).map(|_| vary(POD, &mut chance)).collect();
    assert!(pods.iter().all(|pod| serde_json::from_str::<serde_json::Value>(pod).is_ok()));
    pods
}

/// Omits or repeats letters of string values and of managedFields' names (`f:spec`).
fn vary(text: &str, chance: &mut u64) -> String {
    let mut out = String::with_capacity(text.len());
    let (mut in_string, mut may_vary, mut previous) = (false, false, ' ');
    for (at, char) in text.char_indices() {
        if char == '"' && previous != '\\' {
            in_string = !in_string;
            let behind_type = text[..at].ends_with("\"kind\":") || text[..at].ends_with("\"apiVersion\":");
            may_vary = (previous == ':' && !behind_type) || text[at + 1..].starts_with("f:");
        }
        *chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let vary = in_string && may_vary && char.is_ascii_lowercase() && previous != '\\';
        match *chance >> 60 {
            0 if vary => {}
            1 if vary => out.extend([char, char]),
            _ => out.push(char),
        }
        previous = char;
    }
    out
}

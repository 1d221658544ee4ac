//! Decoding allocates only what the value keeps. A single test, because the counter is per process.
#![allow(clippy::unwrap_used, reason = "a panic fails the test, also in helper functions")]

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Pod, PodSpec};
use kube_wire::internals::de::{Deserializer, from_slice};
use kube_wire::internals::proto::Writer;
use kube_wire::internals::ser;
use kube_wire::schema::{Message, Schema};
use serde::Deserialize;
use serde_json::Value;

#[global_allocator]
static ALLOCATOR: dhat::Alloc = dhat::Alloc;

#[derive(Deserialize)]
struct Borrowed<'a> {
    #[serde(borrow)]
    metadata: Metadata<'a>,
    status: Status<'a>,
}

#[derive(Deserialize)]
struct Metadata<'a> {
    name: &'a str,
    namespace: &'a str,
}

#[derive(Deserialize)]
struct Status<'a> {
    phase: &'a str,
}

#[test]
fn decoding_allocates_only_what_the_value_keeps() {
    let mut value: Value = serde_json::from_str(include_str!("../benches/pod.json")).unwrap();
    let bytes = ser::to_vec(&value, message("v1", "Pod")).unwrap();
    value["metadata"].as_object_mut().unwrap().remove("managedFields");
    let kept = ser::to_vec(&value, message("v1", "Pod")).unwrap();
    let profiler = dhat::Profiler::builder().testing().build();

    // Nothing for skipped and borrowed fields.
    let (borrowed, blocks, _) =
        counted(|| Borrowed::deserialize(Deserializer::new(&bytes, message("v1", "Pod"))).unwrap());
    assert_eq!(blocks, 0);
    assert_eq!((borrowed.metadata.namespace, borrowed.status.phase), ("shop", "Running"));
    assert!(borrowed.metadata.name.starts_with("web"));

    // As much as a clone for kept fields. (With apiVersion and kind, k8s-openapi allocates strings to compare them.)
    let (pod, blocks, total) = counted(|| from_slice::<Pod>(&kept, message("v1", "Pod")).unwrap());
    let (_copy, copy_blocks, copy_total) = counted(|| pod.clone());
    assert_eq!((blocks, total), (copy_blocks, copy_total));

    // Proportional to hostile input: a hundred thousand empty containers, two bytes each.
    let mut hostile = Vec::new();
    for _ in 0..100_000 {
        Writer::new(&mut hostile).bytes_field(2, &[]);
    }
    let spec = Schema::builtin().message("k8s.io.api.core.v1.PodSpec").unwrap();
    let (spec_value, _, total) = counted(|| from_slice::<PodSpec>(&hostile, spec).unwrap());
    let exact = 100_000 * size_of_val(&spec_value.containers[0]) as u64;
    assert!(total <= 3 * exact, "{total} bytes were allocated for {exact}");
    drop(spec_value);

    // A false length allocates nothing.
    let lying = [0x12, 0xff, 0xff, 0xff, 0xff, 0x07];
    let (error, _, total) = counted(|| from_slice::<PodSpec>(&lying, spec).unwrap_err());
    assert!(total < 200, "{total} bytes for {error}");

    // Values in a user-defined map are borrowed as well.
    #[derive(Deserialize)]
    struct Labels<'a> {
        #[serde(borrow)]
        labels: BTreeMap<&'a str, &'a str>,
    }
    let meta = Schema::builtin().message("k8s.io.apimachinery.pkg.apis.meta.v1.ObjectMeta").unwrap();
    let bytes = ser::to_vec(&value["metadata"], meta).unwrap();
    let (labels, blocks, _) = counted(|| Labels::deserialize(Deserializer::new(&bytes, meta)).unwrap());
    assert_eq!((labels.labels["app"], blocks), ("web", 1));
    drop(profiler);

    for split in [false, true] {
        put_in_order(split);
    }
}

/// Sorting a deep message takes memory proportional to the message, not to its depth, whether each level is whole or
/// split into two fields that are merged.
fn put_in_order(split: bool) {
    const LEAF: usize = 1 << 20;
    let schema = Schema::builtin()
        .message("k8s.io.apiextensions_apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps")
        .unwrap();
    let [not, description, title] =
        ["not", "description", "title"].map(|name| schema.field_named(name).unwrap().number);
    let mut bytes = Vec::new();
    let mut writer = Writer::new(&mut bytes);
    writer.bytes_field(title.max(description), &[b'x'; LEAF]);
    writer.bytes_field(title.min(description), b"out of order");
    for _ in 0..100 {
        let mut outer = Vec::new();
        let mut writer = Writer::new(&mut outer);
        if split {
            let mut part = Vec::new();
            Writer::new(&mut part).bytes_field(title, b"t");
            writer.bytes_field(not, &part);
        }
        writer.bytes_field(not, &bytes);
        bytes = outer;
    }
    let _profiler = dhat::Profiler::builder().testing().build();
    #[derive(Deserialize)]
    struct Props {
        not: Option<Box<Self>>,
        #[serde(default)]
        title: String,
        #[serde(default)]
        description: String,
    }
    // Without optimization, a hundred levels need more stack than a test thread has.
    let read = std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(16 << 20);
        thread.spawn_scoped(scope, || from_slice::<Props>(&bytes, schema).unwrap()).unwrap().join().unwrap()
    });
    let leaf = std::iter::successors(Some(&read), |level| level.not.as_deref()).last().unwrap();
    assert_eq!(leaf.title.len() + leaf.description.len(), LEAF + "out of order".len());
    let peak = dhat::HeapStats::get().max_bytes;
    assert!(peak < 10 * LEAF, "{peak} bytes were held for {LEAF}, split: {split}");
}

/// The result, and the number of blocks and bytes allocated.
fn counted<T>(work: impl FnOnce() -> T) -> (T, u64, u64) {
    let before = dhat::HeapStats::get();
    let result = work();
    let after = dhat::HeapStats::get();
    (result, after.total_blocks - before.total_blocks, after.total_bytes - before.total_bytes)
}

fn message(api_version: &str, kind: &str) -> &'static Message {
    Schema::builtin().kind(api_version, kind).unwrap_or_else(|| panic!("{api_version} {kind}"))
}

//! One field of a pod with two containers, read from the bytes of both encodings; and the pod copied without its
//! managedFields. Times and allocations are per pod.
//!
//! The 256 pods differ in the lengths of their names, so that the branch predictor cannot learn one text.
//!
//! `cargo bench -p kube-wire --features internals --bench paths`

use std::cell::Cell;

use divan::counter::BytesCount;
use divan::{AllocProfiler, Bencher, black_box};
use kube_wire::internals::ProtobufPlan;
use kube_wire::internals::ser;
use kube_wire::path::PathReader;
use kube_wire::schema::Schema;
use kube_wire::{Encoding, Limits, ObjectReader, Projection, RawObject, TypeMeta};
use serde_json::Value;

#[global_allocator]
static ALLOC: AllocProfiler = AllocProfiler::system();

const POD: &str = include_str!("pod.json");
const ENCODINGS: [Encoding; 2] = [Encoding::Protobuf, Encoding::Json];

#[expect(clippy::print_stdout, reason = "a benchmark reports")]
fn main() {
    for encoding in ENCODINGS {
        let (whole, kept) = (&bodies(encoding)[0], &objects(encoding)[0]);
        println!("{encoding}: {} bytes, {} without managedFields", whole.len(), kept.bytes().len());
    }
    divan::main();
}

#[divan::bench(args = ENCODINGS, sample_size = 256)]
fn node_name(bencher: Bencher<'_, '_>, encoding: &Encoding) {
    first(bencher, "spec.nodeName", *encoding);
}

#[divan::bench(args = ENCODINGS, sample_size = 256)]
fn label(bencher: Bencher<'_, '_>, encoding: &Encoding) {
    first(bencher, "metadata.labels['app']", *encoding);
}

#[divan::bench(args = ENCODINGS, sample_size = 256)]
fn images(bencher: Bencher<'_, '_>, encoding: &Encoding) {
    let reader = reader("spec.containers[*].image");
    each(bencher, &objects(*encoding), |object| {
        let mut bytes = 0;
        reader
            .for_each(object.head(), |value| bytes += value.text().map_or(0, |text| text.len()))
            .expect("a pod is sound");
        bytes
    });
}

#[divan::bench(args = ENCODINGS, sample_size = 256)]
fn ready(bencher: Bencher<'_, '_>, encoding: &Encoding) {
    first(bencher, "status.conditions[?type=Ready].status", *encoding);
}

/// The work per object on arrival: drop managedFields, find the head, one allocation for the kept bytes.
#[divan::bench(args = ENCODINGS, sample_size = 256)]
fn arrive(bencher: Bencher<'_, '_>, encoding: &Encoding) {
    let (bodies, type_meta) = (bodies(*encoding), type_meta());
    let mut reader = ObjectReader::new(Projection::default(), Limits::DEFAULT);
    let bytes = bodies.iter().map(Vec::len).sum::<usize>() / bodies.len();
    each(bencher.counter(BytesCount::new(bytes)), &bodies, move |body| {
        reader.read(body, *encoding, Some(&type_meta)).expect("a pod is sound")
    });
}

/// Like `arrive` without the allocation, protobuf only; the benchmark `json` covers JSON.
#[divan::bench(sample_size = 256)]
fn copy_and_head(bencher: Bencher<'_, '_>) {
    let plan = ProtobufPlan::new(&Projection::default(), Schema::builtin().kind("v1", "Pod"));
    let mut out = Vec::with_capacity(2 * POD.len());
    each(bencher, &bodies(Encoding::Protobuf), |body| {
        out.clear();
        plan.copy_and_head(body, &mut out).expect("a pod is sound")
    });
}

#[divan::bench(sample_size = 256)]
fn copy(bencher: Bencher<'_, '_>) {
    let plan = ProtobufPlan::new(&Projection::default(), Schema::builtin().kind("v1", "Pod"));
    let mut out = Vec::with_capacity(2 * POD.len());
    each(bencher, &bodies(Encoding::Protobuf), |body| {
        out.clear();
        plan.copy(body, &mut out).expect("a pod is sound");
        out.len()
    });
}

fn first(bencher: Bencher<'_, '_>, path: &str, encoding: Encoding) {
    let (reader, objects) = (reader(path), objects(encoding));
    let found = reader.first(objects[0].head()).expect("a pod is sound");
    assert!(found.is_some_and(|value| value.text().is_some()), "{path}");
    each(bencher, &objects, |object| {
        reader
            .first(object.head())
            .expect("a pod is sound")
            .and_then(|value| value.text())
            .map(|text| text.len())
    });
}

/// One item after the other.
fn each<I, T>(bencher: Bencher<'_, '_>, items: &[I], mut run: impl FnMut(&I) -> T) {
    let next = Cell::new(0);
    bencher.bench_local(|| {
        next.set((next.get() + 1) % items.len());
        run(black_box(&items[next.get()]))
    });
}

fn reader(path: &str) -> PathReader {
    PathReader::new(&path.parse().expect("a path"), &type_meta()).expect("pods have it")
}

fn type_meta() -> TypeMeta {
    TypeMeta::new("v1", "Pod")
}

fn objects(encoding: Encoding) -> Vec<RawObject> {
    let mut reader = ObjectReader::new(Projection::default(), Limits::DEFAULT);
    let read = |body: &Vec<u8>| reader.read(body, encoding, Some(&type_meta())).expect("a pod is sound");
    bodies(encoding).iter().map(read).collect()
}

/// The bodies that a server sends.
fn bodies(encoding: Encoding) -> Vec<Vec<u8>> {
    let pod = Schema::builtin().kind("v1", "Pod").expect("pods are built in");
    let mut chance = 1u64;
    (0..256)
        .map(|_| {
            let mut value: Value = serde_json::from_str(POD).expect("the pod is JSON");
            vary(&mut value, &mut chance);
            match encoding {
                Encoding::Json => value.to_string().into_bytes(),
                Encoding::Protobuf => ser::to_vec(&value, pod).expect("it is a pod"),
            }
        })
        .collect()
}

/// Makes names a little longer. (Other strings may be times or quantities.)
fn vary(value: &mut Value, chance: &mut u64) {
    match value {
        Value::Object(members) => {
            for (name, value) in members {
                *chance =
                    chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                match value {
                    Value::String(text)
                        if name.to_lowercase().ends_with("name") || name == "image" || name == "app" =>
                    {
                        text.push_str(&"-abcdefg"[..(*chance >> 61) as usize]);
                    }
                    value => vary(value, chance),
                }
            }
        }
        Value::Array(elements) => elements.iter_mut().for_each(|element| vary(element, chance)),
        _ => {}
    }
}

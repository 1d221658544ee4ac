//! Protobuf decoding and encoding of user-facing values, compared with serde_json and prost on the same pod: two
//! containers, with status and managedFields as in a cluster. With managedFields, it is what a server sends; without,
//! what an informer stores.
#![allow(clippy::print_stdout, reason = "a benchmark tells by printing")]

use divan::Bencher;
use divan::counter::BytesCount;
use k8s_openapi::api::core::v1::Pod;
use kube_core::{DynamicObject, PartialObjectMeta};
use kube_wire::internals::de::Deserializer;
use kube_wire::internals::ser;
use kube_wire::schema::{Message, Schema};
use prost::Message as _;
use serde::Deserialize;
use serde_json::Value;

const POD: &str = include_str!("pod.json");

fn main() {
    for managed_fields in [true, false] {
        let pod = Sample::new(managed_fields);
        println!(
            "managedFields {managed_fields}: {} bytes in protobuf, {} in JSON",
            pod.protobuf.len(),
            pod.json.len()
        );
    }
    divan::main();
}

/// The pod in both encodings.
struct Sample {
    protobuf: Vec<u8>,
    json: Vec<u8>,
    value: Value,
}

impl Sample {
    fn new(managed_fields: bool) -> Self {
        let mut value: Value = serde_json::from_str(POD).expect("the pod is JSON");
        if !managed_fields {
            let metadata = value["metadata"].as_object_mut().expect("a pod has metadata");
            metadata.remove("managedFields");
        }
        Self {
            protobuf: ser::to_vec(&value, message()).expect("it is a pod"),
            json: value.to_string().into_bytes(),
            value,
        }
    }

    fn deserializer(&self) -> Deserializer<'_> {
        Deserializer::new(&self.protobuf, message()).type_meta("v1", "Pod")
    }

    fn pod(&self) -> Pod {
        Pod::deserialize(self.deserializer()).expect("it is a pod")
    }
}

fn message() -> &'static Message {
    Schema::builtin().kind("v1", "Pod").expect("pods are built in")
}

/// The argument `true` includes managedFields.
const BOTH: [bool; 2] = [true, false];

#[divan::bench_group(name = "decode")]
mod decode {
    use super::*;

    #[divan::bench(args = BOTH)]
    fn typed_from_protobuf(bencher: Bencher<'_, '_>, managed_fields: bool) {
        let pod = Sample::new(managed_fields);
        bencher.counter(BytesCount::of_slice(&pod.protobuf)).bench_local(|| pod.pod());
    }

    /// The cost of the typed value without reading: the lower bound of `typed_from_protobuf`.
    #[divan::bench(args = BOTH)]
    fn typed_clone(bencher: Bencher<'_, '_>, managed_fields: bool) {
        let pod = Sample::new(managed_fields).pod();
        bencher.bench_local(|| pod.clone());
    }

    #[divan::bench(args = BOTH)]
    fn typed_from_json(bencher: Bencher<'_, '_>, managed_fields: bool) {
        let pod = Sample::new(managed_fields);
        bencher
            .counter(BytesCount::of_slice(&pod.json))
            .bench_local(|| serde_json::from_slice::<Pod>(&pod.json).expect("it is a pod"));
    }

    #[divan::bench(args = BOTH)]
    fn prost(bencher: Bencher<'_, '_>, managed_fields: bool) {
        let pod = Sample::new(managed_fields);
        bencher
            .counter(BytesCount::of_slice(&pod.protobuf))
            .bench_local(|| k8s_pb::api::core::v1::Pod::decode(&*pod.protobuf).expect("it is a pod"));
    }

    #[divan::bench(args = BOTH)]
    fn dynamic_from_protobuf(bencher: Bencher<'_, '_>, managed_fields: bool) {
        let pod = Sample::new(managed_fields);
        bencher
            .counter(BytesCount::of_slice(&pod.protobuf))
            .bench_local(|| DynamicObject::deserialize(pod.deserializer()).expect("it is an object"));
    }

    #[divan::bench(args = BOTH)]
    fn dynamic_from_json(bencher: Bencher<'_, '_>, managed_fields: bool) {
        let pod = Sample::new(managed_fields);
        bencher
            .counter(BytesCount::of_slice(&pod.json))
            .bench_local(|| serde_json::from_slice::<DynamicObject>(&pod.json).expect("it is an object"));
    }

    #[divan::bench(args = BOTH)]
    fn value_from_protobuf(bencher: Bencher<'_, '_>, managed_fields: bool) {
        let pod = Sample::new(managed_fields);
        bencher
            .counter(BytesCount::of_slice(&pod.protobuf))
            .bench_local(|| Value::deserialize(pod.deserializer()).expect("it is a value"));
    }

    #[divan::bench(args = BOTH)]
    fn value_from_json(bencher: Bencher<'_, '_>, managed_fields: bool) {
        let pod = Sample::new(managed_fields);
        bencher
            .counter(BytesCount::of_slice(&pod.json))
            .bench_local(|| serde_json::from_slice::<Value>(&pod.json).expect("it is a value"));
    }

    #[divan::bench]
    fn partial_object_metadata_from_protobuf(bencher: Bencher<'_, '_>) {
        let pod = Sample::new(false);
        bencher.bench_local(|| {
            PartialObjectMeta::<Pod>::deserialize(pod.deserializer()).expect("it has metadata")
        });
    }
}

#[divan::bench_group(name = "encode")]
mod encode {
    use super::*;

    #[divan::bench(args = BOTH)]
    fn typed_to_protobuf(bencher: Bencher<'_, '_>, managed_fields: bool) {
        let pod = Sample::new(managed_fields).pod();
        bencher.bench_local(|| ser::to_vec(&pod, message()).expect("it is a pod"));
    }

    #[divan::bench(args = BOTH)]
    fn typed_to_json(bencher: Bencher<'_, '_>, managed_fields: bool) {
        let pod = Sample::new(managed_fields).pod();
        bencher.bench_local(|| serde_json::to_vec(&pod).expect("it is a pod"));
    }

    #[divan::bench(args = BOTH)]
    fn prost(bencher: Bencher<'_, '_>, managed_fields: bool) {
        let pod = Sample::new(managed_fields);
        let pod = k8s_pb::api::core::v1::Pod::decode(&*pod.protobuf).expect("it is a pod");
        bencher.bench_local(|| pod.encode_to_vec());
    }

    #[divan::bench(args = BOTH)]
    fn value_to_protobuf(bencher: Bencher<'_, '_>, managed_fields: bool) {
        let pod = Sample::new(managed_fields).value;
        bencher.bench_local(|| ser::to_vec(&pod, message()).expect("it is a pod"));
    }
}

//! Reads from the store: one object, the objects of a node, all objects. As handles, which suffice for keys, labels,
//! owners and versions, and as typed values, which are decoded at the first read.

use std::hint::black_box;

use k8s_openapi::api::core::v1::Pod;
use kube_informer::{Index, Key, Lister};

use crate::Outcome;
use crate::measure::{nanoseconds, report};

/// The number of nodes with pods.
const NODES: usize = 500;
/// The number of values that are read repeatedly: fewer than an informer caches by default.
const HOT: usize = 50;

pub(crate) fn run(pods: &Lister<Pod>, by_node: &Index) -> Outcome {
    let mut keys: Vec<Key> = pods.list().iter().map(|pod| pod.key()).collect();
    keys.sort();
    // Spread over the store, like the keys of a work queue.
    let spread: Vec<&Key> = (0..keys.len()).map(|n| &keys[n * 7_919 % keys.len()]).collect();
    let value = |key: &Key| pods.get(key).and_then(|pod| pod.decode().ok());

    let get = nanoseconds(5, spread.len(), || spread.iter().for_each(|key| drop(black_box(pods.get(key)))));
    report("get", get, "ns");
    let cold = nanoseconds(1, spread.len(), || spread.iter().for_each(|key| drop(black_box(value(key)))));
    report("get and decode, cold", cold, "ns");
    let some = &spread[..HOT.min(spread.len())];
    let hot = nanoseconds(200, some.len(), || some.iter().for_each(|key| drop(black_box(value(key)))));
    report("get and decode, hot", hot, "ns");

    let nodes: Vec<String> = (0..NODES).map(|node| format!("node-{node}")).collect();
    let on_node = |node: &String| pods.by_index(by_node, node).map_or(0, |found| found.len());
    let found: usize = nodes.iter().map(on_node).sum();
    report("objects per node", found as f64 / NODES as f64, "objects");
    let by_index = nanoseconds(5, NODES, || {
        black_box(nodes.iter().map(on_node).sum::<usize>());
    });
    report("by index", by_index, "ns");

    let list = nanoseconds(5, keys.len(), || drop(black_box(pods.list())));
    report("list per object", list, "ns");
    let values = || pods.list().iter().filter_map(|pod| pod.decode().ok()).count();
    let valued = nanoseconds(2, keys.len(), || {
        black_box(values());
    });
    report("list and decode per object", valued, "ns");
    Ok(())
}

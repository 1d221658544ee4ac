//! The same reads as `peers/ours/src/reads.rs`. kube-rs has no indexes, so a lookup by node scans all objects.

use std::hint::black_box;

use k8s_openapi::api::core::v1::Pod;
use kube::runtime::reflector::{ObjectRef, Store};

use crate::measure::{nanoseconds, report};

/// The number of nodes to look up. Each lookup scans all objects.
const LOOKED_FOR: usize = 10;

pub fn run(store: &Store<Pod>) {
    let mut keys: Vec<ObjectRef<Pod>> = store.state().iter().map(|pod| ObjectRef::from_obj(&**pod)).collect();
    keys.sort_by_key(|key| (key.namespace.clone(), key.name.clone()));
    let spread: Vec<_> = (0..keys.len()).map(|n| &keys[n * 7_919 % keys.len()]).collect();
    let get = nanoseconds(5, spread.len(), || spread.iter().for_each(|key| drop(black_box(store.get(key)))));
    for figure in ["get", "get and decode, cold", "get and decode, hot"] {
        report(figure, get, "ns");
    }
    let on_node = |node: &String| {
        let named = |pod: &Pod| pod.spec.as_ref().and_then(|spec| spec.node_name.as_ref()) == Some(node);
        store.state().into_iter().filter(|pod| named(pod)).collect::<Vec<_>>()
    };
    let nodes: Vec<String> = (0..LOOKED_FOR).map(|node| format!("node-{node}")).collect();
    let found: usize = nodes.iter().map(|node| on_node(node).len()).sum();
    report("objects per node", found as f64 / LOOKED_FOR as f64, "objects");
    let by_index =
        nanoseconds(2, LOOKED_FOR, || nodes.iter().for_each(|node| drop(black_box(on_node(node)))));
    report("by index", by_index, "ns");
    let list = nanoseconds(5, keys.len(), || drop(black_box(store.state())));
    report("list per object", list, "ns");
    report("list and decode per object", list, "ns");
}

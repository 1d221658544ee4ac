//! Memory of a million delayed keys: `cargo bench -p kube-workqueue --bench memory`. It is a separate program, because counting
//! allocations slows them down. The keys themselves are allocated before and not counted.

#![allow(clippy::print_stdout, reason = "printing figures is what it is for")]

use std::{sync::Arc, time::Duration};

use kube_workqueue::WorkQueue;

#[global_allocator]
static ALLOCATOR: dhat::Alloc = dhat::Alloc;

const KEYS: u64 = 1_000_000;

fn main() {
    let figure = "memory per pending item";
    let wanted = std::env::args().skip(1).find(|argument| !argument.starts_with("--"));
    if wanted.is_some_and(|wanted| !figure.contains(&wanted)) {
        return;
    }
    let keys: Vec<Arc<str>> = (0..KEYS).map(|number| format!("namespace/name-{number}").into()).collect();
    let queue = WorkQueue::new();
    let _profiler = dhat::Profiler::builder().testing().build();
    for (key, number) in keys.iter().zip(0..) {
        queue.add_after(key.clone(), Duration::from_secs(600 + number)).expect("the queue is not full");
    }
    let bytes = dhat::HeapStats::get().curr_bytes as f64;
    println!("{figure}\t{:.0}\tbytes", bytes / KEYS as f64);
}

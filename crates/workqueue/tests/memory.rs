//! The memory of a delayed key, which is half of client-go's. A separate program, because it counts every allocation.
#![allow(clippy::unwrap_used, reason = "functions that only tests call")]

use std::{sync::Arc, time::Duration};

use kube_workqueue::WorkQueue;

#[global_allocator]
static ALLOCATOR: dhat::Alloc = dhat::Alloc;

#[test]
fn a_pending_delayed_key_costs_at_most_62_bytes() {
    const KEYS: u64 = 1_000_000;
    let key: Vec<Arc<str>> = (0..KEYS).map(|number| number.to_string().into()).collect();
    let queue = WorkQueue::new();
    let _profiler = dhat::Profiler::builder().testing().build();
    for (key, number) in key.iter().zip(0..) {
        queue.add_after(key.clone(), Duration::from_secs(600 + number % 1000)).unwrap();
    }
    let bytes = dhat::HeapStats::get().curr_bytes as u64;
    assert!(bytes <= 62 * KEYS, "{} bytes per key", bytes / KEYS);
}

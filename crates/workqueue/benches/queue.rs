//! Keys per second through the queue: `cargo bench -p kube-workqueue --bench queue`. `cargo xtask bench-queue` compares them with
//! client-go.
//!
//! Every line is `figure <tab> value <tab> unit`. The program in `peers/client-go` prints the same figures. With a word as an
//! argument, both measure only the figures whose names contain it.

#![allow(clippy::print_stdout, reason = "printing figures is what it is for")]

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use kube_workqueue::WorkQueue;
use tokio::{runtime, task::JoinSet};

/// The number of keys of a deep queue.
const MANY: usize = 1_000_000;
/// The number of keys of a shallow queue. A short run is less likely to be disturbed by other programs.
const FEW: usize = 100_000;

fn main() {
    let keys = keys();
    for workers in [1, 2, 8] {
        report(&format!("add+get+done, {workers} workers"), || best(50, || cycle(&keys[..FEW], workers)));
    }
    for workers in [1, 2, 8] {
        report(&format!("one producer, {workers} workers"), || best(50, || fed(&keys[..FEW], workers)));
    }
    for workers in [1, 2, 8] {
        report(&format!("1M queued, {workers} workers"), || best(3, || burst(&keys, workers)));
    }
    report("add_after, up to 1M pending", || best(3, || delayed(&keys).0));
    report("get of 1M due keys", || best(3, || delayed(&keys).1));
}

/// Each worker adds a key, takes the next one and finishes it, in a loop.
fn cycle(keys: &[Arc<str>], workers: usize) -> f64 {
    let runtime = runtime::Builder::new_multi_thread().enable_time().build().expect("a runtime");
    let queue = WorkQueue::new();
    let shares: Vec<Vec<_>> = keys.chunks(keys.len() / workers).map(<[_]>::to_vec).collect();
    let started = Instant::now();
    runtime.block_on(async {
        let mut running = JoinSet::new();
        for share in shares {
            let queue = queue.clone();
            running.spawn(async move {
                for key in share {
                    queue.add(key).expect("the queue is not full");
                    queue.get().await.expect("it is not shut down").done();
                }
            });
        }
        running.join_all().await;
    });
    rate(keys, started)
}

/// One task adds the keys, while the workers take and finish them.
fn fed(keys: &[Arc<str>], workers: usize) -> f64 {
    let runtime = runtime::Builder::new_multi_thread().enable_time().build().expect("a runtime");
    let queue = WorkQueue::new();
    let started = Instant::now();
    runtime.block_on(async {
        let mut running = JoinSet::new();
        for _ in 0..workers {
            let queue = queue.clone();
            running.spawn(async move { while queue.get().await.is_some() {} });
        }
        let keys = keys.to_vec();
        running.spawn(async move {
            for key in keys {
                queue.add(key).expect("the queue is not full");
            }
            queue.shutdown();
        });
        running.join_all().await;
    });
    rate(keys, started)
}

/// All keys are added, then the workers take and finish them: a deep queue.
fn burst(keys: &[Arc<str>], workers: usize) -> f64 {
    let runtime = runtime::Builder::new_multi_thread().enable_time().build().expect("a runtime");
    let queue = WorkQueue::new();
    let started = Instant::now();
    runtime.block_on(async {
        for key in keys {
            queue.add(key.clone()).expect("the queue is not full");
        }
        queue.shutdown();
        let mut running = JoinSet::new();
        for _ in 0..workers {
            let queue = queue.clone();
            running.spawn(async move { while queue.get().await.is_some() {} });
        }
        running.join_all().await;
    });
    rate(keys, started)
}

/// All keys are delayed by up to ten minutes, then the clock is advanced and they are taken.
fn delayed(keys: &[Arc<str>]) -> (f64, f64) {
    let runtime =
        runtime::Builder::new_current_thread().enable_time().start_paused(true).build().expect("a runtime");
    runtime.block_on(async {
        let queue = WorkQueue::new();
        let started = Instant::now();
        for (key, delay) in keys.iter().zip(delays()) {
            queue.add_after(key.clone(), delay).expect("the queue is not full");
        }
        let adding = rate(keys, started);
        tokio::time::advance(Duration::from_secs(660)).await;
        let started = Instant::now();
        for _ in keys {
            queue.get().await.expect("all are due").done();
        }
        (adding, rate(keys, started))
    })
}

fn keys() -> Vec<Arc<str>> {
    (0..MANY).map(|number| format!("namespace-{}/name-{number}", number % 100).into()).collect()
}

/// Delays below ten minutes from a fixed seed (a multiplicative congruential generator).
fn delays() -> impl Iterator<Item = Duration> {
    let mut state = 1u64;
    std::iter::repeat_with(move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        Duration::from_nanos((state >> 11) % 600_000_000_000)
    })
}

/// The best of several runs, which is the least disturbed one.
fn best(runs: usize, run: impl Fn() -> f64) -> f64 {
    (0..runs).map(|_| run()).fold(0.0, f64::max)
}

fn rate(keys: &[Arc<str>], started: Instant) -> f64 {
    keys.len() as f64 / started.elapsed().as_secs_f64()
}

/// Measures and prints a figure, if its name contains the argument of the program.
fn report(figure: &str, rate: impl FnOnce() -> f64) {
    let wanted = std::env::args().skip(1).find(|argument| !argument.starts_with("--"));
    if wanted.is_none_or(|wanted| figure.contains(&wanted)) {
        println!("{figure}\t{:.2}\tM/s", rate() / 1e6);
    }
}

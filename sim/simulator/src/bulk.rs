//! Runs many seeds on all cores.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use parking_lot::Mutex;

use crate::coverage::Coverage;
use crate::plan::Scenario;
use crate::replay;
use crate::run;

/// The number of failures to list.
const FAILURES_SHOWN: usize = 20;

/// The results of many runs.
#[derive(Default)]
pub(crate) struct Found {
    pub(crate) coverage: Coverage,
    /// Seeds and their failures, in ascending order.
    pub(crate) failures: Vec<(u64, String)>,
}

/// Runs seeds, prints their coverage, and shrinks the first failure.
pub(crate) fn run(scenario: Scenario, from: u64, count: u64) -> bool {
    let began = Instant::now();
    let found = run_seeds(scenario, from, count, false);
    let seconds = began.elapsed().as_secs_f64();
    print!("{}", found.coverage);
    for (seed, failure) in found.failures.iter().take(FAILURES_SHOWN) {
        println!("seed {seed}: {failure}");
    }
    if let Some((seed, failure)) = found.failures.first() {
        println!("\nseed {seed}:");
        replay::print_smallest(&scenario.plan(*seed), failure, false);
    }
    let (rate, failed) = (count as f64 / seconds, found.failures.len());
    println!("{count} seeds in {seconds:.1} s, {rate:.0} per second; {failed} failed");
    failed == 0
}

/// Runs all seeds, or stops at the first failure.
pub(crate) fn run_seeds(scenario: Scenario, from: u64, count: u64, until_failure: bool) -> Found {
    let (next, stop) = (AtomicU64::new(from), AtomicBool::new(false));
    let found = Mutex::new(Found::default());
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    let work = || {
        while !stop.load(Ordering::Relaxed) {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= from + count {
                return;
            }
            let recorded = run::run(&scenario.plan(seed), false);
            let mut found = found.lock();
            found.coverage.add(recorded.counts);
            if let Some(failure) = recorded.failure {
                found.failures.push((seed, failure));
                stop.fetch_or(until_failure, Ordering::Relaxed);
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(work);
        }
    });
    let mut found = found.into_inner();
    found.failures.sort();
    found
}

//! Deterministic simulation: informers, a network that fails and a server that misbehaves, in one thread and in virtual
//! time, judged by an oracle at every step.
//!
//! ```text
//! kube-informer-sim --seed 7           replays one run and prints its trace; a failing one is shrunk
//! kube-informer-sim --seeds 10000      runs seeds 0 to 9,999 on all cores, and prints what was covered
//! kube-informer-sim --seeds 100 --from 5000
//! kube-informer-sim --digest 20        prints a digest of each trace, to compare runs of two processes
//! ```

#![allow(clippy::print_stdout, reason = "a program that reports")]

mod client;
mod faults;
mod link;
mod plan;
mod run;
mod shrink;
mod trace;
mod world;

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use parking_lot::Mutex;

use plan::Plan;

const USAGE: &str = "usage: kube-informer-sim --seed N | --seeds N [--from N] | --digest N";

fn main() -> ExitCode {
    // Some handlers panic on purpose.
    std::panic::set_hook(Box::new(|_| {}));
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let number = |text: &str| text.parse::<u64>().ok();
    let passed = match arguments[..] {
        ["--seed", seed] => number(seed).map(replay),
        ["--seeds", count] => number(count).map(|count| bulk(0, count)),
        ["--seeds", count, "--from", from] => {
            number(count).zip(number(from)).map(|(count, from)| bulk(from, count))
        }
        ["--digest", count] => number(count).map(digest),
        _ => None,
    };
    match passed {
        Some(true) => ExitCode::SUCCESS,
        Some(false) => ExitCode::FAILURE,
        None => {
            println!("{USAGE}");
            ExitCode::from(2)
        }
    }
}

/// Runs one seed, with its trace. If it fails, it is shrunk, and the trace of the smallest failing plan is printed.
fn replay(seed: u64) -> bool {
    let plan = Plan::new(seed);
    let recorded = run::run(&plan, true);
    let Some(failure) = recorded.failure else {
        println!("{}", recorded.lines.join("\n"));
        println!(
            "seed {seed} passed: {} steps, {} s of virtual time",
            plan.steps.len(),
            plan.ends().as_secs()
        );
        return true;
    };
    println!("seed {seed} failed: {failure}\nshrinking {} steps …", plan.steps.len());
    let smallest = shrink::shrink(&plan, &failure);
    let recorded = run::run(&smallest, true);
    println!("{}", recorded.lines.join("\n"));
    println!("\nthe smallest plan that fails:");
    for informer in &smallest.informers {
        println!("  {informer:?}");
    }
    println!("  the server keeps {} events", smallest.history_events);
    for step in &smallest.steps {
        println!("{step}");
    }
    println!("{}", recorded.failure.unwrap_or(failure));
    false
}

/// Runs many seeds on all cores.
fn bulk(from: u64, count: u64) -> bool {
    let began = Instant::now();
    let next = AtomicU64::new(from);
    let counts = Mutex::new(BTreeMap::<String, u64>::new());
    let failures = Mutex::new(Vec::new());
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= from + count {
                        return;
                    }
                    let recorded = run::run(&Plan::new(seed), false);
                    let mut counts = counts.lock();
                    for (what, times) in recorded.counts {
                        *counts.entry(what).or_default() += times;
                    }
                    if let Some(failure) = recorded.failure {
                        failures.lock().push((seed, failure));
                    }
                }
            });
        }
    });
    let seconds = began.elapsed().as_secs_f64();
    print_counts(&counts.into_inner());
    let mut failures = failures.into_inner();
    failures.sort();
    for (seed, failure) in failures.iter().take(20) {
        println!("seed {seed}: {failure}");
    }
    println!(
        "{count} seeds in {seconds:.1} s, {:.0} a second; {} failed",
        count as f64 / seconds,
        failures.len()
    );
    failures.is_empty()
}

fn print_counts(counts: &BTreeMap<String, u64>) {
    let pairs = counts.keys().filter(|what| what.starts_with("pair: ")).count();
    for (what, times) in counts.iter().filter(|(what, _)| !what.starts_with("pair: ")) {
        println!("{times:>10}  {what}");
    }
    println!("{pairs:>10}  different pairs of faults");
}

/// Prints what two processes must agree on.
fn digest(count: u64) -> bool {
    for seed in 0..count {
        println!("{seed} {:016x}", run::run(&Plan::new(seed), false).digest);
    }
    true
}

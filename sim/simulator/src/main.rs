//! Deterministic simulation: informers, a network that fails and a server that misbehaves, in one thread and in virtual
//! time, judged by an oracle at every step. `cargo xtask sim` builds and runs it; docs/reliability.md explains it.

#![allow(clippy::print_stdout, reason = "a program that reports")]

mod bugs;
mod bulk;
mod client;
mod coverage;
mod decision;
mod deterministic;
mod faults;
mod link;
mod mirror;
mod plan;
mod replay;
mod replica;
mod run;
mod shrink;
mod trace;
mod world;

use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask sim <what>

  --seed N                   replay one run and print its trace; a failing one is shrunk
  --seeds N [--from N]       run many, on all cores, and print what was covered
  --deterministic N          run N seeds in two processes each, and compare their traces
  --bugs [--seeds N] [NAME]  switch on each deliberate bug, or one, and run up to N seeds (1,000) until it is found";

/// Seeds within which a deliberate bug must be found.
const SEEDS_PER_BUG: u64 = 1000;

fn main() -> ExitCode {
    trace::observe();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let number = |text: &str| text.parse::<u64>().ok();
    let passed = match arguments[..] {
        ["--seed", seed] => number(seed).map(replay::replay),
        ["--seeds", count] => number(count).map(|count| bulk::run(0, count)),
        ["--seeds", count, "--from", from] => {
            number(count).zip(number(from)).map(|(count, from)| bulk::run(from, count))
        }
        ["--deterministic", count] => number(count).map(deterministic::check),
        ["--bugs"] => Some(bugs::find_all(None, SEEDS_PER_BUG)),
        ["--bugs", "--seeds", count] => number(count).map(|count| bugs::find_all(None, count)),
        ["--bugs", "--seeds", count, name] => number(count).map(|count| bugs::find_all(Some(name), count)),
        ["--bugs", name] => Some(bugs::find_all(Some(name), SEEDS_PER_BUG)),
        // The processes that the last two start.
        ["--trace", seed] => number(seed).map(deterministic::print_trace),
        ["--first-failure", count] => number(count).map(bugs::print_first_failure),
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

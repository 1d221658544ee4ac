//! Deterministic simulation of informers, a failing network and a faulty server, in one thread and in virtual time. An
//! oracle checks every step. `cargo xtask sim` builds and runs it; docs/reliability.md explains it.

#![allow(clippy::print_stdout, reason = "the program prints its results")]

mod bugs;
mod bulk;
mod client;
mod coverage;
mod decision;
mod deterministic;
mod faults;
mod link;
mod mirror;
mod ownership;
mod plan;
mod process;
mod replay;
mod replay_event;
mod replica;
mod run;
mod served;
mod share;
mod sharing;
mod sharing_plan;
mod shrink;
mod silence;
mod trace;
mod wall_clock;
mod websites;
mod world;

use std::process::ExitCode;

use crate::plan::Scenario;

const USAGE: &str = "\
usage: cargo xtask sim <mode>

  --seed N                   replay one run and print its trace; a failing run is shrunk first
  --seeds N [--from N]       run N seeds on all cores, and print their coverage
  --deterministic N          run N seeds in two processes each, and compare their traces
  --bugs [--seeds N] [NAME]  enable each deliberate bug, or one, and run up to N seeds (default: 1,000) to find it

`--sharing` before a mode, except `--bugs`, runs replicas that share the work.";

/// The number of seeds within which the oracle must find a deliberate bug.
const SEEDS_PER_BUG: u64 = 1000;

fn main() -> ExitCode {
    trace::observe();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let number = |text: &str| text.parse::<u64>().ok();
    let (scenario, mode) = match arguments.split_first() {
        Some((&"--sharing", mode)) => (Scenario::Sharing, mode),
        _ => (Scenario::Informers, &arguments[..]),
    };
    let passed = match mode {
        ["--seed", seed] => number(seed).map(|seed| replay::replay(scenario, seed)),
        ["--seeds", count] => number(count).map(|count| bulk::run(scenario, 0, count)),
        ["--seeds", count, "--from", from] => {
            number(count).zip(number(from)).map(|(count, from)| bulk::run(scenario, from, count))
        }
        ["--deterministic", count] => number(count).map(|count| deterministic::check(scenario, count)),
        ["--bugs"] => Some(bugs::find_all(None, SEEDS_PER_BUG)),
        ["--bugs", "--seeds", count] => number(count).map(|count| bugs::find_all(None, count)),
        ["--bugs", "--seeds", count, name] => number(count).map(|count| bugs::find_all(Some(name), count)),
        ["--bugs", name] => Some(bugs::find_all(Some(name), SEEDS_PER_BUG)),
        // Modes of the processes that `--deterministic` and `--bugs` start.
        ["--trace", seed] => number(seed).map(|seed| deterministic::print_trace(scenario, seed)),
        ["--first-failure", count] => number(count).map(|count| bugs::print_first_failure(scenario, count)),
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

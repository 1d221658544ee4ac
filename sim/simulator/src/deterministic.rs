//! Checks that a seed determines its run: each seed runs here and in another process, and both traces must be equal.
//!
//! The other process is new for each seed, while this one has run other seeds before. So the comparison detects state
//! that survives a run, and everything that differs between processes, such as the order of a hash map.

use std::io;
use std::process::Command;

use crate::plan::Scenario;
use crate::run::run;

/// Compares the traces of `count` seeds from 0 on, and prints the first line that differs.
pub(crate) fn check(scenario: Scenario, count: u64) -> bool {
    let mut differ = 0;
    for seed in 0..count {
        let (here, there) = (trace(scenario, seed), trace_elsewhere(scenario, seed));
        match there {
            Ok(there) if there == here => {}
            Ok(there) => {
                differ += 1;
                println!("seed {seed} differs:");
                print_difference(&here, &there);
            }
            Err(error) => {
                println!("cannot run seed {seed} in another process: {error}");
                return false;
            }
        }
    }
    println!("{count} seeds in two processes each: {differ} differ");
    differ == 0
}

/// Prints the trace of a seed. The other process calls this.
pub(crate) fn print_trace(scenario: Scenario, seed: u64) -> bool {
    print!("{}", trace(scenario, seed));
    true
}

fn trace(scenario: Scenario, seed: u64) -> String {
    run(&scenario.plan(seed), true).lines.join("\n")
}

fn trace_elsewhere(scenario: Scenario, seed: u64) -> io::Result<String> {
    let mut command = Command::new(std::env::current_exe()?);
    let output = command.args(scenario.argument()).args(["--trace", &seed.to_string()]).output()?;
    String::from_utf8(output.stdout).map_err(io::Error::other)
}

fn print_difference(here: &str, there: &str) {
    let (mut here, mut there) = (here.lines(), there.lines());
    loop {
        match (here.next(), there.next()) {
            (Some(one), Some(other)) if one == other => {}
            (one, other) => {
                println!("  here:  {}\n  there: {}", one.unwrap_or("(end)"), other.unwrap_or("(end)"));
                return;
            }
        }
    }
}

//! Replays one seed. A failing seed is shrunk to the fewest steps that still fail.

use crate::plan::{Plan, Scenario};
use crate::run::run;
use crate::shrink::shrink;

/// Runs one seed and prints its trace. If it fails, prints the trace of the smallest failing plan instead.
pub(crate) fn replay(scenario: Scenario, seed: u64) -> bool {
    let plan = scenario.plan(seed);
    let recorded = run(&plan, true);
    let Some(failure) = recorded.failure else {
        println!("{}", recorded.lines.join("\n"));
        let seconds = plan.ends().as_secs();
        println!("seed {seed} passed: {} steps, {seconds} s of virtual time", plan.steps.len());
        return true;
    };
    println!("seed {seed} failed: {failure}\nshrinking {} steps …", plan.steps.len());
    print_smallest(&plan, &failure, true);
    false
}

/// Shrinks a failing plan and prints the result.
pub(crate) fn print_smallest(plan: &Plan, failure: &str, with_trace: bool) {
    let smallest = shrink(plan, failure);
    let recorded = run(&smallest, true);
    if with_trace {
        println!("{}\n", recorded.lines.join("\n"));
    }
    println!("the smallest failing plan:");
    for informer in &smallest.informers {
        println!("  {informer:?}");
    }
    if let Some(mirror) = &smallest.mirror {
        println!("  {mirror:?}");
    }
    if let Some(websites) = &smallest.websites {
        println!("  {websites:?}");
    }
    for replica in &smallest.replicas {
        println!("  {replica:?}");
    }
    if let Some(sharing) = &smallest.sharing {
        println!("  {sharing:?}");
    }
    println!("  the server keeps {} events, and starts with {:?}", smallest.history_events, smallest.initial);
    for step in &smallest.steps {
        println!("{step}");
    }
    println!("{}", recorded.failure.as_deref().unwrap_or(failure));
    let scenario = plan.scenario().argument().map(|argument| format!("{argument} ")).unwrap_or_default();
    println!("replay with: cargo xtask sim {scenario}--seed {}", plan.seed);
}

//! Finds the fewest steps and clients that still fail.

use crate::plan::Plan;
use crate::run::run;

/// How often a plan is run at most while it is shrunk.
const RUNS_MAX: usize = 3_000;

/// A smaller plan that still fails. Steps are left out in halves, then in quarters, and so on to single ones.
pub(crate) fn shrink(plan: &Plan, failure: &str) -> Plan {
    let mut smallest = plan.clone();
    let mut runs = 0;
    let mut fails = |candidate: &Plan| {
        runs += 1;
        runs <= RUNS_MAX && run(candidate, false).failure.is_some_and(|found| sort(&found) == sort(failure))
    };
    loop {
        let before = (smallest.steps.len(), size(&smallest));
        leave_out_steps(&mut smallest, &mut fails);
        leave_out_clients(&mut smallest, &mut fails);
        if before == (smallest.steps.len(), size(&smallest)) {
            return smallest;
        }
    }
}

/// What is the same in all failures of one sort: the promise that is broken.
fn sort(failure: &str) -> Option<&str> {
    let at = failure.find("promise ")?;
    failure.get(at..at + "promise 10".len())
}

fn size(plan: &Plan) -> usize {
    plan.informers.iter().map(|informer| 1 + informer.listeners.len()).sum()
}

fn leave_out_steps(plan: &mut Plan, fails: &mut impl FnMut(&Plan) -> bool) {
    let mut length = plan.steps.len().div_ceil(2).max(1);
    loop {
        let mut from = 0;
        while from < plan.steps.len() {
            let mut candidate = plan.clone();
            candidate.steps.drain(from..(from + length).min(plan.steps.len()));
            if fails(&candidate) {
                *plan = candidate;
            } else {
                from += length;
            }
        }
        if length == 1 {
            return;
        }
        length = length.div_ceil(2);
    }
}

/// Removes listeners; removing an informer would give the others other numbers, and so other random choices.
fn leave_out_clients(plan: &mut Plan, fails: &mut impl FnMut(&Plan) -> bool) {
    for informer in (0..plan.informers.len()).rev() {
        let mut candidate = plan.clone();
        if informer + 1 == plan.informers.len() && informer > 0 {
            candidate.informers.pop();
            if fails(&candidate) {
                *plan = candidate;
                continue;
            }
        }
        for listener in (0..plan.informers[informer].listeners.len()).rev() {
            let mut candidate = plan.clone();
            candidate.informers[informer].listeners.remove(listener);
            if fails(&candidate) {
                *plan = candidate;
            }
        }
    }
}

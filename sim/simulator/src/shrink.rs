//! Finds the fewest steps and clients that still fail.

use crate::plan::Plan;
use crate::run::run;

/// The maximum number of runs while a plan is shrunk.
const RUNS_MAX: usize = 3_000;

/// Returns a smaller plan that fails in the same way.
pub(crate) fn shrink(plan: &Plan, failure: &str) -> Plan {
    let mut smallest = plan.clone();
    let mut runs = 0;
    let mut fails = |candidate: &Plan| {
        runs += 1;
        runs <= RUNS_MAX && run(candidate, false).failure.is_some_and(|found| sort(&found) == sort(failure))
    };
    loop {
        let before = size(&smallest);
        leave_out(&mut smallest, |plan| &mut plan.steps, &mut fails);
        leave_out(&mut smallest, |plan| &mut plan.initial, &mut fails);
        leave_out_clients(&mut smallest, &mut fails);
        if before == size(&smallest) {
            return smallest;
        }
    }
}

/// The sort of a failure: the number of the broken promise.
fn sort(failure: &str) -> Option<&str> {
    let (_, rest) = failure.split_once("promise ")?;
    rest.split(' ').next()
}

fn size(plan: &Plan) -> usize {
    let clients = plan.informers.iter().map(|informer| 1 + informer.listeners.len());
    let controllers = usize::from(plan.mirror.is_some()) + usize::from(plan.websites.is_some());
    let shares = plan.sharing.as_ref().map_or(0, |sharing| sharing.replicas.len());
    let others = plan.replicas.len() + shares + controllers;
    plan.steps.len() + plan.initial.len() + others + clients.sum::<usize>()
}

/// Removes parts of one of the plan's lists: halves, then quarters, and so on down to single entries.
fn leave_out<T>(
    plan: &mut Plan,
    list: impl Fn(&mut Plan) -> &mut Vec<T>,
    fails: &mut impl FnMut(&Plan) -> bool,
) {
    let mut length = list(plan).len().div_ceil(2).max(1);
    loop {
        let mut from = 0;
        while from < list(plan).len() {
            let mut candidate = plan.clone();
            let entries = list(&mut candidate);
            entries.drain(from..(from + length).min(entries.len()));
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

/// Removes replicas, controllers, listeners, and informers from the end of the list. Removing an earlier informer would
/// renumber the later ones, and so change their random choices.
fn leave_out_clients(plan: &mut Plan, fails: &mut impl FnMut(&Plan) -> bool) {
    leave_out(plan, |plan| &mut plan.replicas, fails);
    for share in (0..plan.sharing.as_ref().map_or(0, |sharing| sharing.replicas.len())).rev() {
        let mut candidate = plan.clone();
        candidate.sharing.iter_mut().for_each(|sharing| {
            sharing.replicas.remove(share);
        });
        if fails(&candidate) {
            *plan = candidate;
        }
    }
    for candidate in [Plan { mirror: None, ..plan.clone() }, Plan { websites: None, ..plan.clone() }] {
        if size(&candidate) < size(plan) && fails(&candidate) {
            *plan = candidate;
        }
    }
    for informer in (0..plan.informers.len()).rev() {
        let mut candidate = plan.clone();
        if informer + 1 == plan.informers.len() && (informer > 0 || plan.sharing.is_some()) {
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

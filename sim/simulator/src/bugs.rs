//! Deliberate bugs: enables one bug at a time, and runs seeds until the oracle finds it.
//!
//! The crates contain the bugs under `--cfg deliberate_bug` and read the name of the enabled one from the environment.
//! So each bug runs in its own process.

use std::io;
use std::process::Command;

use crate::bulk;
use crate::plan::Scenario;
use crate::run::run;

/// The name of a bug in the code, and its effect.
type Bug = (&'static str, &'static str);

/// Bugs of replicas that share the work.
const SHARING_BUGS: [Bug; 9] = [
    ("slot-taken-before-release", "a slot is taken before its owner has released it"),
    ("released-while-running", "a slot is released while its reconciles run"),
    ("lost-seat-works-on", "a replica works on after its seat is lost"),
    ("stale-term-sends", "a request is sent after its term has ended"),
    ("term-repeated", "the next owner of a slot repeats its term"),
    ("catch-up-skipped", "the next owner of a slot does not wait for the writes of the last one"),
    ("gained-keys-not-queued", "the keys of a gained slot are not queued"),
    ("wrong-hash-range", "a replica asks for the wrong range of hashes"),
    ("slot-forgotten", "a replica never takes one of its slots"),
];

const BUGS: [Bug; 44] = [
    ("tombstone-skipped", "a relist reports no deletions"),
    ("relisted-update-missed", "a relist reports no updates"),
    ("replace-deletes-neighbours", "a relist of one namespace removes the objects of the others"),
    ("partial-list-accepted", "a list whose next page has expired counts as complete"),
    ("garbage-taken-for-a-list", "any response with status 200 counts as a list"),
    ("resume-one-too-far", "a watch resumes after the next change, and misses it"),
    ("expired-as-throttled", "410 is handled like 429: the same watch is opened again"),
    ("deletion-missed-after-relist", "DELETED is ignored after the first relist"),
    ("reentry-missed", "an object that left the selection is not added when it returns"),
    ("divergence-ignored", "a rolled-back server is detected, but trusted anyway"),
    ("verification-skipped", "after a broken connection, the server is trusted without a check"),
    (
        "deletion-not-verified",
        "a rolled-back server that still has the object that was deleted last is trusted",
    ),
    ("version-ahead-of-objects", "a snapshot has a resourceVersion that its objects have not reached"),
    ("packed-object-not-replaced", "a packed store keeps the old state"),
    ("index-entry-left-behind", "an index keeps the old value of an object"),
    ("kept-field-dropped", "a projection drops a field that it should keep"),
    ("older-state-stored", "an event with an older state replaces the newer one"),
    ("recreated-object-as-update", "a new object with the same name is reported as an update"),
    ("repeated-deletion-reported", "a repeated DELETED is reported again"),
    ("notified-before-stored", "listeners are notified before the store shows a change"),
    ("coalesced-deletion-dropped", "coalescing loses deletions"),
    ("update-from-unreceived-state", "a coalesced update begins at a state that was not received"),
    ("backlog-unbounded", "a slow listener's backlog grows without limit"),
    ("late-listener-starts-empty", "a listener that joins late gets no initial list"),
    ("panic-ends-handler", "a handler that panics is not called again"),
    ("synced-too-early", "Synced is sent after the first of several namespaces"),
    ("silence-not-detected", "a silent watch is not detected by missing bookmarks"),
    ("wait-ends-early", "a wait for a write returns before the store has the write"),
    ("key-lost-while-running", "a key that changes while it is reconciled is not reconciled again"),
    ("key-handed-out-twice", "a key that changes while it is reconciled goes to a second worker"),
    ("failed-key-not-retried", "a failed reconcile is not retried"),
    ("key-dropped-at-shutdown", "a key whose reconcile is cancelled is not queued again"),
    ("work-before-sync", "reconciles begin before the informers are synced"),
    ("work-after-stop", "reconciles begin after a stop"),
    ("own-write-not-awaited", "a reconcile begins before its cache shows its own write"),
    ("deletion-not-mapped", "a deletion queues no key"),
    ("owner-not-queued", "a change of an owned object does not queue its owner"),
    ("finalizer-not-added", "an object is applied without its finalizer"),
    ("cleanup-skipped", "the finalizer is removed without a cleanup"),
    ("cleanup-repeated", "a cleanup that succeeded is called again"),
    (
        "cleanup-remembered-after-restore",
        "an object that a restore brings back is not cleaned up when it is deleted again",
    ),
    ("lease-renewed-after-its-deadline", "a leader acts although its lease may have expired"),
    ("lost-leader-acts-on", "a leader keeps acting after its lease is lost"),
    ("lease-taken-early", "a standby takes a lease that has not expired"),
];

/// Enables each bug, or only the one with this name, and prints the seed that found it. Returns whether the oracle
/// found all of them.
pub(crate) fn find_all(only: Option<&str>, seeds: u64) -> bool {
    let of = |scenario, bugs: &'static [Bug]| bugs.iter().map(move |bug| (scenario, *bug));
    let all = of(Scenario::Informers, &BUGS).chain(of(Scenario::Sharing, &SHARING_BUGS));
    let (mut found, mut total) = (0, 0);
    for (scenario, (name, what)) in all.filter(|(_, (name, _))| only.is_none_or(|only| only == *name)) {
        total += 1;
        match first_failure(scenario, name, seeds) {
            Ok(Some((seed, _))) if run(&scenario.plan(seed), false).failure.is_some() => {
                println!("{name:<32} UNKNOWN: seed {seed} also fails without it");
            }
            Ok(Some((seed, failure))) if is_of_oracle(&failure) => {
                found += 1;
                println!("{name:<32} seed {seed:>4}  {what}\n{:>44}{failure}", "");
            }
            Ok(Some((seed, failure))) => {
                println!("{name:<32} MISSED by the oracle, but seed {seed} failed: {failure}");
            }
            Ok(None) => println!("{name:<32} MISSED in {seeds} seeds: {what}"),
            Err(error) => println!("{name:<32} cannot run: {error}"),
        }
    }
    println!("{found} of {total} deliberate bugs found within {seeds} seeds each");
    found == total && total > 0
}

/// Runs seeds until one fails, and prints the seed and the failure. The process with a bug calls this.
pub(crate) fn print_first_failure(scenario: Scenario, seeds: u64) -> bool {
    if let Some((seed, failure)) = bulk::run_seeds(scenario, 0, seeds, true).failures.first() {
        println!("{seed} {failure}");
    }
    true
}

fn first_failure(scenario: Scenario, bug: &str, seeds: u64) -> io::Result<Option<(u64, String)>> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(scenario.argument());
    command.args(["--first-failure", &seeds.to_string()]).env("DELIBERATE_BUG", bug);
    let output = command.output()?;
    if !output.status.success() {
        return Err(io::Error::other(output.status.to_string()));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let failure = text.split_once(' ').and_then(|(seed, failure)| Some((seed.parse().ok()?, failure)));
    Ok(failure.map(|(seed, failure)| (seed, failure.trim_end().to_owned())))
}

/// Whether the oracle reported the failure. A panic of the mutated code proves nothing about the oracle.
fn is_of_oracle(failure: &str) -> bool {
    failure.contains("promise ")
}

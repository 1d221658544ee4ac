//! Measures CPU, memory and the content of a store, and prints figures, as `peers/ours/src/measure.rs` does.

use std::{
    fs,
    time::{Instant, SystemTime, UNIX_EPOCH},
};

use kube::{Resource, ResourceExt, runtime::reflector::Store};
use nix::sys::{
    resource::{UsageWho, getrusage},
    time::{TimeVal, TimeValLike},
};

use crate::Outcome;

pub fn report(figure: &str, value: impl std::fmt::Display, unit: &str) {
    println!("{figure}\t{value}\t{unit}");
}

pub fn cpu_seconds() -> Outcome<f64> {
    let usage = getrusage(UsageWho::RUSAGE_SELF)?;
    let seconds = |time: TimeVal| time.num_microseconds() as f64 / 1e6;
    Ok(seconds(usage.user_time()) + seconds(usage.system_time()))
}

pub fn micros() -> Outcome<u64> {
    Ok(SystemTime::now().duration_since(UNIX_EPOCH)?.as_micros() as u64)
}

pub fn resident() -> Outcome<u64> {
    status("VmRSS:")
}

pub fn peak() -> Outcome<u64> {
    status("VmHWM:")
}

pub fn forget_peak() -> Outcome {
    Ok(fs::write("/proc/self/clear_refs", "5")?)
}

fn status(name: &str) -> Outcome<u64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let value = status.lines().find_map(|line| line.strip_prefix(name)).ok_or("no such field")?;
    Ok(value.trim().trim_end_matches(" kB").parse::<u64>()? << 10)
}

/// Reports the number of objects of a store, and a checksum that does not depend on their order.
pub fn report_store<K: Resource + Clone>(store: &Store<K>)
where
    K::DynamicType: Eq + std::hash::Hash + Clone,
{
    let mut sum = 0_u64;
    for object in store.state() {
        let text = format!(
            "{}/{} {} {}",
            object.namespace().unwrap_or_default(),
            object.name_any(),
            object.uid().unwrap_or_default(),
            object.resource_version().unwrap_or_default()
        );
        let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        sum = sum.wrapping_add(hash);
    }
    report("objects", store.len(), "objects");
    report("checksum", format_args!("{sum:016x}"), "text");
}

/// Nanoseconds per operation, in the best of several rounds.
pub fn nanoseconds(rounds: usize, operations: usize, mut round: impl FnMut()) -> f64 {
    let mut best = f64::INFINITY;
    for _ in 0..rounds {
        let began = Instant::now();
        round();
        best = best.min(began.elapsed().as_nanos() as f64 / operations as f64);
    }
    best
}

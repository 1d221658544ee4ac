//! Measures CPU, memory and the content of a store, and prints figures. The peers' programs do the same.

use std::time::Instant;

use rustix::time::{ClockId, clock_gettime};

use crate::Outcome;

/// Prints a figure.
pub(crate) fn report(figure: &str, value: impl std::fmt::Display, unit: &str) {
    println!("{figure}\t{value}\t{unit}");
}

/// CPU time of this process so far, user and system, in seconds.
pub(crate) fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Microseconds since 1970. They number the changes of a replay, so that every program can compute the lag.
pub(crate) fn micros() -> u64 {
    let time = clock_gettime(ClockId::Realtime);
    time.tv_sec as u64 * 1_000_000 + time.tv_nsec as u64 / 1_000
}

/// Resident memory in bytes.
pub(crate) fn resident() -> Outcome<u64> {
    status("VmRSS:")
}

/// Peak resident memory in bytes since the start or [`forget_peak`].
pub(crate) fn peak() -> Outcome<u64> {
    status("VmHWM:")
}

/// Resets [`peak`].
pub(crate) fn forget_peak() -> Outcome {
    Ok(std::fs::write("/proc/self/clear_refs", "5")?)
}

fn status(name: &str) -> Outcome<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let value = status.lines().find_map(|line| line.strip_prefix(name)).ok_or("no such field")?;
    Ok(value.trim().trim_end_matches(" kB").parse::<u64>()? << 10)
}

/// A checksum of a store's objects that does not depend on their order: the sum of the FNV-1a hashes of
/// `namespace/name uid version`.
#[derive(Default)]
pub(crate) struct Checksum(u64);

impl Checksum {
    pub(crate) fn add(&mut self, namespace: &str, name: &str, uid: &str, version: &str) {
        let parts = [namespace, "/", name, " ", uid, " ", version];
        let hash =
            parts.iter().flat_map(|part| part.bytes()).fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
                (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
            });
        self.0 = self.0.wrapping_add(hash);
    }

    pub(crate) fn report(&self) {
        report("checksum", format_args!("{:016x}", self.0), "text");
    }
}

/// Nanoseconds per operation, in the best of several rounds.
pub(crate) fn nanoseconds(rounds: usize, operations: usize, mut round: impl FnMut()) -> f64 {
    let mut best = f64::INFINITY;
    for _ in 0..rounds {
        let began = Instant::now();
        round();
        best = best.min(began.elapsed().as_nanos() as f64 / operations as f64);
    }
    best
}

//! The data recorded at each checkpoint, and the limits that it must meet at the end.

use std::fmt;
use std::time::Duration;

use crate::Outcome;

/// Memory at the end may exceed memory after the warm-up by this fraction.
const GROWTH_MAX: f64 = 0.05;
/// The first part of a run is the warm-up.
const WARM_UP: f64 = 0.2;
/// The longest p99 lag between two checkpoints: a silent watch is detected after about two minutes.
pub(crate) const LAG_MAX: Duration = Duration::from_secs(300);

/// One checkpoint.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Checkpoint {
    /// Seconds since the start.
    pub(crate) at: f64,
    /// Resident memory of the clients, in bytes.
    pub(crate) resident: u64,
    /// Changes since the last checkpoint.
    pub(crate) changes: u64,
    pub(crate) lag: Lag,
    /// The time that all caches took to equal the server after the last fault.
    pub(crate) converged_in: Duration,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Lag {
    pub(crate) p50: Duration,
    pub(crate) p99: Duration,
    pub(crate) max: Duration,
}

/// Times from a write to the call of a handler, in microseconds.
#[derive(Debug, Default)]
pub(crate) struct Lags(Vec<u64>);

/// The maximum number of lags recorded between two checkpoints.
const LAGS_MAX: usize = 200_000;

impl Lags {
    pub(crate) fn add(&mut self, micros: u64) {
        if self.0.len() < LAGS_MAX {
            self.0.push(micros);
        }
    }

    /// The distribution since the last call.
    pub(crate) fn take(&mut self) -> Lag {
        self.0.sort_unstable();
        let at = |share: f64| {
            let index = (self.0.len().saturating_sub(1) as f64 * share) as usize;
            Duration::from_micros(self.0.get(index).copied().unwrap_or_default())
        };
        let lag = Lag { p50: at(0.5), p99: at(0.99), max: at(1.0) };
        self.0.clear();
        lag
    }
}

/// Resident memory of this process in bytes.
pub(crate) fn resident() -> Outcome<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line =
        status.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or("no VmRSS in /proc/self/status")?;
    Ok(line.trim().trim_end_matches(" kB").parse::<u64>()? << 10)
}

/// Checks memory and lag of a whole run; returns its summary.
///
/// # Errors
/// Returns an error that names the first limit that was exceeded.
pub(crate) fn judge(checkpoints: &[Checkpoint]) -> Outcome<String> {
    let last = checkpoints.last().ok_or("the run was too short for a checkpoint")?;
    let warm = checkpoints.iter().find(|point| point.at >= last.at * WARM_UP).unwrap_or(last);
    let growth = last.resident as f64 / warm.resident as f64 - 1.0;
    let changes: u64 = checkpoints.iter().map(|point| point.changes).sum();
    let summary = format!(
        "{} checkpoints, {changes} changes, memory {} MB after {:.0} s and {} MB after {:.0} s ({:+.1} %)",
        checkpoints.len(),
        warm.resident >> 20,
        warm.at,
        last.resident >> 20,
        last.at,
        growth * 100.0
    );
    if growth > GROWTH_MAX {
        return Err(
            format!("memory grows: {summary}; at most {:+.0} % is allowed", GROWTH_MAX * 100.0).into()
        );
    }
    if let Some(late) = checkpoints.iter().find(|point| point.lag.p99 > LAG_MAX) {
        return Err(format!("p99 lag exceeds {LAG_MAX:?}: {late}").into());
    }
    Ok(summary)
}

impl fmt::Display for Checkpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { at, resident, changes, lag, converged_in } = self;
        write!(
            f,
            "{at:.0} s: equal {:.1} s after the last fault; {changes} changes; lag p50 {:.1} ms, p99 {:.1} ms, max {:.1} ms; {:.1} MB",
            converged_in.as_secs_f64(),
            lag.p50.as_secs_f64() * 1e3,
            lag.p99.as_secs_f64() * 1e3,
            lag.max.as_secs_f64() * 1e3,
            *resident as f64 / 1048576.0,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(megabytes: &[u64], p99: Duration) -> Vec<Checkpoint> {
        let point = |(index, resident): (usize, &u64)| Checkpoint {
            at: (index + 1) as f64 * 60.0,
            resident: resident << 20,
            changes: 100,
            lag: Lag { p99, ..Lag::default() },
            converged_in: Duration::ZERO,
        };
        megabytes.iter().enumerate().map(point).collect()
    }

    #[test]
    fn growing_memory_and_high_lag_fail_a_run() {
        let quick = Duration::from_millis(1);
        assert!(
            judge(&run(&[50, 100, 100, 100, 101, 103], quick)).unwrap().contains("+3.0 %"),
            "warm after 120 s"
        );
        assert!(
            judge(&run(&[50, 100, 100, 100, 101, 106], quick))
                .unwrap_err()
                .to_string()
                .contains("memory grows")
        );
        let late = judge(&run(&[100, 100, 100], LAG_MAX * 2)).unwrap_err().to_string();
        assert!(late.contains("p99 lag exceeds"), "{late}");
        assert!(judge(&[]).is_err());
    }

    #[test]
    fn lags_are_summarised_since_the_last_call() {
        let mut lags = Lags::default();
        (1..=1_000).rev().for_each(|micros| lags.add(micros));
        let lag = lags.take();
        assert_eq!([lag.p50, lag.p99, lag.max].map(|time| time.as_micros()), [500, 990, 1_000]);
        assert_eq!(lags.take().max, Duration::ZERO);
    }
}

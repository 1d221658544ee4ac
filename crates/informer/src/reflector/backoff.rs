//! How long to wait after an error.

use std::time::Duration;

use rand::{Rng, RngExt};

/// Growing waits: the first, times two each time up to the longest, then spread by a random factor in [1, 2) so that
/// many clients do not come back at the same moment. They begin anew once a watch has worked for a while.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackoffConfig {
    /// The first wait. Default: 0.8 s.
    pub first: Duration,
    /// The longest wait, before it is spread. Default: 30 s.
    pub longest: Duration,
    /// How long a watch must have lived until the next wait is the first again, and a degraded state ends.
    /// Default: 10 s.
    pub reset_after: Duration,
}

/// The state of one reflector's waits. One serves all kinds of errors.
#[derive(Debug)]
pub(super) struct Backoff {
    config: BackoffConfig,
    next: Duration,
}

// === impl BackoffConfig ===

impl Default for BackoffConfig {
    fn default() -> Self {
        Self {
            first: Duration::from_millis(800),
            longest: Duration::from_secs(30),
            reset_after: Duration::from_secs(10),
        }
    }
}

// === impl Backoff ===

impl Backoff {
    pub(super) fn new(mut config: BackoffConfig) -> Self {
        config.longest = config.longest.min(LONGEST);
        config.first = config.first.min(config.longest);
        Self { next: config.first, config }
    }

    /// The wait after an error; at least what the server asked for.
    pub(super) fn wait(&mut self, retry_after: Option<Duration>, rng: &mut impl Rng) -> Duration {
        let spread = self.next.mul_f64(1.0 + rng.random::<f64>());
        self.next = (self.next * 2).min(self.config.longest);
        spread.max(retry_after.unwrap_or_default().min(RETRY_AFTER_MAX))
    }

    /// The next wait is the first again.
    pub(super) fn reset(&mut self) {
        self.next = self.config.first;
    }
}

/// Longer waits are cut to this: no setting means more.
pub(super) const LONGEST: Duration = Duration::from_secs(30 * 24 * 3600);

/// A server that asks for more than this is asked again anyway: it may be broken, or hostile.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(600);

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand::rngs::StdRng;

    use super::*;

    #[test]
    fn waits_double_up_to_the_longest_are_spread_and_begin_anew() {
        let mut backoff = Backoff::new(BackoffConfig::default());
        let mut rng = StdRng::seed_from_u64(1);
        for _ in 0..2 {
            for expected in [0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30.0, 30.0] {
                let wait = backoff.wait(None, &mut rng).as_secs_f64();
                assert!((expected..2.0 * expected).contains(&wait), "{wait} for {expected}");
            }
            backoff.reset();
        }
    }

    #[test]
    fn the_servers_retry_after_is_obeyed_within_reason_and_never_shortens_the_wait() {
        let mut backoff = Backoff::new(BackoffConfig::default());
        let mut rng = StdRng::seed_from_u64(1);
        let mut wait = |seconds| backoff.wait(Some(Duration::from_secs(seconds)), &mut rng);
        assert_eq!(wait(5), Duration::from_secs(5));
        assert!(wait(1) >= Duration::from_millis(1600));
        assert_eq!(wait(u64::MAX), Duration::from_secs(600));
    }
}

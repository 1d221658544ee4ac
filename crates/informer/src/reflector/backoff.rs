//! The wait after an error.

use std::time::Duration;

use educe::Educe;
use rand::{Rng, RngExt};

/// Growing waits: the first one is doubled each time, up to the longest, and multiplied by a random factor in [1, 2), so that
/// many clients do not return at the same moment. They start again once a watch has worked for a while.
#[derive(Clone, Debug, Educe, PartialEq, Eq)]
#[educe(Default)]
pub struct BackoffConfig {
    /// The first wait. Default: 0.8 s.
    #[educe(Default(expression = Duration::from_millis(800)))]
    pub first: Duration,
    /// The longest wait, before the random factor. Default: 30 s.
    #[educe(Default(expression = Duration::from_secs(30)))]
    pub longest: Duration,
    /// How long a watch must live until the back-off resets and a degraded state ends. Default: 10 s.
    #[educe(Default(expression = Duration::from_secs(10)))]
    pub reset_after: Duration,
}

/// The back-off state of one reflector, for all kinds of errors.
#[derive(Debug)]
pub(super) struct Backoff {
    config: BackoffConfig,
    next: Duration,
}

// === impl Backoff ===

impl Backoff {
    pub(super) fn new(mut config: BackoffConfig) -> Self {
        config.longest = config.longest.min(LONGEST);
        config.first = config.first.min(config.longest);
        Self { next: config.first, config }
    }

    /// The wait after an error; at least as long as the server asked for.
    pub(super) fn wait(&mut self, retry_after: Option<Duration>, rng: &mut impl Rng) -> Duration {
        let spread = self.next.mul_f64(1.0 + rng.random::<f64>());
        self.next = (self.next * 2).min(self.config.longest);
        spread.max(retry_after.unwrap_or_default().min(RETRY_AFTER_MAX))
    }

    /// Restarts with the first wait.
    pub(super) fn reset(&mut self) {
        self.next = self.config.first;
    }
}

/// Longer waits are cut to this.
pub(super) const LONGEST: Duration = Duration::from_secs(30 * 24 * 3600);

/// The limit for a server's `Retry-After`: a larger value may be broken or hostile.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(600);

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand::rngs::StdRng;

    use super::*;

    #[test]
    fn waits_double_up_to_the_longest_with_jitter_and_reset() {
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

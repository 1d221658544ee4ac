//! How long to wait after trouble.

use std::time::Duration;

use rand::{Rng, RngExt};
use tokio::time::Instant;

/// Growing waits: the first, times two each time up to the longest, then spread by a random factor in [1, 2) so that
/// many clients do not come back at once. It begins anew after a while without trouble.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackoffConfig {
    /// The first wait. Default: 0.8 s.
    pub first: Duration,
    /// The longest wait, before it is spread. Default: 30 s.
    pub longest: Duration,
    /// How long without trouble until the next wait is the first again. Default: 2 minutes.
    pub reset_after: Duration,
}

/// The state of one reflector's waits. One serves all kinds of trouble.
#[derive(Debug)]
pub(super) struct Backoff {
    config: BackoffConfig,
    next: Duration,
    /// When the last wait was over.
    quiet_since: Option<Instant>,
}

// === impl BackoffConfig ===

impl Default for BackoffConfig {
    fn default() -> Self {
        Self {
            first: Duration::from_millis(800),
            longest: Duration::from_secs(30),
            reset_after: Duration::from_secs(120),
        }
    }
}

// === impl Backoff ===

impl Backoff {
    pub(super) fn new(mut config: BackoffConfig) -> Self {
        config.longest = config.longest.min(LONGEST);
        config.first = config.first.min(config.longest);
        Self { next: config.first, config, quiet_since: None }
    }

    /// The wait for trouble that happens now; at least what the server asked for.
    pub(super) fn wait(
        &mut self,
        now: Instant,
        retry_after: Option<Duration>,
        rng: &mut impl Rng,
    ) -> Duration {
        if self
            .quiet_since
            .is_some_and(|since| now.saturating_duration_since(since) >= self.config.reset_after)
        {
            self.next = self.config.first;
        }
        let spread = self.next.mul_f64(1.0 + rng.random::<f64>());
        self.next = (self.next * 2).min(self.config.longest);
        let wait = spread.max(retry_after.unwrap_or_default().min(RETRY_AFTER_MAX));
        self.quiet_since = Some(now + wait);
        wait
    }
}

/// Nobody who says more means it as a number.
pub(super) const LONGEST: Duration = Duration::from_secs(30 * 24 * 3600);

/// A server that asks for more than this is asked again anyway: it may be broken, or hostile.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(600);

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand::rngs::StdRng;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn waits_double_up_to_the_longest_and_are_spread() {
        let mut backoff = Backoff::new(BackoffConfig::default());
        let mut rng = StdRng::seed_from_u64(1);
        for expected in [0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30.0, 30.0] {
            let wait = backoff.wait(Instant::now(), None, &mut rng).as_secs_f64();
            assert!((expected..2.0 * expected).contains(&wait), "{wait} for {expected}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn it_begins_anew_after_two_minutes_without_trouble_but_not_while_failing() {
        let mut backoff = Backoff::new(BackoffConfig::default());
        let mut rng = StdRng::seed_from_u64(1);
        for _ in 0..20 {
            tokio::time::advance(backoff.wait(Instant::now(), None, &mut rng)).await;
        }
        tokio::time::advance(Duration::from_secs(119)).await;
        assert!(backoff.wait(Instant::now(), None, &mut rng) >= Duration::from_secs(30));
        tokio::time::advance(Duration::from_secs(60 + 121)).await;
        assert!(backoff.wait(Instant::now(), None, &mut rng) < Duration::from_millis(1600));
    }

    #[tokio::test(start_paused = true)]
    async fn the_servers_retry_after_is_obeyed_within_reason_and_never_shortens_the_wait() {
        let mut backoff = Backoff::new(BackoffConfig::default());
        let mut rng = StdRng::seed_from_u64(1);
        let mut wait = |seconds| backoff.wait(Instant::now(), Some(Duration::from_secs(seconds)), &mut rng);
        assert_eq!(wait(5), Duration::from_secs(5));
        assert!(wait(1) >= Duration::from_millis(1600));
        assert_eq!(wait(u64::MAX), Duration::from_secs(600));
    }
}

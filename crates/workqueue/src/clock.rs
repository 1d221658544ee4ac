//! tokio's clock as nanoseconds since the queue was created: half the size of an `Instant`, and arithmetic on it cannot
//! overflow.

use std::time::Duration;

use tokio::time::Instant;

/// The maximum delay. Not every platform can represent an `Instant` much further away.
const DELAY_MAX: Duration = Duration::from_secs(30 * 365 * 24 * 3600);

pub(crate) struct Clock {
    start: Instant,
}

impl Clock {
    pub(crate) fn start() -> Self {
        Self { start: Instant::now() }
    }

    pub(crate) fn now(&self) -> u64 {
        nanos(self.start.elapsed())
    }

    pub(crate) fn after(&self, delay: Duration) -> u64 {
        self.now().saturating_add(nanos(delay.min(DELAY_MAX)))
    }

    pub(crate) fn instant(&self, nanos: u64) -> Instant {
        self.start.checked_add(Duration::from_nanos(nanos)).unwrap_or_else(|| Instant::now() + DELAY_MAX)
    }
}

/// Nanoseconds; at most 584 years, which is `u64::MAX`.
pub(crate) fn nanos(duration: Duration) -> u64 {
    duration.as_nanos().try_into().unwrap_or(u64::MAX)
}

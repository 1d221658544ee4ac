//! Detects a list that arrives too slowly to be useful. A limit on pauses alone does not: a server, or a proxy, that sends one byte
//! per minute would keep the reader waiting without an error.

use std::time::Duration;

use super::SourceError;

/// The lowest rate of a list. A working server is faster by orders of magnitude.
const BYTES_PER_SECOND_MIN: u32 = 1 << 10;

/// How long a list may be slower than that, as a multiple of the longest permitted pause.
const PAUSES_MAX: u32 = 5;

/// How much longer a list may be slow. Waiting consumes this time; received bytes restore it, up to the initial value.
#[derive(Debug)]
pub(super) struct Pace {
    slow_max: Duration,
    left: Duration,
    /// The bytes received, and the time waited, since the list became slow.
    bytes: usize,
    waited: Duration,
}

impl Pace {
    /// For a list that may pause for up to `idle_max`.
    pub(super) fn new(idle_max: Duration) -> Self {
        let slow_max = idle_max.saturating_mul(PAUSES_MAX);
        Self { slow_max, left: slow_max, bytes: 0, waited: Duration::ZERO }
    }

    /// Records that `bytes` arrived after a wait of `waited`.
    ///
    /// # Errors
    /// Returns an error if the list is too slow.
    pub(super) fn received(&mut self, bytes: usize, waited: Duration) -> Result<(), SourceError> {
        self.bytes += bytes;
        self.waited += waited;
        let earned = Duration::from_secs(bytes as u64) / BYTES_PER_SECOND_MIN;
        let left = self.left.saturating_add(earned).saturating_sub(waited);
        if left.is_zero() && !waited.is_zero() {
            return Err(SourceError::Slow { bytes: self.bytes, waited: self.waited });
        }
        self.left = left.min(self.slow_max);
        if self.left == self.slow_max {
            (self.bytes, self.waited) = (0, Duration::ZERO);
        }
        Ok(())
    }
}

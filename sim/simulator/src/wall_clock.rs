//! Wall clocks: each has its own rate, and can jump.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime};

use tokio::time::Instant;

/// A wall clock. Clones are handles to the same one.
#[derive(Clone, Debug)]
pub(crate) struct WallClock {
    began: Instant,
    rate: f64,
    /// Seconds.
    jumped: Arc<AtomicI64>,
}

impl WallClock {
    /// A clock that runs at this rate from now on.
    pub(crate) fn new(rate: f64) -> Self {
        Self { began: Instant::now(), rate, jumped: Arc::default() }
    }

    /// Sets the clock forwards, or back.
    pub(crate) fn jump(&self, seconds: i32) {
        self.jumped.fetch_add(seconds.into(), Ordering::Relaxed);
    }

    pub(crate) fn now(&self) -> SystemTime {
        let ticked = SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000);
        let ticked = ticked + self.began.elapsed().mul_f64(self.rate);
        let jumped = self.jumped.load(Ordering::Relaxed);
        let distance = Duration::from_secs(jumped.unsigned_abs());
        if jumped < 0 { ticked - distance } else { ticked + distance }
    }
}

//! Time and randomness, injected from outside: with a fixed clock and a seed, a run of the server is reproducible.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use kube_wire::Timestamp;
use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use tokio::time::Instant;

/// The longest wait: thirty years. Longer waits are truncated so that computing a deadline cannot overflow.
const WAIT_MAX: Duration = Duration::from_secs(30 * 365 * 86_400);

/// The wall clock for timestamps.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> SystemTime + Send + Sync>);

/// The source of randomness: uids, name suffixes, cluster IPs, signing keys, and how long watches last.
#[derive(Debug)]
pub(crate) struct Chance(Mutex<StdRng>);

// === impl Clock ===

impl Clock {
    /// The system's clock.
    pub fn system() -> Self {
        Self::new(SystemTime::now)
    }

    /// A clock that starts at `start` and advances with [`tokio::time`], including when that is paused.
    ///
    /// # Panics
    ///
    /// If called outside a tokio runtime with time enabled.
    pub fn starting_at(start: SystemTime) -> Self {
        let began = Instant::now();
        Self::new(move || start + began.elapsed())
    }

    /// A custom clock.
    pub fn new(now: impl Fn() -> SystemTime + Send + Sync + 'static) -> Self {
        Self(Arc::new(now))
    }

    /// The current time.
    pub(crate) fn now(&self) -> SystemTime {
        (self.0)()
    }

    /// The current time in seconds since 1970.
    pub(crate) fn unix_seconds(&self) -> u64 {
        self.now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
    }

    /// The current time as objects show it: RFC 3339 with whole seconds.
    pub(crate) fn timestamp(&self) -> String {
        self.timestamp_in(Duration::ZERO)
    }

    /// The timestamp `later` from now; at most 9999-12-31T23:59:59Z, the latest that RFC 3339 can express.
    pub(crate) fn timestamp_in(&self, later: Duration) -> String {
        let now = self.now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let seconds = i64::try_from(now.saturating_add(later).as_secs()).unwrap_or(i64::MAX);
        Timestamp::from_unix_seconds(seconds).to_string()
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Clock")
    }
}

// === impl Chance ===

impl Chance {
    pub(crate) fn seeded(seed: u64) -> Self {
        Self(Mutex::new(StdRng::seed_from_u64(seed)))
    }

    /// Seeded by the operating system.
    pub(crate) fn system() -> Self {
        Self(Mutex::new(rand::make_rng()))
    }

    /// A random uid (UUID version 4).
    pub(crate) fn uid(&self) -> String {
        uuid::Builder::from_random_bytes(self.0.lock().random()).into_uuid().to_string()
    }

    /// The five characters appended to a `generateName`, from an alphabet that spells no words.
    pub(crate) fn name_suffix(&self) -> String {
        const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
        let mut random = self.0.lock();
        (0..5).map(|_| char::from(ALPHABET[random.random_range(0..ALPHABET.len())])).collect()
    }

    /// A signing key.
    pub(crate) fn key(&self) -> [u8; 32] {
        self.0.lock().random()
    }

    /// A seed for another random generator.
    pub(crate) fn seed(&self) -> u64 {
        self.0.lock().random()
    }

    /// Uniform in `[0, 1)`.
    pub(crate) fn unit(&self) -> f64 {
        self.0.lock().random()
    }
}

/// The instant `wait` after `now`, capped at the longest wait.
pub(crate) fn deadline(now: Instant, wait: Duration) -> Instant {
    now + wait.min(WAIT_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_are_rfc_3339() {
        for (seconds, expected) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_794_731_895, "2026-11-15T08:38:15Z"),
        ] {
            let clock = Clock::new(move || UNIX_EPOCH + Duration::from_secs(seconds));
            assert_eq!(clock.timestamp(), expected);
        }
    }

    #[test]
    fn timestamps_end_with_the_year_9999() {
        let clock = Clock::new(|| UNIX_EPOCH + Duration::from_secs(253_402_300_798));
        assert_eq!(clock.timestamp_in(Duration::from_secs(1)), "9999-12-31T23:59:59Z");
        assert_eq!(clock.timestamp_in(Duration::from_secs(2)), "9999-12-31T23:59:59Z");
        assert_eq!(clock.timestamp_in(Duration::MAX), "9999-12-31T23:59:59Z");
    }

    #[test]
    fn the_same_seed_gives_the_same_values() {
        let (a, b) = (Chance::seeded(7), Chance::seeded(7));
        let uid = a.uid();
        assert_eq!((uid.as_str(), a.name_suffix()), (b.uid().as_str(), b.name_suffix()));
        assert_eq!((uid.len(), &uid[14..15]), (36, "4"), "{uid}");
        assert_ne!(a.uid(), a.uid());
    }
}

//! Time and chance, which come in from outside: with a fixed clock and a seed, a run of the server repeats itself to the
//! last uid.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use tokio::time::Instant;

/// The last second that RFC 3339 can write: 9999-12-31T23:59:59Z. Later moments are shown as this one.
const LAST_SECOND: u64 = 253_402_300_799;

/// The longest time that anything waits: thirty years. Longer waits are cut to it, so that deadlines can be computed.
const WAIT_MAX: Duration = Duration::from_secs(30 * 365 * 86_400);

/// The wall clock that timestamps are read from.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> SystemTime + Send + Sync>);

/// Uids, name suffixes and jitter.
#[derive(Debug)]
pub(crate) struct Chance(Mutex<StdRng>);

// === impl Clock ===

impl Clock {
    /// The system's clock.
    pub fn system() -> Self {
        Self::new(SystemTime::now)
    }

    /// A clock that shows `start` now and goes on with [`tokio::time`], paused and advanced as that is.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime whose time is enabled.
    pub fn starting_at(start: SystemTime) -> Self {
        let began = Instant::now();
        Self::new(move || start + began.elapsed())
    }

    /// A clock of one's own.
    pub fn new(now: impl Fn() -> SystemTime + Send + Sync + 'static) -> Self {
        Self(Arc::new(now))
    }

    /// Now, in seconds since 1970.
    pub(crate) fn unix_seconds(&self) -> u64 {
        (self.0)().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
    }

    /// Now, as objects show it: RFC 3339 with whole seconds.
    pub(crate) fn timestamp(&self) -> String {
        self.timestamp_in(Duration::ZERO)
    }

    /// The timestamp of a moment to come, or the last one that can be written.
    pub(crate) fn timestamp_in(&self, later: Duration) -> String {
        let now = (self.0)().duration_since(UNIX_EPOCH).unwrap_or_default();
        rfc3339(now.saturating_add(later).as_secs().min(LAST_SECOND))
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

    /// From the system's randomness.
    pub(crate) fn system() -> Self {
        Self(Mutex::new(rand::make_rng()))
    }

    /// A random uid (UUID version 4).
    pub(crate) fn uid(&self) -> String {
        let mut bytes: [u8; 16] = self.0.lock().random();
        bytes[6] = bytes[6] & 0x0f | 0x40;
        bytes[8] = bytes[8] & 0x3f | 0x80;
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let [a, b, c, d, e] = [&bytes[..4], &bytes[4..6], &bytes[6..8], &bytes[8..10], &bytes[10..]].map(hex);
        format!("{a}-{b}-{c}-{d}-{e}")
    }

    /// The five characters behind a `generateName`, from an alphabet that spells no words.
    pub(crate) fn name_suffix(&self) -> String {
        const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
        let mut random = self.0.lock();
        (0..5).map(|_| char::from(ALPHABET[random.random_range(0..ALPHABET.len())])).collect()
    }

    /// A key for signatures.
    pub(crate) fn key(&self) -> [u8; 32] {
        self.0.lock().random()
    }

    /// A seed for something else that needs chance.
    pub(crate) fn seed(&self) -> u64 {
        self.0.lock().random()
    }

    /// Uniform in `[0, 1)`.
    pub(crate) fn unit(&self) -> f64 {
        self.0.lock().random()
    }
}

/// The moment that lies `wait` after `now`, or as far ahead as the server looks.
pub(crate) fn deadline(now: Instant, wait: Duration) -> Instant {
    now + wait.min(WAIT_MAX)
}

fn rfc3339(seconds: u64) -> String {
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = civil(days);
    format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z", rest / 3600, rest / 60 % 60, rest % 60)
}

/// Year, month and day of a number of days since 1970 (Hinnant's algorithm, with years that begin in March).
fn civil(days: u64) -> (u64, u64, u64) {
    let shifted = days + 719_468;
    let era = shifted / 146_097;
    let of_era = shifted % 146_097;
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    (year_of_era + era * 400 + u64::from(month <= 2), month, day)
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
        let clock = Clock::new(move || UNIX_EPOCH + Duration::from_secs(LAST_SECOND - 1));
        assert_eq!(clock.timestamp_in(Duration::from_secs(1)), "9999-12-31T23:59:59Z");
        assert_eq!(clock.timestamp_in(Duration::from_secs(2)), "9999-12-31T23:59:59Z");
        assert_eq!(clock.timestamp_in(Duration::MAX), "9999-12-31T23:59:59Z");
    }

    #[test]
    fn a_seed_repeats_itself() {
        let (a, b) = (Chance::seeded(7), Chance::seeded(7));
        assert_eq!((a.uid(), a.name_suffix()), (b.uid(), b.name_suffix()));
        assert_ne!(a.uid(), a.uid());
    }
}

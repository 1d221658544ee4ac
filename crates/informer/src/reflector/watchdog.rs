//! Detects a watch that has died silently.
//!
//! Bookmarks are not guaranteed, and a quiet server sends none. So silence means something only after periodic bookmarks
//! were received for this resource. From then on, a watch that is silent for three times the longest interval counts as
//! dead.

use std::time::Duration;

use tokio::time::Instant;

/// Shorter silences never count.
const SILENCE_MIN: Duration = Duration::from_secs(180);

/// The observed bookmarks of a resource.
#[derive(Debug, Default)]
pub(super) struct Watchdog {
    /// The longest interval between two bookmarks of one watch.
    longest_interval: Option<Duration>,
    last_bookmark: Option<Instant>,
    last_sign_of_life: Option<Instant>,
}

impl Watchdog {
    /// A watch was opened.
    pub(super) fn opened(&mut self, now: Instant) {
        self.last_bookmark = None;
        self.last_sign_of_life = Some(now);
    }

    /// An event was received.
    pub(super) fn event(&mut self, now: Instant) {
        self.last_sign_of_life = Some(now);
    }

    /// A bookmark was received.
    pub(super) fn bookmark(&mut self, now: Instant) {
        if let Some(last) = self.last_bookmark {
            self.longest_interval = self.longest_interval.max(Some(now.saturating_duration_since(last)));
        }
        self.last_bookmark = Some(now);
        self.last_sign_of_life = Some(now);
    }

    /// How long this watch may be silent; `None` before that is known.
    pub(super) fn patience(&self) -> Option<Duration> {
        self.longest_interval.map(|interval| (interval * 3).max(SILENCE_MIN))
    }

    /// When the watch counts as dead if nothing is received.
    pub(super) fn deadline(&self) -> Option<Instant> {
        if deliberate_bug!("silence-not-detected") {
            return None;
        }
        Some(self.last_sign_of_life? + self.patience()?)
    }
}

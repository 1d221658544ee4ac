//! Notices a watch that has died silently.
//!
//! Bookmarks are not guaranteed, and a quiet server sends none; so silence means something only once periodic bookmarks
//! were seen on this resource. Then a watch that has been silent for three times the longest interval is taken for dead.

use std::time::Duration;

use tokio::time::Instant;

/// Shorter silences are never taken for death.
const SILENCE_MIN: Duration = Duration::from_secs(180);

/// What is known about a resource's bookmarks.
#[derive(Debug, Default)]
pub(super) struct Watchdog {
    /// Longest interval between two bookmarks of one watch.
    longest_interval: Option<Duration>,
    last_bookmark: Option<Instant>,
    last_sign_of_life: Option<Instant>,
}

impl Watchdog {
    /// A watch begins.
    pub(super) fn opened(&mut self, now: Instant) {
        self.last_bookmark = None;
        self.last_sign_of_life = Some(now);
    }

    /// An event came.
    pub(super) fn event(&mut self, now: Instant) {
        self.last_sign_of_life = Some(now);
    }

    /// A bookmark came.
    pub(super) fn bookmark(&mut self, now: Instant) {
        if let Some(last) = self.last_bookmark {
            self.longest_interval = self.longest_interval.max(Some(now.saturating_duration_since(last)));
        }
        self.last_bookmark = Some(now);
        self.last_sign_of_life = Some(now);
    }

    /// How long this watch may be silent, once that can be said.
    pub(super) fn patience(&self) -> Option<Duration> {
        self.longest_interval.map(|interval| (interval * 3).max(SILENCE_MIN))
    }

    /// When the watch will be taken for dead if nothing comes.
    pub(super) fn deadline(&self) -> Option<Instant> {
        Some(self.last_sign_of_life? + self.patience()?)
    }
}

//! How long informers keep silent watches open (promise 10).
//!
//! Once a watch of a collection has delivered two bookmarks, an informer must end every watch of it that is silent for three
//! times the longest interval between two bookmarks, but not for less than 3 minutes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// Shorter silences never count.
const SILENCE_MIN: Duration = Duration::from_secs(180);

/// How much longer a silence may last. After opening a watch, an informer may check the cached state first, with two reads of up to
/// 10 s each; the time begins after that.
const TOLERANCE: Duration = Duration::from_secs(30);

/// Longer than any run: the client need not notice silence.
const NEVER: Duration = Duration::from_secs(1 << 30);

/// The longest interval between two bookmarks of one watch, by the path of the collection.
#[derive(Clone, Debug, Default)]
pub(crate) struct BookmarkIntervals(Arc<Mutex<BTreeMap<String, Duration>>>);

/// Measures the silence of one watch.
#[derive(Debug)]
pub(crate) struct WatchSilence {
    intervals: BookmarkIntervals,
    path: String,
    last: Instant,
    last_bookmark: Option<Instant>,
}

impl BookmarkIntervals {
    /// Begins to measure a watch of the collection at this path.
    pub(crate) fn of(&self, path: &str) -> WatchSilence {
        let (intervals, path) = (self.clone(), path.to_owned());
        WatchSilence { intervals, path, last: Instant::now(), last_bookmark: None }
    }
}

impl WatchSilence {
    /// Some bytes have passed.
    pub(crate) fn passed(&mut self) {
        self.last = Instant::now();
    }

    /// One or several whole events have passed.
    pub(crate) fn passed_events(&mut self, events: &[u8]) {
        self.passed();
        // In JSON and in protobuf, the type is a string. The bookmark that ends the initial events does not count.
        let is_bookmark = contains(events, b"BOOKMARK") && !contains(events, b"initial-events-end");
        if !is_bookmark || !are_whole(events) {
            return;
        }
        if let Some(before) = self.last_bookmark.replace(self.last) {
            let mut intervals = self.intervals.0.lock();
            let longest = intervals.entry(self.path.clone()).or_default();
            *longest = self.last.duration_since(before).max(*longest);
        }
    }

    /// From now on, bytes pass one at a time. Bookmarks then take as long as the bytes, so the client learns other intervals.
    pub(crate) fn drips(&self) {
        self.intervals.0.lock().insert(self.path.clone(), NEVER);
    }

    /// Checks a watch that the client ends now.
    pub(crate) fn ends(&self) -> Result<(), String> {
        let Some(longest) = self.intervals.0.lock().get(&self.path).copied() else { return Ok(()) };
        let (silence, max) = (self.last.elapsed(), (longest * 3).max(SILENCE_MIN) + TOLERANCE);
        match silence <= max {
            true => Ok(()),
            false => Err(format!(
                "promise 10 is broken: the watch of {} was silent for {silence:?}, although bookmarks came every {longest:?}",
                self.path
            )),
        }
    }
}

/// Whether the last event is not truncated.
fn are_whole(events: &[u8]) -> bool {
    if events.starts_with(b"{") {
        return events.ends_with(b"\n");
    }
    let mut rest = events;
    while let Some((length, event)) = rest.split_first_chunk() {
        match event.get(u32::from_be_bytes(*length) as usize..) {
            Some(next) => rest = next,
            None => return false,
        }
    }
    rest.is_empty()
}

fn contains(bytes: &[u8], text: &[u8]) -> bool {
    let begins = |(at, byte): (usize, &u8)| text.first() == Some(byte) && bytes[at..].starts_with(text);
    bytes.iter().enumerate().any(begins)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn truncated_events_are_recognised() {
        for (events, expected) in [
            (&b"{\"type\":\"BOOKMARK\"}\n"[..], true),
            (b"{\"type\":\"BOOKMARK\"", false),
            (b"\0\0\0\x02ab\0\0\0\x01c", true),
            (b"\0\0\0\x02ab\0\0\0\x02c", false),
            (b"\0\0\0\x02ab\0\0", false),
        ] {
            assert_eq!(are_whole(events), expected, "{events:?}");
        }
    }
}

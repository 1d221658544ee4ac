//! Recently sent notes, so that a repetition increments a count instead of creating another Event.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use tokio::time::Instant;

use super::note::Series;

/// Recent series; the oldest is evicted at the limit.
#[derive(Debug)]
pub(super) struct Known {
    series: HashMap<Series, SentEvent>,
    /// In order of creation.
    order: VecDeque<(Series, u64)>,
    limit: usize,
    lasts: Duration,
    begun: u64,
}

#[derive(Debug)]
struct SentEvent {
    name: String,
    count: i32,
    last: Instant,
    number: u64,
}

/// What to do with a note.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Create an Event.
    Create,
    /// Set the count of this Event.
    Count { name: String, count: i32 },
}

impl Known {
    pub(super) fn new(limit: usize, lasts: Duration) -> Self {
        Self { series: HashMap::new(), order: VecDeque::new(), limit: limit.max(1), lasts, begun: 0 }
    }

    pub(super) fn next(&self, series: &Series) -> Step {
        match self.series.get(series) {
            Some(sent) if sent.last.elapsed() < self.lasts => {
                Step::Count { name: sent.name.clone(), count: sent.count.saturating_add(1) }
            }
            _ => Step::Create,
        }
    }

    /// Records that the count of an Event was updated.
    pub(super) fn counted(&mut self, series: &Series, count: i32) {
        if let Some(sent) = self.series.get_mut(series) {
            sent.last = Instant::now();
            sent.count = count;
        }
    }

    /// Records that an Event was created.
    pub(super) fn began(&mut self, series: Series, name: String) {
        self.begun += 1;
        let sent = SentEvent { name, count: 1, last: Instant::now(), number: self.begun };
        self.order.push_back((series.clone(), self.begun));
        self.series.insert(series, sent);
        while self.order.len() > self.limit {
            let Some((series, number)) = self.order.pop_front() else { return };
            // Unless the series has started again since.
            if self.series.get(&series).is_some_and(|sent| sent.number == number) {
                self.series.remove(&series);
            }
        }
    }

    /// Records that the Event no longer exists.
    pub(super) fn ended(&mut self, series: &Series) {
        self.series.remove(series);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::{EventNote, note::About};

    fn series(text: &str) -> Series {
        About { note: EventNote::normal("Reason", "Act", text), object: Default::default(), suffix: 0 }
            .series()
    }

    #[tokio::test(start_paused = true)]
    async fn a_repetition_is_counted_until_its_series_expires_or_is_evicted() {
        let mut known = Known::new(2, Duration::from_secs(60));
        assert_eq!(known.next(&series("a")), Step::Create);
        known.began(series("a"), "event-a".into());
        for count in [2, 3] {
            assert_eq!(known.next(&series("a")), Step::Count { name: "event-a".into(), count });
            assert_eq!(
                known.next(&series("a")),
                Step::Count { name: "event-a".into(), count },
                "not sent yet"
            );
            known.counted(&series("a"), count);
        }
        tokio::time::advance(Duration::from_secs(60)).await;
        assert_eq!(known.next(&series("a")), Step::Create, "the series has expired");
        known.began(series("a"), "event-a2".into());
        known.began(series("b"), "event-b".into());
        assert_eq!(known.next(&series("a")), Step::Count { name: "event-a2".into(), count: 2 });
        known.began(series("c"), "event-c".into());
        assert_eq!(known.next(&series("a")), Step::Create, "the oldest series was evicted");
        assert_eq!((known.series.len(), known.order.len()), (2, 2));
        known.ended(&series("b"));
        assert_eq!(known.next(&series("b")), Step::Create);
    }
}

//! The most recent changes, written by the handlers of all informers and read by the view.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use kube_informer::{Event, Object, Origin};
use serde_json::Value;

use crate::changes;
use crate::output::EventType;
use crate::terminal::escape;

/// Maximum number of changes that are kept.
pub(super) const CHANGES_MAX: usize = 1000;
/// Maximum number of changes per second that are described. Describing a change decodes two objects; further changes are only
/// counted.
const DESCRIBED_PER_SECOND: usize = 100;

/// One line of the list of changes.
#[derive(Clone, Debug)]
pub(super) struct ChangeLine {
    pub(super) time: String,
    pub(super) event_type: EventType,
    /// `pod default/web`
    pub(super) object: String,
    pub(super) change: String,
}

/// The most recent changes.
#[derive(Default)]
pub(super) struct Changes(Mutex<Recent>);

#[derive(Default)]
struct Recent {
    lines: VecDeque<ChangeLine>,
    omitted: u64,
    /// The current second, and the changes described in it.
    second: Option<(Instant, usize)>,
}

impl Changes {
    /// Takes an event of an informer. Objects of the initial list are not changes.
    pub(super) fn add(&self, singular: &str, event: &Event<Value>) {
        if event.origin() == Some(Origin::Initial) || !self.may_describe() {
            return;
        }
        let (event_type, object, change) = match event {
            Event::Synced => return,
            Event::Added { object, .. } => (EventType::Added, object, String::new()),
            Event::Updated { old, new, origin } => {
                let relisted = *origin == Origin::Relist;
                (if relisted { EventType::Relisted } else { EventType::Modified }, new, described(old, new))
            }
            Event::Deleted { last, .. } => (EventType::Deleted, last, String::new()),
        };
        let line = ChangeLine {
            time: Timestamp::now().strftime("%H:%M:%S").to_string(),
            event_type,
            object: escape::one_line(&format!("{singular} {}", object.key())).into_owned(),
            change: escape::one_line(&change).into_owned(),
        };
        self.push(line);
    }

    /// Adds a line. If too many wait to be taken, the oldest one is dropped and counted.
    fn push(&self, line: ChangeLine) {
        let mut recent = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if recent.lines.len() == CHANGES_MAX {
            recent.lines.pop_front();
            recent.omitted += 1;
        }
        recent.lines.push_back(line);
    }

    /// Takes the lines that were added since the last call, and the number of omitted changes in total.
    pub(super) fn take(&self) -> (VecDeque<ChangeLine>, u64) {
        let mut recent = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        (std::mem::take(&mut recent.lines), recent.omitted)
    }

    /// The number of lines that were added since they were taken last, and the number of omitted changes in total.
    pub(super) fn waiting(&self) -> (usize, u64) {
        let recent = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        (recent.lines.len(), recent.omitted)
    }

    fn may_describe(&self) -> bool {
        let mut recent = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (second, count) = recent
            .second
            .filter(|(second, _)| second.elapsed() < Duration::from_secs(1))
            .unwrap_or_else(|| (Instant::now(), 0));
        recent.second = Some((second, count + 1));
        let may = count < DESCRIBED_PER_SECOND;
        recent.omitted += u64::from(!may);
        may
    }
}

fn described(old: &Object<Value>, new: &Object<Value>) -> String {
    match (old.decode(), new.decode()) {
        (Ok(old), Ok(new)) => changes::in_one_masked_line(&old, &new),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_are_dropped_before_they_are_taken_are_counted() {
        let changes = Changes::default();
        let line = |number: usize| ChangeLine {
            time: String::new(),
            event_type: EventType::Added,
            object: number.to_string(),
            change: String::new(),
        };
        (0..CHANGES_MAX + 3).for_each(|number| changes.push(line(number)));
        assert_eq!(changes.waiting(), (CHANGES_MAX, 3));
        let (lines, omitted) = changes.take();
        assert_eq!((lines[0].object.as_str(), lines.len(), omitted), ("3", CHANGES_MAX, 3));
        assert_eq!(changes.waiting(), (0, 3));
    }
}

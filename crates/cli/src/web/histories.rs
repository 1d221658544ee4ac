//! The last changes of each object, so that the history of one object survives the changes of others.
//!
//! An object that changes often displaces only its own past. Over all objects, the number of bytes is bounded: beyond it, the
//! oldest changes are dropped, whatever their object. Each object's history keeps the time since which it is complete. Recording
//! costs an insertion into each of two maps.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use jiff::Timestamp;
use kube_informer::Key;

use super::journal::JournalEntry;

/// Most changes of one object.
pub(super) const OBJECT_ENTRIES_MAX: usize = 32;
/// Most bytes of all entries and of the states that they hold. A state that entries share with each other, with the journal or with
/// the mirror counts each time.
const BYTES_MAX: usize = 64 << 20;
/// The bytes of an entry without its states, including its places in the maps.
const ENTRY_BYTES: usize = 256;

/// The last changes of all objects.
pub(super) struct Histories {
    objects: HashMap<(usize, Key), ObjectHistory>,
    /// All entries by number, to drop the oldest.
    entries: BTreeMap<u64, Arc<JournalEntry>>,
    bytes: usize,
    bytes_max: usize,
    /// Of objects that have no entries.
    coverage: Coverage,
}

struct ObjectHistory {
    /// The oldest first.
    entries: VecDeque<Arc<JournalEntry>>,
    coverage: Coverage,
}

/// Since when every change of an object is recorded.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Coverage {
    pub(super) since: Timestamp,
    /// Whether that is when the program started to record.
    pub(super) from_start: bool,
}

impl Histories {
    pub(super) fn new() -> Self {
        Self {
            objects: HashMap::new(),
            entries: BTreeMap::new(),
            bytes: 0,
            bytes_max: BYTES_MAX,
            coverage: Coverage { since: Timestamp::now(), from_start: true },
        }
    }

    pub(super) fn record(&mut self, entry: Arc<JournalEntry>) {
        self.bytes += bytes(&entry);
        self.entries.insert(entry.sequence, entry.clone());
        // An object without entries may have had some that were dropped.
        let coverage = self.coverage;
        let history = self
            .objects
            .entry(key(&entry))
            .or_insert_with(|| ObjectHistory { entries: VecDeque::new(), coverage });
        history.entries.push_back(entry);
        if history.entries.len() > OBJECT_ENTRIES_MAX
            && let Some(oldest) = history.drop_oldest()
        {
            self.entries.remove(&oldest.sequence);
            self.bytes -= bytes(&oldest);
        }
        while self.bytes > self.bytes_max
            && let Some((_, oldest)) = self.entries.pop_first()
        {
            self.bytes -= bytes(&oldest);
            self.coverage = Coverage { since: oldest.at, from_start: false };
            let key = key(&oldest);
            if let Some(history) = self.objects.get_mut(&key) {
                // The oldest of all is the oldest of its object.
                history.drop_oldest();
                if history.entries.is_empty() {
                    self.objects.remove(&key);
                }
            }
        }
    }

    /// The changes of an object, the newest first.
    pub(super) fn of(&self, mirror: usize, key: &Key) -> (Vec<Arc<JournalEntry>>, Coverage) {
        match self.objects.get(&(mirror, key.clone())) {
            Some(history) => (history.entries.iter().rev().cloned().collect(), history.coverage),
            None => (Vec::new(), self.coverage),
        }
    }

    pub(super) fn entry(&self, sequence: u64) -> Option<&Arc<JournalEntry>> {
        self.entries.get(&sequence)
    }
}

impl ObjectHistory {
    fn drop_oldest(&mut self) -> Option<Arc<JournalEntry>> {
        let oldest = self.entries.pop_front()?;
        self.coverage = Coverage { since: oldest.at, from_start: false };
        Some(oldest)
    }
}

fn key(entry: &JournalEntry) -> (usize, Key) {
    (entry.mirror, entry.change.object().key())
}

fn bytes(entry: &JournalEntry) -> usize {
    ENTRY_BYTES + entry.change.bytes()
}

#[cfg(test)]
mod tests {
    use kube_informer::{Scope, StoredObject};
    use kube_wire::{Encoding, Limits, ObjectReader, Projection};

    use super::super::journal::RecordedChange;
    use super::*;

    fn object(name: &str, note: &str) -> StoredObject {
        let json = format!(
            r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"namespace":"a","name":"{name}","resourceVersion":"1"}},"data":{{"note":"{note}"}}}}"#
        );
        let mut reader = ObjectReader::new(Projection::default(), Limits::default());
        let object = reader.read(json.as_bytes(), Encoding::Json, None).unwrap();
        StoredObject::new(Scope::default(), object).unwrap()
    }

    fn entry(sequence: u64, object: &StoredObject) -> Arc<JournalEntry> {
        let change = RecordedChange::Updated { old: object.clone(), new: object.clone() };
        let at = Timestamp::from_second(i64::try_from(sequence).unwrap()).unwrap();
        Arc::new(JournalEntry { sequence, at, mirror: 0, change, relisted: false })
    }

    fn sequences(histories: &Histories, name: &str) -> (Vec<u64>, Option<i64>) {
        let (entries, coverage) = histories.of(0, &Key::new("a", name));
        let since = (!coverage.from_start).then(|| coverage.since.as_second());
        (entries.iter().map(|entry| entry.sequence).collect(), since)
    }

    #[test]
    fn an_object_that_changes_often_displaces_only_its_own_changes() {
        let (busy, calm) = (object("busy", ""), object("calm", ""));
        let mut histories = Histories::new();
        histories.record(entry(1, &calm));
        for sequence in 2..=100_000 {
            histories.record(entry(sequence, &busy));
        }
        assert_eq!(sequences(&histories, "calm"), (vec![1], None));
        let newest = (100_000 - OBJECT_ENTRIES_MAX as u64 + 1..=100_000).rev().collect::<Vec<_>>();
        assert_eq!(sequences(&histories, "busy"), (newest, Some(100_000 - OBJECT_ENTRIES_MAX as i64)));
        assert_eq!(sequences(&histories, "other"), (vec![], None));
        assert_eq!((histories.entries.len(), histories.objects.len()), (OBJECT_ENTRIES_MAX + 1, 2));
        assert!(histories.entry(1).is_some() && histories.entry(2).is_none());
    }

    #[test]
    fn beyond_the_bytes_the_oldest_changes_are_dropped_and_every_history_says_so() {
        let objects = (0..50).map(|number| object(&format!("m{number:02}"), "")).collect::<Vec<_>>();
        let each = bytes(&entry(0, &objects[0]));
        let mut histories = Histories { bytes_max: 40 * each, ..Histories::new() };
        for (sequence, object) in (1..).zip(objects.iter().chain(&objects[10..13])) {
            histories.record(entry(sequence, object));
            assert!(histories.bytes <= histories.bytes_max);
        }
        // 53 entries, of which the newest 40 remain.
        assert_eq!(histories.entries.len(), 40);
        assert_eq!(sequences(&histories, "m00"), (vec![], Some(13)), "dropped");
        assert_eq!(sequences(&histories, "m12"), (vec![53], Some(13)), "its first change is dropped");
        assert_eq!(sequences(&histories, "m13"), (vec![14], None), "complete");
        assert_eq!(sequences(&histories, "m49"), (vec![50], Some(9)), "recorded after the first drops");
        assert_eq!(histories.bytes, histories.entries.values().map(|entry| bytes(entry)).sum::<usize>());
    }

    #[test]
    fn a_change_larger_than_the_limit_leaves_nothing_behind() {
        let mut histories = Histories { bytes_max: ENTRY_BYTES, ..Histories::new() };
        histories.record(entry(1, &object("large", &"x".repeat(1000))));
        assert_eq!((histories.bytes, histories.entries.len(), histories.objects.len()), (0, 0, 0));
        assert_eq!(sequences(&histories, "large"), (vec![], Some(1)));
    }
}

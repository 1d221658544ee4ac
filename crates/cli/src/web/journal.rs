//! The recent changes of all mirrors, numbered in one sequence.
//!
//! An entry holds handles to the object's states before and after. The differences are computed when a client requests them.
//! A change that no client requests is therefore never decoded. When the journal is full, the oldest entries are dropped. The
//! last changes of each object are kept longer, in [`Histories`].

use std::collections::VecDeque;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use kube_informer::building_blocks::Snapshot;
use kube_informer::{Event, Key, Origin, StoredObject};
use serde_json::Value;
use tokio::sync::watch;

use super::histories::{Coverage, Histories};

/// Most entries.
const ENTRIES_MAX: usize = 4096;
/// Most bytes of the states that entries hold.
const BYTES_MAX: usize = 32 << 20;

/// The recent changes.
pub(super) struct Journal {
    /// Identifies this run of the program: sequence numbers of another run are not comparable.
    session: String,
    ring: Mutex<Ring>,
    /// The number of the newest entry.
    newest: watch::Sender<u64>,
}

struct Ring {
    entries: VecDeque<Arc<JournalEntry>>,
    bytes: usize,
    /// The number of the next entry; the first is 1.
    next: u64,
    histories: Histories,
}

/// One change.
pub(super) struct JournalEntry {
    pub(super) sequence: u64,
    pub(super) at: Timestamp,
    /// The number of the mirror.
    pub(super) mirror: usize,
    pub(super) change: RecordedChange,
    /// Whether a relist found the change. Intermediate states may then be missing.
    pub(super) relisted: bool,
}

/// The states before and after.
pub(super) enum RecordedChange {
    Added(StoredObject),
    Updated { old: StoredObject, new: StoredObject },
    Deleted { last: StoredObject, final_state_known: bool },
}

impl Journal {
    pub(super) fn new() -> Self {
        let ring = Ring { entries: VecDeque::new(), bytes: 0, next: 1, histories: Histories::new() };
        Self {
            session: format!("{:016x}", RandomState::new().hash_one(())),
            ring: Mutex::new(ring),
            newest: watch::Sender::new(0),
        }
    }

    pub(super) fn session(&self) -> &str {
        &self.session
    }

    /// Records a change. Objects of the initial list are not recorded.
    pub(super) fn record(&self, mirror: usize, event: &Event<Value>, snapshot: &Snapshot) {
        let Some(mut change) = RecordedChange::of(event) else { return };
        change.share_with(snapshot);
        let mut ring = self.ring();
        let sequence = ring.next;
        ring.next += 1;
        ring.bytes += change.bytes();
        let relisted = event.origin() == Some(Origin::Relist);
        let entry = Arc::new(JournalEntry { sequence, at: Timestamp::now(), mirror, change, relisted });
        ring.histories.record(entry.clone());
        ring.entries.push_back(entry);
        while ring.entries.len() > ENTRIES_MAX || ring.bytes > BYTES_MAX {
            let Some(oldest) = ring.entries.pop_front() else { break };
            ring.bytes -= oldest.change.bytes();
        }
        drop(ring);
        self.newest.send_replace(sequence);
    }

    /// The number of the newest entry, now and later.
    pub(super) fn follow(&self) -> watch::Receiver<u64> {
        self.newest.subscribe()
    }

    /// The entries after a number, and how many of them were dropped.
    pub(super) fn after(&self, sequence: u64) -> (Vec<Arc<JournalEntry>>, u64) {
        let ring = self.ring();
        let first = ring.entries.front().map_or(ring.next, |entry| entry.sequence);
        let from = sequence.saturating_add(1);
        let skip = usize::try_from(from.saturating_sub(first)).unwrap_or(usize::MAX);
        let entries = ring.entries.iter().skip(skip).cloned().collect();
        (entries, first.saturating_sub(from))
    }

    /// The recorded changes of an object, the newest first, and since when they are complete.
    pub(super) fn history(&self, mirror: usize, key: &Key) -> (Vec<Arc<JournalEntry>>, Coverage) {
        self.ring().histories.of(mirror, key)
    }

    /// The number of changes of one object from one entry to another.
    pub(super) fn count_between(&self, first: &JournalEntry, last: &JournalEntry) -> usize {
        let (mirror, key) = (last.mirror, last.change.object().key());
        let ring = self.ring();
        let is_between = |entry: &&Arc<JournalEntry>| {
            (first.sequence..=last.sequence).contains(&entry.sequence)
                && entry.mirror == mirror
                && entry.change.object().key() == key
                && entry.change.object().uid() == last.change.object().uid()
        };
        // Entries that the journal has dropped may still be in the object's history.
        let (history, _) = ring.histories.of(mirror, &key);
        let in_journal = ring.entries.iter().filter(is_between).count();
        in_journal.max(history.iter().filter(is_between).count())
    }

    /// The entry with this number, unless it was dropped.
    pub(super) fn entry(&self, sequence: u64) -> Option<Arc<JournalEntry>> {
        let ring = self.ring();
        let first = ring.entries.front()?.sequence;
        let at = sequence.checked_sub(first).and_then(|at| usize::try_from(at).ok());
        at.and_then(|at| ring.entries.get(at)).or_else(|| ring.histories.entry(sequence)).cloned()
    }

    /// The number of the newest entry.
    pub(super) fn last(&self) -> u64 {
        *self.newest.borrow()
    }

    /// No user code runs under the lock, so a panic cannot leave it inconsistent.
    fn ring(&self) -> MutexGuard<'_, Ring> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RecordedChange {
    fn of(event: &Event<Value>) -> Option<Self> {
        if matches!(event.origin()?, Origin::Initial | Origin::Resync) {
            return None;
        }
        match event {
            Event::Added { object, .. } => Some(Self::Added((**object).clone())),
            Event::Updated { old, new, .. } => {
                Some(Self::Updated { old: (**old).clone(), new: (**new).clone() })
            }
            Event::Deleted { last, final_state_known, .. } => {
                Some(Self::Deleted { last: (**last).clone(), final_state_known: *final_state_known })
            }
            Event::Synced => None,
        }
    }

    /// Holds the mirror's copy of the new state, which is compressed, instead of its own.
    fn share_with(&mut self, snapshot: &Snapshot) {
        let (Self::Added(new) | Self::Updated { new, .. }) = self else { return };
        let version = |object: &StoredObject| (object.uid().to_owned(), object.resource_version().to_owned());
        if let Some(stored) = snapshot.get(&new.key())
            && version(stored) == version(new)
        {
            *new = stored.clone();
        }
    }

    /// The current state, or the last one before the deletion.
    pub(super) fn object(&self) -> &StoredObject {
        match self {
            Self::Added(object) | Self::Updated { new: object, .. } | Self::Deleted { last: object, .. } => {
                object
            }
        }
    }

    /// The state before, if there was one.
    pub(super) fn old(&self) -> Option<&StoredObject> {
        match self {
            Self::Added(_) => None,
            Self::Updated { old, .. } => Some(old),
            Self::Deleted { last, .. } => Some(last),
        }
    }

    /// The bytes of the states.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Added(object) | Self::Deleted { last: object, .. } => object.stored_bytes(),
            Self::Updated { old, new } => old.stored_bytes() + new.stored_bytes(),
        }
    }
}

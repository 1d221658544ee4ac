//! The objects of one resource and the window of their latest events; and who owns whom, over all resources.

use std::collections::btree_map::Range;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

use super::list::Counts;
use super::signal::Signal;
use super::{CollectionId, Cursor, Event, Stored, Window};

/// See the module's text.
#[derive(Debug, Default)]
pub(super) struct Collection {
    pub(super) objects: BTreeMap<Arc<str>, Arc<Stored>>,
    /// Ascending by revision.
    pub(super) history: VecDeque<Arc<Event>>,
    /// Sequence number of the history's first event.
    pub(super) first_sequence: u64,
    /// Bytes that the events after `compacted` keep alive.
    history_bytes: usize,
    /// Bytes that all events in `history` keep alive.
    held_bytes: usize,
    /// Nothing up to this revision can be asked for any more.
    pub(super) compacted: u64,
    /// The collection's revision, once it is fed from outside.
    pub(super) own_revision: Option<u64>,
    /// Tells watchers that there is something to read.
    pub(super) signal: Arc<Signal>,
    pub(super) counts: Counts,
}

/// Keys by the uid of an owner they name.
#[derive(Debug, Default)]
pub(super) struct Owners(BTreeMap<Box<str>, BTreeSet<(CollectionId, Arc<str>)>>);

/// An object that names an owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Dependent {
    pub(crate) collection: CollectionId,
    pub(crate) key: Arc<str>,
}

// === impl Collection ===

impl Collection {
    /// Objects whose key begins with `prefix`, from `start` on.
    pub(super) fn range<'a>(
        &'a self,
        prefix: &'a str,
        start: &str,
    ) -> impl Iterator<Item = (&'a Arc<str>, &'a Arc<Stored>)> {
        let from = if start > prefix { start } else { prefix };
        let range: Range<'a, _, _> =
            self.objects.range::<str, _>((Bound::Included(from), Bound::<&str>::Unbounded));
        range.take_while(move |(key, _)| key.starts_with(prefix))
    }

    pub(super) fn next_sequence(&self) -> u64 {
        self.first_sequence + self.history.len() as u64
    }

    /// A cursor whose first event is the first one after the revision.
    pub(super) fn cursor(&self, id: CollectionId, after: u64, window: &Window) -> Cursor {
        let at = self.history.partition_point(|event| event.revision <= after);
        let behind = (self.history.len() - at) as u64;
        Cursor {
            collection: id,
            next: self.first_sequence + at as u64,
            after,
            listener: self.signal.listen(self.first_sequence + at as u64),
            behind_max: behind.max(window.watch_buffer_events_max as u64),
        }
    }

    pub(super) fn record(&mut self, event: Event, window: &Window) {
        self.history_bytes += event.weight();
        self.held_bytes += event.weight();
        self.history.push_back(Arc::new(event));
        self.trim(window);
    }

    /// Moves the logical mark to `revision`, never back, then frees the events that are no longer needed.
    pub(super) fn compact(&mut self, revision: u64, window: &Window) {
        if revision > self.compacted {
            let from = self.live_from();
            let to = self.history.partition_point(|event| event.revision <= revision);
            self.history_bytes -= self.history.range(from..to).map(|event| event.weight()).sum::<usize>();
            self.compacted = revision;
        }
        self.free_unneeded(window);
    }

    /// Enforces the window.
    pub(super) fn trim(&mut self, window: &Window) {
        let mut at = self.live_from();
        while self.history.len() - at > window.history_events_max
            || self.history_bytes > window.history_bytes_max
        {
            let Some(event) = self.history.get(at) else { break };
            self.history_bytes -= event.weight();
            self.compacted = event.revision;
            at += 1;
        }
        self.free_unneeded(window);
    }

    /// Loses all history: cursors lag, and only `revision` and later can be asked for.
    pub(super) fn forget(&mut self, revision: u64) {
        self.first_sequence = self.next_sequence() + 1;
        self.history = VecDeque::new();
        self.history_bytes = 0;
        self.held_bytes = 0;
        self.compacted = revision;
        self.counts.clear();
        self.own_revision = self.own_revision.map(|_| revision);
    }

    /// The place of the first event after the mark.
    fn live_from(&self) -> usize {
        self.history.partition_point(|event| event.revision <= self.compacted)
    }

    /// Frees the events up to the mark: all that every open watch has read, and the oldest ones that exceed the buffer
    /// of watches, read or not.
    fn free_unneeded(&mut self, window: &Window) {
        let mut first_unread = None;
        while let Some(oldest) = self.history.front().filter(|event| event.revision <= self.compacted) {
            let exceeds = self.history.len() > window.watch_buffer_events_max
                || self.held_bytes > window.watch_buffer_bytes_max;
            let first_unread = *first_unread.get_or_insert_with(|| self.signal.first_unread());
            if !exceeds && first_unread <= self.first_sequence {
                break;
            }
            self.held_bytes -= oldest.weight();
            self.history.pop_front();
            self.first_sequence += 1;
        }
        if self.history.is_empty() {
            self.history = VecDeque::new();
        }
    }
}

// === impl Owners ===

impl Owners {
    pub(super) fn add(&mut self, id: CollectionId, object: &Arc<Stored>) {
        for uid in object.attributes.owners() {
            self.0.entry(uid.into()).or_default().insert((id, object.key.clone()));
        }
    }

    pub(super) fn remove(&mut self, id: CollectionId, object: &Arc<Stored>) {
        for uid in object.attributes.owners() {
            if let Some(keys) = self.0.get_mut(uid) {
                keys.remove(&(id, object.key.clone()));
                if keys.is_empty() {
                    self.0.remove(uid);
                }
            }
        }
    }

    pub(super) fn of(&self, uid: &str) -> Vec<Dependent> {
        let keys = self.0.get(uid).into_iter().flatten();
        keys.map(|(collection, key)| Dependent { collection: *collection, key: key.clone() }).collect()
    }
}

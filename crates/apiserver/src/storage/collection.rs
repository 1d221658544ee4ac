//! The objects of one resource and the window of their latest events, and the owner index over all resources.

use std::collections::btree_map::Range;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

use super::list::Counts;
use super::signal::Signal;
use super::{CollectionId, Cursor, Event, Stored, Window};

/// The objects and events of one resource.
#[derive(Debug, Default)]
pub(super) struct Collection {
    pub(super) objects: BTreeMap<Arc<str>, Arc<Stored>>,
    /// Ascending by revision.
    pub(super) history: VecDeque<Arc<Event>>,
    /// Sequence number of the history's first event.
    pub(super) first_sequence: u64,
    /// Bytes kept alive by the events after `compacted`.
    history_bytes: usize,
    /// Bytes kept alive by all events in `history`.
    held_bytes: usize,
    /// Revisions up to this one are no longer available.
    pub(super) compacted: u64,
    /// The collection's own revision, once it is fed.
    pub(super) own_revision: Option<u64>,
    /// Wakes watchers when there is something to read.
    pub(super) signal: Arc<Signal>,
    pub(super) counts: Counts,
}

/// Keys by the uid of an owner they name.
#[derive(Debug, Default)]
pub(super) struct Owners(BTreeMap<Box<str>, BTreeSet<(CollectionId, Arc<str>)>>);

/// An object that has an owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Dependent {
    pub(crate) collection: CollectionId,
    pub(crate) key: Arc<str>,
}

// === impl Collection ===

impl Collection {
    /// Objects whose key starts with `prefix`, from `start` on.
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

    /// A cursor at the first event after the revision.
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

    /// Advances `compacted` to `revision`, if that is later, then frees unneeded events.
    pub(super) fn compact(&mut self, revision: u64, window: &Window) {
        if revision > self.compacted {
            let from = self.live_from();
            let to = self.history.partition_point(|event| event.revision <= revision);
            self.history_bytes -= self.history.range(from..to).map(|event| event.weight()).sum::<usize>();
            self.compacted = revision;
        }
        self.free_unneeded(window);
    }

    /// Enforces the window's limits.
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

    /// Drops all history: cursors lag, and only `revision` and later are available.
    pub(super) fn forget(&mut self, revision: u64) {
        self.first_sequence = self.next_sequence() + 1;
        self.history = VecDeque::new();
        self.history_bytes = 0;
        self.held_bytes = 0;
        self.compacted = revision;
        self.counts.clear();
        self.own_revision = self.own_revision.map(|_| revision);
    }

    /// The index of the first event after `compacted`.
    fn live_from(&self) -> usize {
        self.history.partition_point(|event| event.revision <= self.compacted)
    }

    /// Frees events up to `compacted`: all that every open watch has read, and the oldest ones beyond the watch
    /// buffer's limits, read or not.
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

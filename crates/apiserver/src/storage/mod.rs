//! The server's state: objects by key, and their recent events.
//!
//! A single revision counter covers everything, as in etcd. Each resource is a [`Collection`](collection::Collection):
//! a sorted map of *encoded* objects and a window of the latest events. Everything here is synchronous and uses
//! neither I/O nor a clock, so a sequence of calls always produces the same state, events and errors.
//!
//! Two limits bound the history of a collection. `compacted` is logical: earlier revisions are no longer available to
//! lists at an exact revision and to new watches. The buffer is physical: it holds the events after `compacted`, and
//! older ones that an open watch has not read yet. Compaction advances `compacted` and frees the events that every
//! open watch has read; the others stay until they are read or exceed the buffer's limits. A watch that falls behind
//! the buffer gets [`Lagged`].

mod attributes;
mod collection;
mod cursor;
mod event;
mod frames;
mod list;
mod signal;
mod snapshot;
mod token;

use std::sync::Arc;
use std::task::{Context, Poll};

use parking_lot::RwLock;

pub(crate) use attributes::Attributes;
pub(crate) use collection::Dependent;
use collection::{Collection, Owners};
pub(crate) use cursor::{Cursor, Progress};
pub(crate) use event::{ChangeType, Event, FrameKey};
pub(crate) use frames::Frames;
pub(crate) use list::{ListQuery, Page};
use signal::Signal;
pub(crate) use snapshot::Snapshot;
pub(crate) use token::ContinueToken;

/// The index of a collection in the storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct CollectionId(usize);

/// A stored object, encoded once, when it was written.
#[derive(Debug)]
pub(crate) struct Stored {
    /// `namespace/name`, or `name` for cluster-scoped objects. As in etcd, keys sort as one string.
    pub(crate) key: Arc<str>,
    /// The object's resourceVersion.
    pub(crate) revision: u64,
    /// The encoded object, without apiVersion and kind.
    pub(crate) bytes: Box<[u8]>,
    /// Attributes for selectors and the garbage collector.
    pub(crate) attributes: Attributes,
}

/// An object about to be stored.
#[derive(Debug)]
pub(crate) struct Draft {
    pub(crate) bytes: Box<[u8]>,
    pub(crate) attributes: Attributes,
}

/// The kind of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WriteKind {
    Put,
    /// The draft is the object's last state, with the deletion's revision.
    Delete,
}

/// The state that a write expects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expect {
    Absent,
    Revision(u64),
}

/// The key was not in the expected state: read it again and retry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mismatch;

/// The revision has been compacted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Compacted {
    /// The oldest available revision.
    pub(crate) oldest: u64,
}

/// A reader lagged so far that events it has not read are gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lagged;

/// A fed revision is not newer than the collection's latest one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OutOfOrder {
    pub(crate) given: u64,
    pub(crate) last: u64,
}

/// Limits on the history of each collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    /// Events available to lists and new watches.
    pub(crate) history_events_max: usize,
    /// Bytes of superseded and deleted objects in those events.
    pub(crate) history_bytes_max: usize,
    /// Events that an open watch may lag.
    pub(crate) watch_buffer_events_max: usize,
    /// Bytes of superseded and deleted objects held for open watches.
    pub(crate) watch_buffer_bytes_max: usize,
}

/// The storage; see the module documentation.
#[derive(Debug)]
pub(crate) struct Storage {
    inner: RwLock<StorageState>,
    /// Signaled by every write, to any collection.
    progress: Arc<Signal>,
    /// Encoded events of all collections.
    pub(crate) frames: Frames,
}

#[derive(Debug)]
struct StorageState {
    revision: u64,
    window: Window,
    collections: Vec<Collection>,
    owners: Owners,
}

/// Size of objects after which one read ends, in bytes: a reader holds what it has read until it is sent.
const READ_BYTES: usize = 64 << 10;

impl Default for Window {
    fn default() -> Self {
        Self {
            history_events_max: 16_384,
            history_bytes_max: 256 << 20,
            watch_buffer_events_max: 16_384,
            watch_buffer_bytes_max: 256 << 20,
        }
    }
}

// === impl Stored ===

impl Stored {
    /// Its size in bytes, without the fixed size of every object.
    fn weight(&self) -> usize {
        self.bytes.len() + self.attributes.len()
    }
}

// === impl Storage ===

impl Storage {
    pub(crate) fn new(window: Window) -> Self {
        let inner = StorageState { revision: 1, window, collections: Vec::new(), owners: Owners::default() };
        Self { inner: RwLock::new(inner), progress: Arc::default(), frames: Frames::default() }
    }

    /// Adds an empty collection. Its history starts now.
    pub(crate) fn open(&self) -> CollectionId {
        let mut inner = self.inner.write();
        let id = CollectionId(inner.collections.len());
        inner.collections.push(Collection::default());
        id
    }

    /// The revision that a list of the collection would have now.
    pub(crate) fn revision(&self, id: CollectionId) -> u64 {
        self.inner.read().current(id)
    }

    /// The latest revision of all collections.
    pub(crate) fn newest(&self) -> u64 {
        self.inner.read().revision
    }

    /// Subscribes to changes of the revision.
    pub(crate) fn progress(&self) -> Progress {
        Progress(self.progress.listen(0))
    }

    /// Ready once the collection has reached the revision.
    pub(crate) fn poll_reached(
        &self,
        id: CollectionId,
        revision: u64,
        progress: &mut Progress,
        context: &mut Context<'_>,
    ) -> Poll<()> {
        loop {
            progress.0.acknowledge(0);
            if self.revision(id) >= revision {
                return Poll::Ready(());
            }
            if progress.0.poll_changed(context).is_pending() {
                return Poll::Pending;
            }
        }
    }

    pub(crate) fn get(&self, id: CollectionId, key: &str) -> Option<Arc<Stored>> {
        self.inner.read().collection(id).objects.get(key).cloned()
    }

    /// Whether no key starts with `prefix`.
    pub(crate) fn is_empty(&self, id: CollectionId, prefix: &str) -> bool {
        self.inner.read().collection(id).range(prefix, "").next().is_none()
    }

    /// All objects whose key starts with `prefix`, and the current revision.
    pub(crate) fn all(&self, id: CollectionId, prefix: &str) -> (Vec<Arc<Stored>>, u64) {
        let inner = self.inner.read();
        (
            inner.collection(id).range(prefix, "").map(|(_, object)| object.clone()).collect(),
            inner.current(id),
        )
    }

    /// A page of a list. See [`ListQuery`].
    pub(crate) fn list(&self, id: CollectionId, query: &ListQuery<'_>) -> Result<Page, Compacted> {
        let inner = self.inner.read();
        list::page(inner.collection(id), inner.current(id), query)
    }

    /// Writes one object if the key is in the expected state. `encode` gets the write's revision and returns the
    /// object's bytes; it runs under the lock and must not call the storage.
    pub(crate) fn commit(
        &self,
        id: CollectionId,
        key: &str,
        expect: Expect,
        write: WriteKind,
        encode: impl FnOnce(u64) -> Draft,
    ) -> Result<Arc<Stored>, Mismatch> {
        let mut inner = self.inner.write();
        let found = inner.collection(id).objects.get(key).map(|object| object.revision);
        match (expect, found) {
            (Expect::Absent, None) => {}
            (Expect::Revision(expected), Some(revision)) if expected == revision => {}
            _ => return Err(Mismatch),
        }
        let revision = inner.revision + 1;
        let draft = encode(revision);
        inner.revision = revision;
        let stored = inner.apply(id, key, write, revision, draft);
        let signal = inner.collection(id).signal.clone();
        drop(inner);
        signal.notify();
        self.progress.notify();
        Ok(stored)
    }

    /// Writes one object with a given revision, regardless of the key's state; deleting an absent key does nothing.
    /// From then on, the collection has its own revision.
    pub(crate) fn feed(
        &self,
        id: CollectionId,
        key: &str,
        write: WriteKind,
        revision: u64,
        draft: Draft,
    ) -> Result<(), OutOfOrder> {
        let mut inner = self.inner.write();
        inner.advance(id, revision)?;
        if write == WriteKind::Put || inner.collection(id).objects.contains_key(key) {
            inner.apply(id, key, write, revision, draft);
        }
        let signal = inner.collection(id).signal.clone();
        drop(inner);
        signal.notify();
        self.progress.notify();
        Ok(())
    }

    /// Advances a fed collection's revision without an event, as a bookmark does.
    pub(crate) fn feed_bookmark(&self, id: CollectionId, revision: u64) -> Result<(), OutOfOrder> {
        let mut inner = self.inner.write();
        inner.advance(id, revision)?;
        let signal = inner.collection(id).signal.clone();
        drop(inner);
        signal.notify();
        self.progress.notify();
        Ok(())
    }

    /// A cursor after the revision `after`: it reads every later event.
    pub(crate) fn watch(&self, id: CollectionId, after: u64) -> Result<Cursor, Compacted> {
        let inner = self.inner.read();
        let collection = inner.collection(id);
        if after < collection.compacted {
            return Err(Compacted { oldest: collection.compacted });
        }
        Ok(collection.cursor(id, after, &inner.window))
    }

    /// A cursor after the current revision. [`state`](Self::state) reads the objects at that revision.
    pub(crate) fn watch_from_now(&self, id: CollectionId) -> (Cursor, u64) {
        let inner = self.inner.read();
        let revision = inner.current(id);
        (inner.collection(id).cursor(id, revision, &inner.window), revision)
    }

    /// Up to `max` objects under `prefix`, from the key `start` on, as of the revision at which the cursor started.
    pub(crate) fn state(
        &self,
        cursor: &Cursor,
        prefix: &str,
        start: &str,
        max: usize,
    ) -> Result<Vec<Arc<Stored>>, Lagged> {
        let inner = self.inner.read();
        let collection = inner.collection(cursor.collection);
        if cursor.next < collection.first_sequence {
            return Err(Lagged);
        }
        let overlay = list::undo(collection, cursor.after);
        Ok(list::merged(collection, &overlay, prefix, start).take(max).cloned().collect())
    }

    /// Moves up to `max` events from the cursor into `events`, fewer if they are large. Returns the revision up to
    /// which the reader has now seen everything.
    pub(crate) fn read(
        &self,
        cursor: &mut Cursor,
        max: usize,
        events: &mut Vec<Arc<Event>>,
    ) -> Result<u64, Lagged> {
        cursor.listener.acknowledge(cursor.next);
        let inner = self.inner.read();
        let collection = inner.collection(cursor.collection);
        let behind = collection.next_sequence() - cursor.next;
        if cursor.next < collection.first_sequence || behind > cursor.behind_max {
            return Err(Lagged);
        }
        let from = (cursor.next - collection.first_sequence) as usize;
        let before = events.len();
        let (mut seen, mut bytes) = (0, 0);
        for event in collection.history.range(from..).take(max) {
            seen += 1;
            if event.revision > cursor.after {
                events.push(event.clone());
                bytes += event.object.bytes.len();
            }
            if bytes >= READ_BYTES {
                break;
            }
        }
        cursor.next += seen;
        cursor.behind_max = (inner.window.watch_buffer_events_max as u64).max(behind - seen);
        if seen == behind {
            return Ok(inner.current(cursor.collection));
        }
        Ok(events[before..].last().map_or(cursor.after, |event| event.revision))
    }

    /// Objects that have an owner with this uid.
    pub(crate) fn dependents(&self, uid: &str) -> Vec<Dependent> {
        self.inner.read().owners.of(uid)
    }

    /// Compacts the history up to `revision`, in all collections: older lists and watches are `Expired` from now on.
    pub(crate) fn compact(&self, revision: u64) {
        let mut inner = self.inner.write();
        let StorageState { collections, window, revision: newest, .. } = &mut *inner;
        for collection in collections {
            let newest = collection.own_revision.unwrap_or(*newest);
            collection.compact(revision.min(newest), window);
        }
    }

    /// Changes the limits on history.
    pub(crate) fn set_window(&self, window: Window) {
        let mut inner = self.inner.write();
        inner.window = window;
        for collection in &mut inner.collections {
            collection.trim(&window);
        }
    }

    pub(crate) fn window(&self) -> Window {
        self.inner.read().window
    }

    /// The current state, without its history.
    pub(crate) fn snapshot(&self) -> Snapshot {
        let inner = self.inner.read();
        let objects = inner.collections.iter().map(|collection| collection.objects.clone()).collect();
        Snapshot { revision: inner.revision, objects }
    }

    /// Wakes every reader, as if each collection had changed.
    pub(crate) fn wake_readers(&self) {
        let signals = {
            let inner = self.inner.read();
            inner.collections.iter().map(|collection| collection.signal.clone()).collect::<Vec<_>>()
        };
        for signal in signals {
            signal.notify();
        }
    }

    /// Restores a snapshot, including its revision, as a server restored from a backup does; with `None`, keeps the
    /// state. In both cases history is lost and every open cursor lags.
    pub(crate) fn restart(&self, snapshot: Option<&Snapshot>) {
        let mut inner = self.inner.write();
        if let Some(snapshot) = snapshot {
            inner.revision = snapshot.revision;
            let mut owners = Owners::default();
            for (at, collection) in inner.collections.iter_mut().enumerate() {
                collection.objects = snapshot.objects.get(at).cloned().unwrap_or_default();
                for object in collection.objects.values() {
                    owners.add(CollectionId(at), object);
                }
            }
            inner.owners = owners;
        }
        let revision = inner.revision;
        let mut signals = Vec::with_capacity(inner.collections.len());
        for collection in &mut inner.collections {
            collection.forget(revision);
            signals.push(collection.signal.clone());
        }
        drop(inner);
        for signal in signals {
            signal.notify();
        }
    }
}

// === impl StorageState ===

impl StorageState {
    fn collection(&self, id: CollectionId) -> &Collection {
        // Only `open` creates ids, and collections are never removed.
        &self.collections[id.0]
    }

    fn collection_mut(&mut self, id: CollectionId) -> &mut Collection {
        &mut self.collections[id.0]
    }

    fn current(&self, id: CollectionId) -> u64 {
        self.collection(id).own_revision.unwrap_or(self.revision)
    }

    fn advance(&mut self, id: CollectionId, revision: u64) -> Result<(), OutOfOrder> {
        let collection = self.collection_mut(id);
        let last = collection.own_revision.unwrap_or(collection.compacted);
        if revision <= last {
            return Err(OutOfOrder { given: revision, last });
        }
        collection.own_revision = Some(revision);
        self.revision = self.revision.max(revision);
        Ok(())
    }

    fn apply(
        &mut self,
        id: CollectionId,
        key: &str,
        write: WriteKind,
        revision: u64,
        draft: Draft,
    ) -> Arc<Stored> {
        let Self { collections, owners, window, .. } = self;
        let collection = &mut collections[id.0];
        let previous = collection.objects.get(key).cloned();
        let key = previous.as_ref().map_or_else(|| Arc::from(key), |object| object.key.clone());
        let object = Arc::new(Stored { key, revision, bytes: draft.bytes, attributes: draft.attributes });
        if let Some(previous) = &previous {
            owners.remove(id, previous);
        }
        let change = match (write, &previous) {
            (WriteKind::Put, None) => ChangeType::Added,
            (WriteKind::Put, Some(_)) => ChangeType::Modified,
            (WriteKind::Delete, _) => ChangeType::Deleted,
        };
        if write == WriteKind::Put {
            owners.add(id, &object);
            collection.objects.insert(object.key.clone(), object.clone());
        } else {
            collection.objects.remove(&object.key);
        }
        collection.record(Event::new(revision, change, object.clone(), previous), window);
        object
    }
}

#[cfg(test)]
mod tests;

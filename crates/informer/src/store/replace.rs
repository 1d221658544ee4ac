//! A complete list of a scope, compared with the store as it arrives.
//!
//! Only differences are kept: an object that equals the stored one leaves a bit behind. So a relist that finds little new
//! needs little memory, whatever its size, and takes effect as a whole or not at all.
//!
//! Objects are packed as they arrive. Without a dictionary, the first objects are held plain until there are enough to train
//! one: a million pods are never held plain.

use std::sync::Arc;

use hashbrown::HashTable;
use kube_wire::RawObject;

use super::change::{Change, FullList, Origin};
use super::commit::{Commit, Writer};
use super::index::CompiledIndex;
use super::index_values::ReadValues;
use super::object::{Likeness, UnnamedObject, content_hash, key_hash};
use super::packing::Packer;
use super::root::Mark;
use super::table::{Table, TablePlace};
use super::{Snapshot, Store, StoredObject};
use crate::Key;
use crate::scope::Scope;
use crate::version::is_older;

/// A complete list of a scope as it is being received. Made by [`Store::begin_replace`].
#[derive(Debug)]
pub struct Replacement {
    scope: Scope,
    /// How its changes were learned.
    origin: Origin,
    /// What is stored.
    base: Snapshot,
    /// Which of the stored objects are listed.
    listed: ListedBits,
    /// What differs from the store, in the order of the list. `None`: it was put again, or removed.
    staged: Vec<Option<Change>>,
    /// Where in `staged` a key is.
    places: HashTable<StagedPlace>,
    /// Where in `staged` an object has the key of another, which must have been deleted.
    recreated: Vec<(usize, StoredObject)>,
    /// Where in `staged` an object is that is stored without a change.
    swapped: Vec<usize>,
    /// For each of `staged` its index values, read before it was packed; empty if no index reads that much.
    values: Vec<Option<ReadValues>>,
    indexes: Vec<Arc<CompiledIndex>>,
    /// Whether one of them reads more than heads.
    reads_body: bool,
    buffer: Vec<u8>,
    packer: Arc<Packer>,
    /// Where in `staged` objects wait for a dictionary, and how many bytes they hold.
    waiting: Vec<usize>,
    waiting_bytes: usize,
    /// The last field, dropped after the objects it counts.
    unstored: Unstored,
}

/// How many objects were packed and will not be stored: what only they share is freed with them, also when a list breaks
/// half-way again and again.
#[derive(Debug)]
struct Unstored {
    packer: Arc<Packer>,
    objects: usize,
}

/// Eight bytes, because there is one for each object of a list.
#[derive(Clone, Copy, Debug)]
struct StagedPlace {
    /// Half of the key's.
    hash: u32,
    at: u32,
}

/// A bit for each place of the table: whether the object there is listed.
#[derive(Debug)]
struct ListedBits {
    /// Where the bits of each leaf begin.
    begins: Vec<usize>,
    bits: Vec<u64>,
    /// How many are set.
    count: usize,
}

// === impl Store ===

impl Store {
    /// Begins to compare a complete list of a scope with the store. The scope must not be written to meanwhile.
    pub fn begin_replace(&self, scope: Scope) -> Replacement {
        Replacement::new(self.snapshot(), scope, self.packer.clone())
    }

    /// Applies a complete list in one step.
    pub(super) fn replace(&self, writer: &mut Writer, list: &FullList) {
        let mut commit = Commit::new(self, writer, list.len());
        for removed in &list.changes[..list.removed] {
            if let Some(old) = self.stored(removed.object()) {
                commit.remove(old);
            }
        }
        for (new, values) in list.puts() {
            commit.put(self.stored(new), new.clone(), values.cloned());
        }
        let FullList { scope, resource_version, new_epoch, .. } = list;
        commit.mark(Mark::Replaced { scope: *scope, resource_version, new_epoch: *new_epoch });
        let written = commit.finish();
        self.maintain(writer, written);
    }
}

// === impl Replacement ===

impl Replacement {
    fn new(base: Snapshot, scope: Scope, packer: Arc<Packer>) -> Self {
        let listed = ListedBits::new(&base.0.objects);
        let indexes = base.0.indexes.iter().map(|known| known.index.clone()).collect::<Vec<_>>();
        let reads_body = indexes.iter().any(|index| index.reads_body());
        let (staged, places, recreated, swapped) = Default::default();
        let (values, buffer, waiting, waiting_bytes) = Default::default();
        let unstored = Unstored { packer: packer.clone(), objects: 0 };
        let origin = if base.is_complete(scope) { Origin::Relist } else { Origin::Initial };
        Self {
            scope,
            origin,
            base,
            listed,
            staged,
            places,
            recreated,
            swapped,
            values,
            indexes,
            reads_body,
            buffer,
            packer,
            waiting,
            waiting_bytes,
            unstored,
        }
    }

    /// An object of the list. Of several with one key the last counts.
    ///
    /// # Errors
    /// If the object has no name.
    pub fn put(&mut self, object: RawObject) -> Result<(), UnnamedObject> {
        let hash = content_hash(&object);
        let head = object.head();
        let (namespace, name) = (head.namespace(), head.name());
        let key_hash = key_hash(namespace, name);
        self.unstage(key_hash, namespace, name);
        let (at, origin) = (self.staged.len(), self.origin);
        let change = match self.base.0.objects.find(key_hash, |known| known.has_key(namespace, name)) {
            None => Change::Added { object: StoredObject::with_hash(self.scope, object, hash)?, origin },
            Some((place, known)) => {
                let likeness = known.likeness(head, object.encoding(), hash);
                if known.scope() == self.scope {
                    self.listed.set(place);
                    if likeness == Likeness::Same {
                        return Ok(());
                    }
                }
                let old = known.clone();
                let new = StoredObject::with_hash(self.scope, object, hash)?;
                match likeness {
                    Likeness::Changed => Change::Updated { old, new, origin },
                    Likeness::Recreated => {
                        self.recreated.push((at, old));
                        Change::Added { object: new, origin }
                    }
                    Likeness::Same | Likeness::Reencoded => {
                        self.swapped.push(at);
                        Change::Added { object: new, origin }
                    }
                }
            }
        };
        let place = StagedPlace::new(key_hash, at);
        self.places.insert_unique(place.hash(), place, StagedPlace::hash);
        self.staged.push(Some(change));
        self.unstored.objects += 1;
        if self.reads_body {
            self.values.push(None);
        }
        self.pack();
        Ok(())
    }

    /// The list contains an object with this key that cannot be put: its cached state stays.
    pub fn keep(&mut self, key: &Key) {
        let (namespace, name) = (key.namespace(), key.name());
        let hash = key_hash(namespace, name);
        if let Some((place, known)) = self.base.0.objects.find(hash, |known| known.has_key(namespace, name))
            && known.scope() == self.scope
        {
            self.listed.set(place);
        }
    }

    /// An object put before is not part of the list after all.
    pub fn remove(&mut self, key: &Key) {
        let (namespace, name) = (key.namespace(), key.name());
        let hash = key_hash(namespace, name);
        self.unstage(hash, namespace, name);
        if let Some((place, _)) = self.base.0.objects.find(hash, |known| known.has_key(namespace, name)) {
            self.listed.unset(place);
        }
    }

    /// The list is complete: its differences to the store, for [`Delta::ReplacedAll`](crate::delta::Delta::ReplacedAll).
    pub fn finish(mut self, resource_version: &str) -> FullList {
        if self.packer.packing().is_some_and(|packing| self.waiting_bytes >= packing.bytes_min) {
            self.train();
        }
        // Those that still wait for a dictionary stay plain.
        for at in std::mem::take(&mut self.waiting) {
            self.put_at_rest(at);
        }
        let (swapped, recreated) = (self.take_swapped(), self.take_recreated());
        let Self { scope, origin, base, listed, staged, mut values, places, mut unstored, .. } = self;
        drop(places);
        // Both in their own place: a large list is held once.
        let mut is_put = staged.iter().map(Option::is_some);
        values.retain(|_| is_put.next().unwrap_or_default());
        let mut changes = staged.into_iter().flatten().collect::<Vec<_>>();
        unstored.objects -= changes.len() + swapped.len();
        let before = base.scope_version(scope);
        // Only after a complete list is everything up to there cached.
        let reached = before.filter(|before| before.complete).map_or("", |before| &before.resource_version);
        let new_epoch = before.is_some_and(|before| {
            is_older(resource_version, &before.resource_version)
                || changes.iter().any(|change| regresses(change, reached))
                || recreated.iter().any(|(old, new)| is_older(new.resource_version(), old.resource_version()))
        });
        let removed = listed.missing(&base, scope);
        let (removed_len, gone_len) = (removed.len(), removed.len() + recreated.len());
        if gone_len > 0 {
            let gone = removed.into_iter().chain(recreated.into_iter().map(|(old, _)| old));
            let deleted = gone.map(|last| Change::Deleted { last, final_state_known: false, origin });
            changes.splice(0..0, deleted);
        }
        FullList {
            scope,
            resource_version: resource_version.to_owned(),
            initial: origin == Origin::Initial,
            new_epoch,
            changes,
            removed: removed_len,
            puts_begin: gone_len,
            values,
            swapped,
        }
    }

    /// Takes out the objects that are stored without a change.
    fn take_swapped(&mut self) -> Vec<(StoredObject, Option<ReadValues>)> {
        let places = std::mem::take(&mut self.swapped);
        let taken = places.into_iter().filter_map(|at| {
            let values = self.values.get_mut(at).and_then(Option::take);
            Some((self.staged[at].take()?.object().clone(), values))
        });
        taken.collect()
    }

    /// The objects that were recreated: the old one and the new one.
    fn take_recreated(&mut self) -> Vec<(StoredObject, StoredObject)> {
        let recreated = std::mem::take(&mut self.recreated).into_iter();
        recreated.filter_map(|(at, old)| Some((old, self.staged[at].as_ref()?.object().clone()))).collect()
    }

    /// Takes back what was put under a key.
    fn unstage(&mut self, hash: u64, namespace: &str, name: &str) {
        let (staged, looked_for) = (&self.staged, StagedPlace::new(hash, 0));
        let is_it = |place: &StagedPlace| {
            let put = || staged[place.at as usize].as_ref();
            place.hash == looked_for.hash && put().is_some_and(|put| put.object().has_key(namespace, name))
        };
        if let Ok(found) = self.places.find_entry(looked_for.hash(), is_it) {
            self.staged[found.remove().0.at as usize] = None;
        }
    }

    /// Packs the object that was put last.
    fn pack(&mut self) {
        let at = self.staged.len() - 1;
        let (Some(put), Some(packing)) = (&self.staged[at], self.packer.packing()) else {
            return self.put_at_rest(at);
        };
        self.packer.pack(put.object());
        if put.object().unpacked().is_none() {
            return self.put_at_rest(at);
        }
        // There is no dictionary yet.
        self.waiting_bytes += put.object().stored_bytes();
        self.waiting.push(at);
        if self.waiting_bytes >= packing.sample_bytes {
            self.train();
        }
    }

    /// Releases an object's bytes as received: what remains is what the store will keep, and its index values.
    fn put_at_rest(&mut self, at: usize) {
        let Some(put) = &mut self.staged[at] else { return };
        let object = put.object_mut();
        if object.kept().is_packed()
            && let Some(values) = self.values.get_mut(at)
        {
            *values = ReadValues::read(&self.indexes, object, &mut self.buffer);
        }
        *object = object.at_rest();
    }

    /// Trains a dictionary on the objects that wait for one, and packs them.
    fn train(&mut self) {
        let waiting = std::mem::take(&mut self.waiting);
        let puts = waiting.iter().filter_map(|at| self.staged[*at].as_ref());
        self.packer.train(&puts.map(|put| put.object().raw()).collect::<Vec<_>>());
        for at in waiting {
            if let Some(put) = &self.staged[at] {
                self.packer.pack(put.object());
                self.put_at_rest(at);
            }
        }
        self.waiting_bytes = 0;
    }
}

/// Whether the server was reset to an earlier state: of this object, or to one with an object that is not stored although
/// everything up to the version `reached` is.
fn regresses(change: &Change, reached: &str) -> bool {
    match change {
        Change::Added { object, .. } => {
            let version = object.resource_version();
            is_older(version, reached) || (version == reached && !version.is_empty())
        }
        Change::Updated { old, new, .. } => is_older(new.resource_version(), old.resource_version()),
        Change::Deleted { .. } => false,
    }
}

impl Drop for Unstored {
    fn drop(&mut self) {
        self.packer.release(self.objects);
    }
}

// === impl StagedPlace ===

impl StagedPlace {
    fn new(key_hash: u64, at: usize) -> Self {
        let at = u32::try_from(at).expect("memory does not hold four billion objects");
        Self { hash: key_hash as u32, at }
    }

    /// Spread over all bits: a table takes some from either end.
    fn hash(&self) -> u64 {
        u64::from(self.hash) << 32 | u64::from(self.hash)
    }
}

// === impl ListedBits ===

impl ListedBits {
    fn new(objects: &Table<StoredObject>) -> Self {
        let mut total = 0;
        let mut begins = Vec::with_capacity(objects.leaf_count());
        for buckets in objects.leaf_buckets() {
            begins.push(total);
            total += buckets;
        }
        Self { begins, bits: vec![0; total.div_ceil(64)], count: 0 }
    }

    fn set(&mut self, place: TablePlace) {
        let (word, bit) = self.bit(place);
        self.count += usize::from(self.bits[word] & bit == 0);
        self.bits[word] |= bit;
    }

    fn unset(&mut self, place: TablePlace) {
        let (word, bit) = self.bit(place);
        self.count -= usize::from(self.bits[word] & bit != 0);
        self.bits[word] &= !bit;
    }

    /// The stored objects of a scope that are not listed.
    fn missing(&self, base: &Snapshot, scope: Scope) -> Vec<StoredObject> {
        let known = base.scope_version(scope).map_or(0, |state| state.objects);
        if self.count == known {
            return Vec::new();
        }
        let unseen = base.0.objects.iter_places().filter(|(place, _)| {
            let (word, bit) = self.bit(*place);
            self.bits[word] & bit == 0
        });
        unseen.filter(|(_, object)| object.scope() == scope).map(|(_, object)| object.clone()).collect()
    }

    fn bit(&self, place: TablePlace) -> (usize, u64) {
        let at = self.begins[place.leaf] + place.bucket;
        (at / 64, 1 << (at % 64))
    }
}

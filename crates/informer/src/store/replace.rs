//! A new full state of a scope, compared with the known one as it comes in.
//!
//! Only differences are kept: an object that is the same as the known one leaves a bit behind. So a relist that finds
//! little new needs little memory, whatever its size, and takes effect as a whole or not at all.
//!
//! What is kept is packed as it comes. Where there is no dictionary yet, the first objects are held plain until there are
//! enough to train one: a million pods are never held plain.

use std::sync::Arc;

use hashbrown::HashTable;
use kube_wire::RawObject;

use super::change::{ChangeSet, Put};
use super::index::Compiled;
use super::object::{Likeness, UnnamedObject, content_hash, key_hash};
use super::packing::Packer;
use super::table::{Place, Table};
use super::index_values::ReadValues;
use super::{Snapshot, StoredObject};
use crate::Key;
use crate::queue::Scope;
use crate::version::is_older;

/// A full state as it is being received. Made by [`Store::stage_replace`](super::Store::stage_replace).
#[derive(Debug)]
pub struct Staging {
    scope: Scope,
    /// What is known.
    base: Snapshot,
    /// Which of the known objects are part of the new state.
    seen: Seen,
    /// What is not as it is known, in the order of the list. `None`: it was put again, or removed.
    staged: Vec<Option<Put>>,
    /// Where in `staged` a key is.
    places: HashTable<Staged>,
    /// Beside each of `staged`, what it has in indexes, read before it was packed; empty if no index reads that much.
    values: Vec<Option<ReadValues>>,
    indexes: Vec<Arc<Compiled>>,
    /// Whether one of them reads more than heads.
    reads_body: bool,
    room: Vec<u8>,
    packer: Arc<Packer>,
    /// Where in `staged` objects wait for a dictionary, and how many bytes they hold.
    waiting: Vec<usize>,
    waiting_bytes: usize,
    /// The last field, dropped after the objects it counts.
    unstored: Unstored,
}

/// How many objects were packed and will not be stored: what only they had in common is freed with them, also when a list
/// breaks half-way again and again.
#[derive(Debug)]
struct Unstored {
    packer: Arc<Packer>,
    objects: usize,
}

/// Eight bytes, because there is one for each object of a list.
#[derive(Clone, Copy, Debug)]
struct Staged {
    /// Half of the key's.
    hash: u32,
    at: u32,
}

/// A bit for each place where a known object may stand.
#[derive(Debug)]
struct Seen {
    /// Where the bits of each leaf begin.
    begins: Vec<usize>,
    bits: Vec<u64>,
    /// How many are set.
    count: usize,
}

impl Staging {
    pub(super) fn new(base: Snapshot, scope: Scope, packer: Arc<Packer>) -> Self {
        let seen = Seen::new(&base.0.objects);
        let indexes = base.0.indexes.iter().map(|known| known.index.clone()).collect::<Vec<_>>();
        let reads_body = indexes.iter().any(|index| index.reads_body());
        let (staged, places, values, room, waiting, waiting_bytes) = Default::default();
        let unstored = Unstored { packer: packer.clone(), objects: 0 };
        Self {
            scope,
            base,
            seen,
            staged,
            places,
            values,
            indexes,
            reads_body,
            room,
            packer,
            waiting,
            waiting_bytes,
            unstored,
        }
    }

    /// An object of the new state. Of several with one key the last counts.
    ///
    /// # Errors
    /// If the object has no name.
    pub fn put(&mut self, object: RawObject) -> Result<(), UnnamedObject> {
        let hash = content_hash(&object);
        let head = object.head();
        let (namespace, name) = (head.namespace(), head.name());
        let key_hash = key_hash(namespace, name);
        self.unstage(key_hash, namespace, name);
        let put = match self.base.0.objects.find(key_hash, |known| known.has_key(namespace, name)) {
            None => Put::New(StoredObject::with_hash(self.scope, object, hash)?),
            Some((place, known)) => {
                let likeness = known.likeness(head, object.encoding(), hash);
                if known.scope() == self.scope {
                    self.seen.set(place);
                    if likeness == Likeness::Same {
                        return Ok(());
                    }
                }
                let old = known.clone();
                let new = StoredObject::with_hash(self.scope, object, hash)?;
                match likeness {
                    Likeness::Same | Likeness::Reencoded => Put::Swapped(new),
                    Likeness::Changed => Put::Changed { old, new },
                    Likeness::Recreated => Put::Recreated { old, new },
                }
            }
        };
        let place = Staged::new(key_hash, self.staged.len());
        self.places.insert_unique(place.hash(), place, Staged::hash);
        self.staged.push(Some(put));
        self.unstored.objects += 1;
        if self.reads_body {
            self.values.push(None);
        }
        self.pack();
        Ok(())
    }

    /// An object of this key is part of the new state, but cannot be put: what is known of it stays.
    pub fn keep_known(&mut self, key: &Key) {
        let (namespace, name) = (key.namespace(), key.name());
        let hash = key_hash(namespace, name);
        if let Some((place, known)) = self.base.0.objects.find(hash, |known| known.has_key(namespace, name))
            && known.scope() == self.scope
        {
            self.seen.set(place);
        }
    }

    /// An object put before is not part of the new state after all.
    pub fn remove(&mut self, key: &Key) {
        let (namespace, name) = (key.namespace(), key.name());
        let hash = key_hash(namespace, name);
        self.unstage(hash, namespace, name);
        if let Some((place, _)) = self.base.0.objects.find(hash, |known| known.has_key(namespace, name)) {
            self.seen.unset(place);
        }
    }

    /// The state is complete: what it changes.
    pub fn finish(mut self, resource_version: &str) -> ChangeSet {
        if self.packer.packing().is_some_and(|packing| self.waiting_bytes >= packing.bytes_min) {
            self.train();
        }
        // What still waits stays as it is.
        for at in std::mem::take(&mut self.waiting) {
            self.keep(at);
        }
        let Self { scope, base, seen, staged, mut values, places, mut unstored, .. } = self;
        drop(places);
        let before = base.state(scope);
        // Both in their own place: a large state is held once.
        let mut is_put = staged.iter().map(Option::is_some);
        values.retain(|_| is_put.next().unwrap_or_default());
        let puts = staged.into_iter().flatten().collect::<Vec<_>>();
        unstored.objects -= puts.len();
        // Only after a full state is everything up to there known.
        let complete = before.filter(|before| before.complete).map_or("", |before| &before.resource_version);
        let new_epoch = before.is_some_and(|before| {
            is_older(resource_version, &before.resource_version)
                || puts.iter().any(|put| put.goes_back(complete))
        });
        ChangeSet {
            scope,
            resource_version: resource_version.to_owned(),
            initial: !before.is_some_and(|before| before.complete),
            new_epoch,
            deleted: seen.missing(&base, scope),
            puts,
            values,
        }
    }

    /// Takes back what was put under a key.
    fn unstage(&mut self, hash: u64, namespace: &str, name: &str) {
        let (staged, looked_for) = (&self.staged, Staged::new(hash, 0));
        let is_it = |place: &Staged| {
            let put = || staged[place.at as usize].as_ref();
            place.hash == looked_for.hash && put().is_some_and(|put| put.object().has_key(namespace, name))
        };
        if let Ok(found) = self.places.find_entry(looked_for.hash(), is_it) {
            self.staged[found.remove().0.at as usize] = None;
        }
    }

    /// Packs what was put last.
    fn pack(&mut self) {
        let at = self.staged.len() - 1;
        let (Some(put), Some(packing)) = (&self.staged[at], self.packer.packing()) else {
            return self.keep(at);
        };
        self.packer.pack(put.object());
        if put.object().unpacked().is_none() {
            return self.keep(at);
        }
        // There is no dictionary yet.
        self.waiting_bytes += put.object().stored_bytes();
        self.waiting.push(at);
        if self.waiting_bytes >= packing.sample_bytes {
            self.train();
        }
    }

    /// Lets go of an object as it came: what is packed of it is held, and what indexes read from it.
    fn keep(&mut self, at: usize) {
        let Some(put) = &mut self.staged[at] else { return };
        if put.object().kept().is_packed()
            && let Some(values) = self.values.get_mut(at)
        {
            *values = ReadValues::read(&self.indexes, put.object(), &mut self.room);
        }
        put.keep();
    }

    /// Trains a dictionary on what waits for one, and packs that.
    fn train(&mut self) {
        let waiting = std::mem::take(&mut self.waiting);
        let puts = waiting.iter().filter_map(|at| self.staged[*at].as_ref());
        self.packer.train(&puts.map(|put| put.object().raw()).collect::<Vec<_>>());
        for at in waiting {
            if let Some(put) = &self.staged[at] {
                self.packer.pack(put.object());
                self.keep(at);
            }
        }
        self.waiting_bytes = 0;
    }
}

impl Drop for Unstored {
    fn drop(&mut self) {
        self.packer.release(self.objects);
    }
}

// === impl Staged ===

impl Staged {
    fn new(key_hash: u64, at: usize) -> Self {
        let at = u32::try_from(at).expect("memory does not hold four billion objects");
        Self { hash: key_hash as u32, at }
    }

    /// Spread over all bits: a table takes some from either end.
    fn hash(&self) -> u64 {
        u64::from(self.hash) << 32 | u64::from(self.hash)
    }
}

// === impl Seen ===

impl Seen {
    fn new(objects: &Table<StoredObject>) -> Self {
        let mut total = 0;
        let mut begins = Vec::with_capacity(objects.leaf_count());
        for buckets in objects.leaf_buckets() {
            begins.push(total);
            total += buckets;
        }
        Self { begins, bits: vec![0; total.div_ceil(64)], count: 0 }
    }

    fn set(&mut self, place: Place) {
        let (word, bit) = self.bit(place);
        self.count += usize::from(self.bits[word] & bit == 0);
        self.bits[word] |= bit;
    }

    fn unset(&mut self, place: Place) {
        let (word, bit) = self.bit(place);
        self.count -= usize::from(self.bits[word] & bit != 0);
        self.bits[word] &= !bit;
    }

    /// The known objects of a scope that were not seen.
    fn missing(&self, base: &Snapshot, scope: Scope) -> Vec<StoredObject> {
        let known = base.state(scope).map_or(0, |state| state.objects);
        if self.count == known {
            return Vec::new();
        }
        let unseen = base.0.objects.iter_places().filter(|(place, _)| {
            let (word, bit) = self.bit(*place);
            self.bits[word] & bit == 0
        });
        unseen.filter(|(_, object)| object.scope() == scope).map(|(_, object)| object.clone()).collect()
    }

    fn bit(&self, place: Place) -> (usize, u64) {
        let at = self.begins[place.leaf] + place.bucket;
        (at / 64, 1 << (at % 64))
    }
}

//! A new full state of a scope, compared with the known one as it comes in.
//!
//! Only differences are kept: an object that is the same as the known one leaves a bit behind. So a relist that finds
//! little new needs little memory, whatever its size, and takes effect as a whole or not at all.

use kube_wire::RawObject;

use super::change::{ChangeSet, Put};
use super::object::{Likeness, UnnamedObject, content_hash, key_hash};
use super::table::{Hashed, Place, Table};
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
    places: Table<Staged>,
}

#[derive(Clone, Debug)]
struct Staged {
    object: StoredObject,
    at: usize,
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
    pub(super) fn new(base: Snapshot, scope: Scope) -> Self {
        let seen = Seen::new(&base.0.objects);
        Self { scope, base, seen, staged: Vec::new(), places: Table::default() }
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
        self.places.insert(Staged { object: put.object().clone(), at: self.staged.len() }, |_| false);
        self.staged.push(Some(put));
        Ok(())
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
    pub fn finish(self, resource_version: &str) -> ChangeSet {
        let Self { scope, base, seen, staged, .. } = self;
        let before = base.state(scope);
        let puts = staged.into_iter().flatten().collect::<Vec<_>>();
        // Only after a full state is everything up to there known.
        let complete = before.filter(|before| before.complete).map_or("", |before| &before.resource_version);
        let new_epoch = before.is_some_and(|before| is_older(resource_version, &before.resource_version))
            || puts.iter().any(|put| put.goes_back(complete));
        ChangeSet {
            scope,
            resource_version: resource_version.to_owned(),
            initial: !before.is_some_and(|before| before.complete),
            new_epoch,
            deleted: seen.missing(&base, scope),
            puts,
        }
    }

    /// Takes back what was put under a key.
    fn unstage(&mut self, hash: u64, namespace: &str, name: &str) {
        if let Some(staged) = self.places.remove(hash, |staged| staged.object.has_key(namespace, name)) {
            self.staged[staged.at] = None;
        }
    }
}

impl Hashed for Staged {
    fn hash(&self) -> u64 {
        self.object.key_hash()
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

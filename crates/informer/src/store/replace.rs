//! A complete list of a scope, compared with the store as it arrives.
//!
//! Only differences are kept; an object that equals the stored one sets a bit. So a relist with few changes needs little
//! memory, whatever its size, and takes effect as a whole or not at all.
//!
//! Objects are packed as they arrive. Without a dictionary, the first objects are held uncompressed until there are enough to
//! train one, so a million pods are never held uncompressed.

use std::sync::Arc;

use hashbrown::HashTable;
use kube_wire::{Head, RawObject};

use super::change::{Change, FullList, Origin};
use super::commit::{Commit, Writer};
use super::index::CompiledIndex;
use super::index_values::ReadValues;
use super::root::Mark;
use super::table::{Table, TablePlace};
use super::{Snapshot, Store, StoredObject};
use crate::budget::{Charge, OBJECT_BYTES, OverBudget};
use crate::object::{Likeness, content_hash, key_hash};
use crate::packing::Packer;
use crate::scope::Scope;
use crate::shard::Shard;
use crate::version::is_older;
use crate::{InvalidKey, Key};

/// A complete list of a scope while it is received. Created by [`Store::begin_replace`].
#[derive(Debug)]
pub struct Replacement {
    scope: Scope,
    /// The origin of its changes.
    origin: Origin,
    /// The stored objects.
    base: Snapshot,
    /// Which of the stored objects are listed.
    listed: ListedBits,
    /// Stored objects that are not listed stay.
    keeps_unlisted: bool,
    /// The shard of the list. Stored objects of others have left.
    shard: Option<Shard>,
    /// Which of the stored objects are listed in a state that is in another shard. `None` for none so far.
    left: Option<ListedBits>,
    /// The differences, in the order of the list. `None` if the key was put again or removed.
    staged: Vec<Option<Change>>,
    /// The positions of keys in `staged`.
    places: HashTable<StagedPlace>,
    /// The positions in `staged` of objects that replace one with the same key, which must have been deleted.
    recreated: Vec<(usize, StoredObject)>,
    /// The positions in `staged` of objects that are stored without a change.
    swapped: Vec<usize>,
    /// The index values for each of `staged`, read before packing; empty if no index needs them.
    values: Vec<Option<ReadValues>>,
    indexes: Vec<Arc<CompiledIndex>>,
    /// Whether an index reads more than heads.
    reads_body: bool,
    buffer: Vec<u8>,
    packer: Arc<Packer>,
    /// The positions in `staged` of objects that wait for a dictionary, and their bytes.
    waiting: Vec<usize>,
    waiting_bytes: usize,
    /// The bytes of the objects in `staged`, charged to the budget.
    held_bytes: usize,
    charge: Charge,
    /// The last field: dropped after the objects it counts.
    unstored: Unstored,
}

/// Counts packed objects that are never stored. Dropping it reports them, so that memory only they share is freed even if
/// lists keep failing.
#[derive(Debug)]
struct Unstored {
    packer: Arc<Packer>,
    objects: usize,
}

/// Eight bytes: there is one per listed object.
#[derive(Clone, Copy, Debug)]
struct StagedPlace {
    /// Half of the key's hash.
    hash: u32,
    at: u32,
}

/// One bit per place of the table: whether the object there is listed, or listed elsewhere.
#[derive(Debug)]
struct ListedBits {
    /// Where the bits of each leaf begin.
    begins: Vec<usize>,
    bits: Vec<u64>,
    /// The number of set bits.
    count: usize,
}

// === impl Store ===

impl Store {
    /// Begins to compare a complete list of a scope with the store. Do not write to the scope meanwhile.
    pub fn begin_replace(&self, scope: Scope) -> Replacement {
        Replacement::new(self.snapshot(), scope, self.packer.clone(), self.charge.another())
    }

    /// Applies a complete list in one step.
    pub(super) fn replace(&self, writer: &mut Writer, list: &FullList) {
        // From here on, its objects count as the store's.
        list.charge.set(0);
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
    fn new(base: Snapshot, scope: Scope, packer: Arc<Packer>, charge: Charge) -> Self {
        let listed = ListedBits::new(&base.0.objects);
        let indexes = base.0.indexes.iter().map(|known| known.index.clone()).collect::<Vec<_>>();
        let reads_body = indexes.iter().any(|index| index.reads_body());
        let (staged, places, recreated, swapped) = Default::default();
        let (values, buffer, waiting, waiting_bytes, held_bytes) = Default::default();
        let unstored = Unstored { packer: packer.clone(), objects: 0 };
        let origin = if base.is_complete(scope) { Origin::Relist } else { Origin::Initial };
        Self {
            scope,
            origin,
            base,
            listed,
            keeps_unlisted: false,
            shard: None,
            left: None,
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
            held_bytes,
            charge,
            unstored,
        }
    }

    /// Whether an object of the list fits the budget. An unchanged object takes nothing.
    pub(crate) fn admit(&self, object: &RawObject) -> Result<(), OverBudget> {
        self.charge.admit(object.bytes().len(), || if self.is_stored(object) { usize::MAX } else { 0 })
    }

    fn is_stored(&self, object: &RawObject) -> bool {
        let (head, hash) = (object.head(), content_hash(object));
        let (namespace, name) = (head.namespace(), head.name());
        let known =
            self.base.0.objects.get(key_hash(namespace, name), |known| known.has_key(namespace, name));
        known.is_some_and(|known| {
            known.scope() == self.scope && known.likeness(head, object.encoding(), hash) == Likeness::Same
        })
    }

    /// Adds an object of the list. If a key appears several times, the last one counts.
    ///
    /// # Errors
    /// Returns an error if the object has no valid name.
    pub fn put(&mut self, object: RawObject) -> Result<(), InvalidKey> {
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
                    let unnoticed =
                        deliberate_bug!("relisted-update-missed") && likeness == Likeness::Changed;
                    if likeness == Likeness::Same || unnoticed {
                        return Ok(());
                    }
                }
                let old = known.clone();
                let new = StoredObject::with_hash(self.scope, object, hash)?;
                match likeness {
                    Likeness::Changed => Change::Updated { old, new, origin },
                    Likeness::Recreated if deliberate_bug!("recreated-object-as-update") => {
                        Change::Updated { old, new, origin }
                    }
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
        self.held_bytes += self.bytes_at(at);
        if self.packer.packing().is_some_and(|packing| self.waiting_bytes >= packing.sample_bytes) {
            self.train();
        }
        self.charge.set(self.held_bytes);
        Ok(())
    }

    /// The list contains this key, but the object could not be read: its cached state stays.
    pub fn keep(&mut self, key: &Key) {
        let (namespace, name) = (key.namespace(), key.name());
        let hash = key_hash(namespace, name);
        if let Some((place, known)) = self.base.0.objects.find(hash, |known| known.has_key(namespace, name))
            && known.scope() == self.scope
        {
            self.listed.set(place);
        }
    }

    /// The list contains an object whose key could not be read: stored objects that are not listed stay.
    pub fn keep_unlisted(&mut self) {
        self.keeps_unlisted = true;
    }

    /// The list is that of a shard: stored objects of other shards have left it.
    pub(crate) fn within(&mut self, shard: Shard) {
        self.shard = Some(shard);
    }

    /// The list contains an object in a state that is in another shard: if it is stored, it has left.
    pub(crate) fn leave(&mut self, head: &Head<'_>) {
        let (namespace, name) = (head.namespace(), head.name());
        let hash = key_hash(namespace, name);
        self.unstage(hash, namespace, name);
        let objects = &self.base.0.objects;
        let Some((place, known)) = objects.find(hash, |known| known.has_key(namespace, name)) else { return };
        self.listed.unset(place);
        // Under another uid, the stored object was deleted.
        if known.scope() == self.scope && known.uid() == head.uid() {
            self.left.get_or_insert_with(|| ListedBits::new(objects)).set(place);
        }
    }

    /// Removes an object that was put before.
    pub fn remove(&mut self, key: &Key) {
        let (namespace, name) = (key.namespace(), key.name());
        let hash = key_hash(namespace, name);
        self.unstage(hash, namespace, name);
        if let Some((place, _)) = self.base.0.objects.find(hash, |known| known.has_key(namespace, name)) {
            self.listed.unset(place);
            self.left.iter_mut().for_each(|left| left.unset(place));
        }
    }

    /// Completes the list. Returns its differences, for [`Delta::ReplacedAll`](crate::delta::Delta::ReplacedAll).
    pub fn finish(mut self, resource_version: &str) -> FullList {
        if self.packer.packing().is_some_and(|packing| self.waiting_bytes >= packing.bytes_min) {
            self.train();
        }
        // Objects that still wait for a dictionary stay uncompressed.
        for at in std::mem::take(&mut self.waiting) {
            self.held_bytes -= self.bytes_at(at);
            self.shrink(at);
            self.held_bytes += self.bytes_at(at);
        }
        self.charge.set(self.held_bytes);
        let (swapped, recreated) = (self.take_swapped(), self.take_recreated());
        let keeps_unlisted = self.keeps_unlisted;
        let Self {
            scope,
            origin,
            base,
            listed,
            shard,
            left,
            staged,
            mut values,
            places,
            charge,
            mut unstored,
            ..
        } = self;
        drop(places);
        // In place: a large list is held only once.
        let mut is_put = staged.iter().map(Option::is_some);
        values.retain(|_| is_put.next().unwrap_or_default());
        let mut changes = staged.into_iter().flatten().collect::<Vec<_>>();
        unstored.objects -= changes.len() + swapped.len();
        let before = base.scope_version(scope);
        // Only after a complete list is everything up to its resourceVersion cached.
        let reached =
            before.filter(|before| before.is_complete()).map_or("", |before| &before.resource_version);
        let new_epoch = before.is_some_and(|before| {
            is_older(resource_version, &before.resource_version)
                || changes.iter().any(|change| regresses(change, reached))
                || recreated.iter().any(|(old, new)| is_older(new.resource_version(), old.resource_version()))
        });
        let has_left = |last: &StoredObject| {
            let place = || base.0.objects.find(last.key_hash(), |known| known.ptr_eq(last));
            let is_elsewhere = |left: &ListedBits| place().is_some_and(|(place, _)| left.has(place));
            left.as_ref().is_some_and(is_elsewhere)
                || shard.as_ref().is_some_and(|shard| !shard.selects(last.namespace(), last.uid()))
        };
        let mut removed = listed.missing(&base, scope);
        if keeps_unlisted {
            removed.retain(has_left);
        }
        if deliberate_bug!("tombstone-skipped") {
            removed.clear();
        }
        let (removed_len, gone_len) = (removed.len(), removed.len() + recreated.len());
        if gone_len > 0 {
            // A missing object was stored before, so it is not part of an initial list.
            let removed = removed.into_iter().map(|last| match has_left(&last) {
                true => (last, Origin::LeftShard),
                false => (last, Origin::Relist),
            });
            let gone = removed.chain(recreated.into_iter().map(|(old, _)| (old, origin)));
            let deleted =
                gone.map(|(last, origin)| Change::Deleted { last, final_state_known: false, origin });
            changes.splice(0..0, deleted);
        }
        FullList {
            scope,
            resource_version: resource_version.to_owned(),
            initial: !before.is_some_and(|before| before.complete),
            new_epoch,
            changes,
            removed: removed_len,
            puts_begin: gone_len,
            values,
            swapped,
            charge: Arc::new(charge),
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

    /// The recreated objects: old and new.
    fn take_recreated(&mut self) -> Vec<(StoredObject, StoredObject)> {
        let recreated = std::mem::take(&mut self.recreated).into_iter();
        recreated.filter_map(|(at, old)| Some((old, self.staged[at].as_ref()?.object().clone()))).collect()
    }

    /// Undoes the put of a key.
    fn unstage(&mut self, hash: u64, namespace: &str, name: &str) {
        let (staged, looked_for) = (&self.staged, StagedPlace::new(hash, 0));
        let is_it = |place: &StagedPlace| {
            let put = || staged[place.at as usize].as_ref();
            place.hash == looked_for.hash && put().is_some_and(|put| put.object().has_key(namespace, name))
        };
        if let Ok(found) = self.places.find_entry(looked_for.hash(), is_it) {
            let at = found.remove().0.at as usize;
            self.held_bytes -= self.bytes_at(at);
            self.charge.set(self.held_bytes);
            self.staged[at] = None;
        }
    }

    /// What an object in `staged` takes.
    fn bytes_at(&self, at: usize) -> usize {
        self.staged[at].as_ref().map_or(0, |put| put.object().stored_bytes() + OBJECT_BYTES)
    }

    /// Packs the object that was put last.
    fn pack(&mut self) {
        let at = self.staged.len() - 1;
        let (Some(put), Some(_)) = (&self.staged[at], self.packer.packing()) else {
            return self.shrink(at);
        };
        self.packer.pack(put.object());
        if put.object().unpacked().is_none() {
            return self.shrink(at);
        }
        // There is no dictionary yet.
        self.waiting_bytes += put.object().stored_bytes();
        self.waiting.push(at);
    }

    /// Frees an object's bytes as received. What remains is what the store will keep, and its index values.
    fn shrink(&mut self, at: usize) {
        let Some(put) = &mut self.staged[at] else { return };
        let object = put.object_mut();
        if object.kept().is_packed()
            && let Some(values) = self.values.get_mut(at)
        {
            *values = ReadValues::read(&self.indexes, object, &mut self.buffer);
        }
        *object = object.as_stored();
    }

    /// Trains a dictionary on the waiting objects, and packs them.
    fn train(&mut self) {
        let waiting = std::mem::take(&mut self.waiting);
        let puts = waiting.iter().filter_map(|at| self.staged[*at].as_ref());
        self.packer.train(&puts.map(|put| put.object().raw()).collect::<Vec<_>>());
        for at in waiting {
            self.held_bytes -= self.bytes_at(at);
            if let Some(put) = &self.staged[at] {
                self.packer.pack(put.object());
                self.shrink(at);
            }
            self.held_bytes += self.bytes_at(at);
        }
        self.waiting_bytes = 0;
    }
}

/// Whether the server regressed to an earlier state: of this object, or to one with an object that is not stored although
/// the store is complete up to version `reached`.
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

    /// Repeated in both halves: the table uses bits from both ends.
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

    fn has(&self, place: TablePlace) -> bool {
        let (word, bit) = self.bit(place);
        self.bits[word] & bit != 0
    }

    /// The stored objects of a scope that are not listed.
    fn missing(&self, base: &Snapshot, scope: Scope) -> Vec<StoredObject> {
        let known = base.scope_version(scope).map_or(0, |state| state.objects);
        if self.count == known && !deliberate_bug!("replace-deletes-neighbours") {
            return Vec::new();
        }
        let unseen = base.0.objects.iter_places().filter(|(place, _)| {
            let (word, bit) = self.bit(*place);
            self.bits[word] & bit == 0
        });
        let of_scope =
            |object: &StoredObject| object.scope() == scope || deliberate_bug!("replace-deletes-neighbours");
        unseen.filter(|(_, object)| of_scope(object)).map(|(_, object)| object.clone()).collect()
    }

    fn bit(&self, place: TablePlace) -> (usize, u64) {
        let at = self.begins[place.leaf] + place.bucket;
        (at / 64, 1 << (at % 64))
    }
}

#[cfg(test)]
mod tests {
    use kube_wire::{Encoding, Limits, ObjectReader, Projection};

    use super::*;
    use crate::budget::Budget;
    use crate::memory::Packing;
    use crate::store::StoreConfig;

    fn object(name: usize) -> RawObject {
        let text = format!("the same text in every object, and {name}; ").repeat(40);
        let json = format!(
            r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"namespace":"web","name":"{name}"}},"data":{{"text":"{text}"}}}}"#
        );
        let mut reader = ObjectReader::new(Projection::default(), Limits::default());
        reader.read(json.as_bytes(), Encoding::Json, None).unwrap()
    }

    #[test]
    fn a_list_is_charged_for_what_it_holds() {
        let packing = Packing { bytes_min: 0, sample_bytes: 64 << 10, ..Packing::default() };
        let budget = Budget::new(0);
        let config = StoreConfig::default().memory(packing).budget(Some(budget.clone()));
        let store = Store::new(config).unwrap();
        // A budget of 0 B refuses every object, and the error reports the bytes in use.
        let used = || Charge::new(Some(budget.clone())).admit(1, || 0).unwrap_err().used;
        let held = |list: &Replacement| {
            let held = list.staged.iter().flatten().map(|put| put.object().stored_bytes() + OBJECT_BYTES);
            held.sum::<usize>()
        };
        let mut list = store.begin_replace(Scope(0));
        let mut most = 0;
        for name in (0..40).chain(30..45) {
            list.put(object(name)).unwrap();
            assert_eq!(used(), held(&list), "{name}");
            most = most.max(used());
        }
        assert!(used() < most / 2, "packing frees memory: {} of {most}", used());
        for name in 0..20 {
            list.remove(&Key::new("web", &name.to_string()));
            assert_eq!(used(), held(&list), "{name}");
        }
        let list = list.finish("7");
        assert!(used() > 0);
        drop(list);
        assert_eq!(used(), 0);
    }
}

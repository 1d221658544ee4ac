//! Decodes objects to typed values, shared between readers.
//!
//! The store holds bytes. A value is decoded on request and lives as long as a reader holds it. Other readers of the same
//! state of the same object get the same value. The most recent values are held longer ("hot"), so that repeated reads do
//! not decode again.
//!
//! Entries of dropped values are evicted incrementally, a few per read. No reader waits for a full sweep, and memory is freed
//! after a peak.

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use hashbrown::HashTable;
use kube_wire::path::CustomSchema;
use parking_lot::Mutex;

use super::DecodeError;
use super::decode::Decode;
use crate::object::StoredObject;
use crate::store::{Definition, Store};

/// Decodes values, and finds the ones that are alive.
pub(crate) struct Decoder<K> {
    decode: Decode<K>,
    hot_max: usize,
    /// The fields of a custom resource, shared with the store of the objects.
    definition: Definition,
    values: Mutex<Values<K>>,
    errors: Arc<AtomicU64>,
}

struct Values<K> {
    entries: HashTable<Entry<K>>,
    /// The bucket of `entries` to scan next.
    next: usize,
    /// How many reads skip the scan.
    spared: usize,
    /// The most recent values, each with its object.
    hot: VecDeque<Hot<K>>,
    /// The position in `hot` to scan next.
    next_hot: usize,
}

struct Entry<K> {
    /// The object as stored. Held so that no other object gets the same address.
    object: StoredObject,
    value: Value<K>,
}

enum Value<K> {
    /// Locked during decoding: concurrent readers wait for the value instead of decoding again.
    Making(Making<K>),
    Made(Weak<K>),
}

type Making<K> = Arc<Mutex<Option<Weak<K>>>>;
type Hot<K> = (StoredObject, Arc<K>);

/// Buckets scanned per read to evict entries of dropped values: such an entry holds the value's allocation, and an object that may
/// be deleted. A read that decodes scans more, because it takes longer anyway and adds an entry. The scan therefore completes a
/// round before the table grows by a third.
const LOOKS: usize = 2;
const LOOKS_MAKING: usize = 8;
/// Scanning an entry takes longer than finding a recently read value. So after a live entry, which is the common case, this
/// many reads skip the scan.
const SPARED: usize = 16;
/// Hot values scanned per read, to evict those of deleted objects.
const LOOKS_HOT: usize = 2;
/// A table with at most this many buckets is not scanned.
const BUCKETS_MIN: usize = 128;

/// The number of handles to an object that the decoder itself holds for a hot value: in the entry, and in `hot`.
const OWN_HANDLES: usize = 2;

impl<K> Decoder<K> {
    pub(super) fn new(decode: Decode<K>, hot_max: usize) -> Self {
        let values =
            Values { entries: HashTable::new(), next: 0, spared: 0, hot: VecDeque::new(), next_hot: 0 };
        let (definition, errors) = (Definition::default(), Arc::default());
        Self { decode, hot_max, definition, values: Mutex::new(values), errors }
    }

    /// The decoder for the objects of a store.
    pub(super) fn of_store(self, store: &Store) -> Self {
        Self { definition: store.definition().clone(), ..self }
    }

    /// The fields of the objects, if they are a custom resource whose definition is known.
    pub(super) fn definition(&self) -> Option<&CustomSchema> {
        self.definition.get()
    }

    pub(super) fn value(&self, object: &StoredObject) -> Result<Arc<K>, DecodeError> {
        let kept = object.kept();
        loop {
            let found = self.values.lock().find(kept);
            let making = match found {
                Ok(value) => return Ok(value),
                Err(making) => making,
            };
            let mut made = making.lock();
            match &*made {
                None => {
                    let value = self.make(object)?;
                    *made = Some(Arc::downgrade(&value));
                    drop(made);
                    let cooled = self.values.lock().made(kept, &value, self.hot_max);
                    // Drop them after the lock is released: they may be large.
                    drop(cooled);
                    return Ok(value);
                }
                Some(value) => {
                    if let Some(value) = value.upgrade() {
                        return Ok(value);
                    }
                    // The value was already dropped: look up the entry again.
                }
            }
        }
    }

    /// The number of objects that could not be decoded.
    pub(super) fn errors(&self) -> u64 {
        self.errors.load(Ordering::Relaxed)
    }

    /// The counter of [`errors`](Self::errors).
    #[cfg(feature = "metrics")]
    pub(super) fn error_counter(&self) -> Arc<AtomicU64> {
        self.errors.clone()
    }

    fn make(&self, object: &StoredObject) -> Result<Arc<K>, DecodeError> {
        let value = object.read(|kept| self.decode.value(kept)).map_err(|error| {
            self.errors.fetch_add(1, Ordering::Relaxed);
            DecodeError { key: object.key(), error }
        })?;
        Ok(Arc::new(value))
    }
}

// === impl Values ===

impl<K> Values<K> {
    /// The value, if it is alive; otherwise the lock for decoding it.
    fn find(&mut self, kept: &StoredObject) -> Result<Arc<K>, Making<K>> {
        let place = kept.place();
        let entry = self.entries.entry(hash(place), |entry| entry.object.place() == place, Entry::hash);
        let found = entry.or_insert_with(|| Entry::new(kept)).into_mut().value();
        match found {
            Err(_) => self.look(LOOKS_MAKING),
            Ok(_) if self.spared == 0 => self.look(LOOKS),
            Ok(_) => self.spared -= 1,
        }
        found
    }

    /// Records a value. Returns the values that are no longer hot.
    fn made(
        &mut self,
        kept: &StoredObject,
        value: &Arc<K>,
        hot_max: usize,
    ) -> [Option<Hot<K>>; LOOKS_HOT + 1] {
        let place = kept.place();
        // The entry exists: no scan evicts it during decoding.
        if let Some(entry) = self.entries.find_mut(hash(place), |entry| entry.object.place() == place) {
            entry.value = Value::Made(Arc::downgrade(value));
        }
        let mut cooled = [const { None }; LOOKS_HOT + 1];
        let (oldest, gone) = cooled.split_last_mut().expect("the array is not empty");
        // Evict hot values of deleted or changed objects, whatever the limit.
        for gone in gone {
            if self.next_hot >= self.hot.len() {
                self.next_hot = 0;
            }
            match self.hot.get(self.next_hot) {
                Some((object, _)) if object.holders() <= OWN_HANDLES => {
                    *gone = self.hot.swap_remove_back(self.next_hot);
                }
                _ => self.next_hot += 1,
            }
        }
        if self.hot.len() >= hot_max {
            *oldest = self.hot.pop_front();
            // The remaining values have moved up by one place.
            self.next_hot = self.next_hot.saturating_sub(1);
        }
        if hot_max > 0 {
            self.hot.push_back((kept.clone(), value.clone()));
        }
        cooled
    }

    /// Continues the scan, and evicts the entries of dropped values.
    fn look(&mut self, buckets: usize) {
        if self.entries.num_buckets() <= BUCKETS_MIN {
            return;
        }
        for _ in 0..buckets {
            if self.next >= self.entries.num_buckets() {
                self.next = 0;
                // Shrinking is as rare as growing, and also done in one step.
                if self.entries.len() < self.entries.num_buckets() / 8 {
                    self.entries.shrink_to(2 * self.entries.len(), Entry::hash);
                }
            }
            if let Ok(entry) = self.entries.get_bucket_entry(self.next) {
                let is_held = entry.get().is_held();
                self.spared = if is_held { SPARED } else { 0 };
                if !is_held {
                    entry.remove();
                }
            }
            self.next += 1;
        }
    }
}

// === impl Entry ===

impl<K> Entry<K> {
    fn new(kept: &StoredObject) -> Self {
        Self { object: kept.clone(), value: Value::Made(Weak::new()) }
    }

    /// The value, if it is alive; otherwise the lock for decoding it.
    fn value(&mut self) -> Result<Arc<K>, Making<K>> {
        let value = match &self.value {
            Value::Making(making) => return Err(making.clone()),
            Value::Made(value) => value.upgrade(),
        };
        value.ok_or_else(|| {
            let making = Making::default();
            self.value = Value::Making(making.clone());
            making
        })
    }

    fn hash(&self) -> u64 {
        hash(self.object.place())
    }

    fn is_held(&self) -> bool {
        match &self.value {
            // The entry itself is one holder; others are readers that decode the value or wait for it.
            Value::Making(making) => Arc::strong_count(making) > 1,
            Value::Made(value) => value.strong_count() > 0,
        }
    }
}

/// Hash of an address. The lowest bits of an address are constant, but the table uses the lowest and the highest bits of a hash.
fn hash(place: usize) -> u64 {
    let spread = (place as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    spread ^ (spread >> 32)
}

impl<K> fmt::Debug for Decoder<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Decoder")
            .field("hot_max", &self.hot_max)
            .field("errors", &self.errors())
            .finish_non_exhaustive()
    }
}

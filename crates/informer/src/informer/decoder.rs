//! From bytes to typed values, once for all who look at the same time.
//!
//! The store holds bytes. A value is made when somebody asks for it and lives as long as somebody holds it; whoever asks
//! meanwhile for the same state of the same object gets the same value. The last few values are held a while longer, so
//! that reading the same objects again and again does not decode them again and again.
//!
//! What is remembered of values that nobody holds any more is let go by those who read, a little with each read: nobody waits
//! for a sweep, and the memory of what was held at once does not stay.

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use hashbrown::HashTable;
use parking_lot::Mutex;

use super::DecodeError;
use super::decode::Decode;
use crate::store::StoredObject;

/// Makes values, and remembers those that are held.
pub(crate) struct Decoder<K> {
    decode: Decode<K>,
    hot_max: usize,
    values: Mutex<Values<K>>,
    errors: Arc<AtomicU64>,
}

struct Values<K> {
    entries: HashTable<Entry<K>>,
    /// The bucket of `entries` that is looked at next.
    next: usize,
    /// How many reads do not look at any.
    spared: usize,
    /// Held because they were made last, each with the object it was made of.
    hot: VecDeque<Hot<K>>,
    /// The one of `hot` that is looked at next.
    next_hot: usize,
}

struct Entry<K> {
    /// What is kept of the object. Held so that no other object takes its place.
    object: StoredObject,
    value: Value<K>,
}

enum Value<K> {
    /// Locked while it is made: those who come meanwhile wait for it instead of making another.
    Making(Making<K>),
    Made(Weak<K>),
}

type Making<K> = Arc<Mutex<Option<Weak<K>>>>;
type Hot<K> = (StoredObject, Arc<K>);

/// So many buckets are looked at with each read, for entries whose value nobody holds: they keep the memory of the value, and an
/// object that may be gone. At more where a value is to be made, because that takes longer and adds an entry: so a round is
/// over before there are a third more.
const LOOKS: usize = 2;
const LOOKS_MAKING: usize = 8;
/// Looking at an entry takes longer than finding a value that was read just now. So while those that are met are held, as most
/// are most of the time, so many reads are spared it.
const SPARED: usize = 16;
/// The same of hot values whose objects are gone.
const LOOKS_HOT: usize = 2;
/// A table of so many buckets is left as it is.
const BUCKETS_MIN: usize = 128;

/// Handles of an object that are held for a hot value: by its entry, and beside the value.
const OWN_HANDLES: usize = 2;

impl<K> Decoder<K> {
    pub(super) fn new(decode: Decode<K>, hot_max: usize) -> Self {
        let values =
            Values { entries: HashTable::new(), next: 0, spared: 0, hot: VecDeque::new(), next_hot: 0 };
        Self { decode, hot_max, values: Mutex::new(values), errors: Arc::default() }
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
                    // When no lock is held: they may be large.
                    drop(cooled);
                    return Ok(value);
                }
                Some(value) => {
                    if let Some(value) = value.upgrade() {
                        return Ok(value);
                    }
                    // It was let go already: its entry knows whether there is another.
                }
            }
        }
    }

    /// How many objects did not fit the type.
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
    /// The value, if somebody holds it; otherwise where it is made.
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

    /// Notes a value; gives those that are no longer hot.
    fn made(
        &mut self,
        kept: &StoredObject,
        value: &Arc<K>,
        hot_max: usize,
    ) -> [Option<Hot<K>>; LOOKS_HOT + 1] {
        let place = kept.place();
        // It is there: whoever makes a value holds the entry.
        if let Some(entry) = self.entries.find_mut(hash(place), |entry| entry.object.place() == place) {
            entry.value = Value::Made(Arc::downgrade(value));
        }
        let mut cooled = [const { None }; LOOKS_HOT + 1];
        let (oldest, gone) = cooled.split_last_mut().expect("there is one at least");
        // However many may be hot: not those of objects that nobody else holds, because they are gone or changed.
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
            // Those behind it have moved up.
            self.next_hot = self.next_hot.saturating_sub(1);
        }
        if hot_max > 0 {
            self.hot.push_back((kept.clone(), value.clone()));
        }
        cooled
    }

    /// Goes on with the round through the entries, and lets go of those whose value nobody holds.
    fn look(&mut self, buckets: usize) {
        if self.entries.num_buckets() <= BUCKETS_MIN {
            return;
        }
        for _ in 0..buckets {
            if self.next >= self.entries.num_buckets() {
                self.next = 0;
                // The table becomes smaller as it became larger: seldom, and then at once.
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

    /// The value, if somebody holds it; otherwise where it is made.
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
            // By those who make it or wait for it; they get to it through the entry only.
            Value::Making(making) => Arc::strong_count(making) > 1,
            Value::Made(value) => value.strong_count() > 0,
        }
    }
}

/// Of a place in memory: its lowest bits are always the same, and a table looks at either end.
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

//! From bytes to typed values, once for all who look at the same time.
//!
//! The store holds bytes. A value is made when somebody asks for it and lives as long as somebody holds it; whoever asks
//! meanwhile for the same state of the same object gets the same value. The last few values are held a while longer, so
//! that reading the same objects again and again does not decode them again and again.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use kube_wire::KeptBytes;
use parking_lot::Mutex;

use super::DecodeError;
use crate::source::JsonSwitch;
use crate::store::StoredObject;

/// How bytes become a value.
pub(super) type Decode<K> = fn(KeptBytes<'_>) -> Result<K, kube_wire::Error>;

/// Makes values, and remembers those that are held.
pub(crate) struct Decoder<K> {
    decode: Decode<K>,
    hot_max: usize,
    values: Mutex<Values<K>>,
    errors: Arc<AtomicU64>,
    /// Turned when an object has fields that would be lost.
    json: OnceLock<JsonSwitch>,
}

struct Values<K> {
    by_address: HashMap<usize, Entry<K>>,
    /// How many entries there are when those that nobody holds are thrown out.
    sweep_at: usize,
    /// Held because they were made last, each with the object it was made of.
    hot: VecDeque<(StoredObject, Arc<K>)>,
}

struct Entry<K> {
    /// Held so that no other object takes its address.
    _object: StoredObject,
    /// Locked while the value is made: those who come meanwhile wait for it instead of making another.
    value: Arc<Mutex<Weak<K>>>,
}

const SWEEP_MIN: usize = 64;

/// Handles of an object that are held for a hot value: by its entry, and beside the value.
const OWN_HANDLES: usize = 2;

impl<K> Decoder<K> {
    pub(super) fn new(decode: Decode<K>, hot_max: usize) -> Self {
        let values = Values { by_address: HashMap::new(), sweep_at: SWEEP_MIN, hot: VecDeque::new() };
        Self { decode, hot_max, values: Mutex::new(values), errors: Arc::default(), json: OnceLock::new() }
    }

    pub(super) fn value(&self, object: &StoredObject) -> Result<Arc<K>, DecodeError> {
        let slot = self.values.lock().slot(object);
        let mut held = slot.lock();
        if let Some(value) = held.upgrade() {
            return Ok(value);
        }
        let value = object.read(self.decode).map_err(|error| {
            self.errors.fetch_add(1, Ordering::Relaxed);
            if let (kube_wire::Error::UnknownField { .. }, Some(json)) = (&error, self.json.get()) {
                json.turn();
            }
            DecodeError { key: object.key(), error }
        })?;
        let value = Arc::new(value);
        *held = Arc::downgrade(&value);
        drop(held);
        if self.hot_max > 0 {
            self.keep_hot(object, value.clone());
        }
        Ok(value)
    }

    /// Fields that are not known make these sources go over to JSON.
    pub(super) fn connect(&self, json: &JsonSwitch) {
        // A decoder that is shared was connected when it was made.
        self.json.get_or_init(|| json.clone());
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

    fn keep_hot(&self, object: &StoredObject, value: Arc<K>) {
        let mut values = self.values.lock();
        let cooled = if values.hot.len() >= self.hot_max { values.hot.pop_front() } else { None };
        values.hot.push_back((object.kept().clone(), value));
        drop(values);
        // Dropped when no lock is held: it may be large.
        drop(cooled);
    }
}

impl<K> Values<K> {
    fn slot(&mut self, object: &StoredObject) -> Arc<Mutex<Weak<K>>> {
        if self.by_address.len() >= self.sweep_at {
            // However many may be hot: not those of objects that nobody else holds, because they are gone or changed.
            self.hot.retain(|(object, _)| object.holders() > OWN_HANDLES);
            // One that is locked is being made.
            let is_held =
                |entry: &Entry<K>| entry.value.try_lock().is_none_or(|value| value.strong_count() > 0);
            self.by_address.retain(|_, entry| is_held(entry));
            self.sweep_at = SWEEP_MIN.max(2 * self.by_address.len());
        }
        let kept = object.kept();
        let entry = self
            .by_address
            .entry(kept.place())
            .or_insert_with(|| Entry { _object: kept.clone(), value: Arc::default() });
        entry.value.clone()
    }
}

impl<K> fmt::Debug for Decoder<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Decoder")
            .field("hot_max", &self.hot_max)
            .field("errors", &self.errors())
            .finish_non_exhaustive()
    }
}

//! Objects at rest, compressed.
//!
//! Objects of a kind are much alike. A [`Dictionary`] is trained on the first of them and holds what they have in common;
//! with it a pod of 2.5 KB becomes 290 bytes in two microseconds, and is a pod again in one. What is asked of an object
//! all the time stays readable as it is ([`Packed`]).
//!
//! **Invariants.** A dictionary never changes, and every packed object holds its own: so whoever has an object can read
//! it, whatever becomes of the store. New objects are packed with the newest dictionary of their kind. A store holds
//! objects of at most [`DICTIONARIES_MAX`] dictionaries a kind: before another is trained, those of the oldest are packed
//! anew.

mod contexts;
mod dictionary;
mod packed;
mod sets;
mod skeleton;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use kube_wire::{Encoding, RawObject, TypeMeta};
use parking_lot::{Mutex, RwLock};

use self::contexts::Contexts;
pub(super) use self::dictionary::Dictionary;
pub(super) use self::packed::{Packed, PackedRef};
use self::sets::Sets;
use super::memory::{Memory, Packing};
use super::object::StoredObject;

/// How many dictionaries of a kind there are at most.
pub(super) const DICTIONARIES_MAX: usize = 4;
/// How many kinds a store has dictionaries for; objects of others stay plain.
const KINDS_MAX: usize = 8;
/// Another dictionary must save this much more, in percent, to be worth having.
const GAIN_PERCENT_MIN: u64 = 10;

/// Packs the objects of one store.
pub(super) struct Packer {
    /// `None`: objects stay as they came.
    packing: Option<Packing>,
    contexts: Arc<Contexts>,
    sets: Mutex<Sets>,
    kinds: RwLock<Vec<Kind>>,
    /// There may be something to be done beside packing.
    due: AtomicBool,
}

struct Kind {
    type_meta: TypeMeta,
    encoding: Encoding,
    /// Oldest first; new objects are packed with the last.
    dictionaries: Vec<Arc<Dictionary>>,
    /// What was stored plain for want of a dictionary.
    plain_bytes: AtomicU64,
}

/// What is to be done beside packing what comes.
pub(super) enum Duty {
    /// There is a new dictionary: pack what is stored plain.
    PackPlain,
    /// Pack anew what was packed with this dictionary, to make room for another.
    Retire(Arc<Dictionary>),
    /// Much was deleted: copy what is left, so that it lies together and the memory around it is free.
    Move,
}

impl Packer {
    pub(super) fn new(memory: Memory) -> Self {
        let packing = match memory {
            Memory::Packed(packing) => Some(packing),
            Memory::Plain => None,
        };
        let (contexts, sets, kinds, due) = Default::default();
        Self { packing, contexts, sets, kinds, due }
    }

    /// How objects are packed, if they are.
    pub(super) fn packing(&self) -> Option<&Packing> {
        self.packing.as_ref()
    }

    /// Makes an object ready to be stored; gives what is kept of it, packed with a dictionary of this store, or plain.
    pub(super) fn admit(&self, object: &mut StoredObject) -> StoredObject {
        loop {
            self.pack(object);
            let kept = object.kept().clone();
            if kept.dictionary().is_none_or(|dictionary| self.has(dictionary)) {
                return kept;
            }
            // From another store, or packed when this one was another. What it becomes is nobody else's.
            *object = object.to_plain();
        }
    }

    /// Packs a plain object, if there is a dictionary for it and that saves anything: its handle leads there from now on.
    pub(super) fn pack(&self, object: &StoredObject) {
        let (Some(packing), Some((body, scope))) = (&self.packing, object.unpacked()) else { return };
        let Some(dictionary) = self.dictionary_for(body) else { return self.count_plain(body, packing) };
        let share = |labels: &[u8], owners: &[u8]| {
            let mut sets = self.sets.lock();
            (sets.share(labels), sets.share(owners))
        };
        let len_max = if packing.is_eager() { usize::MAX } else { body.bytes().len() };
        let keep = |packed, bytes: &[u8]| object.packed_as(packed, bytes);
        object.settle(Packed::make(body, scope, &dictionary, len_max, share, keep));
        if dictionary.objects() >= packing.drift_objects
            && dictionary.drift_percent() >= packing.drift_percent
        {
            self.due.store(true, Ordering::Relaxed);
        }
    }

    /// Trains a first dictionary for the kind of the first sample.
    pub(super) fn train(&self, samples: &[RawObject]) {
        let (Some(packing), Some(first)) = (&self.packing, samples.first()) else { return };
        let dictionary = Dictionary::train(samples, packing.dictionary_bytes, &self.contexts);
        let mut kinds = self.kinds.write();
        let Some(kind) = Kind::of(&mut kinds, first) else { return };
        // Somebody else may have been faster.
        if kind.dictionaries.is_empty() {
            kind.dictionaries.extend(dictionary.map(Arc::new));
        }
    }

    /// So many objects have gone from the store, or taken another state.
    pub(super) fn release(&self, objects: usize) {
        if self.packing.is_some() && objects > 0 {
            self.sets.lock().release(objects);
        }
    }

    /// Finds out what is to be done; trains a dictionary if it is time for one. `sample` gives objects of a kind from all
    /// over the store, and how many bytes there are of it in all.
    pub(super) fn next_duty(
        &self,
        sample: impl FnOnce(&TypeMeta, Encoding) -> (Vec<RawObject>, usize),
    ) -> Option<Duty> {
        let packing = self.packing.as_ref().filter(|_| self.due.load(Ordering::Relaxed))?;
        let wanting = self.kinds.read().iter().find(|kind| kind.wants_training(packing)).map(Kind::known);
        let Some((type_meta, encoding, dictionaries)) = wanting else {
            self.due.store(false, Ordering::Relaxed);
            return None;
        };
        if dictionaries.len() >= DICTIONARIES_MAX {
            return Some(Duty::Retire(dictionaries[0].clone()));
        }
        // Training takes a while; nobody is kept from packing meanwhile.
        let current = dictionaries.last();
        let (samples, bytes) = sample(&type_meta, encoding);
        let trained = match bytes >= packing.bytes_min {
            true => Dictionary::train(&samples, packing.dictionary_bytes, &self.contexts),
            false => None,
        };
        // Both are tried on the same objects: what came of late may be what no dictionary is good for.
        let is_gain = |trained: &Dictionary| {
            packing.is_eager()
                || current.is_none_or(|current| {
                    trained.rate_of(&samples) * (100 + GAIN_PERCENT_MIN) <= current.rate_of(&samples) * 100
                })
        };
        let trained = trained.filter(is_gain).map(Arc::new);
        let mut kinds = self.kinds.write();
        let kind = kinds.iter_mut().find(|kind| kind.type_meta == type_meta && kind.encoding == encoding)?;
        kind.plain_bytes.store(0, Ordering::Relaxed);
        match (trained, kind.dictionaries.last()) {
            // Unless somebody was faster.
            (Some(trained), last) if last.is_none() || last.map(Arc::as_ptr) == current.map(Arc::as_ptr) => {
                kind.dictionaries.push(trained);
            }
            // What there is is as good as it gets.
            (_, Some(last)) if current.is_some() => {
                last.settle();
                return None;
            }
            (_, Some(_)) => {}
            (_, None) => return None,
        }
        Some(Duty::PackPlain)
    }

    /// Nothing in the store is packed with this dictionary any more.
    pub(super) fn retire(&self, dictionary: &Arc<Dictionary>) {
        for kind in self.kinds.write().iter_mut() {
            kind.dictionaries.retain(|known| !Arc::ptr_eq(known, dictionary));
        }
    }

    fn has(&self, dictionary: &Arc<Dictionary>) -> bool {
        let kinds = self.kinds.read();
        kinds.iter().flat_map(|kind| &kind.dictionaries).any(|known| Arc::ptr_eq(known, dictionary))
    }

    fn dictionary_for(&self, object: &RawObject) -> Option<Arc<Dictionary>> {
        self.kinds.read().iter().find(|kind| kind.is_of(object))?.dictionaries.last().cloned()
    }

    fn count_plain(&self, object: &RawObject, packing: &Packing) {
        let bytes = object.bytes().len() as u64;
        let kinds = self.kinds.read();
        let before = match kinds.iter().find(|kind| kind.is_of(object)) {
            Some(kind) => kind.plain_bytes.fetch_add(bytes, Ordering::Relaxed),
            None => {
                drop(kinds);
                let mut kinds = self.kinds.write();
                let Some(kind) = Kind::of(&mut kinds, object) else { return };
                kind.plain_bytes.fetch_add(bytes, Ordering::Relaxed)
            }
        };
        if before + bytes >= packing.sample_bytes as u64 {
            self.due.store(true, Ordering::Relaxed);
        }
    }
}

impl Kind {
    fn is_of(&self, object: &RawObject) -> bool {
        self.encoding == object.encoding() && self.type_meta == *object.type_meta()
    }

    /// Whether it is time for a dictionary, the first or another.
    fn wants_training(&self, packing: &Packing) -> bool {
        match self.dictionaries.last() {
            None => self.plain_bytes.load(Ordering::Relaxed) >= packing.sample_bytes as u64,
            Some(current) => {
                current.objects() >= packing.drift_objects && current.drift_percent() >= packing.drift_percent
            }
        }
    }

    fn known(&self) -> (TypeMeta, Encoding, Vec<Arc<Dictionary>>) {
        (self.type_meta.clone(), self.encoding, self.dictionaries.clone())
    }

    /// The kind of an object; `None` if there are too many.
    fn of<'a>(kinds: &'a mut Vec<Self>, object: &RawObject) -> Option<&'a mut Self> {
        let at = match kinds.iter().position(|kind| kind.is_of(object)) {
            Some(at) => at,
            None if kinds.len() >= KINDS_MAX => return None,
            None => {
                let (type_meta, encoding) = (object.type_meta().clone(), object.encoding());
                kinds.push(Self {
                    type_meta,
                    encoding,
                    dictionaries: Vec::new(),
                    plain_bytes: AtomicU64::default(),
                });
                kinds.len() - 1
            }
        };
        kinds.get_mut(at)
    }
}

impl Default for Packer {
    fn default() -> Self {
        Self::new(Memory::default())
    }
}

impl fmt::Debug for Packer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dictionaries = self.kinds.read().iter().map(|kind| kind.dictionaries.len()).sum::<usize>();
        f.debug_struct("Packer")
            .field("packing", &self.packing)
            .field("dictionaries", &dictionaries)
            .field("sets", &self.sets.lock().len())
            .finish()
    }
}

//! What is done beside writing, a little with each write: training another dictionary when objects have drifted away from
//! the one there is; packing anew what is packed with an old one, or plain; and, when most objects have gone, moving the rest
//! together, because memory is given back in large pieces only.
//!
//! It goes through the same door as every other write, so indexes and snapshots need not know of it; and nothing is told,
//! because nothing has changed.

use std::sync::Arc;

use kube_wire::{Encoding, RawObject, TypeMeta};

use super::packing::Duty;
use super::root::Root;
use super::commit::{Edit, Writer};
use super::{Store, StoredObject};

/// How many objects are packed anew with a write, beside as many as it writes: about a quarter of a millisecond.
const SLICE: usize = 32;
/// Never more than these at once: they are plain meanwhile.
const SLICE_MAX: usize = 512;
/// Nor are more leaves of the table looked through for them.
const LEAVES_MAX: usize = 32;
/// Where there were fewer objects, there is little to be given back.
const MOVED_MIN: usize = 4000;
/// How many objects a dictionary is trained on at most, and how many bytes they hold.
const SAMPLES_MAX: usize = 1000;
const SAMPLES_BYTES_MAX: usize = 4 << 20;

/// A walk through all objects.
pub(super) struct Pass {
    duty: Duty,
    /// The leaf that is next. Leaves that are merged meanwhile may be missed. While that leaves something packed with a
    /// dictionary that is to go, there is another walk; what else is missed stays as it is, which is no harm.
    leaf: usize,
}

impl Store {
    /// Does a little of what is to be done, after so many objects were written.
    pub(super) fn upkeep(&self, writer: &mut Writer, written: usize) {
        let Some(mut pass) = writer.pass.take().or_else(|| self.next_pass(writer)) else { return };
        let snapshot = self.snapshot();
        let mut edits = Vec::new();
        let (mut at_end, mut leaves) = (false, LEAVES_MAX);
        while edits.len() < (SLICE + written).min(SLICE_MAX) && !at_end && leaves > 0 {
            leaves -= 1;
            let objects = snapshot.0.objects.leaf(pass.leaf);
            at_end = objects.is_none();
            let objects = objects.into_iter().flatten();
            edits.extend(objects.filter_map(|old| self.packed_anew(old, &pass.duty)));
            pass.leaf += 1;
        }
        // Or everything that is written would be copied for its sake.
        drop(snapshot);
        self.repack(writer, &edits);
        if !at_end {
            writer.pass = Some(pass);
        } else if let Duty::Retire(dictionary) = pass.duty {
            let is_used =
                |root: &Root| root.dictionaries.iter().any(|(known, _)| Arc::ptr_eq(known, &dictionary));
            match self.read(is_used) {
                true => writer.pass = Some(Pass { duty: Duty::Retire(dictionary), leaf: 0 }),
                false => self.packer.retire(&dictionary),
            }
        }
    }

    fn next_pass(&self, writer: &mut Writer) -> Option<Pass> {
        let duty = self.packer.next_duty(|type_meta, encoding| self.sample(type_meta, encoding));
        let duty = duty.or_else(|| self.has_shrunk(writer).then_some(Duty::Move))?;
        Some(Pass { duty, leaf: 0 })
    }

    /// Whether most objects have gone since what is left was last moved together. (Plain ones are never moved.)
    fn has_shrunk(&self, writer: &mut Writer) -> bool {
        let objects = self.len();
        writer.objects_max = writer.objects_max.max(objects);
        let has_shrunk = self.packer.packing().is_some()
            && writer.objects_max >= MOVED_MIN
            && objects <= writer.objects_max / 4;
        if has_shrunk {
            writer.objects_max = objects;
        }
        has_shrunk
    }

    /// An edit that puts the object in its own place, if the duty is about it.
    fn packed_anew(&self, old: &StoredObject, duty: &Duty) -> Option<Edit> {
        match (duty, old.dictionary()) {
            (Duty::Move, _) => return Some(Edit::Repack { old: old.clone(), new: old.moved()? }),
            (Duty::PackPlain, None) => {}
            (Duty::Retire(oldest), Some(dictionary)) if Arc::ptr_eq(oldest, dictionary) => {}
            _ => return None,
        }
        let new = old.to_plain();
        self.packer.pack(&new);
        let is_worth_it = old.is_packed() || new.kept().is_packed();
        is_worth_it.then(|| Edit::Repack { old: old.clone(), new })
    }

    /// Objects of a kind from all over the store, and how many bytes there are of it in all, about.
    fn sample(&self, type_meta: &TypeMeta, encoding: Encoding) -> (Vec<RawObject>, usize) {
        let snapshot = self.snapshot();
        let step = snapshot.len().div_ceil(SAMPLES_MAX).max(1);
        let is_of = |object: &&StoredObject| object.encoding() == encoding && object.type_meta() == type_meta;
        let found = snapshot.iter().step_by(step).filter(is_of).collect::<Vec<_>>();
        let bytes = found.iter().map(|object| object.plain_bytes()).sum::<usize>();
        let spread = found.into_iter().step_by(bytes.div_ceil(SAMPLES_BYTES_MAX).max(1));
        (spread.map(StoredObject::raw).collect(), bytes * step)
    }
}

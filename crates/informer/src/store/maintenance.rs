//! Work that is done alongside writes, a little with each: training another dictionary when objects have drifted away from
//! the current one; repacking objects that are packed with an old one, or plain; and, when most objects are gone, compacting
//! the rest, because memory is freed in large pieces only.
//!
//! It is committed like every other write, so indexes and snapshots need not know of it. It changes no object, so it reports
//! no changes.

use std::sync::Arc;

use kube_wire::{Encoding, RawObject, TypeMeta};

use super::commit::{Commit, Writer};
use super::packing::Duty;
use super::root::Root;
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
    /// Does a little of what is due, after so many objects were written.
    pub(super) fn maintain(&self, writer: &mut Writer, written: usize) {
        let Some(mut pass) = writer.pass.take().or_else(|| self.next_pass(writer)) else { return };
        let snapshot = self.snapshot();
        let mut commit = Commit::new(self, writer, 0);
        let (mut at_end, mut leaves) = (false, LEAVES_MAX);
        while commit.len() < (SLICE + written).min(SLICE_MAX) && !at_end && leaves > 0 {
            leaves -= 1;
            let objects = snapshot.0.objects.leaf(pass.leaf);
            at_end = objects.is_none();
            for old in objects.into_iter().flatten() {
                if let Some(new) = self.repacked(old, &pass.duty) {
                    commit.repack(old.clone(), new);
                }
            }
            pass.leaf += 1;
        }
        // Or everything that is written would be copied for its sake.
        drop(snapshot);
        commit.finish();
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

    /// The object packed anew, if the duty is about it.
    fn repacked(&self, old: &StoredObject, duty: &Duty) -> Option<StoredObject> {
        match (duty, old.dictionary()) {
            (Duty::Move, _) => return old.moved(),
            (Duty::PackPlain, None) => {}
            (Duty::Retire(oldest), Some(dictionary)) if Arc::ptr_eq(oldest, dictionary) => {}
            _ => return None,
        }
        let new = old.to_plain();
        self.packer.pack(&new);
        (old.is_packed() || new.kept().is_packed()).then_some(new)
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

//! Maintenance, done in small steps alongside writes: training a new dictionary when objects have drifted from the current
//! one; repacking objects that use an old dictionary, or are not packed yet; and compacting the remaining objects when most are gone,
//! because memory is freed only in large pieces.
//!
//! It is committed like every other write, so indexes and snapshots need no special case. It changes no object, so it
//! reports no changes.

use std::sync::Arc;

use kube_wire::{Encoding, RawObject, TypeMeta};

use super::commit::{Commit, Writer};
use super::root::Root;
use super::{Store, StoredObject};
use crate::packing::Duty;

/// How many objects are repacked per write, in addition to as many as it writes: about 0.25 ms.
const SLICE: usize = 32;
/// Maximum per step: they are uncompressed meanwhile.
const SLICE_MAX: usize = 512;
/// Maximum number of leaves scanned for them.
const LEAVES_MAX: usize = 32;
/// With fewer objects than this, there is little memory to free.
const MOVED_MIN: usize = 4000;
/// Maximum number of objects to train a dictionary on, and of their bytes.
const SAMPLES_MAX: usize = 1000;
const SAMPLES_BYTES_MAX: usize = 4 << 20;

/// A pass over all objects.
pub(super) struct Pass {
    duty: Duty,
    /// The next leaf. A pass may miss leaves that are merged meanwhile. If objects of a retiring dictionary remain, another
    /// pass follows; anything else that was missed is harmless.
    leaf: usize,
}

impl Store {
    /// Does one step of pending maintenance, after `written` objects were written.
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
        // Otherwise everything written would be copied because of it.
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

    /// Whether most objects are gone since the last compaction. (Uncompressed ones are never moved.)
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

    /// The object repacked, if the duty concerns it.
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

    /// Samples objects of a kind from the whole store, and estimates the total bytes of the kind.
    fn sample(&self, type_meta: &TypeMeta, encoding: Encoding) -> (Vec<RawObject>, usize) {
        let snapshot = self.snapshot();
        let step = snapshot.len().div_ceil(SAMPLES_MAX).max(1);
        let is_of = |object: &&StoredObject| object.encoding() == encoding && object.type_meta() == type_meta;
        let found = snapshot.iter().step_by(step).filter(is_of).collect::<Vec<_>>();
        let bytes = found.iter().map(|object| object.uncompressed_bytes()).sum::<usize>();
        let spread = found.into_iter().step_by(bytes.div_ceil(SAMPLES_BYTES_MAX).max(1));
        (spread.map(StoredObject::raw).collect(), bytes * step)
    }
}

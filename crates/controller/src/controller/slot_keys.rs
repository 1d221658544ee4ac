//! Which keys this replica may work on, if several share the work.
//!
//! The slot of a key is that of its object, by the object's uid or namespace. By uid, a key whose object is not in the cache has no
//! known slot: the object may be another replica's, or deleted. So the slots of deleted objects are remembered until their keys are
//! reconciled.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kube_informer::Key;
use parking_lot::Mutex;

use super::tools::Tools;
use crate::shards::{NotAdmitted, SlotPermit, Slots};

/// The keys of this replica's slots.
#[derive(Debug)]
pub(crate) struct SlotKeys {
    slots: Arc<Slots>,
    deleted: Mutex<DeletedKeys>,
}

/// Keys whose objects were deleted, and that were not reconciled since.
#[derive(Debug, Default)]
struct DeletedKeys {
    slots: BTreeMap<Key, DeletedObject>,
    /// The number of the next deletion.
    next: u64,
}

/// A deleted object: its slot, and the number of its deletion.
#[derive(Clone, Copy, Debug)]
struct DeletedObject {
    slot: u32,
    number: u64,
}

/// A key that may be worked on now.
#[derive(Debug)]
pub(super) struct AdmittedKey {
    pub(super) permit: SlotPermit,
    /// The number of the deletion that is reconciled.
    deletion: Option<u64>,
}

impl SlotKeys {
    pub(super) fn new(slots: Arc<Slots>) -> Self {
        Self { slots, deleted: Mutex::default() }
    }

    pub(super) fn slots(&self) -> &Arc<Slots> {
        &self.slots
    }

    /// The object of a key is no longer in the main informer's cache. If it left with its slot, the key is another replica's.
    pub(super) fn object_left(&self, key: Key, namespace: &str, uid: &str) {
        let Some(slot) = self.slots.slot_of(namespace, Some(uid)).filter(|slot| self.slots.keeps(*slot))
        else {
            return;
        };
        let mut deleted = self.deleted.lock();
        let number = deleted.next;
        deleted.next += 1;
        deleted.slots.insert(key, DeletedObject { slot, number });
    }

    /// Whether an object of this key was deleted, and the key was not reconciled since.
    pub(super) fn was_deleted(&self, key: &Key) -> bool {
        self.deleted.lock().slots.contains_key(key)
    }

    /// Permits work on a key if its slot is this replica's and ready. When a slot becomes ready, the keys of its cached and deleted
    /// objects are queued. A key without an object is retried.
    pub(super) fn admit(&self, tools: &Tools, key: &Key) -> Result<AdmittedKey, NotAdmitted> {
        let uid = tools.main().and_then(|main| main.uid(&key.in_cluster("")));
        let deleted = self.deleted.lock().slots.get(key).copied();
        let slot = match &uid {
            Some(uid) => self.slots.slot_of(key.namespace(), Some(uid)),
            None => deleted.map(|deleted| deleted.slot).or_else(|| self.slots.slot_of(key.namespace(), None)),
        };
        let why = match slot.map_or(Err(NotAdmitted::Elsewhere), |slot| self.slots.admit(slot)) {
            Ok(permit) => {
                return Ok(AdmittedKey { permit, deletion: deleted.map(|deleted| deleted.number) });
            }
            Err(why) => why,
        };
        let is_kept = slot.is_some_and(|slot| self.slots.keeps(slot));
        if !is_kept {
            self.deleted.lock().slots.remove(key);
        }
        let is_unknown = uid.is_none() && deleted.is_none();
        Err(if is_kept && is_unknown { NotAdmitted::Later } else { why })
    }

    /// The keys of deleted objects in these slots, which become ready. Forgets those of other replicas.
    pub(super) fn deleted_in(&self, ready: &BTreeSet<u32>) -> Vec<Key> {
        let mut deleted = self.deleted.lock();
        deleted.slots.retain(|_, deleted| self.slots.keeps(deleted.slot));
        let ready = deleted.slots.iter().filter(|(_, deleted)| ready.contains(&deleted.slot));
        ready.map(|(key, _)| key.clone()).collect()
    }

    /// The key was reconciled, and is not queued again. A deletion since then still needs a reconcile.
    pub(super) fn finished(&self, key: &Key, admitted: &AdmittedKey) {
        let mut deleted = self.deleted.lock();
        if deleted.slots.get(key).is_some_and(|deleted| Some(deleted.number) == admitted.deletion) {
            deleted.slots.remove(key);
        }
    }
}

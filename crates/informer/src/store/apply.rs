//! Applies deltas: each is compared with the stored object, which decides whether it counts and what changes.

use std::sync::atomic::Ordering;

use super::change::{Change, ChangeBatch, Origin};
use super::commit::{Commit, IN_PLACE_MAX};
use super::root::Mark;
use super::{Store, StoredObject};
use crate::delta::Delta;
use crate::object::Likeness;
use crate::version::is_older;

impl Store {
    /// Applies deltas in one step. Returns the changes, in order.
    ///
    /// - A state that is older than the stored one is dropped and counted, unless it comes from a list: it is a repeated
    ///   event, of this object or of an earlier one with its name. So a state with a huge resourceVersion hides later states
    ///   until the next list, whose states are always accepted.
    /// - A repeated state is reported as a resync; in another encoding it is replaced silently.
    /// - A key under which another object (another uid) was stored is reported as deleted, final state unknown, and added.
    /// - The deletion of an object that is not stored changes nothing, and neither does its move to another shard.
    ///
    /// A repeated key starts a second step, and so does a complete list among other deltas.
    pub fn apply(&self, deltas: &[Delta]) -> ChangeBatch {
        match deltas {
            [Delta::ReplacedAll(list)] => {
                self.replace(&mut self.writer.lock(), list);
                ChangeBatch::List(list.clone())
            }
            deltas => ChangeBatch::Watch(self.apply_each(deltas, true)),
        }
    }

    /// `in_order`: each delta means that everything of its scope up to its resourceVersion is stored.
    pub(super) fn apply_each(&self, deltas: &[Delta], in_order: bool) -> Vec<Change> {
        let mut writer = self.writer.lock();
        let mut changes = Vec::with_capacity(deltas.len().min(IN_PLACE_MAX));
        let mut commit = Commit::new(self, &mut writer, deltas.len());
        for delta in deltas {
            if let Delta::ReplacedAll(list) = delta {
                commit.finish();
                self.replace(&mut writer, list);
                changes.extend_from_slice(&list.changes);
                commit = Commit::new(self, &mut writer, deltas.len());
                continue;
            }
            if let Some(object) = delta.object() {
                commit.begin_key(object);
            }
            if in_order && let Some(version) = reached(delta) {
                commit.mark(Mark::Reached(delta.scope(), version));
            }
            self.compare(delta, &mut commit, &mut changes);
        }
        let written = commit.finish();
        self.maintain(&mut writer, written);
        changes
    }

    /// Determines what a delta changes.
    fn compare(&self, delta: &Delta, commit: &mut Commit<'_, '_>, changes: &mut Vec<Change>) {
        match delta {
            Delta::Added(new) | Delta::Updated(new) => self.put(new, Origin::Live, commit, changes),
            Delta::Replaced(new) => self.put(new, Origin::Relist, commit, changes),
            Delta::Deleted(last) => self.delete(last, commit, changes),
            Delta::DeletedUnread(last) => self.remove(last, Origin::Live, commit, changes),
            Delta::Vanished(last) => self.remove(last, Origin::Relist, commit, changes),
            Delta::Left(state) => self.leave(state, commit, changes),
            Delta::Sync(object) => {
                // If another state was stored meanwhile, that change was reported separately.
                let stored = self
                    .stored(object)
                    .filter(|old| matches!(old.likeness_of(object), Likeness::Same | Likeness::Reencoded));
                changes.extend(stored.map(resync));
            }
            Delta::Bookmark { .. } | Delta::ReplacedAll(_) => {}
        }
    }

    fn put(
        &self,
        new: &StoredObject,
        origin: Origin,
        commit: &mut Commit<'_, '_>,
        changes: &mut Vec<Change>,
    ) {
        let Some(old) = self.stored(new) else {
            changes.push(Change::Added { object: new.clone(), origin });
            return commit.put(None, new.clone(), None);
        };
        // resourceVersions grow across all objects of a resource, so an older state under another uid was deleted since.
        if origin == Origin::Live
            && is_older(new.resource_version(), old.resource_version())
            && !deliberate_bug!("older-state-stored")
        {
            return self.count_stale();
        }
        match old.likeness_of(new) {
            Likeness::Same => return changes.push(resync(old)),
            Likeness::Reencoded => {}
            Likeness::Changed => {
                changes.push(Change::Updated { old: old.clone(), new: new.clone(), origin });
            }
            Likeness::Recreated => {
                changes.push(Change::Deleted { last: old.clone(), final_state_known: false, origin });
                changes.push(Change::Added { object: new.clone(), origin });
            }
        }
        commit.put(Some(old), new.clone(), None);
    }

    fn delete(&self, last: &StoredObject, commit: &mut Commit<'_, '_>, changes: &mut Vec<Change>) {
        // A repeated deletion, or one of an object that was never reported, changes nothing.
        let Some(old) = self.stored(last) else {
            if deliberate_bug!("repeated-deletion-reported") {
                let (last, origin) = (last.clone(), Origin::Live);
                changes.push(Change::Deleted { last, final_state_known: true, origin });
            }
            return;
        };
        if is_older(last.resource_version(), old.resource_version()) {
            return self.count_stale();
        }
        // If an earlier object (another uid) was deleted, the stored one is gone, too; its final state is unknown.
        let final_state_known = old.uid() == last.uid();
        let last = if final_state_known { last.clone() } else { old.clone() };
        changes.push(Change::Deleted { last, final_state_known, origin: Origin::Live });
        commit.remove(old);
    }

    /// Removes an object whose final state is unknown.
    fn remove(
        &self,
        last: &StoredObject,
        origin: Origin,
        commit: &mut Commit<'_, '_>,
        changes: &mut Vec<Change>,
    ) {
        if let Some(old) = self.stored(last) {
            changes.push(Change::Deleted { last: old.clone(), final_state_known: false, origin });
            commit.remove(old);
        }
    }

    /// Removes an object whose new state is in another shard.
    fn leave(&self, state: &StoredObject, commit: &mut Commit<'_, '_>, changes: &mut Vec<Change>) {
        let Some(old) = self.stored(state) else { return };
        if is_older(state.resource_version(), old.resource_version()) {
            return self.count_stale();
        }
        // Under another uid, the stored object was deleted, and its successor is in another shard.
        let origin = if old.uid() == state.uid() { Origin::LeftShard } else { Origin::Live };
        changes.push(Change::Deleted { last: old.clone(), final_state_known: false, origin });
        commit.remove(old);
    }

    fn count_stale(&self) {
        self.stale.fetch_add(1, Ordering::Relaxed);
    }
}

/// The resourceVersion up to which a scope is complete with a delta.
fn reached(delta: &Delta) -> Option<&str> {
    match delta {
        Delta::Added(object)
        | Delta::Updated(object)
        | Delta::Deleted(object)
        | Delta::Left(object)
        | Delta::Replaced(object) => Some(object.resource_version()),
        Delta::Bookmark { resource_version, .. } => Some(resource_version),
        // They carry an earlier state, which does not date the event.
        Delta::DeletedUnread(_) | Delta::Vanished(_) | Delta::Sync(_) | Delta::ReplacedAll(_) => None,
    }
}

fn resync(object: StoredObject) -> Change {
    Change::Updated { old: object.clone(), new: object, origin: Origin::Resync }
}

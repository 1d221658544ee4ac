//! What a watch has told, compared with what is stored: which writes count, and what they change.

use std::sync::atomic::Ordering;

use super::change::{Change, Origin};
use super::object::Likeness;
use super::root::Mark;
use super::table::Hashes;
use super::commit::{Edit, IN_PLACE_MAX};
use super::{Store, StoredObject};
use crate::queue::Scope;
use crate::version::is_older;

/// One thing to write.
#[derive(Clone, Copy, Debug)]
pub enum Write<'a> {
    /// The object is there, in this state, as a watch has told.
    Put(&'a StoredObject),
    /// The object is there, in this state, as a full list shows: right even where it is older than what is known.
    Listed(&'a StoredObject),
    /// The object was deleted in this state.
    Delete(&'a StoredObject),
    /// The object is no longer there; this is what was known of it.
    Vanished(&'a StoredObject),
    /// Everything up to this resourceVersion is in.
    Bookmark(Scope, &'a str),
}

/// What is written in one step: no key appears twice.
struct Step<'a> {
    edits: Vec<Edit>,
    keys: Hashes,
    marks: Vec<Mark<'a>>,
    changes: Vec<Change>,
}

// === impl Store ===

impl Store {
    /// Writes what a watch has told, in one step; gives what that changed, in order.
    ///
    /// - A state that is older than the one stored under its key is left out, and counted (unless it was listed): a repeated
    ///   event, be it of this object or of one that had its name before.
    /// - The same state once more is told as a resync; in another encoding it is swapped silently.
    /// - A key under which there was another object (another uid) is told as deleted, its final state unknown, and added.
    /// - The deletion of an object that is not stored is told all the same.
    ///
    /// A key that appears again begins a second step.
    pub fn write<'a>(&self, writes: impl IntoIterator<Item = Write<'a>>) -> Vec<Change> {
        self.write_told(writes, true)
    }

    /// Writes one thing that says nothing of its scope: what was told of other objects before may not be in.
    pub(super) fn write_alone(&self, write: Write<'_>) -> Vec<Change> {
        self.write_told([write], false)
    }

    /// `in_order`: with each write everything of its scope up to its resourceVersion is in.
    fn write_told<'a>(&self, writes: impl IntoIterator<Item = Write<'a>>, in_order: bool) -> Vec<Change> {
        let mut writer = self.writer.lock();
        let writes = writes.into_iter();
        let (edits, keys) = writer.take_room();
        let mut step = Step { edits, keys, marks: Vec::new(), changes: Vec::new() };
        step.changes.reserve(writes.size_hint().1.unwrap_or_default().min(IN_PLACE_MAX));
        for write in writes {
            if !step.is_new(&write) {
                self.commit(&mut writer, &mut step.edits, &step.marks);
                step.clear();
                step.is_new(&write);
            }
            if in_order {
                step.marks.extend(write.mark());
            }
            self.resolve(write, &mut step);
        }
        let written = step.edits.len();
        self.commit(&mut writer, &mut step.edits, &step.marks);
        self.upkeep(&mut writer, written);
        step.clear();
        writer.give_room(step.edits, step.keys);
        step.changes
    }

    /// Works out what a write does to what is stored now.
    fn resolve(&self, write: Write<'_>, step: &mut Step<'_>) {
        match write {
            Write::Bookmark(..) => {}
            Write::Put(new) => self.put(new, Origin::Live, step),
            Write::Listed(new) => self.put(new, Origin::Relist, step),
            Write::Delete(last) => self.delete(last, step),
            Write::Vanished(last) => {
                if let Some(old) = self.known(last) {
                    step.changes.push(Change::deleted(old.clone(), false, Origin::Relist));
                    step.edits.push(Edit::Remove { old });
                }
            }
        }
    }

    fn put(&self, new: &StoredObject, origin: Origin, step: &mut Step<'_>) {
        let Some(old) = self.known(new) else {
            step.changes.push(Change::added(new.clone(), origin));
            step.edits.push(Edit::put(None, new.clone(), None));
            return;
        };
        // Versions of one resource grow, whatever the object: an older one under another uid was deleted since.
        if origin == Origin::Live && is_older(new.resource_version(), old.resource_version()) {
            return self.count_stale();
        }
        match old.likeness_of(new) {
            Likeness::Same => return step.changes.push(Change::updated(old.clone(), old, Origin::Resync)),
            Likeness::Reencoded => {}
            Likeness::Changed => step.changes.push(Change::updated(old.clone(), new.clone(), origin)),
            Likeness::Recreated => {
                step.changes.push(Change::deleted(old.clone(), false, origin));
                step.changes.push(Change::added(new.clone(), origin));
            }
        }
        step.edits.push(Edit::put(Some(old), new.clone(), None));
    }

    fn delete(&self, last: &StoredObject, step: &mut Step<'_>) {
        let Some(old) = self.known(last) else {
            return step.changes.push(Change::deleted(last.clone(), true, Origin::Live));
        };
        if is_older(last.resource_version(), old.resource_version()) {
            return self.count_stale();
        }
        // The deletion of an earlier object tells that this one is gone too, but not in which state.
        let same = old.uid() == last.uid();
        step.changes.push(Change::deleted(if same { last.clone() } else { old.clone() }, same, Origin::Live));
        step.edits.push(Edit::Remove { old });
    }

    fn count_stale(&self) {
        self.stale.fetch_add(1, Ordering::Relaxed);
    }
}

// === impl Step ===

impl<'a> Step<'a> {
    /// Whether the write's key does not appear yet. (Two keys with one hash begin a step too many, which is no harm.)
    fn is_new(&mut self, write: &Write<'_>) -> bool {
        write.object().is_none_or(|object| self.keys.insert(object.key_hash()))
    }

    /// Begins the next step; the changes go on.
    fn clear(&mut self) {
        self.edits.clear();
        self.marks.clear();
        self.keys.clear();
    }
}

// === impl Write ===

impl<'a> Write<'a> {
    fn object(&self) -> Option<&'a StoredObject> {
        match self {
            Self::Put(object) | Self::Listed(object) | Self::Delete(object) | Self::Vanished(object) => {
                Some(object)
            }
            Self::Bookmark(..) => None,
        }
    }

    /// Up to where the scope is known with it.
    fn mark(&self) -> Option<Mark<'a>> {
        match self {
            Self::Put(object) | Self::Listed(object) | Self::Delete(object) => {
                Some(Mark::Reached(object.scope(), object.resource_version()))
            }
            Self::Bookmark(scope, version) => Some(Mark::Reached(*scope, version)),
            // Nobody has said when.
            Self::Vanished(_) => None,
        }
    }
}

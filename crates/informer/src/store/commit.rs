//! The only way to write to the root: everything is prepared first, then objects, indexes and scopes change in one step.
//!
//! After the index values are read, a few table operations per object remain. Small commits are applied in place under the
//! lock. Large ones are applied to a copy, which then replaces the root, so that readers never wait for long.

use std::sync::Arc;

use parking_lot::RwLock;

use super::index::{CompiledIndex, IndexFailure};
use super::index_plan::{IndexPlan, IndexPlanner};
use super::index_values::ReadValues;
use super::maintenance::Pass;
use super::root::{Grouping, Mark, Root};
use super::{Store, StoredObject};
use crate::hashes::Hashes;

/// Up to this many objects, like a batch of a queue, are changed in place while readers wait: about 1 µs per object, where
/// a copy would cost several.
pub(super) const IN_PLACE_MAX: usize = 1000;
/// More capacity than this is not kept for the next commit.
const EDITS_KEPT_MAX: usize = 4 * IN_PLACE_MAX;

/// The writer's state.
#[derive(Default)]
pub(super) struct Writer {
    indexes: Vec<IndexPlanner>,
    /// These three are empty between commits; kept to reuse their allocations.
    plan: IndexPlan,
    edits: Vec<Edit>,
    keys: Hashes,
    /// The maintenance pass in progress.
    pub(super) pass: Option<Pass>,
    /// The highest number of objects since the last compaction.
    pub(super) objects_max: usize,
}

/// A write in preparation. Nothing is visible until [`finish`](Self::finish).
pub(super) struct Commit<'a, 'w> {
    store: &'a Store,
    writer: &'w mut Writer,
    edits: Vec<Edit>,
    keys: Hashes,
    marks: Vec<Mark<'a>>,
    /// For a large commit: the copy that its parts are applied to.
    copy: Option<RootCopy>,
    /// How many objects were edited, and how many of them were removed or changed.
    edited: usize,
    released: usize,
}

/// An edit of one key. No two have the same key, and `old` is the stored object.
enum Edit {
    /// Stores the object, in place of `old` if any. Indexes read `new`, unless `values` has been read before; `kept` is
    /// what the store keeps. It is decided once, because another store may pack the same object meanwhile.
    Put { old: Option<StoredObject>, new: StoredObject, kept: StoredObject, values: Option<ReadValues> },
    /// Removes the object.
    Remove { old: StoredObject },
    /// Repacks the same object; its index values stay.
    Repack { old: StoredObject, new: StoredObject },
}

/// A copy of the root that is changed while readers use the original.
struct RootCopy {
    before: Arc<Root>,
    root: Root,
}

// === impl Commit ===

impl<'a, 'w> Commit<'a, 'w> {
    /// Begins a commit of about `edits` edits.
    pub(super) fn new(store: &'a Store, writer: &'w mut Writer, edits: usize) -> Self {
        let copy = (edits > IN_PLACE_MAX).then(|| RootCopy::new(&store.root));
        let (edits, keys) = (std::mem::take(&mut writer.edits), std::mem::take(&mut writer.keys));
        Self { store, writer, edits, keys, marks: Vec::new(), copy, edited: 0, released: 0 }
    }

    /// Announces an edit of an object. An earlier edit of the same key is applied first.
    pub(super) fn begin_key(&mut self, object: &StoredObject) {
        if !self.keys.insert(object.key_hash()) {
            let is_large = self.copy.is_some();
            self.take_effect();
            self.keys.insert(object.key_hash());
            self.copy = is_large.then(|| RootCopy::new(&self.store.root));
        }
    }

    /// Stores an object in place of `old`, which is stored under its key.
    pub(super) fn put(&mut self, old: Option<StoredObject>, new: StoredObject, values: Option<ReadValues>) {
        self.push(Edit::Put { old, kept: new.clone(), new, values });
    }

    /// Removes a stored object.
    pub(super) fn remove(&mut self, old: StoredObject) {
        self.push(Edit::Remove { old });
    }

    /// Stores the same object, repacked.
    pub(super) fn repack(&mut self, old: StoredObject, new: StoredObject) {
        self.push(Edit::Repack { old, new });
    }

    /// Advances a scope.
    pub(super) fn mark(&mut self, mark: Mark<'a>) {
        self.marks.push(mark);
    }

    /// The number of pending edits.
    pub(super) fn len(&self) -> usize {
        self.edits.len()
    }

    /// Makes everything visible in one step. Returns how many objects were edited.
    pub(super) fn finish(mut self) -> usize {
        self.take_effect();
        if self.edits.capacity() <= EDITS_KEPT_MAX {
            self.writer.edits = std::mem::take(&mut self.edits);
            self.writer.keys = std::mem::take(&mut self.keys);
        }
        self.edited
    }

    fn push(&mut self, edit: Edit) {
        self.edits.push(edit);
        // In parts, so that a large list is not held twice.
        if self.edits.len() >= IN_PLACE_MAX && self.copy.is_some() {
            self.write_part();
        }
    }

    fn take_effect(&mut self) {
        if self.copy.is_some() {
            self.write_part();
        }
        match self.copy.take() {
            Some(copy) => {
                copy.publish(&self.store.root, &self.marks);
                // With this many changed keys, waking all callers costs less than finding theirs.
                self.store.waiters.wake_all();
            }
            None => {
                self.admit();
                let root = &self.store.root;
                let plan = self.plan(|index, value, old| root.read().indexes[index].has(value, old));
                write(Arc::make_mut(&mut root.write()), &self.edits, &plan, &self.marks);
                self.store.wake(self.edits.iter().filter_map(Edit::changed_key), &self.marks);
                self.end_part(plan);
            }
        }
        self.store.charge.set(self.store.read(Root::cost));
        self.store.packer.release(std::mem::take(&mut self.released));
        self.marks.clear();
        self.keys.clear();
    }

    /// Applies the edits so far to the copy.
    fn write_part(&mut self) {
        self.admit();
        let Some(mut copy) = self.copy.take() else { return };
        let plan = self.plan(|index, value, old| copy.before.indexes[index].has(value, old));
        write(&mut copy.root, &self.edits, &plan, &[]);
        self.copy = Some(copy);
        self.end_part(plan);
    }

    fn end_part(&mut self, mut plan: IndexPlan) {
        plan.clear();
        self.writer.plan = plan;
        self.edited += self.edits.len();
        self.edits.clear();
    }

    /// Packs the objects to store, and counts the released ones.
    fn admit(&mut self) {
        for edit in &mut self.edits {
            match edit {
                Edit::Put { old, new, kept, .. } => {
                    self.released += usize::from(old.is_some());
                    *kept = self.store.packer.admit(new);
                    if deliberate_bug!("packed-object-not-replaced")
                        && kept.is_packed()
                        && let Some(old) = old
                    {
                        *kept = old.clone();
                    }
                }
                Edit::Remove { .. } => self.released += 1,
                Edit::Repack { .. } => {}
            }
        }
    }

    /// The index changes of the edits; `has` returns whether an object has a value in an index.
    fn plan(&mut self, has: impl Fn(usize, &str, &StoredObject) -> bool) -> IndexPlan {
        let mut plan = std::mem::take(&mut self.writer.plan);
        let mut report = |failure| self.store.report(&failure);
        for (at, edit) in self.edits.iter().enumerate() {
            for (index, planner) in self.writer.indexes.iter_mut().enumerate() {
                let (states, values) = match edit {
                    Edit::Put { old, new, kept, values } => {
                        ((old.as_ref(), Some(new), Some(kept)), values.as_ref())
                    }
                    Edit::Remove { old } => ((Some(old), None, None), None),
                    Edit::Repack { old, new } => {
                        planner.plan_repack(old, new, &mut plan, (at, index));
                        continue;
                    }
                };
                let has = |value: &str, old: &StoredObject| has(index, value, old);
                planner.plan(states, values, &mut plan, (at, index), has, &mut report);
            }
        }
        plan
    }
}

// === impl Edit ===

impl Edit {
    /// The hash of the changed key; `None` for a repacked object.
    fn changed_key(&self) -> Option<u64> {
        match self {
            Self::Put { new, .. } => Some(new.key_hash()),
            Self::Remove { old } => Some(old.key_hash()),
            Self::Repack { .. } => None,
        }
    }
}

// === impl RootCopy ===

impl RootCopy {
    fn new(root: &RwLock<Arc<Root>>) -> Self {
        let before = root.read().clone();
        Self { root: Root::clone(&before), before }
    }

    /// Publishes the copy in one step, with the scopes advanced.
    fn publish(mut self, root: &RwLock<Arc<Root>>, marks: &[Mark<'_>]) {
        marks.iter().for_each(|mark| self.root.mark(mark));
        *root.write() = Arc::new(self.root);
        // Free it only now, when no reader waits.
        drop(self.before);
    }
}

fn write(root: &mut Root, edits: &[Edit], plan: &IndexPlan, marks: &[Mark<'_>]) {
    for edit in edits {
        match edit {
            Edit::Put { old, kept, .. } => root.insert(kept.clone(), old.as_ref()),
            Edit::Remove { old } => root.remove(old),
            Edit::Repack { old, new } => root.insert(new.kept().clone(), Some(old)),
        }
    }
    for (step, value) in plan.steps() {
        let index = &mut root.indexes[step.index];
        match &edits[step.edit] {
            Edit::Put { old, kept, .. } if step.adds => index.put(value, kept.clone(), old.as_ref()),
            Edit::Put { .. } if deliberate_bug!("index-entry-left-behind") => {}
            Edit::Put { old: Some(old), .. } | Edit::Remove { old } => index.take(value, old),
            Edit::Put { old: None, .. } => {}
            Edit::Repack { old, new } => index.put(value, new.kept().clone(), Some(old)),
        }
    }
    for mark in marks {
        root.mark(mark);
    }
}

// === impl Writer ===

impl Writer {
    /// Adds an index over all stored objects.
    pub(super) fn add_index(
        &mut self,
        root: &RwLock<Arc<Root>>,
        index: CompiledIndex,
        report: &mut impl FnMut(IndexFailure),
    ) {
        let index = Arc::new(index);
        let mut grouping = Grouping::new(index.clone());
        let mut planner = IndexPlanner::new(index);
        let mut plan = IndexPlan::default();
        let present = root.read().clone();
        for object in present.objects.iter() {
            let states = (None, Some(object), Some(object));
            planner.plan(states, None, &mut plan, (0, 0), |_, _| false, report);
            for (_, value) in plan.steps() {
                grouping.put(value, object.clone(), None);
            }
            plan.clear();
        }
        drop(present);
        Arc::make_mut(&mut root.write()).indexes.push(grouping);
        self.indexes.push(planner);
    }
}

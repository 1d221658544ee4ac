//! The one way in which a root is written to: work everything out first, then change objects, indexes and marks in one
//! step.
//!
//! Reading index values is the dear part, and user code; it happens before readers are kept out. What then remains is a
//! handful of table operations an object. Few of them are done in place under the lock; many are done on a copy aside,
//! which then takes the root's place, so that readers never wait for long.

use std::ops::Range;
use std::sync::Arc;

use hashbrown::HashTable;
use parking_lot::RwLock;

use super::StoredObject;
use super::index::{Compiled, IndexTrouble};
use super::object::text_hash;
use super::root::{Grouping, Mark, Root};
use super::table::{Hashed, Hashes, Table};
use super::upkeep::Pass;
use super::values::ReadValues;

/// Up to this many objects, a batch of a watch, are changed in place while readers wait: about a microsecond each, where
/// a copy aside would cost several.
pub(super) const IN_PLACE_MAX: usize = 1000;
/// More room than this is not kept for the next write.
const ROOM_MAX: usize = 4 * IN_PLACE_MAX;
/// Nor more than this for values of indexes, which may be of any length.
const ROOM_BYTES_MAX: usize = 64 * ROOM_MAX;
/// Up to this many values of one object, looking through them costs less than hashing them.
const FEW_VALUES: usize = 16;

/// What a write does to one key. No two of one write have the same key, and `old` is what is stored under it.
#[derive(Clone, Debug)]
pub(super) enum Edit {
    /// The object takes the place of what is stored, if anything is. Indexes read it as it came, plain, unless they have read
    /// it before. `kept` of it is what is stored; that is settled once, when it is admitted, because the plain one may get
    /// into another store meanwhile, which notes in it what it keeps.
    Put { old: Option<StoredObject>, new: StoredObject, kept: StoredObject, values: Option<ReadValues> },
    /// The object goes.
    Remove { old: StoredObject },
    /// The same object takes its own place, packed otherwise: its values in indexes are what they were.
    Repack { old: StoredObject, new: StoredObject },
}

/// What only the writer needs.
#[derive(Default)]
pub(super) struct Writer {
    indexes: Vec<Indexer>,
    /// Empty between writes; kept for their room.
    steps: Steps,
    edits: Vec<Edit>,
    keys: Hashes,
    /// What is being done beside writing.
    pub(super) pass: Option<Pass>,
    /// How many objects there were at most since what is left was last moved together.
    pub(super) objects_max: usize,
}

/// An index and the values that cannot be read again.
struct Indexer {
    index: Arc<Compiled>,
    /// `None` where the values can be read from the old object.
    remembered: Option<Table<Remembered>>,
}

#[derive(Clone, Debug)]
struct Remembered {
    object: StoredObject,
    values: Box<[Box<str>]>,
}

/// What is to be done to the indexes.
#[derive(Default)]
struct Steps {
    /// All values, one after the other.
    text: String,
    steps: Vec<Step>,
    /// Of the object at hand, where in `steps` its new values are, by their hash; empty if they are few.
    many: HashTable<usize>,
}

/// A value of the object of an edit is put into an index, or taken out.
struct Step {
    edit: usize,
    index: usize,
    value: (usize, usize),
    puts: bool,
}

/// A copy of the root that is changed while readers go on with the one there is, and then takes its place.
pub(super) struct Aside {
    before: Arc<Root>,
    root: Root,
}

// === impl Edit ===

impl Edit {
    /// To be admitted.
    pub(super) fn put(old: Option<StoredObject>, new: StoredObject, values: Option<ReadValues>) -> Self {
        Self::Put { old, kept: new.clone(), new, values }
    }

    /// The hash of the key that it is about.
    pub(super) fn key_hash(&self) -> u64 {
        match self {
            Self::Put { new, .. } | Self::Repack { new, .. } => new.key_hash(),
            Self::Remove { old } => old.key_hash(),
        }
    }
}

// === impl Writer ===

impl Writer {
    /// Room for the next write.
    pub(super) fn take_room(&mut self) -> (Vec<Edit>, Hashes) {
        (std::mem::take(&mut self.edits), std::mem::take(&mut self.keys))
    }

    /// Keeps the room of a write for the next one, unless it was a very large one.
    pub(super) fn give_room(&mut self, edits: Vec<Edit>, keys: Hashes) {
        if edits.capacity() <= ROOM_MAX {
            (self.edits, self.keys) = (edits, keys);
        }
    }

    /// Makes the edits, at most [`IN_PLACE_MAX`], and moves the scopes, in one step.
    pub(super) fn write(
        &mut self,
        root: &RwLock<Arc<Root>>,
        edits: &[Edit],
        marks: &[Mark<'_>],
        trouble: &mut impl FnMut(IndexTrouble),
    ) {
        let mut steps =
            self.plan(edits, |index, value, old| root.read().indexes[index].has(value, old), trouble);
        apply(Arc::make_mut(&mut root.write()), edits, &steps, marks);
        steps.clear();
        self.steps = steps;
    }

    /// Makes edits aside: as many at a time as in place, so that what is planned takes little room.
    pub(super) fn write_aside(
        &mut self,
        aside: &mut Aside,
        edits: &[Edit],
        trouble: &mut impl FnMut(IndexTrouble),
    ) {
        let mut steps =
            self.plan(edits, |index, value, old| aside.before.indexes[index].has(value, old), trouble);
        apply(&mut aside.root, edits, &steps, &[]);
        steps.clear();
        self.steps = steps;
    }

    /// What the edits mean for the indexes; `has` says whether an object has a value in one.
    fn plan(
        &mut self,
        edits: &[Edit],
        has: impl Fn(usize, &str, &StoredObject) -> bool,
        trouble: &mut impl FnMut(IndexTrouble),
    ) -> Steps {
        let mut steps = std::mem::take(&mut self.steps);
        for (at, edit) in edits.iter().enumerate() {
            for (index, indexer) in self.indexes.iter_mut().enumerate() {
                indexer.plan(edit, &mut steps, (at, index), |value, old| has(index, value, old), trouble);
            }
        }
        steps
    }

    /// Adds an index over everything that is there.
    pub(super) fn add_index(
        &mut self,
        root: &RwLock<Arc<Root>>,
        index: Compiled,
        trouble: &mut impl FnMut(IndexTrouble),
    ) {
        let index = Arc::new(index);
        let mut grouping = Grouping::new(index.clone());
        let mut indexer = Indexer { remembered: index.is_function().then(Table::default), index };
        let mut steps = Steps::default();
        let present = root.read().clone();
        for object in present.objects.iter() {
            let edit = Edit::put(None, object.clone(), None);
            indexer.plan(&edit, &mut steps, (0, 0), |_, _| false, trouble);
            for step in &steps.steps {
                grouping.put(steps.value(step), object.clone(), None);
            }
            steps.clear();
        }
        drop(present);
        Arc::make_mut(&mut root.write()).indexes.push(grouping);
        self.indexes.push(indexer);
    }
}

// === impl Aside ===

impl Aside {
    pub(super) fn new(root: &RwLock<Arc<Root>>) -> Self {
        let before = root.read().clone();
        Self { root: Root::clone(&before), before }
    }

    /// Everything that was written to it is there, in one step, and the scopes are moved.
    pub(super) fn replace(mut self, root: &RwLock<Arc<Root>>, marks: &[Mark<'_>]) {
        marks.iter().for_each(|mark| self.root.mark(mark));
        *root.write() = Arc::new(self.root);
        // Freed only now, when nobody waits.
        drop(self.before);
    }
}

fn apply(root: &mut Root, edits: &[Edit], steps: &Steps, marks: &[Mark<'_>]) {
    for edit in edits {
        match edit {
            Edit::Put { old, kept, .. } => root.insert(kept.clone(), old.as_ref()),
            Edit::Remove { old } => root.remove(old),
            Edit::Repack { old, new } => root.insert(new.kept().clone(), Some(old)),
        }
    }
    for step in &steps.steps {
        let (index, value) = (&mut root.indexes[step.index], steps.value(step));
        match &edits[step.edit] {
            Edit::Put { old, kept, .. } if step.puts => index.put(value, kept.clone(), old.as_ref()),
            Edit::Put { old: Some(old), .. } | Edit::Remove { old } => index.take(value, old),
            Edit::Put { old: None, .. } => {}
            Edit::Repack { old, new } => index.put(value, new.kept().clone(), Some(old)),
        }
    }
    for mark in marks {
        root.mark(mark);
    }
}

// === impl Indexer ===

impl Indexer {
    /// Plans what an edit means for the index. A value that stays is put again: the new state takes the old one's place.
    fn plan(
        &mut self,
        edit: &Edit,
        steps: &mut Steps,
        place: (usize, usize),
        has: impl Fn(&str, &StoredObject) -> bool,
        trouble: &mut impl FnMut(IndexTrouble),
    ) {
        let (old, new, kept, read) = match edit {
            Edit::Put { old, new, kept, values } => (old.as_ref(), Some(new), Some(kept), values.as_ref()),
            Edit::Remove { old } => (Some(old), None, None, None),
            Edit::Repack { old, new } => return self.plan_repack(old, new, steps, place),
        };
        let first = steps.steps.len();
        let read = read.filter(|_| self.index.reads_body());
        if let Some(values) = read.and_then(|read| read.of(place.1)) {
            values.for_each(|value| steps.push(place, value, true));
        } else if let Some(new) = new
            && let Err(why) = self.index.values(new, |value| steps.push(place, value, true))
        {
            steps.steps.truncate(first);
            trouble(IndexTrouble { index: self.index.name.clone(), key: new.key(), why });
        }
        let puts = first..steps.steps.len();
        let gone = |steps: &mut Steps, value: &str| {
            if !steps.has(&puts, value) {
                steps.push(place, value, false);
            }
        };
        match (&mut self.remembered, old) {
            (Some(remembered), _) => {
                let values: Box<[Box<str>]> =
                    steps.steps[puts.clone()].iter().map(|step| steps.value(step).into()).collect();
                let before = remember(remembered, old, kept, values);
                if !before.is_empty() {
                    steps.hash_if_many(&puts);
                }
                before.iter().for_each(|value| gone(steps, value));
            }
            (None, Some(old)) => {
                // The one value is still the same: mostly so, and then the old object need not be read.
                if self.index.is_single()
                    && let [step] = &steps.steps[puts.clone()]
                    && has(steps.value(step), old)
                {
                    return;
                }
                steps.hash_if_many(&puts);
                // What cannot be read now could not be read then.
                drop(self.index.values(old, |value| gone(steps, value)));
            }
            (None, None) => {}
        }
    }
}

impl Indexer {
    /// The values stay; a function is not asked again, and what cannot be read could not be read before.
    fn plan_repack(
        &mut self,
        old: &StoredObject,
        new: &StoredObject,
        steps: &mut Steps,
        place: (usize, usize),
    ) {
        let first = steps.steps.len();
        match &mut self.remembered {
            None if self.index.values(new, |value| steps.push(place, value, true)).is_err() => {
                steps.steps.truncate(first);
            }
            None => {}
            Some(remembered) => {
                let known = remembered.get_mut(old.key_hash(), |known| known.object.has_key_of(old));
                if let Some(known) = known {
                    known.object = new.kept().clone();
                    known.values.iter().for_each(|value| steps.push(place, value, true));
                }
            }
        }
    }
}

/// Remembers the values of `new`; gives those of `old`.
fn remember(
    remembered: &mut Table<Remembered>,
    old: Option<&StoredObject>,
    new: Option<&StoredObject>,
    values: Box<[Box<str>]>,
) -> Box<[Box<str>]> {
    let before = match (old, new) {
        (_, Some(new)) if !values.is_empty() => remembered
            .insert(Remembered { object: new.clone(), values }, |known| known.object.has_key_of(new)),
        (Some(object), _) | (None, Some(object)) => {
            remembered.remove(object.key_hash(), |known| known.object.has_key_of(object))
        }
        (None, None) => None,
    };
    before.map(|before| before.values).unwrap_or_default()
}

impl Hashed for Remembered {
    fn hash(&self) -> u64 {
        self.object.key_hash()
    }
}

// === impl Steps ===

impl Steps {
    fn push(&mut self, (edit, index): (usize, usize), value: &str, puts: bool) {
        let start = self.text.len();
        self.text.push_str(value);
        self.steps.push(Step { edit, index, value: (start, self.text.len()), puts });
    }

    fn value(&self, step: &Step) -> &str {
        &self.text[step.value.0..step.value.1]
    }

    /// Makes ready to look for values among these steps: if there are many, in one go through all of them.
    fn hash_if_many(&mut self, steps: &Range<usize>) {
        self.many.clear();
        if steps.len() <= FEW_VALUES {
            return;
        }
        let mut many = std::mem::take(&mut self.many);
        let value = |at: &usize| self.value(&self.steps[*at]);
        for at in steps.clone() {
            let same = |other: &usize| value(other) == value(&at);
            many.entry(text_hash(value(&at)), same, |other| text_hash(value(other))).or_insert(at);
        }
        self.many = many;
    }

    /// Whether a value is among these steps, which were made ready.
    fn has(&self, steps: &Range<usize>, value: &str) -> bool {
        if steps.len() <= FEW_VALUES {
            return self.steps[steps.clone()].iter().any(|step| self.value(step) == value);
        }
        self.many.find(text_hash(value), |at| self.value(&self.steps[*at]) == value).is_some()
    }

    fn clear(&mut self) {
        self.text.clear();
        self.steps.clear();
        self.many.clear();
        if self.steps.capacity() > ROOM_MAX || self.text.capacity() > ROOM_BYTES_MAX {
            *self = Self::default();
        }
    }
}

//! The effect of a commit on the indexes, determined before anything changes.
//!
//! Reading index values is expensive and may call user code, so it happens before readers are blocked.

use std::ops::Range;
use std::sync::Arc;

use hashbrown::HashTable;

use super::StoredObject;
use super::index::{CompiledIndex, IndexFailure};
use super::index_values::ReadValues;
use super::table::{Hashed, Table};
use crate::object::text_hash;

/// More capacity for steps than this is not kept for the next commit.
const STEPS_KEPT_MAX: usize = 4000;
/// The same for index values, which may have any length.
const BYTES_KEPT_MAX: usize = 64 * STEPS_KEPT_MAX;
/// Up to this many values per object, comparing them one by one is cheaper than hashing.
const FEW_VALUES: usize = 16;

/// An index, and the values that cannot be read again.
pub(super) struct IndexPlanner {
    index: Arc<CompiledIndex>,
    /// `None` if the values can be read from the old object.
    remembered: Option<Table<Remembered>>,
}

/// The values that a function returned for an object; it might return others the next time.
#[derive(Clone)]
struct Remembered {
    object: StoredObject,
    values: Box<[Box<str>]>,
}

/// Omits the content, which may be that of a Secret.
impl std::fmt::Debug for Remembered {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Remembered")
            .field("object", &self.object)
            .field("values", &self.values.len())
            .finish_non_exhaustive()
    }
}

/// The steps of a commit in all indexes.
#[derive(Default)]
pub(super) struct IndexPlan {
    /// All values, concatenated.
    text: String,
    steps: Vec<IndexStep>,
    /// The positions in `steps` of the current object's new values, by hash; empty if there are few.
    many: HashTable<usize>,
}

/// Adds a value of an edited object to an index, or removes it.
pub(super) struct IndexStep {
    pub(super) edit: usize,
    pub(super) index: usize,
    value: (usize, usize),
    pub(super) adds: bool,
}

// === impl IndexPlanner ===

impl IndexPlanner {
    pub(super) fn new(index: Arc<CompiledIndex>) -> Self {
        Self { remembered: index.is_function().then(Table::default), index }
    }

    /// Plans the index steps for storing or removing an object; `kept` is what the store keeps of `new`. An unchanged value
    /// is added again, to replace the old state. `has` returns whether an object has a value.
    pub(super) fn plan(
        &mut self,
        (old, new, kept): (Option<&StoredObject>, Option<&StoredObject>, Option<&StoredObject>),
        read: Option<&ReadValues>,
        plan: &mut IndexPlan,
        at: (usize, usize),
        has: impl Fn(&str, &StoredObject) -> bool,
        report: &mut impl FnMut(IndexFailure),
    ) {
        let first = plan.steps.len();
        let read = read.filter(|_| self.index.reads_body());
        if let Some(values) = read.and_then(|read| read.of(at.1)) {
            values.for_each(|value| plan.push(at, value, true));
        } else if let Some(new) = new
            && let Err(why) = self.index.values(new, |value| plan.push(at, value, true))
        {
            plan.steps.truncate(first);
            report(IndexFailure { index: self.index.name.clone(), key: new.key(), why });
        }
        let added = first..plan.steps.len();
        let remove = |plan: &mut IndexPlan, value: &str| {
            if !plan.has(&added, value) {
                plan.push(at, value, false);
            }
        };
        match (&mut self.remembered, old) {
            (Some(remembered), _) => {
                let values: Box<[Box<str>]> =
                    plan.steps[added.clone()].iter().map(|step| plan.value(step).into()).collect();
                let before = remember(remembered, old, kept, values);
                if !before.is_empty() {
                    plan.hash_if_many(&added);
                }
                before.iter().for_each(|value| remove(plan, value));
            }
            (None, Some(old)) => {
                // The common case: the single value is unchanged, and the old object need not be read.
                if self.index.is_single()
                    && let [step] = &plan.steps[added.clone()]
                    && has(plan.value(step), old)
                {
                    return;
                }
                plan.hash_if_many(&added);
                // A value that cannot be read now could not be read before either.
                drop(self.index.values(old, |value| remove(plan, value)));
            }
            (None, None) => {}
        }
    }

    /// For a repacked object: the values stay. Functions are not called again.
    pub(super) fn plan_repack(
        &mut self,
        old: &StoredObject,
        new: &StoredObject,
        plan: &mut IndexPlan,
        at: (usize, usize),
    ) {
        let first = plan.steps.len();
        match &mut self.remembered {
            None if self.index.values(new, |value| plan.push(at, value, true)).is_err() => {
                plan.steps.truncate(first);
            }
            None => {}
            Some(remembered) => {
                let known = remembered.get_mut(old.key_hash(), |known| known.object.has_key_of(old));
                if let Some(known) = known {
                    known.object = new.kept().clone();
                    known.values.iter().for_each(|value| plan.push(at, value, true));
                }
            }
        }
    }
}

/// Remembers the values of `new`. Returns those of `old`.
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

// === impl IndexPlan ===

impl IndexPlan {
    /// The steps, each with its value.
    pub(super) fn steps(&self) -> impl Iterator<Item = (&IndexStep, &str)> {
        self.steps.iter().map(|step| (step, self.value(step)))
    }

    pub(super) fn clear(&mut self) {
        self.text.clear();
        self.steps.clear();
        self.many.clear();
        if self.steps.capacity() > STEPS_KEPT_MAX || self.text.capacity() > BYTES_KEPT_MAX {
            *self = Self::default();
        }
    }

    fn push(&mut self, (edit, index): (usize, usize), value: &str, adds: bool) {
        let start = self.text.len();
        self.text.push_str(value);
        self.steps.push(IndexStep { edit, index, value: (start, self.text.len()), adds });
    }

    fn value(&self, step: &IndexStep) -> &str {
        &self.text[step.value.0..step.value.1]
    }

    /// Prepares lookups among these steps: many values are hashed once.
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

    /// Whether a value is among these prepared steps.
    fn has(&self, steps: &Range<usize>, value: &str) -> bool {
        if steps.len() <= FEW_VALUES {
            return self.steps[steps.clone()].iter().any(|step| self.value(step) == value);
        }
        self.many.find(text_hash(value), |at| self.value(&self.steps[*at]) == value).is_some()
    }
}

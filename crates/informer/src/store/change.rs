//! Changes: what applying deltas did to the store, as listeners are notified of it.

use std::sync::Arc;

use crate::scope::Scope;
use crate::store::StoredObject;
use crate::store::index_values::ReadValues;

/// One change of one object, after the store shows it.
#[derive(Clone, Debug)]
pub enum Change {
    /// The object is new.
    Added {
        /// The object.
        object: StoredObject,
        /// How the change was learned.
        origin: Origin,
    },
    /// The object has another state.
    Updated {
        /// The state before.
        old: StoredObject,
        /// The state now. For a resync both are the same.
        new: StoredObject,
        /// How the change was learned.
        origin: Origin,
    },
    /// The object is gone.
    Deleted {
        /// The last cached state.
        last: StoredObject,
        /// Whether `last` is the state it was deleted in; if not, the deletion itself was not seen.
        final_state_known: bool,
        /// How the change was learned.
        origin: Origin,
    },
}

/// How a change was learned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Origin {
    /// From the initial list.
    Initial,
    /// From a watch, as it happened.
    Live,
    /// From a later list: it happened while there was no watch.
    Relist,
    /// Nothing happened: delivered once more.
    Resync,
}

/// The changes of one [`Store::apply`](super::Store::apply), in the order in which they are reported.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ChangeBatch {
    /// Changes that a watch reported.
    Watch(Vec<Change>),
    /// Changes that a complete list revealed.
    List(Arc<FullList>),
}

/// A complete list of one scope, as its differences to the store: made by [`Replacement::finish`](super::Replacement::finish).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct FullList {
    /// The scope that was listed.
    pub scope: Scope,
    /// The resourceVersion of the list.
    pub resource_version: String,
    /// Whether it is the first list of the scope.
    pub initial: bool,
    /// Whether the server was reset to an earlier state: see [`Committed::new_epoch`](crate::queue::Committed::new_epoch).
    pub new_epoch: bool,
    /// Deletions of objects that the list lacks, then of objects that it shows recreated, then everything that is new or
    /// different, in the order of the list.
    pub(super) changes: Vec<Change>,
    /// How many of `changes` are of the first sort.
    pub(super) removed: usize,
    /// Where in `changes` the third sort begins.
    pub(super) puts_begin: usize,
    /// The index values of each put, if they were read when it was listed. Empty if none were.
    pub(super) values: Vec<Option<ReadValues>>,
    /// Stored without a change: the same state in another encoding, or known from another scope.
    pub(super) swapped: Vec<(StoredObject, Option<ReadValues>)>,
}

// === impl Change ===

impl Change {
    /// The object as it is now, or was last.
    pub fn object(&self) -> &StoredObject {
        match self {
            Self::Added { object, .. } => object,
            Self::Updated { new, .. } => new,
            Self::Deleted { last, .. } => last,
        }
    }

    /// How the change was learned.
    pub fn origin(&self) -> Origin {
        match self {
            Self::Added { origin, .. } | Self::Updated { origin, .. } | Self::Deleted { origin, .. } => {
                *origin
            }
        }
    }

    pub(super) fn object_mut(&mut self) -> &mut StoredObject {
        match self {
            Self::Added { object, .. } => object,
            Self::Updated { new, .. } => new,
            Self::Deleted { last, .. } => last,
        }
    }

    /// The same, with the objects as the store keeps them.
    pub(crate) fn at_rest(&self) -> Self {
        let mut change = self.clone();
        if let Self::Updated { old, .. } = &mut change {
            *old = old.kept().clone();
        }
        let object = change.object_mut();
        *object = object.kept().clone();
        change
    }
}

// === impl ChangeBatch ===

impl ChangeBatch {
    /// The changes. Of a list: what is gone, then what is new or different as listed.
    pub fn changes(&self) -> &[Change] {
        match self {
            Self::Watch(changes) => changes,
            Self::List(list) => &list.changes,
        }
    }

    /// The same, with the objects as the store keeps them; `None` if it is that already.
    pub(crate) fn at_rest(&self) -> Option<Self> {
        // What a list changed was put at rest as it was listed.
        let Self::Watch(changes) = self else { return None };
        let is_at_rest = |change: &Change| std::ptr::eq(change.object().kept(), change.object());
        (!changes.iter().all(is_at_rest)).then(|| Self::Watch(changes.iter().map(Change::at_rest).collect()))
    }

    /// How many bytes the changed objects hold.
    pub(crate) fn bytes(&self) -> usize {
        self.changes().iter().map(|change| change.object().stored_bytes()).sum()
    }
}

// === impl FullList ===

impl FullList {
    /// What is stored, with the index values that were read when it was listed.
    pub(super) fn puts(&self) -> impl Iterator<Item = (&StoredObject, Option<&ReadValues>)> {
        let changes = self.changes[self.puts_begin..].iter().enumerate();
        let changed =
            changes.map(|(at, change)| (change.object(), self.values.get(at).and_then(Option::as_ref)));
        changed.chain(self.swapped.iter().map(|(object, values)| (object, values.as_ref())))
    }

    /// How many objects are stored or removed.
    pub(super) fn len(&self) -> usize {
        self.removed + self.changes.len() - self.puts_begin + self.swapped.len()
    }
}

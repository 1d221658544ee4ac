//! Changes: the effect of deltas on the store, as reported to listeners.

use std::sync::Arc;

use crate::budget::Charge;
use crate::object::StoredObject;
use crate::scope::Scope;
use crate::store::index_values::ReadValues;

/// One change of one object, which the store already shows.
#[derive(Clone, Debug)]
pub enum Change {
    /// The object was added.
    Added {
        /// The object.
        object: StoredObject,
        /// Why the change is reported.
        origin: Origin,
    },
    /// The object changed.
    Updated {
        /// The previous state.
        old: StoredObject,
        /// The current state. For a resync both are the same.
        new: StoredObject,
        /// Why the change is reported.
        origin: Origin,
    },
    /// The object was deleted.
    Deleted {
        /// The last cached state.
        last: StoredObject,
        /// Whether `last` is the final state. If not, the deletion itself was not observed.
        final_state_known: bool,
        /// Why the change is reported.
        origin: Origin,
    },
}

/// Why a change is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Origin {
    /// It is part of the initial list, also of a namespace or slot that was added later, or of the state when listening began.
    Initial,
    /// A watch reported it.
    Live,
    /// A later list revealed it: it happened without a watch.
    Relist,
    /// Nothing changed: the object is delivered again.
    Resync,
    /// The object left the informer's [shard](crate::InformerBuilder::shard): the informer has lost the object's slot, or the object
    /// has moved to another slot. It was not deleted, as far as the informer knows.
    LeftShard,
}

/// The changes of one [`Store::apply`](super::Store::apply), in order.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ChangeBatch {
    /// Changes that a watch reported.
    Watch(Vec<Change>),
    /// Changes that a complete list revealed.
    List(Arc<FullList>),
}

/// A complete list of one scope, as the differences from the store: created by
/// [`Replacement::finish`](super::Replacement::finish).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct FullList {
    /// The listed scope.
    pub scope: Scope,
    /// The resourceVersion of the list.
    pub resource_version: String,
    /// Whether it is the first list of the scope.
    pub initial: bool,
    /// Whether the server was reset to an earlier state: see [`Committed::new_epoch`](crate::queue::Committed::new_epoch).
    pub new_epoch: bool,
    /// Deletions of objects that the list lacks, then deletions of recreated objects, then all new or changed objects in
    /// the order of the list.
    pub(super) changes: Vec<Change>,
    /// How many of `changes` are deletions of missing objects.
    pub(super) removed: usize,
    /// Where in `changes` the new or changed objects begin.
    pub(super) puts_begin: usize,
    /// The index values of each put, if they were read while listing. Otherwise empty.
    pub(super) values: Vec<Option<ReadValues>>,
    /// Stored without a change: the same state in another encoding, or known from another scope.
    pub(super) swapped: Vec<(StoredObject, Option<ReadValues>)>,
    /// What the list takes of a memory budget until it is stored.
    pub(super) charge: Arc<Charge>,
}

// === impl Change ===

impl Change {
    /// The current state of the object, or its last one.
    pub fn object(&self) -> &StoredObject {
        match self {
            Self::Added { object, .. } => object,
            Self::Updated { new, .. } => new,
            Self::Deleted { last, .. } => last,
        }
    }

    /// Why the change is reported.
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

    /// The same change, with the objects as the store keeps them.
    pub(crate) fn as_stored(&self) -> Self {
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
    /// The changes. For a list: deletions first, then new and changed objects in list order.
    pub fn changes(&self) -> &[Change] {
        match self {
            Self::Watch(changes) => changes,
            Self::List(list) => &list.changes,
        }
    }

    /// The same batch, with the objects as the store keeps them; `None` if it already is.
    pub(crate) fn as_stored(&self) -> Option<Self> {
        // Objects of a list were converted while listing.
        let Self::Watch(changes) = self else { return None };
        let is_stored = |change: &Change| std::ptr::eq(change.object().kept(), change.object());
        (!changes.iter().all(is_stored)).then(|| Self::Watch(changes.iter().map(Change::as_stored).collect()))
    }

    /// How many bytes the changed objects hold.
    pub(crate) fn bytes(&self) -> usize {
        self.changes().iter().map(|change| change.object().stored_bytes()).sum()
    }
}

// === impl FullList ===

impl FullList {
    /// The objects to store, with the index values read while listing.
    pub(super) fn puts(&self) -> impl Iterator<Item = (&StoredObject, Option<&ReadValues>)> {
        let changes = self.changes[self.puts_begin..].iter().enumerate();
        let changed =
            changes.map(|(at, change)| (change.object(), self.values.get(at).and_then(Option::as_ref)));
        changed.chain(self.swapped.iter().map(|(object, values)| (object, values.as_ref())))
    }

    /// The number of objects stored or removed.
    pub(super) fn len(&self) -> usize {
        self.removed + self.changes.len() - self.puts_begin + self.swapped.len()
    }
}

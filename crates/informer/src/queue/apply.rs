//! From a batch of deltas to changes: the store first, then what is told.

use std::sync::Arc;

use super::{Delta, Scope};
use crate::store::{Change, ChangeSet, Origin, Snapshot, Store, Write};

/// What applying a batch has changed. The store and all its indexes show it already.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Applied {
    /// What a watch has told.
    Live(Vec<Change>),
    /// A full state of a scope.
    Replaced(Arc<ChangeSet>),
    /// Everything in a scope, once more.
    Resynced {
        /// The scope.
        scope: Scope,
        /// What there is.
        snapshot: Snapshot,
    },
}

impl Applied {
    /// Applies deltas, all in one step. An atomic one comes alone, as [`Batch`](super::Batch) has it.
    pub(super) fn new(store: &Store, deltas: &[Delta]) -> Self {
        match deltas {
            [Delta::Replaced(set)] => {
                store.replace(set);
                Self::Replaced(set.clone())
            }
            [Delta::Resync(scope)] => Self::Resynced { scope: *scope, snapshot: store.snapshot() },
            live => Self::Live(store.write(live.iter().filter_map(as_write))),
        }
    }

    /// The changes, in the order in which they are told. Of a full state: what is gone, then what is new or different as
    /// listed.
    pub fn changes(&self) -> Box<dyn Iterator<Item = Change> + Send + '_> {
        match self {
            Self::Live(changes) => Box::new(changes.iter().cloned()),
            Self::Replaced(set) => Box::new(set.changes()),
            Self::Resynced { scope, snapshot } => {
                let again = |object: &crate::store::StoredObject| {
                    Change::updated(object.clone(), object.clone(), Origin::Resync)
                };
                Box::new(snapshot.scope(*scope).map(again))
            }
        }
    }

    /// The same with the objects as the store keeps them; `None` if it is that already.
    pub(crate) fn at_rest(&self) -> Option<Self> {
        let Self::Live(changes) = self else { return None };
        let is_more = changes.iter().any(|change| !change.is_kept());
        is_more.then(|| Self::Live(changes.iter().cloned().map(Change::kept).collect()))
    }

    /// How many bytes the objects hold that it tells of.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Live(changes) => changes.iter().map(|change| change.object().stored_bytes()).sum(),
            Self::Replaced(set) => set.bytes(),
            Self::Resynced { .. } => 0,
        }
    }
}

fn as_write(delta: &Delta) -> Option<Write<'_>> {
    match delta {
        Delta::Added(object) | Delta::Updated(object) => Some(Write::Put(object)),
        Delta::Deleted(object) => Some(Write::Delete(object)),
        Delta::Bookmark { scope, resource_version } => Some(Write::Bookmark(*scope, resource_version)),
        Delta::Replaced(_) | Delta::Resync(_) => None,
    }
}

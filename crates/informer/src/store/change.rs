//! What a write changed, as listeners are told.

use crate::Key;
use crate::queue::Scope;
use crate::store::StoredObject;
use crate::store::index_values::ReadValues;
use crate::version::is_older;

/// One change of one object, after the store shows it.
#[derive(Clone, Debug)]
pub struct Change {
    /// What happened.
    pub kind: ChangeKind,
    /// How it was learned.
    pub origin: Origin,
}

/// What happened to an object.
#[derive(Clone, Debug)]
pub enum ChangeKind {
    /// It is new.
    Added {
        /// The object.
        object: StoredObject,
    },
    /// It has another state.
    Updated {
        /// The state before.
        old: StoredObject,
        /// The state now. For a resync both are the same.
        new: StoredObject,
    },
    /// It is gone.
    Deleted {
        /// The last state that is known.
        last: StoredObject,
        /// Whether `last` is the state it was deleted in; if not, the deletion itself was not seen.
        final_state_known: bool,
    },
}

/// How a change was learned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Origin {
    /// From the first full state.
    Initial,
    /// From a watch, as it happened.
    Live,
    /// From a later full state: what happened while nobody watched.
    Relist,
    /// Nothing happened: told once more.
    Resync,
}

/// What a full state of one scope changes, worked out and ready to be applied as a whole.
#[derive(Clone, Debug)]
pub struct ChangeSet {
    pub(super) scope: Scope,
    pub(super) resource_version: String,
    pub(super) initial: bool,
    pub(super) new_epoch: bool,
    /// What is no longer there.
    pub(super) deleted: Vec<StoredObject>,
    /// What is new or different, in the order of the list.
    pub(super) puts: Vec<Put>,
    /// Of each of them, what it has in indexes, as far as that was read when it came. Empty if nothing was.
    pub(super) values: Vec<Option<ReadValues>>,
}

/// An object of a full state that is not as it is known.
#[derive(Clone, Debug)]
pub(super) enum Put {
    /// Nothing is known under its key.
    New(StoredObject),
    /// It has another state.
    Changed { old: StoredObject, new: StoredObject },
    /// Another object is known under its key, which must have been deleted.
    Recreated { old: StoredObject, new: StoredObject },
    /// It is the same in another encoding, or was seen in another scope: nothing to tell.
    Swapped(StoredObject),
}

// === impl Change ===

impl Change {
    /// The object as it is now, or was last.
    pub fn object(&self) -> &StoredObject {
        match &self.kind {
            ChangeKind::Added { object } => object,
            ChangeKind::Updated { new, .. } => new,
            ChangeKind::Deleted { last, .. } => last,
        }
    }

    /// The object's key.
    pub fn key(&self) -> Key {
        self.object().key()
    }

    /// Whether its object is held as the store keeps it.
    pub(crate) fn is_kept(&self) -> bool {
        std::ptr::eq(self.object().kept(), self.object())
    }

    /// The same, with the objects as the store keeps them.
    pub(crate) fn kept(self) -> Self {
        let kept = |object: StoredObject| object.kept().clone();
        let kind = match self.kind {
            ChangeKind::Added { object } => ChangeKind::Added { object: kept(object) },
            ChangeKind::Updated { old, new } => ChangeKind::Updated { old: kept(old), new: kept(new) },
            ChangeKind::Deleted { last, final_state_known } => {
                ChangeKind::Deleted { last: kept(last), final_state_known }
            }
        };
        Self { kind, origin: self.origin }
    }

    pub(crate) fn added(object: StoredObject, origin: Origin) -> Self {
        Self { kind: ChangeKind::Added { object }, origin }
    }

    pub(crate) fn updated(old: StoredObject, new: StoredObject, origin: Origin) -> Self {
        Self { kind: ChangeKind::Updated { old, new }, origin }
    }

    pub(crate) fn deleted(last: StoredObject, final_state_known: bool, origin: Origin) -> Self {
        Self { kind: ChangeKind::Deleted { last, final_state_known }, origin }
    }
}

// === impl ChangeSet ===

impl ChangeSet {
    /// The scope whose state was replaced.
    pub fn scope(&self) -> Scope {
        self.scope
    }

    /// The resourceVersion of the full state.
    pub fn resource_version(&self) -> &str {
        &self.resource_version
    }

    /// Whether it is the first full state of the scope.
    pub fn is_initial(&self) -> bool {
        self.initial
    }

    /// Whether the server has gone back in time: see [`Committed::new_epoch`](crate::queue::Committed::new_epoch).
    pub fn is_new_epoch(&self) -> bool {
        self.new_epoch
    }

    /// Whether there is nothing to tell.
    pub fn is_empty(&self) -> bool {
        self.changes().next().is_none()
    }

    /// The changes, in the order in which they are told: what is gone, then what is new or different as listed.
    pub fn changes(&self) -> impl Iterator<Item = Change> + '_ {
        let mut at = 0;
        std::iter::from_fn(move || self.next_change(&mut at))
    }

    /// The change at a place, or the first after it; `at` moves behind it. So that a reader who takes long can share the
    /// set instead of copying it.
    pub(crate) fn next_change(&self, at: &mut usize) -> Option<Change> {
        let origin = if self.initial { Origin::Initial } else { Origin::Relist };
        while *at < self.places() {
            let place = *at;
            *at += 1;
            if let Some(last) = self.deleted.get(place) {
                return Some(Change::deleted(last.clone(), false, origin));
            }
            let place = place - self.deleted.len();
            match (self.puts.get(place), self.puts.get(place.wrapping_sub(self.puts.len()))) {
                (Some(Put::Recreated { old, .. }), _) => {
                    return Some(Change::deleted(old.clone(), false, origin));
                }
                (None, Some(Put::New(object) | Put::Recreated { new: object, .. })) => {
                    return Some(Change::added(object.clone(), origin));
                }
                (None, Some(Put::Changed { old, new })) => {
                    return Some(Change::updated(old.clone(), new.clone(), origin));
                }
                _ => {}
            }
        }
        None
    }

    /// How many bytes the objects hold that it tells of.
    pub(crate) fn bytes(&self) -> usize {
        let puts = self.puts.iter().map(Put::object);
        self.deleted.iter().chain(puts).map(StoredObject::stored_bytes).sum()
    }

    /// How many places there are for changes: at least as many as changes, at most twice as many as objects.
    pub(crate) fn places(&self) -> usize {
        self.deleted.len() + 2 * self.puts.len()
    }
}

// === impl Put ===

impl Put {
    /// What is stored.
    pub(super) fn object(&self) -> &StoredObject {
        match self {
            Self::New(new) | Self::Changed { new, .. } | Self::Recreated { new, .. } | Self::Swapped(new) => {
                new
            }
        }
    }

    /// Holds what the store will keep, and nothing besides.
    pub(super) fn keep(&mut self) {
        match self {
            Self::New(new) | Self::Changed { new, .. } | Self::Recreated { new, .. } | Self::Swapped(new) => {
                *new = new.at_rest();
            }
        }
    }

    /// Whether the server was reset to an earlier state: to one of this object, or of an object that had its name before; or
    /// to an object that is not stored although everything up to the version `reached` has been seen.
    pub(super) fn goes_back(&self, reached: &str) -> bool {
        let is_seen = |new: &StoredObject| {
            let version = new.resource_version();
            is_older(version, reached) || (version == reached && !version.is_empty())
        };
        let is_older_than =
            |new: &StoredObject, old: &StoredObject| is_older(new.resource_version(), old.resource_version());
        match self {
            Self::New(new) => is_seen(new),
            Self::Changed { old, new } => is_older_than(new, old),
            Self::Recreated { old, new } => is_seen(new) || is_older_than(new, old),
            Self::Swapped(_) => false,
        }
    }
}

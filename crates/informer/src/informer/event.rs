//! What users receive: a change, typed.

use std::fmt;
use std::sync::Arc;

use super::Object;
use super::backlog::Notification;
use super::decoder::Decoder;
use crate::store::{Change, Origin};

/// Something that happened, after the store shows it.
#[derive(Clone)]
pub enum Event<K> {
    /// An object is new to this listener.
    Added {
        /// The object.
        object: Object<K>,
        /// How it was learned.
        origin: Origin,
    },
    /// An object has another state.
    Updated {
        /// The state that this listener received last.
        old: Object<K>,
        /// The state now. For a resync both are the same.
        new: Object<K>,
        /// How it was learned.
        origin: Origin,
    },
    /// An object is gone.
    Deleted {
        /// The last cached state.
        last: Object<K>,
        /// Whether `last` is the state it was deleted in; if not, the deletion itself was not seen.
        final_state_known: bool,
        /// How it was learned.
        origin: Origin,
    },
    /// The initial list is complete: every object of it has been delivered. Received once.
    Synced,
}

impl<K> Event<K> {
    pub(super) fn new(notification: Notification, decoder: &Arc<Decoder<K>>) -> Self {
        let object = |stored| Object::new(stored, decoder);
        match notification {
            None => Self::Synced,
            Some(Change::Added { object: added, origin }) => Self::Added { object: object(added), origin },
            Some(Change::Updated { old, new, origin }) => {
                Self::Updated { old: object(old), new: object(new), origin }
            }
            Some(Change::Deleted { last, final_state_known, origin }) => {
                Self::Deleted { last: object(last), final_state_known, origin }
            }
        }
    }

    /// The object as it is now, or was last; `None` for `Synced`.
    pub fn object(&self) -> Option<&Object<K>> {
        match self {
            Self::Added { object, .. } => Some(object),
            Self::Updated { new, .. } => Some(new),
            Self::Deleted { last, .. } => Some(last),
            Self::Synced => None,
        }
    }

    /// How it was learned; `None` for `Synced`.
    pub fn origin(&self) -> Option<Origin> {
        match self {
            Self::Added { origin, .. } | Self::Updated { origin, .. } | Self::Deleted { origin, .. } => {
                Some(*origin)
            }
            Self::Synced => None,
        }
    }
}

/// On one line: `added web/api@7 (Live)`.
impl<K> fmt::Debug for Event<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Added { object, origin } => write!(f, "added {object:?} ({origin:?})"),
            Self::Updated { old, new, origin } => {
                write!(f, "updated {new:?} from {} ({origin:?})", old.resource_version())
            }
            Self::Deleted { last, final_state_known: true, origin } => {
                write!(f, "deleted {last:?} ({origin:?})")
            }
            Self::Deleted { last, origin, .. } => write!(f, "vanished {last:?} ({origin:?})"),
            Self::Synced => f.write_str("synced"),
        }
    }
}

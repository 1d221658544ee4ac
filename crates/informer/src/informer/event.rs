//! A change as users receive it, typed.

use std::sync::Arc;

use educe::Educe;

use super::Object;
use super::backlog::Notification;
use super::decoder::Decoder;
use crate::store::{Change, Origin};

/// A change, or the end of the initial list. The store already shows the change.
#[derive(Educe, derive_more::Debug)]
#[educe(Clone(bound(false)))]
pub enum Event<K> {
    /// An object is new to this listener.
    #[debug("added {object:?} ({origin:?})")]
    Added {
        /// The object.
        object: Object<K>,
        /// Why the event was sent.
        origin: Origin,
    },
    /// An object changed.
    #[debug("updated {new:?} from {} ({origin:?})", old.resource_version())]
    Updated {
        /// The state that this listener received last.
        old: Object<K>,
        /// The current state. For a resync both are the same.
        new: Object<K>,
        /// Why the event was sent.
        origin: Origin,
    },
    /// An object was deleted.
    #[debug("{} {last:?} ({origin:?})", if *final_state_known { "deleted" } else { "vanished" })]
    Deleted {
        /// The last cached state.
        last: Object<K>,
        /// Whether `last` is the final state. If not, the deletion itself was not observed, or its final state could not be
        /// read.
        final_state_known: bool,
        /// Why the event was sent.
        origin: Origin,
    },
    /// The initial list is complete: all of its objects have been delivered. Received once.
    #[debug("synced")]
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

    /// The current state of the object, or its last one; `None` for `Synced`.
    pub fn object(&self) -> Option<&Object<K>> {
        match self {
            Self::Added { object, .. } => Some(object),
            Self::Updated { new, .. } => Some(new),
            Self::Deleted { last, .. } => Some(last),
            Self::Synced => None,
        }
    }

    /// Why the event was sent; `None` for `Synced`.
    pub fn origin(&self) -> Option<Origin> {
        match self {
            Self::Added { origin, .. } | Self::Updated { origin, .. } | Self::Deleted { origin, .. } => {
                Some(*origin)
            }
            Self::Synced => None,
        }
    }
}

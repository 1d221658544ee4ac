//! What a reflector reports, on its way through a queue to a store.
//!
//! A watch event becomes a [`Delta`] when a reflector hands it to a queue; [`Store::apply`](crate::store::Store::apply) turns
//! deltas into changes. Neither the queue nor the store knows the other: this type is what they share.

use std::sync::Arc;

use crate::scope::Scope;
use crate::store::{FullList, StoredObject};

/// One thing that a reflector reported.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Delta {
    /// A watch reported a new object.
    Added(StoredObject),
    /// A watch reported a new state of an object.
    Updated(StoredObject),
    /// A watch reported the deletion of an object; this is its final state.
    Deleted(StoredObject),
    /// The object is gone, and its deletion was not seen; this is its last cached state. (client-go:
    /// `DeletedFinalStateUnknown`.)
    Vanished(StoredObject),
    /// A list contains the object in this state, even if a newer state is cached.
    Replaced(StoredObject),
    /// Nothing happened: the object is delivered once more.
    Sync(StoredObject),
    /// Nothing changed in a scope up to this resourceVersion.
    Bookmark {
        /// The scope.
        scope: Scope,
        /// The resourceVersion.
        resource_version: String,
    },
    /// A complete list of a scope, as its differences to the store.
    ReplacedAll(Arc<FullList>),
}

impl Delta {
    /// The scope it is about.
    pub fn scope(&self) -> Scope {
        match self {
            Self::Bookmark { scope, .. } => *scope,
            Self::ReplacedAll(list) => list.scope,
            Self::Added(object)
            | Self::Updated(object)
            | Self::Deleted(object)
            | Self::Vanished(object)
            | Self::Replaced(object)
            | Self::Sync(object) => object.scope(),
        }
    }

    /// The object it is about, if it is about one.
    pub fn object(&self) -> Option<&StoredObject> {
        match self {
            Self::Added(object)
            | Self::Updated(object)
            | Self::Deleted(object)
            | Self::Vanished(object)
            | Self::Replaced(object)
            | Self::Sync(object) => Some(object),
            Self::Bookmark { .. } | Self::ReplacedAll(_) => None,
        }
    }
}

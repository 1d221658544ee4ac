//! The changes that a reflector reports, on their way through a queue to a store.
//!
//! A watch event becomes a [`Delta`] when a reflector hands it to a queue; [`Store::apply`](crate::store::Store::apply)
//! turns deltas into changes. The queue and the store do not know each other; they share only this type.

use std::sync::Arc;

use crate::object::StoredObject;
use crate::scope::Scope;
use crate::store::FullList;

/// One change that a reflector reported.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Delta {
    /// A watch reported a new object.
    Added(StoredObject),
    /// A watch reported a new state of an object.
    Updated(StoredObject),
    /// A watch reported the deletion of an object; this is its final state.
    Deleted(StoredObject),
    /// A watch reported the deletion of an object, but its final state could not be read; this is its last cached state.
    DeletedUnread(StoredObject),
    /// The object is gone, but its deletion was not observed; this is its last cached state. (client-go:
    /// `DeletedFinalStateUnknown`.)
    Vanished(StoredObject),
    /// A watch reported a new state of an object, which is in another [shard](crate::InformerBuilder::shard): the object has left.
    Left(StoredObject),
    /// A list contains the object in this state. It replaces the cached state, even a newer one.
    Replaced(StoredObject),
    /// A resync: the object is delivered again, unchanged.
    Sync(StoredObject),
    /// Nothing changed in a scope up to this resourceVersion.
    Bookmark {
        /// The scope.
        scope: Scope,
        /// The resourceVersion.
        resource_version: String,
    },
    /// A complete list of a scope, as the differences from the store.
    ReplacedAll(Arc<FullList>),
}

impl Delta {
    /// The scope of the change.
    pub fn scope(&self) -> Scope {
        match self {
            Self::Bookmark { scope, .. } => *scope,
            Self::ReplacedAll(list) => list.scope,
            Self::Added(object)
            | Self::Updated(object)
            | Self::Deleted(object)
            | Self::DeletedUnread(object)
            | Self::Vanished(object)
            | Self::Left(object)
            | Self::Replaced(object)
            | Self::Sync(object) => object.scope(),
        }
    }

    /// The object that changed; `None` for a bookmark or a complete list.
    pub fn object(&self) -> Option<&StoredObject> {
        match self {
            Self::Added(object)
            | Self::Updated(object)
            | Self::Deleted(object)
            | Self::DeletedUnread(object)
            | Self::Vanished(object)
            | Self::Left(object)
            | Self::Replaced(object)
            | Self::Sync(object) => Some(object),
            Self::Bookmark { .. } | Self::ReplacedAll(_) => None,
        }
    }
}

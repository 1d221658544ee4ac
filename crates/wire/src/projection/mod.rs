//! Dropping or keeping fields on the bytes, before an object is stored.
//!
//! Half of a pod's bytes are `managedFields`, which no controller reads. A [`Projection`] says which fields an object
//! loses on arrival; it is applied to the bytes themselves, in both encodings, so that what is dropped is never decoded,
//! compared, hashed or stored.

mod proto;
mod tree;

use std::sync::Arc;

pub(crate) use proto::Plan;
pub(crate) use tree::{Fate, Node};

use crate::error::Result;

/// Which fields of an object are kept. The default drops `metadata.managedFields` and keeps everything else.
///
/// The head's fields (name, namespace, uid, resourceVersion, generation, creation and deletion timestamps, labels, owner
/// references) are always kept.
#[derive(Clone, Debug)]
pub struct Projection {
    root: Arc<Node>,
}

impl Projection {
    /// Keeps everything, managedFields too.
    pub fn everything() -> Self {
        todo!()
    }

    /// Drops these fields and `metadata.managedFields`.
    ///
    /// # Errors
    /// If a path does not parse, or names a part of the head.
    pub fn dropping<'p>(paths: impl IntoIterator<Item = &'p str>) -> Result<Self> {
        let _ = paths.into_iter().count();
        todo!()
    }

    /// Keeps only these fields and the head.
    ///
    /// # Errors
    /// If a path does not parse.
    pub fn keeping<'p>(paths: impl IntoIterator<Item = &'p str>) -> Result<Self> {
        let _ = paths.into_iter().count();
        todo!()
    }

    /// The tree of names that JSON is copied by.
    pub(crate) fn root(&self) -> &Node {
        &self.root
    }
}

impl Default for Projection {
    fn default() -> Self {
        todo!()
    }
}

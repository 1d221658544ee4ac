//! A moment of the storage, to go back to.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Stored;

/// All objects and the revision of one moment; the objects are shared with the storage.
#[derive(Clone, Debug)]
pub(crate) struct Snapshot {
    pub(crate) revision: u64,
    pub(crate) objects: Vec<BTreeMap<Arc<str>, Arc<Stored>>>,
}

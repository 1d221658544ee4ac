//! A snapshot of the storage that it can be restored from.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use super::Stored;

/// All objects and the revision at one point in time; the objects are shared with the storage.
#[derive(Clone)]
pub(crate) struct Snapshot {
    pub(crate) revision: u64,
    pub(crate) objects: Vec<BTreeMap<Arc<str>, Arc<Stored>>>,
}

/// Omits the objects, which may be Secrets.
impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let objects: usize = self.objects.iter().map(BTreeMap::len).sum();
        f.debug_struct("Snapshot")
            .field("revision", &self.revision)
            .field("objects", &objects)
            .finish_non_exhaustive()
    }
}

//! A set of precomputed hashes.

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

/// Hashes of keys, to detect keys that appear twice. Keys with equal hashes count as the same key.
#[derive(Debug, Default)]
pub(crate) struct Hashes(HashTable<u64>);

impl Hashes {
    /// Adds a hash. Returns whether it is new.
    pub(crate) fn insert(&mut self, hash: u64) -> bool {
        let entry = self.0.entry(hash, |other| *other == hash, |other| *other);
        let is_new = matches!(entry, Entry::Vacant(_));
        entry.insert(hash);
        is_new
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}

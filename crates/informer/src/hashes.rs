//! A set of hashes, which are not hashed again.

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

/// Hashes of keys, to find out whether a key appears twice. Two keys with one hash count as the same.
#[derive(Debug, Default)]
pub(crate) struct Hashes(HashTable<u64>);

impl Hashes {
    /// Adds a hash; whether it is new.
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

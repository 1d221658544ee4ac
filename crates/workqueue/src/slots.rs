//! A map from keys to values whose entries have small, stable numbers. Heaps and guards refer to an entry with four bytes and finish
//! it without hashing, and the key is stored once.

use hashbrown::HashTable;

/// The number of an entry, stable until it is removed.
pub(crate) type SlotId = u32;

/// Keys with their values, found by key or by number.
///
/// The caller computes the hash outside of its lock. Each entry stores 32 bits of it, so growing the table and removing an entry do
/// not run code of `T`.
pub(crate) struct Slots<T, V> {
    /// `None` is a free slot.
    entries: Vec<Option<Entry<T, V>>>,
    /// The free slots.
    free: Vec<SlotId>,
    by_key: HashTable<SlotId>,
}

struct Entry<T, V> {
    key: T,
    value: V,
    hash: u32,
}

/// Invariant: heaps and guards drop a number when they remove its entry.
const NOT_FREE: &str = "a slot is occupied until its entry is removed";

impl<T, V> Slots<T, V> {
    /// The maximum number of entries.
    pub(crate) const MAX: usize = SlotId::MAX as usize;

    pub(crate) fn new() -> Self {
        Self { entries: Vec::new(), free: Vec::new(), by_key: HashTable::new() }
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.by_key.len()
    }

    #[inline]
    pub(crate) fn find(&self, key: &T, hash: u32) -> Option<SlotId>
    where
        T: Eq,
    {
        let is_key = |&id: &SlotId| {
            self.entries[id as usize].as_ref().is_some_and(|entry| entry.hash == hash && entry.key == *key)
        };
        self.by_key.find(spread(hash), is_key).copied()
    }

    /// Adds an entry for a new key. Requires `len() < MAX`.
    #[inline]
    pub(crate) fn insert(&mut self, key: T, hash: u32, value: V) -> SlotId {
        debug_assert!(self.len() < Self::MAX);
        if self.by_key.len() == self.by_key.capacity() {
            self.grow();
        }
        let id = self.free.pop().unwrap_or_else(|| {
            self.entries.push(None);
            (self.entries.len() - 1) as SlotId
        });
        // The match shows the compiler that there is nothing to drop, so it writes the entry in place. Writing it elsewhere and
        // copying it takes twice the time.
        if let free @ None = &mut self.entries[id as usize] {
            *free = Some(Entry { key, value, hash });
        }
        self.by_key.insert_unique(spread(hash), id, |_| 0); // there is capacity, so nothing is hashed again
        id
    }

    /// Removes an entry and returns its key, hash and value.
    #[inline]
    pub(crate) fn remove(&mut self, id: SlotId) -> (T, u32, V) {
        let Entry { key, value, hash } = self.entries[id as usize].take().expect(NOT_FREE);
        self.free.push(id);
        if let Ok(found) = self.by_key.find_entry(spread(hash), |&other| other == id) {
            found.remove();
        }
        (key, hash, value)
    }

    #[inline]
    pub(crate) fn key(&self, id: SlotId) -> &T {
        &self.entries[id as usize].as_ref().expect(NOT_FREE).key
    }

    #[inline]
    pub(crate) fn value_mut(&mut self, id: SlotId) -> &mut V {
        &mut self.entries[id as usize].as_mut().expect(NOT_FREE).value
    }

    /// Grows the table by reading the entries in the order in which they are in memory. The table itself would read them in the order
    /// of their hashes, with a cache miss per entry.
    #[cold]
    fn grow(&mut self) {
        let mut larger = HashTable::with_capacity(2 * self.len().max(2));
        for (entry, id) in self.entries.iter().zip(0..) {
            if let Some(entry) = entry {
                larger.insert_unique(spread(entry.hash), id, |_| 0);
            }
        }
        self.by_key = larger;
    }
}

/// Spreads 32 bits over 64, because the table uses the lowest bits and the seven highest.
#[inline]
fn spread(hash: u32) -> u64 {
    u64::from(hash).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_found_by_key_until_it_is_removed() {
        let mut slots = Slots::new();
        let a = slots.insert("a", 7, 1);
        let b = slots.insert("b", 7, 2); // same hash, another key
        assert_eq!((slots.find(&"a", 7), slots.find(&"b", 7)), (Some(a), Some(b)));
        assert_eq!(slots.remove(a), ("a", 7, 1));
        assert_eq!((slots.find(&"a", 7), slots.find(&"b", 7)), (None, Some(b)));
        assert_eq!(slots.len(), 1);
    }

    #[test]
    fn entries_are_found_after_the_table_has_grown() {
        let mut slots = Slots::new();
        let ids: Vec<_> = (0..1000u32).map(|n| slots.insert(n, n % 10, ())).collect();
        for n in 0..1000 {
            assert_eq!(slots.find(&n, n % 10), Some(ids[n as usize]));
        }
    }
}

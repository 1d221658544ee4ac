//! Bytes shared by many objects and stored once: labels and owner references.
//!
//! The pods of a replica set have the same labels and owner. Sharing them costs a pointer per object, and keeps them
//! readable without unpacking. Unreferenced sets are evicted after half as many objects were released as sets are held.

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use triomphe::ThinArc;
use twox_hash::XxHash3_64;

/// Shared bytes: a one-word handle to one allocation.
pub(crate) type SharedBytes = ThinArc<(), u8>;

/// All shared bytes.
#[derive(Default)]
pub(super) struct Sets {
    known: HashTable<SharedBytes>,
    /// Objects released since the last sweep.
    released: usize,
}

/// Below this, a sweep is not worthwhile.
const SWEEP_MIN: usize = 256;

impl Sets {
    /// The shared copy of these bytes; `None` if they are empty.
    pub(super) fn share(&mut self, bytes: &[u8]) -> Option<SharedBytes> {
        if bytes.is_empty() {
            return None;
        }
        let entry = self.known.entry(hash(bytes), |known| known.slice == *bytes, |known| hash(&known.slice));
        Some(match entry {
            Entry::Occupied(known) => known.get().clone(),
            Entry::Vacant(vacant) => vacant.insert(ThinArc::from_header_and_slice((), bytes)).get().clone(),
        })
    }

    /// Records that this many objects were removed or changed.
    pub(super) fn release(&mut self, objects: usize) {
        self.released += objects;
        if self.released >= SWEEP_MIN.max(self.known.len() / 2) {
            self.released = 0;
            self.known.retain(|known| ThinArc::strong_count(known) > 1);
            self.known.shrink_to(2 * self.known.len(), |known| hash(&known.slice));
        }
    }

    pub(super) fn len(&self) -> usize {
        self.known.len()
    }
}

fn hash(bytes: &[u8]) -> u64 {
    XxHash3_64::oneshot(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_bytes_are_stored_once_and_evicted_when_unused() {
        let mut sets = Sets::default();
        let kept = sets.share(b"kept").unwrap();
        assert_eq!(kept.as_ptr(), sets.share(b"kept").unwrap().as_ptr());
        assert!(sets.share(b"").is_none());
        for number in 0..10_000_u32 {
            sets.share(&number.to_be_bytes());
            sets.release(1);
        }
        assert!(sets.len() <= 2 * SWEEP_MIN, "{} are held", sets.len());
        assert_eq!(kept.as_ptr(), sets.share(b"kept").unwrap().as_ptr());
    }
}

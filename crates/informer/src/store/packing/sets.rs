//! Bytes that many objects have in common, held once: their labels, their owner references.
//!
//! The pods of a replica set have the same labels and the same owner, so that both can stay readable without unpacking and
//! cost a pointer. What nobody refers to any more is thrown out when as much was released as is held.

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use triomphe::ThinArc;
use twox_hash::XxHash3_64;

/// A set of bytes that others may have too: one word that leads to one allocation.
pub(in crate::store) type SharedBytes = ThinArc<(), u8>;

/// Everything that is shared.
#[derive(Default)]
pub(super) struct Sets {
    known: HashTable<SharedBytes>,
    /// How many objects have gone since the last look at what is in use.
    released: usize,
}

/// Below this, throwing out is not worth it.
const SWEEP_MIN: usize = 256;

impl Sets {
    /// The one copy of these bytes; none of nothing.
    pub(super) fn share(&mut self, bytes: &[u8]) -> Option<SharedBytes> {
        if bytes.is_empty() {
            return None;
        }
        let entry = self.known.entry(hash(bytes), |known| known.slice == *bytes, |known| hash(&known.slice));
        Some(match entry {
            Entry::Occupied(known) => known.get().clone(),
            Entry::Vacant(room) => room.insert(ThinArc::from_header_and_slice((), bytes)).get().clone(),
        })
    }

    /// So many objects have gone or taken another state.
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
    fn equal_bytes_are_held_once_and_no_longer_than_they_are_used() {
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

//! The times of delayed keys: a min-heap that knows the position of each entry, so that an entry can be moved to an earlier time.
//! An entry has twenty bytes, because there may be millions. A node has four children: half the depth of a binary heap, and the four
//! are adjacent in memory.

use crate::slots::SlotId;

/// When the key in a slot is due. If `arrival` wraps around, two keys that are due in the same nanosecond may swap places.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Due {
    pub(crate) at: u64,
    pub(crate) arrival: u32,
    pub(crate) slot: SlotId,
}

/// Entries by their time, one per slot.
pub(crate) struct DueHeap {
    heap: Vec<Due>,
    /// The position of each slot's entry in `heap`; meaningless for slots without an entry.
    places: Vec<u32>,
}

const CHILDREN: usize = 4;

impl DueHeap {
    pub(crate) fn new() -> Self {
        Self { heap: Vec::new(), places: Vec::new() }
    }

    #[inline]
    pub(crate) fn first(&self) -> Option<&Due> {
        self.heap.first()
    }

    /// Adds an entry for a slot without one.
    pub(crate) fn push(&mut self, due: Due) {
        let slot = due.slot as usize;
        if slot >= self.places.len() {
            self.places.resize(slot + 1, 0);
        }
        self.heap.push(due);
        self.rise(self.heap.len() - 1, due);
    }

    /// Moves the entry of a slot to `at`, if that is earlier.
    pub(crate) fn hurry(&mut self, slot: SlotId, at: u64) {
        let place = self.places[slot as usize] as usize;
        let due = self.heap[place];
        if at < due.at {
            self.rise(place, Due { at, ..due });
        }
    }

    /// Removes the first entry if it is due.
    pub(crate) fn pop_until(&mut self, now: u64) -> Option<Due> {
        let first = *self.heap.first().filter(|due| due.at <= now)?;
        let last = self.heap.pop()?;
        if !self.heap.is_empty() {
            self.sink(last);
        }
        Some(first)
    }

    /// Stores an entry at `place` or above, where it belongs.
    fn rise(&mut self, mut place: usize, due: Due) {
        while place > 0 {
            let parent = (place - 1) / CHILDREN;
            if self.heap[parent] <= due {
                break;
            }
            self.put(place, self.heap[parent]);
            place = parent;
        }
        self.put(place, due);
    }

    /// Stores an entry at the root or below, where it belongs.
    fn sink(&mut self, due: Due) {
        let mut place = 0;
        loop {
            let first = CHILDREN * place + 1;
            let after = (first + CHILDREN).min(self.heap.len());
            let Some(least) = (first..after).min_by_key(|&child| self.heap[child]) else { break };
            if due <= self.heap[least] {
                break;
            }
            self.put(place, self.heap[least]);
            place = least;
        }
        self.put(place, due);
    }

    fn put(&mut self, place: usize, due: Due) {
        self.heap[place] = due;
        self.places[due.slot as usize] = place as u32; // fits: there are no more entries than slot numbers
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn entries_leave_in_the_order_of_their_times(
            times in prop::collection::vec(0..1000u64, 1..200),
            hurried in prop::collection::vec((any::<prop::sample::Index>(), 0..1000u64), 0..100),
        ) {
            let mut heap = DueHeap::new();
            let mut expected: Vec<_> =
                times.into_iter().zip(0..).map(|(at, slot)| Due { at, arrival: slot, slot }).collect();
            for &due in &expected {
                heap.push(due);
            }
            for (index, at) in hurried {
                let due = index.get_mut(&mut expected);
                due.at = due.at.min(at);
                heap.hurry(due.slot, at);
            }
            expected.sort_unstable();
            for now in 0..1000 {
                while let Some(due) = heap.pop_until(now) {
                    prop_assert_eq!(due.at, now);
                    prop_assert_eq!(due, expected.remove(0));
                }
            }
            prop_assert!(expected.is_empty());
        }
    }
}

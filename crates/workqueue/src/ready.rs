//! The order in which workers get queued keys. Most keys leave in the order in which they arrive, so they are stored in a ring
//! buffer. Only a key that belongs before the end of that buffer goes into a tree.

use std::collections::{BTreeMap, VecDeque};

use crate::slots::SlotId;

/// The position of a queued key; smaller ranks leave first. The first part is the key's enqueue time, moved back by the aging period
/// for each point of priority. The second is the number of its arrival, which makes ranks unique. A rank is constant, although
/// waiting raises the priority, because all keys age at the same pace.
pub(crate) type Rank = (i64, u64);

/// Queued keys by rank.
#[derive(Default)]
pub(crate) struct Ready {
    /// In ascending order. `None` is a gap: the key that was there has moved to the tree.
    line: VecDeque<(Rank, Option<SlotId>)>,
    gaps: usize,
    tree: BTreeMap<Rank, SlotId>,
}

impl Ready {
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.line.len() - self.gaps + self.tree.len()
    }

    #[inline]
    pub(crate) fn insert(&mut self, rank: Rank, slot: SlotId) {
        if self.line.back().is_none_or(|&(last, _)| last < rank) {
            self.line.push_back((rank, Some(slot)));
        } else {
            self.tree.insert(rank, slot);
        }
    }

    /// Moves a key from its rank to a lower one.
    pub(crate) fn advance(&mut self, from: Rank, to: Rank) {
        let slot = match self.line.binary_search_by_key(&from, |&(rank, _)| rank) {
            Ok(place) => {
                self.gaps += 1;
                self.line[place].1.take()
            }
            Err(_) => self.tree.remove(&from),
        };
        if let Some(slot) = slot {
            self.tree.insert(to, slot);
        }
        if self.gaps > self.line.len() / 2 {
            self.line.retain(|(_, slot)| slot.is_some());
            self.gaps = 0;
        }
    }

    /// The next key.
    #[inline]
    pub(crate) fn first(&mut self) -> Option<SlotId> {
        while let Some((_, None)) = self.line.front() {
            self.line.pop_front();
            self.gaps -= 1;
        }
        if self.tree_is_first() {
            self.tree.first_key_value().map(|(_, &slot)| slot)
        } else {
            self.line.front()?.1
        }
    }

    /// Removes the key that [`Ready::first`] returned.
    #[inline]
    pub(crate) fn remove_first(&mut self) {
        if self.tree_is_first() {
            self.tree.pop_first();
        } else {
            self.line.pop_front();
        }
    }

    #[inline]
    fn tree_is_first(&self) -> bool {
        match (self.tree.first_key_value(), self.line.front()) {
            (Some((in_tree, _)), Some((in_line, _))) => in_tree < in_line,
            (in_tree, _) => in_tree.is_some(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Clone, Debug)]
    enum Step {
        Insert(i64),
        Advance(prop::sample::Index, i64),
        Take,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            3 => (-20..20i64).prop_map(Step::Insert),
            2 => (any::<prop::sample::Index>(), 1..20i64).prop_map(|(which, by)| Step::Advance(which, by)),
            1 => Just(Step::Take),
        ]
    }

    proptest! {
        #[test]
        fn keys_leave_in_the_order_of_their_ranks(steps in prop::collection::vec(step(), 0..200)) {
            let mut ready = Ready::default();
            let mut expected = BTreeMap::new();
            for (step, arrival) in steps.into_iter().zip(0u64..) {
                match step {
                    Step::Insert(offset) => {
                        let rank = (arrival as i64 + offset, arrival);
                        ready.insert(rank, arrival as SlotId);
                        expected.insert(rank, arrival as SlotId);
                    }
                    Step::Advance(which, by) if !expected.is_empty() => {
                        let from = *which.get(&expected.keys().copied().collect::<Vec<_>>());
                        let to = (from.0 - by, from.1);
                        ready.advance(from, to);
                        prop_assert!(ready.gaps <= ready.line.len() / 2, "gaps are bounded");
                        let slot = expected.remove(&from).unwrap();
                        expected.insert(to, slot);
                    }
                    Step::Advance(..) => {}
                    Step::Take => {
                        let first = expected.pop_first().map(|(_, slot)| slot);
                        prop_assert_eq!(ready.first(), first);
                        ready.remove_first();
                    }
                }
                prop_assert_eq!(ready.len(), expected.len());
            }
            for (_, slot) in expected {
                prop_assert_eq!(ready.first(), Some(slot));
                ready.remove_first();
            }
            prop_assert_eq!(ready.first(), None);
        }
    }
}

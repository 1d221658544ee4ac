//! A min-heap that knows where each of its entries stands, so that one of them can be moved
//! forward. Four children a node: half as deep as a binary heap, and the four lie side by side.

use crate::slots::SlotId;

/// An entry of a [`Heap`]: ordered, and the only one with its slot number.
pub(crate) trait Node: Ord + Copy {
    fn slot(&self) -> SlotId;
}

/// The smallest node first; any node can be replaced by a smaller one.
pub(crate) struct Heap<N> {
    nodes: Vec<N>,
    /// Where the node of a slot stands in `nodes`; meaningless for slots that have none.
    places: Vec<u32>,
}

const CHILDREN: usize = 4;

impl<N: Node> Heap<N> {
    pub(crate) fn new() -> Self {
        Self { nodes: Vec::new(), places: Vec::new() }
    }

    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }

    pub(crate) fn peek(&self) -> Option<&N> {
        self.nodes.first()
    }

    /// The node of a slot that has one.
    pub(crate) fn node(&self, slot: SlotId) -> N {
        self.nodes[self.places[slot as usize] as usize]
    }

    /// Adds the node of a slot that has none yet.
    pub(crate) fn push(&mut self, node: N) {
        let slot = node.slot() as usize;
        if slot >= self.places.len() {
            self.places.resize(slot + 1, 0);
        }
        self.nodes.push(node);
        self.rise(self.nodes.len() - 1, node);
    }

    /// Replaces the node of `node`'s slot, which must be there and not be smaller.
    pub(crate) fn advance(&mut self, node: N) {
        debug_assert!(self.node(node.slot()) >= node);
        self.rise(self.places[node.slot() as usize] as usize, node);
    }

    pub(crate) fn pop(&mut self) -> Option<N> {
        let last = self.nodes.pop()?;
        let Some(&first) = self.nodes.first() else { return Some(last) };
        self.sink(last);
        Some(first)
    }

    /// Puts `node` at `place` or as far above as it belongs.
    fn rise(&mut self, mut place: usize, node: N) {
        while place > 0 {
            let parent = (place - 1) / CHILDREN;
            if self.nodes[parent] <= node {
                break;
            }
            self.put(place, self.nodes[parent]);
            place = parent;
        }
        self.put(place, node);
    }

    /// Puts `node` at the root or as far below as it belongs.
    fn sink(&mut self, node: N) {
        let mut place = 0;
        loop {
            let first = CHILDREN * place + 1;
            let after = (first + CHILDREN).min(self.nodes.len());
            let Some(least) = (first..after).min_by_key(|&child| self.nodes[child]) else { break };
            if node <= self.nodes[least] {
                break;
            }
            self.put(place, self.nodes[least]);
            place = least;
        }
        self.put(place, node);
    }

    fn put(&mut self, place: usize, node: N) {
        self.nodes[place] = node;
        // Slots are numbered by `SlotId`, so a place fits as well.
        self.places[node.slot() as usize] = place as u32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    struct Numbered(u32, SlotId);

    impl Node for Numbered {
        fn slot(&self) -> SlotId {
            self.1
        }
    }

    proptest! {
        #[test]
        fn nodes_leave_in_order_whatever_was_pushed_and_moved_forward(
            ranks in prop::collection::vec(0..1000u32, 1..200),
            moves in prop::collection::vec((any::<prop::sample::Index>(), 0..1000u32), 0..100),
        ) {
            let mut heap = Heap::new();
            let mut expected = Vec::new();
            for (slot, &rank) in ranks.iter().enumerate() {
                heap.push(Numbered(rank, slot as SlotId));
                expected.push(Numbered(rank, slot as SlotId));
            }
            for (index, rank) in moves {
                let node = index.get_mut(&mut expected);
                node.0 = node.0.min(rank);
                heap.advance(*node);
                prop_assert_eq!(heap.node(node.1), *node);
            }
            expected.sort_unstable();
            let popped: Vec<_> = std::iter::from_fn(|| heap.pop()).collect();
            prop_assert_eq!(popped, expected);
        }
    }
}

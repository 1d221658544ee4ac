//! Which seat should own which slot: a function of the taken seats alone, without I/O and without history.
//!
//! A replica takes the lowest free seat, and keeps it while it lives. When a replica is replaced, its successor takes a free seat,
//! usually the same one, and gets the slots of that seat. With identities instead of seats, every replacement would be a new
//! replica, and a rolling update would move some slots many times.
//!
//! The result is built in two steps: seats 0, 1, 2, … join one after another, up to the highest taken one; then the free seats
//! among them leave. Both steps move as few slots as possible ([`assign`]).

use std::collections::BTreeMap;

use super::assignment::{Replica, assign};

/// The owner that each slot should have. `taken` has the weights of the taken seats; `weight_of` returns the weight that the last
/// holder of a free seat had.
pub(super) fn assign_seats(
    taken: &BTreeMap<u32, u32>,
    weight_of: impl Fn(u32) -> u32,
    slots: usize,
) -> Vec<Option<u32>> {
    let mut owners = vec![None; slots];
    let Some(highest) = taken.keys().next_back() else { return owners };
    let weight = |seat: u32| taken.get(&seat).copied().unwrap_or_else(|| weight_of(seat));
    let seats: Vec<Replica> =
        (0..=*highest).map(|seat| Replica::new(seat.to_string()).weight(weight(seat))).collect();
    for joined in 1..=seats.len() {
        owners = reassign(&seats[..joined], &owners);
    }
    let present: Vec<Replica> = (0..)
        .zip(&seats)
        .filter(|(seat, _)| taken.contains_key(seat))
        .map(|(_, seat)| seat.clone())
        .collect();
    reassign(&present, &owners)
}

fn reassign(seats: &[Replica], owners: &[Option<u32>]) -> Vec<Option<u32>> {
    let names: Vec<Option<String>> = owners.iter().map(|owner| owner.map(|seat| seat.to_string())).collect();
    let names: Vec<Option<&str>> = names.iter().map(Option::as_deref).collect();
    // Every name is a number.
    assign(seats, &names).into_iter().map(|owner| owner.and_then(|seat| seat.parse().ok())).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rand::SeedableRng as _;
    use rand::rngs::StdRng;
    use rand::seq::SliceRandom as _;

    use super::*;

    fn seats(taken: &[u32]) -> BTreeMap<u32, u32> {
        taken.iter().map(|seat| (*seat, 1)).collect()
    }

    fn owners(taken: &[u32], slots: usize) -> Vec<Option<u32>> {
        assign_seats(&seats(taken), |_| 1, slots)
    }

    fn moved(before: &[Option<u32>], after: &[Option<u32>]) -> usize {
        before.iter().zip(after).filter(|(before, after)| before != after).count()
    }

    /// How often each slot moves when the taken seats change in these steps.
    fn moves(steps: &[Vec<u32>], slots: usize) -> Vec<usize> {
        let mut moves = vec![0; slots];
        for pair in steps.windows(2) {
            let (before, after) = (owners(&pair[0], slots), owners(&pair[1], slots));
            for (slot, moves) in moves.iter_mut().enumerate() {
                *moves += usize::from(before[slot] != after[slot]);
            }
        }
        moves
    }

    /// A rolling update: a new replica takes the lowest free seat, and the holder of an old seat leaves, in this order of old seats.
    fn rolling_update(order: &[u32], starts_first: bool) -> Vec<Vec<u32>> {
        let mut taken: Vec<u32> = order.to_vec();
        let mut steps = vec![taken.clone()];
        for old in order {
            for starts in [starts_first, !starts_first] {
                match starts {
                    true => taken.extend((0..).find(|seat| !taken.contains(seat))),
                    false => taken.retain(|seat| seat != old),
                }
                steps.push(taken.clone());
            }
        }
        steps
    }

    #[test]
    fn a_rolling_update_moves_each_slot_at_most_twice() {
        let mut random = StdRng::seed_from_u64(1);
        for (replicas, slots) in [(2, 64), (3, 64), (10, 64), (16, 64), (24, 128)] {
            let mut order: Vec<u32> = (0..replicas).collect();
            for _ in 0..5 {
                for starts_first in [true, false] {
                    let most = moves(&rolling_update(&order, starts_first), slots).into_iter().max();
                    assert!(most <= Some(2), "{order:?}, one more at first: {starts_first}: {most:?}");
                }
                // A Deployment stops old replicas in any order.
                order.shuffle(&mut random);
            }
        }
    }

    #[test]
    fn a_seat_that_is_taken_again_gets_its_slots_again() {
        let before = owners(&[0, 1, 2, 3], 64);
        let between = owners(&[0, 2, 3], 64);
        assert_eq!(moved(&before, &between), 16, "only the slots of the seat that was left");
        assert_eq!(owners(&[3, 2, 1, 0], 64), before);
    }

    #[test]
    fn weights_divide_the_slots() {
        let taken = BTreeMap::from([(0, 1), (1, 3), (2, 0)]);
        let owners = assign_seats(&taken, |_| 1, 64);
        let count = |seat| owners.iter().filter(|owner| **owner == Some(seat)).count();
        assert_eq!([count(0), count(1), count(2)], [16, 48, 0]);
    }

    #[test]
    fn without_replicas_no_slot_has_an_owner() {
        assert_eq!(owners(&[], 3), [None; 3]);
    }

    proptest! {
        #[test]
        fn every_slot_has_an_owner_and_shares_are_fair(taken in prop::collection::btree_set(0..20u32, 1..12), slots in 1..200usize) {
            let taken: Vec<u32> = taken.into_iter().collect();
            let owners = owners(&taken, slots);
            let fair = slots / taken.len()..=slots.div_ceil(taken.len());
            for seat in &taken {
                let owned = owners.iter().filter(|owner| **owner == Some(*seat)).count();
                prop_assert!(fair.contains(&owned), "seat {} owns {} of {}", seat, owned, slots);
            }
            prop_assert!(owners.iter().all(Option::is_some));
        }

        #[test]
        fn a_replica_that_joins_or_leaves_last_moves_only_its_share(count in 1..20u32, slots in 1..200usize) {
            let few: Vec<u32> = (0..count).collect();
            let more: Vec<u32> = (0..=count).collect();
            let (before, after) = (owners(&few, slots), owners(&more, slots));
            prop_assert_eq!(moved(&before, &after), slots / more.len());
        }
    }
}

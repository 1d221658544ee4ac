//! Which replica should own which slot: a function of the replicas and of the current owners, without I/O.
//!
//! Rendezvous hashing orders the replicas for each slot, and quotas bound how many slots a replica owns. Plain rendezvous hashing
//! leaves the balance to chance: with 64 slots and 4 replicas, the median of the largest share is 20 slots, where 16 are fair.
//! Quotas alone would move slots between remaining replicas. A replica therefore keeps the slots that it owns, up to its quota, and
//! the hash decides only about the rest.

use kube_informer::kube_wire::shard;

/// A replica that can own slots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replica {
    name: String,
    weight: u32,
}

/// A replica's share of the slots.
struct Share<'a> {
    name: &'a str,
    hash: u64,
    /// The fair number of slots, rounded down, and the remainder of that division.
    floor: usize,
    rest: u64,
    /// How many slots it should own: `floor`, or one more if the fair number is not a whole one.
    quota: usize,
    owned: Vec<usize>,
}

/// The owner that each slot should have; `None` for all slots if no replica has a weight. `owners` has the current owner of each
/// slot, if it has one.
///
/// The result depends only on the set of replicas and on `owners`, so replicas with the same inputs get the same result, in any
/// version of this library:
///
/// - **Balance.** Each replica gets its fair number of slots (by weight), rounded up or down.
/// - **Least movement.** No assignment with that balance changes the owner of fewer slots. Without weights, a replica that joins
///   takes its share and no other slot moves; when one leaves, only its slots move.
///
/// Replicas are identified by name; of several with one name, the first counts.
///
/// ```
/// use kube_informer_controller::shards::{Replica, assign};
///
/// let two = ["a", "b"].map(Replica::new);
/// let owners = assign(&two, &[None; 64]);
/// assert_eq!(owners.iter().filter(|owner| **owner == Some("a")).count(), 32);
///
/// let three = ["a", "b", "c"].map(Replica::new);
/// let after = assign(&three, &owners);
/// let moved = owners.iter().zip(&after).filter(|(before, after)| before != after);
/// assert_eq!(moved.filter(|(_, after)| **after == Some("c")).count(), 21, "only to the new replica");
/// ```
pub fn assign<'a>(replicas: &'a [Replica], owners: &[Option<&str>]) -> Vec<Option<&'a str>> {
    let mut shares = shares(replicas, owners.len());
    if shares.is_empty() {
        return vec![None; owners.len()];
    }
    for (slot, owner) in owners.iter().enumerate() {
        let known = owner.and_then(|owner| shares.binary_search_by_key(&owner, |share| share.name).ok());
        if let Some(known) = known {
            shares[known].owned.push(slot);
        }
    }
    set_quotas(&mut shares, owners.len());
    let mut assigned = vec![None; owners.len()];
    let mut capacities = Vec::with_capacity(shares.len());
    for share in &mut shares {
        let (name, hash) = (share.name, share.hash);
        share.owned.sort_by_key(|slot| std::cmp::Reverse(score(hash, *slot)));
        share.owned.truncate(share.quota);
        share.owned.iter().for_each(|slot| assigned[*slot] = Some(name));
        capacities.push(share.quota - share.owned.len());
    }
    for (slot, owner) in assigned.iter_mut().enumerate().filter(|(_, owner)| owner.is_none()) {
        let free = (0..shares.len()).filter(|at| capacities[*at] > 0);
        // The quotas sum to the number of slots.
        let Some(best) = free.max_by_key(|at| score(shares[*at].hash, slot)) else { break };
        capacities[best] -= 1;
        *owner = Some(shares[best].name);
    }
    assigned
}

/// The replicas that get slots, ascending by name.
fn shares(replicas: &[Replica], slots: usize) -> Vec<Share<'_>> {
    let mut replicas: Vec<&Replica> = replicas.iter().collect();
    replicas.sort_by(|one, other| one.name.cmp(&other.name));
    replicas.dedup_by(|one, other| one.name == other.name);
    replicas.retain(|replica| replica.weight > 0);
    let total: u64 = replicas.iter().map(|replica| u64::from(replica.weight)).sum();
    let share = |replica: &&Replica| {
        let slots = slots as u64 * u64::from(replica.weight);
        (slots / total, slots % total)
    };
    let shares = replicas.iter().map(|replica| {
        let (floor, rest) = share(replica);
        // At most the number of slots.
        let floor = usize::try_from(floor).unwrap_or(usize::MAX);
        Share {
            name: &replica.name,
            hash: shard::hash(&replica.name),
            floor,
            rest,
            quota: floor,
            owned: Vec::new(),
        }
    });
    shares.collect()
}

/// Rounding down leaves some slots over. Each goes to a replica that already owns more than its rounded share, or else to the one
/// with the largest remainder.
fn set_quotas(shares: &mut [Share<'_>], slots: usize) {
    let remaining = slots - shares.iter().map(|share| share.floor).sum::<usize>();
    let mut by_claim: Vec<&mut Share<'_>> = shares.iter_mut().filter(|share| share.rest > 0).collect();
    by_claim.sort_by_key(|share| {
        let owns_more = share.owned.len() > share.floor;
        std::cmp::Reverse((owns_more, share.rest, score(share.hash, slots)))
    });
    by_claim.into_iter().take(remaining).for_each(|share| share.quota += 1);
}

/// The preference of a replica for a slot. The hash of the name alone is not enough: names of replicas differ in their last
/// characters, which hardly change the upper bits.
fn score(replica: u64, slot: usize) -> u64 {
    mix(replica ^ mix(slot as u64))
}

/// Distributes the bits of a number: the finalizer of SplitMix64.
fn mix(number: u64) -> u64 {
    let mut bits = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

// === impl Replica ===

impl Replica {
    /// A replica of weight 1. The name is unique among the replicas.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), weight: 1 }
    }

    /// Its share of the slots relative to other replicas: 2 for twice as many as a replica of weight 1, 0 for none.
    #[must_use]
    pub fn weight(mut self, weight: u32) -> Self {
        self.weight = weight;
        self
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    type Owner<'a> = Option<&'a str>;

    fn names(count: usize) -> Vec<Replica> {
        (0..count).map(|n| Replica::new(format!("operator-5d9c7b-{n:02}"))).collect()
    }

    fn loads<'a>(owners: &[Owner<'a>]) -> BTreeMap<&'a str, usize> {
        let mut loads = BTreeMap::new();
        for owner in owners.iter().flatten() {
            *loads.entry(*owner).or_default() += 1;
        }
        loads
    }

    /// The slots whose owner changed: from and to.
    fn moves<'a>(before: &[Owner<'a>], after: &[Owner<'a>]) -> Vec<(Owner<'a>, Owner<'a>)> {
        let pairs = before.iter().copied().zip(after.iter().copied());
        pairs.filter(|(before, after)| before != after).collect()
    }

    /// Replicas `m0`, `m1`, … with these weights.
    fn weighted(weights: &[u32]) -> Vec<Replica> {
        let named = weights.iter().enumerate();
        named.map(|(n, weight)| Replica::new(format!("m{n}")).weight(*weight)).collect()
    }

    /// Weights of replicas, and owners that may not be replicas any more.
    fn situation() -> impl Strategy<Value = (Vec<u32>, Vec<Option<String>>)> {
        let owner = prop::option::of((0..10u32).prop_map(|n| format!("m{n}")));
        (prop::collection::vec(0..5u32, 1..8), prop::collection::vec(owner, 1..100))
    }

    fn borrowed(owners: &[Option<String>]) -> Vec<Owner<'_>> {
        owners.iter().map(Option::as_deref).collect()
    }

    /// The fewest moves to any assignment in which each replica has its fair number of slots, rounded up or down.
    fn fewest_moves(replicas: &[Replica], owners: &[Owner<'_>]) -> usize {
        let total: u32 = replicas.iter().map(|replica| replica.weight).sum();
        let mut fewest = usize::MAX;
        let mut choice = vec![0; owners.len()];
        loop {
            let is_fair = replicas.iter().enumerate().all(|(at, replica)| {
                let load = choice.iter().filter(|chosen| **chosen == at).count();
                let fair = owners.len() as f64 * f64::from(replica.weight) / f64::from(total);
                (fair.floor()..=fair.ceil()).contains(&(load as f64))
            });
            if is_fair {
                let moved =
                    choice.iter().zip(owners).filter(|(at, owner)| Some(replicas[**at].name()) != **owner);
                fewest = fewest.min(moved.count());
            }
            // The next choice, counting in base `replicas.len()`.
            let Some(next) = choice.iter().position(|at| at + 1 < replicas.len()) else { return fewest };
            choice[next] += 1;
            choice[..next].fill(0);
        }
    }

    proptest! {
        #[test]
        fn each_replica_gets_its_fair_number_of_slots((weights, owners) in situation()) {
            let replicas = weighted(&weights);
            let assigned = assign(&replicas, &borrowed(&owners));
            let total: u64 = replicas.iter().map(|replica| u64::from(replica.weight)).sum();
            if total == 0 {
                prop_assert!(assigned.iter().all(Option::is_none));
                return Ok(());
            }
            prop_assert!(assigned.iter().all(Option::is_some), "no slot is forgotten");
            for replica in &replicas {
                let load = loads(&assigned).get(replica.name()).copied().unwrap_or_default() as u64;
                let fair = owners.len() as u64 * u64::from(replica.weight);
                prop_assert!((fair / total..=fair.div_ceil(total)).contains(&load), "{:?}: {}", replica, load);
            }
        }

        #[test]
        fn the_order_of_replicas_does_not_matter((weights, owners) in situation()) {
            let (replicas, owners) = (weighted(&weights), borrowed(&owners));
            let backwards: Vec<Replica> = replicas.iter().rev().cloned().collect();
            prop_assert_eq!(assign(&replicas, &owners), assign(&backwards, &owners));
        }

        #[test]
        fn an_assignment_is_stable((weights, owners) in situation()) {
            let replicas = weighted(&weights);
            let assigned = assign(&replicas, &borrowed(&owners));
            prop_assert_eq!(&assign(&replicas, &assigned), &assigned);
        }

        #[test]
        fn no_fair_assignment_moves_fewer_slots(
            weights in prop::collection::vec(1..4u32, 1..4), owners in prop::collection::vec(0..5u32, 1..7),
        ) {
            let replicas = weighted(&weights);
            let owners: Vec<Option<String>> = owners.iter().map(|n| Some(format!("m{n}"))).collect();
            let owners = borrowed(&owners);
            let moved = moves(&owners, &assign(&replicas, &owners)).len();
            prop_assert_eq!(moved, fewest_moves(&replicas, &owners));
        }

        #[test]
        fn a_replica_that_joins_takes_its_share_and_nothing_else_moves(count in 1..40usize, slots in 1..300usize) {
            let replicas = names(count + 1);
            let before = assign(&replicas[..count], &vec![None; slots]);
            let after = assign(&replicas, &before);
            let new = replicas[count].name();
            let moved = moves(&before, &after);
            prop_assert!(moved.iter().all(|(_, to)| *to == Some(new)));
            prop_assert_eq!(moved.len(), slots / (count + 1));
        }

        #[test]
        fn only_the_slots_of_a_replica_that_leaves_move(
            count in 2..40usize, slots in 1..300usize, leaves in any::<prop::sample::Index>(),
        ) {
            let mut replicas = names(count);
            let before = assign(&replicas, &vec![None; slots]);
            let before: Vec<Option<String>> = before.iter().map(|owner| owner.map(str::to_owned)).collect();
            let gone = replicas.remove(leaves.index(count));
            let before = borrowed(&before);
            let moved = moves(&before, &assign(&replicas, &before)).len();
            prop_assert_eq!(moved, loads(&before).get(gone.name()).copied().unwrap_or_default());
        }
    }

    /// Replicas of different versions must agree: a change of this result is a change of protocol.
    #[test]
    fn the_result_is_the_same_in_every_version() {
        let replicas = ["a", "b", "c"].map(Replica::new);
        let owners: String = assign(&replicas, &[None; 24]).into_iter().flatten().collect();
        assert_eq!(owners, "bcccbaaccbbccbbcababaaaa");
        let weighted = [Replica::new("a"), Replica::new("b").weight(3)];
        let owners: String = assign(&weighted, &[None; 24]).into_iter().flatten().collect();
        assert_eq!(owners, "bbbabaaaabbbabbbbbbbbbbb");
    }

    #[test]
    fn duplicate_names_count_once() {
        let replicas = ["a", "b", "a"].map(Replica::new);
        assert_eq!(loads(&assign(&replicas, &[None; 10])), BTreeMap::from([("a", 5), ("b", 5)]));
    }

    /// Assigns the slots to these of all replicas, checks the balance, and returns the number of moves.
    fn change<'a>(all: &'a [Replica], replicas: &[Replica], owners: &mut Vec<Owner<'a>>) -> usize {
        let known = |owner: &str| all.iter().map(Replica::name).find(|name| *name == owner);
        let after: Vec<Owner<'a>> = assign(replicas, owners).into_iter().map(|owner| known(owner?)).collect();
        let fair = owners.len() / replicas.len()..=owners.len().div_ceil(replicas.len());
        let loads = loads(&after);
        assert_eq!(loads.len(), replicas.len());
        assert!(loads.values().all(|load| fair.contains(load)), "{loads:?}");
        let moved = moves(owners, &after).len();
        *owners = after;
        moved
    }

    #[test]
    fn a_rolling_update_moves_a_slot_fewer_than_twice_on_average() {
        let named = |age: &str| (0..10).map(|n| Replica::new(format!("{age}-{n}"))).collect::<Vec<_>>();
        let (old, new) = (named("old"), named("new"));
        let all = [old.clone(), new.clone()].concat();
        let (mut replicas, mut owners, mut moves_of) = (old, vec![None; 64], vec![0; 64]);
        change(&all, &replicas, &mut owners);
        for new in new {
            for starts in [true, false] {
                match starts {
                    true => replicas.push(new.clone()),
                    false => drop(replicas.remove(0)),
                }
                let before = owners.clone();
                change(&all, &replicas, &mut owners);
                for (slot, moves) in moves_of.iter_mut().enumerate() {
                    *moves += usize::from(before[slot] != owners[slot]);
                }
            }
        }
        assert_eq!((moves_of.iter().sum::<usize>(), moves_of.iter().max()), (109, Some(&4)));
    }

    /// 100 replicas that start one after another, crash, and are replaced one by one.
    #[test]
    fn a_hundred_replicas_stay_balanced_with_the_least_movement() {
        for slots in [1024, 4096] {
            let all = names(200);
            let mut replicas: Vec<Replica> = Vec::new();
            let mut owners = vec![None; slots];
            for replica in &all[..100] {
                replicas.push(replica.clone());
                let moved = change(&all, &replicas, &mut owners);
                assert_eq!(moved, slots / replicas.len(), "the share of the new one");
            }
            // Half of them crash at the same time, and others join at the same time.
            let crashed = replicas.split_off(50);
            let is_crashed = |owner: &&str| crashed.iter().any(|gone| gone.name() == *owner);
            let orphans = owners.iter().flatten().filter(|owner| is_crashed(owner)).count();
            assert_eq!(change(&all, &replicas, &mut owners), orphans);
            replicas.extend_from_slice(&all[100..150]);
            let moved = change(&all, &replicas, &mut owners);
            assert!((slots / 2 - 50..=slots / 2 + 50).contains(&moved), "half of the slots: {moved}");
            // A rolling update of half of them: one more starts, then an old one ends. Each step moves one share.
            let mut in_all = 0;
            for new in &all[150..] {
                replicas.push(new.clone());
                in_all += change(&all, &replicas, &mut owners);
                replicas.remove(0);
                in_all += change(&all, &replicas, &mut owners);
            }
            assert!(in_all <= slots + 100, "two shares per replaced replica: {in_all} of {slots} slots");
        }
    }
}

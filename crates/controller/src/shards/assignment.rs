//! Which replica should own which slot: a function of the members and of the current owners, without I/O.
//!
//! Rendezvous hashing orders the members for each slot, and quotas bound how many slots a member owns. Plain rendezvous hashing
//! leaves the balance to chance: with 64 slots and 4 members, the median of the largest share is 20 slots, where 16 are fair.
//! Quotas alone would move slots between members that stay. So a member keeps what it owns, up to its quota, and the hash
//! decides only about the rest.

use kube_informer::kube_wire::shard;

/// A replica that can own slots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    name: String,
    weight: u32,
}

/// A member's share of the slots.
struct Share<'a> {
    name: &'a str,
    hash: u64,
    /// The fair number of slots, rounded down, and what was cut off (in slots per total weight).
    floor: usize,
    rest: u64,
    /// How many slots it should own: `floor`, or one more if the fair number is not a whole one.
    quota: usize,
    owned: Vec<usize>,
}

/// The owner that each slot should have; `None` for all slots if no member has a weight. `owners` has the current owner of each
/// slot, if it has one.
///
/// The result depends only on the set of members and on `owners`, so replicas that see the same agree, in any version of this
/// library:
///
/// - **Balance.** Each member gets its fair number of slots (by weight), rounded up or down.
/// - **Least movement.** No assignment with that balance changes the owner of fewer slots. Without weights, a member that joins
///   takes its share and no other slot moves; when one leaves, only its slots move.
///
/// Members are identified by name; of several with one name, the first counts.
///
/// ```
/// use kube_informer_controller::shards::{Member, assign};
///
/// let two = ["a", "b"].map(Member::new);
/// let owners = assign(&two, &[None; 64]);
/// assert_eq!(owners.iter().filter(|owner| **owner == Some("a")).count(), 32);
///
/// let three = ["a", "b", "c"].map(Member::new);
/// let after = assign(&three, &owners);
/// let moved = owners.iter().zip(&after).filter(|(before, after)| before != after);
/// assert_eq!(moved.filter(|(_, after)| **after == Some("c")).count(), 21, "only to the new member");
/// ```
pub fn assign<'a>(members: &'a [Member], owners: &[Option<&str>]) -> Vec<Option<&'a str>> {
    let mut shares = shares(members, owners.len());
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

/// The members that get slots, ascending by name.
fn shares(members: &[Member], slots: usize) -> Vec<Share<'_>> {
    let mut members: Vec<&Member> = members.iter().collect();
    members.sort_by(|one, other| one.name.cmp(&other.name));
    members.dedup_by(|one, other| one.name == other.name);
    members.retain(|member| member.weight > 0);
    let total: u64 = members.iter().map(|member| u64::from(member.weight)).sum();
    let share = |member: &&'_ Member| {
        let slots = slots as u64 * u64::from(member.weight);
        (slots / total, slots % total)
    };
    let shares = members.iter().map(|member| {
        let (floor, rest) = share(member);
        // At most the number of slots.
        let floor = usize::try_from(floor).unwrap_or(usize::MAX);
        Share {
            name: &member.name,
            hash: shard::hash(&member.name),
            floor,
            rest,
            quota: floor,
            owned: Vec::new(),
        }
    });
    shares.collect()
}

/// Gives the slots that remain after rounding down to the members that own more already, then to those with the largest rest.
fn set_quotas(shares: &mut [Share<'_>], slots: usize) {
    let remaining = slots - shares.iter().map(|share| share.floor).sum::<usize>();
    let mut by_claim: Vec<&mut Share<'_>> = shares.iter_mut().filter(|share| share.rest > 0).collect();
    by_claim.sort_by_key(|share| {
        let owns_more = share.owned.len() > share.floor;
        std::cmp::Reverse((owns_more, share.rest, score(share.hash, slots)))
    });
    by_claim.into_iter().take(remaining).for_each(|share| share.quota += 1);
}

/// How much a member prefers a slot. The hash of a name alone is not enough: names of replicas differ in their last
/// characters, which hardly change the upper bits.
fn score(member: u64, slot: usize) -> u64 {
    mix(member ^ mix(slot as u64))
}

/// Distributes the bits of a number: the finalizer of SplitMix64.
fn mix(number: u64) -> u64 {
    let mut bits = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

// === impl Member ===

impl Member {
    /// A replica of weight 1. The name is unique among the replicas.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), weight: 1 }
    }

    /// Its share of the slots relative to other members: 2 for twice as many as a member of weight 1, 0 for none.
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

    fn names(count: usize) -> Vec<Member> {
        (0..count).map(|n| Member::new(format!("operator-5d9c7b-{n:02}"))).collect()
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

    /// Members `m0`, `m1`, … with these weights.
    fn weighted(weights: &[u32]) -> Vec<Member> {
        let named = weights.iter().enumerate();
        named.map(|(n, weight)| Member::new(format!("m{n}")).weight(*weight)).collect()
    }

    /// Weights of members, and owners that may not be members any more.
    fn situation() -> impl Strategy<Value = (Vec<u32>, Vec<Option<String>>)> {
        let owner = prop::option::of((0..10u32).prop_map(|n| format!("m{n}")));
        (prop::collection::vec(0..5u32, 1..8), prop::collection::vec(owner, 1..100))
    }

    fn borrowed(owners: &[Option<String>]) -> Vec<Owner<'_>> {
        owners.iter().map(Option::as_deref).collect()
    }

    /// The fewest moves to any assignment in which each member has its fair number of slots, rounded up or down.
    fn fewest_moves(members: &[Member], owners: &[Owner<'_>]) -> usize {
        let total: u32 = members.iter().map(|member| member.weight).sum();
        let mut fewest = usize::MAX;
        let mut choice = vec![0; owners.len()];
        loop {
            let is_fair = members.iter().enumerate().all(|(at, member)| {
                let load = choice.iter().filter(|chosen| **chosen == at).count();
                let fair = owners.len() as f64 * f64::from(member.weight) / f64::from(total);
                (fair.floor()..=fair.ceil()).contains(&(load as f64))
            });
            if is_fair {
                let moved =
                    choice.iter().zip(owners).filter(|(at, owner)| Some(members[**at].name()) != **owner);
                fewest = fewest.min(moved.count());
            }
            // The next choice, counting in base `members.len()`.
            let Some(next) = choice.iter().position(|at| at + 1 < members.len()) else { return fewest };
            choice[next] += 1;
            choice[..next].fill(0);
        }
    }

    proptest! {
        #[test]
        fn each_member_gets_its_fair_number_of_slots((weights, owners) in situation()) {
            let members = weighted(&weights);
            let assigned = assign(&members, &borrowed(&owners));
            let total: u64 = members.iter().map(|member| u64::from(member.weight)).sum();
            if total == 0 {
                prop_assert!(assigned.iter().all(Option::is_none));
                return Ok(());
            }
            prop_assert!(assigned.iter().all(Option::is_some), "no slot is forgotten");
            for member in &members {
                let load = loads(&assigned).get(member.name()).copied().unwrap_or_default() as u64;
                let fair = owners.len() as u64 * u64::from(member.weight);
                prop_assert!((fair / total..=fair.div_ceil(total)).contains(&load), "{:?}: {}", member, load);
            }
        }

        #[test]
        fn the_order_of_members_does_not_matter((weights, owners) in situation()) {
            let (members, owners) = (weighted(&weights), borrowed(&owners));
            let backwards: Vec<Member> = members.iter().rev().cloned().collect();
            prop_assert_eq!(assign(&members, &owners), assign(&backwards, &owners));
        }

        #[test]
        fn an_assignment_is_stable((weights, owners) in situation()) {
            let members = weighted(&weights);
            let assigned = assign(&members, &borrowed(&owners));
            prop_assert_eq!(&assign(&members, &assigned), &assigned);
        }

        #[test]
        fn no_fair_assignment_moves_fewer_slots(
            weights in prop::collection::vec(1..4u32, 1..4), owners in prop::collection::vec(0..5u32, 1..7),
        ) {
            let members = weighted(&weights);
            let owners: Vec<Option<String>> = owners.iter().map(|n| Some(format!("m{n}"))).collect();
            let owners = borrowed(&owners);
            let moved = moves(&owners, &assign(&members, &owners)).len();
            prop_assert_eq!(moved, fewest_moves(&members, &owners));
        }

        #[test]
        fn a_member_that_joins_takes_its_share_and_nothing_else_moves(count in 1..40usize, slots in 1..300usize) {
            let members = names(count + 1);
            let before = assign(&members[..count], &vec![None; slots]);
            let after = assign(&members, &before);
            let new = members[count].name();
            let moved = moves(&before, &after);
            prop_assert!(moved.iter().all(|(_, to)| *to == Some(new)));
            prop_assert_eq!(moved.len(), slots / (count + 1));
        }

        #[test]
        fn only_the_slots_of_a_member_that_leaves_move(
            count in 2..40usize, slots in 1..300usize, leaves in any::<prop::sample::Index>(),
        ) {
            let mut members = names(count);
            let before = assign(&members, &vec![None; slots]);
            let before: Vec<Option<String>> = before.iter().map(|owner| owner.map(str::to_owned)).collect();
            let gone = members.remove(leaves.index(count));
            let before = borrowed(&before);
            let moved = moves(&before, &assign(&members, &before)).len();
            prop_assert_eq!(moved, loads(&before).get(gone.name()).copied().unwrap_or_default());
        }
    }

    /// Replicas of different versions must agree: a change of this result is a change of protocol.
    #[test]
    fn the_result_is_the_same_in_every_version() {
        let members = ["a", "b", "c"].map(Member::new);
        let owners: String = assign(&members, &[None; 24]).into_iter().flatten().collect();
        assert_eq!(owners, "bcccbaaccbbccbbcababaaaa");
        let weighted = [Member::new("a"), Member::new("b").weight(3)];
        let owners: String = assign(&weighted, &[None; 24]).into_iter().flatten().collect();
        assert_eq!(owners, "bbbabaaaabbbabbbbbbbbbbb");
    }

    #[test]
    fn duplicate_names_count_once() {
        let members = ["a", "b", "a"].map(Member::new);
        assert_eq!(loads(&assign(&members, &[None; 10])), BTreeMap::from([("a", 5), ("b", 5)]));
    }

    /// Assigns the slots to these of all members, checks the balance, and returns the number of moves.
    fn change<'a>(all: &'a [Member], members: &[Member], owners: &mut Vec<Owner<'a>>) -> usize {
        let known = |owner: &str| all.iter().map(Member::name).find(|name| *name == owner);
        let after: Vec<Owner<'a>> = assign(members, owners).into_iter().map(|owner| known(owner?)).collect();
        let fair = owners.len() / members.len()..=owners.len().div_ceil(members.len());
        let loads = loads(&after);
        assert_eq!(loads.len(), members.len());
        assert!(loads.values().all(|load| fair.contains(load)), "{loads:?}");
        let moved = moves(owners, &after).len();
        *owners = after;
        moved
    }

    /// 100 replicas that start one after another, crash, and are replaced one by one.
    #[test]
    fn a_hundred_replicas_stay_balanced_with_the_least_movement() {
        for slots in [1024, 4096] {
            let all = names(200);
            let mut members: Vec<Member> = Vec::new();
            let mut owners = vec![None; slots];
            for member in &all[..100] {
                members.push(member.clone());
                let moved = change(&all, &members, &mut owners);
                assert_eq!(moved, slots / members.len(), "the share of the new one");
            }
            // Half of them crash at the same time, and others join at the same time.
            let crashed = members.split_off(50);
            let is_crashed = |owner: &&str| crashed.iter().any(|gone| gone.name() == *owner);
            let orphans = owners.iter().flatten().filter(|owner| is_crashed(owner)).count();
            assert_eq!(change(&all, &members, &mut owners), orphans);
            members.extend_from_slice(&all[100..150]);
            let moved = change(&all, &members, &mut owners);
            assert!((slots / 2 - 50..=slots / 2 + 50).contains(&moved), "half of the slots: {moved}");
            // A rolling update of half of them: one more starts, then an old one ends. Each step moves one share.
            let mut in_all = 0;
            for new in &all[150..] {
                members.push(new.clone());
                in_all += change(&all, &members, &mut owners);
                members.remove(0);
                in_all += change(&all, &members, &mut owners);
            }
            assert!(in_all <= slots + 100, "two shares per replaced replica: {in_all} of {slots} slots");
        }
    }
}

//! A hash table with cheap snapshots: small hash tables ("leaves") in pages under one root, copied on write.
//!
//! Cloning a [`Table`] is one reference count. Without clones, changes are made in place; otherwise the root, page and leaf
//! of a changed entry are copied first, once each. It grows and shrinks by one leaf at a time (linear hashing), so that no
//! single change is expensive, whatever the size.
//!
//! Hashes are not seeded: the order of entries must not differ between runs. Names chosen to collide can slow down one
//! leaf, not the table.

use std::sync::Arc;

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

/// Average number of entries per leaf. More make reading and memory cheaper, and copying more expensive.
const LEAF_LEN: usize = 48;
/// Leaves per page.
const PAGE_LEN: usize = 128;

/// An entry of a [`Table`], which knows its hash.
pub(crate) trait Hashed: Clone {
    /// The hash of the part that makes it unique.
    fn hash(&self) -> u64;
}

/// A table of entries. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Table<T> {
    len: usize,
    leaves: Leaves<T>,
}

type Leaf<T> = Arc<HashTable<T>>;

#[derive(Clone, Debug)]
enum Leaves<T> {
    /// Most tables are small: the sets of an index.
    One(Leaf<T>),
    /// Two or more; all pages but the last are full.
    Many { count: usize, pages: Arc<[Arc<[Leaf<T>]>]> },
}

/// The position of an entry, valid until the table changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct TablePlace {
    pub(crate) leaf: usize,
    pub(crate) bucket: usize,
}

// === impl Table ===

impl<T: Hashed> Table<T> {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The entry with this hash for which `same` returns true.
    pub(crate) fn get(&self, hash: u64, same: impl FnMut(&T) -> bool) -> Option<&T> {
        self.leaves.leaf(self.leaves.at(hash)).find(hash, same)
    }

    /// The entry, and its position.
    pub(crate) fn find(&self, hash: u64, same: impl FnMut(&T) -> bool) -> Option<(TablePlace, &T)> {
        let at = self.leaves.at(hash);
        let leaf = self.leaves.leaf(at);
        let bucket = leaf.find_bucket_index(hash, same)?;
        leaf.get_bucket(bucket).map(|entry| (TablePlace { leaf: at, bucket }, entry))
    }

    /// The entry, mutable. Copies the path to it if it is shared.
    pub(crate) fn get_mut(&mut self, hash: u64, same: impl Fn(&T) -> bool) -> Option<&mut T> {
        // Search first: nothing is copied if the entry does not exist.
        self.get(hash, &same)?;
        self.leaves.leaf_mut(self.leaves.at(hash)).find_mut(hash, same)
    }

    /// Replaces the entry for which `same` returns true, and returns it; otherwise adds an entry.
    pub(crate) fn insert(&mut self, entry: T, same: impl FnMut(&T) -> bool) -> Option<T> {
        let hash = entry.hash();
        let leaf = self.leaves.leaf_mut(self.leaves.at(hash));
        match leaf.entry(hash, same, T::hash) {
            Entry::Occupied(mut known) => Some(std::mem::replace(known.get_mut(), entry)),
            Entry::Vacant(vacant) => {
                vacant.insert(entry);
                self.len += 1;
                if self.len > self.leaves.count() * LEAF_LEN {
                    self.grow();
                }
                None
            }
        }
    }

    /// Removes the entry for which `same` returns true.
    pub(crate) fn remove(&mut self, hash: u64, same: impl Fn(&T) -> bool) -> Option<T> {
        self.get(hash, &same)?;
        let leaf = self.leaves.leaf_mut(self.leaves.at(hash));
        let (removed, _) = leaf.find_entry(hash, same).ok()?.remove();
        self.len -= 1;
        if self.leaves.count() > 1 && self.len < self.leaves.count() * LEAF_LEN / 4 {
            self.shrink();
        }
        Some(removed)
    }

    /// All entries, in an order that depends only on the history of the table.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> + Clone {
        self.leaves.iter().flat_map(|leaf| leaf.iter())
    }

    /// All entries with their positions.
    pub(crate) fn iter_places(&self) -> impl Iterator<Item = (TablePlace, &T)> {
        self.leaves.iter().enumerate().flat_map(|(at, leaf)| {
            let entries = leaf.iter_buckets().filter_map(|bucket| Some((bucket, leaf.get_bucket(bucket)?)));
            entries.map(move |(bucket, entry)| (TablePlace { leaf: at, bucket }, entry))
        })
    }

    pub(crate) fn leaf_count(&self) -> usize {
        self.leaves.count()
    }

    /// The number of places in each leaf.
    pub(crate) fn leaf_buckets(&self) -> impl Iterator<Item = usize> {
        self.leaves.iter().map(HashTable::num_buckets)
    }

    /// The entries of one leaf; `None` past the last.
    pub(crate) fn leaf_entries(&self, at: usize) -> Option<Vec<T>> {
        self.leaf(at).map(|entries| entries.cloned().collect())
    }

    /// The same, borrowed.
    pub(crate) fn leaf(&self, at: usize) -> Option<impl Iterator<Item = &T>> {
        (at < self.leaves.count()).then(|| self.leaves.leaf(at).iter())
    }

    /// Splits the next leaf.
    fn grow(&mut self) {
        let new = self.leaves.count();
        let source = self.leaves.leaf_mut(source_of(new));
        let moved = source.extract_if(|entry| leaf_for(entry.hash(), new + 1) == new).collect::<Vec<_>>();
        source.shrink_to_fit(T::hash);
        let mut leaf = HashTable::with_capacity(moved.len());
        for entry in moved {
            leaf.insert_unique(entry.hash(), entry, T::hash);
        }
        self.leaves.push(Arc::new(leaf));
    }

    /// Merges the last leaf into the one it was split from.
    fn shrink(&mut self) {
        let Some(last) = self.leaves.pop() else { return };
        let target = self.leaves.leaf_mut(source_of(self.leaves.count()));
        for entry in last.iter() {
            target.insert_unique(entry.hash(), entry.clone(), T::hash);
        }
    }
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self { len: 0, leaves: Leaves::One(Arc::default()) }
    }
}

/// The leaf of a hash, among `count`. The lowest and highest bits of the hash are left to the leaf.
fn leaf_for(hash: u64, count: usize) -> usize {
    let mask = count.next_power_of_two() - 1;
    let at = (hash >> 24) as usize & mask;
    if at < count { at } else { at & (mask >> 1) }
}

/// The leaf that is split to create leaf `new`.
fn source_of(new: usize) -> usize {
    new - (1 << new.ilog2())
}

// === impl Leaves ===

impl<T: Hashed> Leaves<T> {
    fn count(&self) -> usize {
        match self {
            Self::One(_) => 1,
            Self::Many { count, .. } => *count,
        }
    }

    fn at(&self, hash: u64) -> usize {
        leaf_for(hash, self.count())
    }

    fn leaf(&self, at: usize) -> &HashTable<T> {
        match self {
            Self::One(leaf) => leaf,
            Self::Many { pages, .. } => &pages[at / PAGE_LEN][at % PAGE_LEN],
        }
    }

    fn leaf_mut(&mut self, at: usize) -> &mut HashTable<T> {
        let leaf = match self {
            Self::One(leaf) => leaf,
            Self::Many { pages, .. } => {
                let page = &mut Arc::make_mut(pages)[at / PAGE_LEN];
                &mut Arc::make_mut(page)[at % PAGE_LEN]
            }
        };
        Arc::make_mut(leaf)
    }

    fn iter(&self) -> impl Iterator<Item = &HashTable<T>> + Clone {
        let (one, pages) = match self {
            Self::One(leaf) => (Some(leaf), &[][..]),
            Self::Many { pages, .. } => (None, &**pages),
        };
        one.into_iter().chain(pages.iter().flat_map(|page| page.iter())).map(|leaf| &**leaf)
    }

    fn push(&mut self, leaf: Leaf<T>) {
        match self {
            Self::One(first) => {
                let page = Arc::from([first.clone(), leaf]);
                *self = Self::Many { count: 2, pages: Arc::from([page]) };
            }
            Self::Many { count, pages } if count.is_multiple_of(PAGE_LEN) => {
                *count += 1;
                *pages = pages.iter().cloned().chain([Arc::from([leaf])]).collect();
            }
            Self::Many { count, pages } => {
                let page = &mut Arc::make_mut(pages)[*count / PAGE_LEN];
                *page = page.iter().cloned().chain([leaf]).collect();
                *count += 1;
            }
        }
    }

    /// Removes the last leaf; `None` if it is the only one.
    fn pop(&mut self) -> Option<Leaf<T>> {
        let Self::Many { count, pages } = self else { return None };
        let (last_page, full) = pages.split_last()?;
        let (last, rest) = last_page.split_last()?;
        let last = last.clone();
        *count -= 1;
        if *count == 1 {
            *self = Self::One(rest.first()?.clone());
        } else if rest.is_empty() {
            *pages = full.iter().cloned().collect();
        } else {
            let page = rest.iter().cloned().collect();
            let at = full.len();
            Arc::make_mut(pages)[at] = page;
        }
        Some(last)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    /// A number under a key. If `spread` is false, all hashes are equal in the bits that select a leaf.
    #[derive(Clone, Debug, PartialEq, Eq)]
    struct Numbered {
        key: u16,
        spread: bool,
        number: u32,
    }

    impl Hashed for Numbered {
        fn hash(&self) -> u64 {
            hash(self.key, self.spread)
        }
    }

    fn hash(key: u16, spread: bool) -> u64 {
        let hash = u64::from(key).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        if spread { hash } else { hash & 0xffff }
    }

    fn content(table: &Table<Numbered>) -> BTreeMap<u16, u32> {
        table.iter().map(|entry| (entry.key, entry.number)).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn the_table_matches_a_map_and_clones_do_not_change(
            // Runs of puts or removes, to grow and shrink by many leaves.
            runs in prop::collection::vec((any::<bool>(), 0..3000u16, 1..1500u16, any::<bool>()), 1..8),
            spread in prop::bool::weighted(0.9),
        ) {
            let (mut table, mut map) = (Table::default(), BTreeMap::new());
            let mut clones = Vec::new();
            for (number, (puts, from, count, clone)) in (0..).zip(runs) {
                if clone {
                    clones.push((table.clone(), map.clone()));
                }
                for key in from..from + count {
                    let same = |entry: &Numbered| entry.key == key;
                    if puts {
                        let replaced = table.insert(Numbered { key, spread, number }, same);
                        prop_assert_eq!(replaced.map(|entry| entry.number), map.insert(key, number));
                    } else {
                        let removed = table.remove(hash(key, spread), same);
                        prop_assert_eq!(removed.map(|entry| entry.number), map.remove(&key));
                    }
                }
                prop_assert_eq!(table.len(), map.len());
                prop_assert_eq!(&content(&table), &map);
            }
            for (key, number) in &map {
                let (hash, same) = (hash(*key, spread), |entry: &Numbered| entry.key == *key);
                prop_assert_eq!(table.get(hash, same).map(|entry| entry.number), Some(*number));
                prop_assert_eq!(table.get_mut(hash, same).map(|entry| entry.number), Some(*number));
                let (place, entry) = table.find(hash, same).unwrap();
                prop_assert!(table.iter_places().any(|(other, found)| other == place && found == entry));
                if map.len() > 500 {
                    break;
                }
            }
            let leaves = (0..).map_while(|at| table.leaf_entries(at)).flatten().count();
            prop_assert_eq!(leaves, map.len());
            for (clone, then) in clones {
                prop_assert_eq!(content(&clone), then);
            }
        }
    }
}

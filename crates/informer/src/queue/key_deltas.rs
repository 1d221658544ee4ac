//! The state of a `DeltaFifo`: keys in order, each with its deltas.

use std::collections::{BTreeMap, HashMap, VecDeque};

use crate::delta::Delta;
use crate::scope::Scope;
use crate::version::is_older;
use crate::{Key, StoredObject};

#[derive(Debug, Default)]
pub(super) struct KeyedState {
    /// Per queued key; never empty.
    pub(super) deltas: HashMap<Key, Vec<Delta>>,
    pub(super) order: VecDeque<Key>,
    /// The total number of deltas.
    pub(super) len: usize,
    /// The key being processed, and its newest delta.
    pub(super) processing: Option<(Key, Delta)>,
    pub(super) scopes: BTreeMap<Scope, KeyedScope>,
    pub(super) closed: bool,
}

#[derive(Debug, Default)]
pub(super) struct KeyedScope {
    pub(super) resource_version: String,
    /// Something has been queued.
    pub(super) populated: bool,
    /// Keys of the first list that are not processed yet.
    pub(super) initial: usize,
}

// === impl KeyedState ===

impl KeyedState {
    pub(super) fn is_synced(&self, scope: Scope) -> bool {
        self.scopes.get(&scope).is_some_and(|scope| scope.populated && scope.initial == 0)
    }

    pub(super) fn is_processing(&self, key: &Key) -> bool {
        self.processing.as_ref().is_some_and(|(out, _)| out == key)
    }

    /// Adds a delta under its object's key.
    pub(super) fn push(&mut self, key: Key, delta: Delta) {
        let deltas = self.deltas.entry(key.clone()).or_default();
        if deltas.is_empty() {
            self.order.push_back(key);
        }
        self.len += 1;
        self.len -= join(deltas, delta);
    }

    /// The newest state of each key of a scope that is queued or being processed.
    pub(super) fn newest_of(&self, scope: Scope) -> Vec<StoredObject> {
        let out = self.processing.iter().filter(|(key, delta)| {
            !deletes(delta) && delta.scope() == scope && !self.deltas.contains_key(key)
        });
        self.queued_of(scope).chain(out.filter_map(|(_, delta)| delta.object())).cloned().collect()
    }

    /// The newest state of each queued key of a scope.
    pub(super) fn queued_of(&self, scope: Scope) -> impl Iterator<Item = &StoredObject> {
        let newest = self.order.iter().filter_map(|key| self.deltas.get(key)?.last());
        newest.filter_map(Delta::object).filter(move |object| object.scope() == scope)
    }

    /// The next key, its deltas, and whether they belong to the first list; `Some(None)` when there will be no more.
    pub(super) fn pop(&mut self) -> Option<Option<(Key, Vec<Delta>, bool)>> {
        if self.processing.is_some() {
            return None;
        }
        let Some(key) = self.order.pop_front() else { return self.closed.then_some(None) };
        let deltas = self.deltas.remove(&key).unwrap_or_default();
        self.len -= deltas.len();
        let newest = deltas.last()?.clone();
        let initial = self.scopes.get(&newest.scope()).is_some_and(|scope| scope.initial > 0);
        self.processing = Some((key.clone(), newest));
        Some(Some((key, deltas, initial)))
    }

    pub(super) fn put_back(&mut self, key: &Key, earlier: Vec<Delta>) {
        let later = self.deltas.remove(key);
        if later.is_some() {
            self.order.retain(|queued| queued != key);
        }
        self.len += earlier.len();
        let mut deltas = earlier;
        for delta in later.into_iter().flatten() {
            self.len -= join(&mut deltas, delta);
        }
        self.order.push_front(key.clone());
        self.deltas.insert(key.clone(), deltas);
    }
}

/// Whether a delta is a deletion.
pub(super) fn deletes(delta: &Delta) -> bool {
    matches!(delta, Delta::Deleted(_) | Delta::DeletedUnread(_) | Delta::Vanished(_) | Delta::Left(_))
}

/// Appends a delta. Merges two consecutive deletions, preferring one with a final state. Returns how many were merged.
fn join(deltas: &mut Vec<Delta>, delta: Delta) -> usize {
    match deltas.last_mut() {
        Some(last) if deletes(last) && deletes(&delta) => {
            if !matches!(last, Delta::Deleted(_)) {
                *last = delta;
            }
            1
        }
        _ => {
            deltas.push(delta);
            0
        }
    }
}

// === impl KeyedScope ===

impl KeyedScope {
    pub(super) fn advance(&mut self, version: &str) {
        if !version.is_empty() && !is_older(version, &self.resource_version) {
            version.clone_into(&mut self.resource_version);
        }
    }
}

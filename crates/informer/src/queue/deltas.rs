//! What a `DeltaFifo` holds: keys in their order, each with the deltas it has gathered.

use std::collections::{BTreeMap, HashMap, VecDeque};

use super::Scope;
use crate::Key;
use crate::store::StoredObject;
use crate::version::is_older;

/// One thing that was learned of a key.
#[derive(Clone, Debug)]
pub struct KeyDelta {
    /// What.
    pub kind: DeltaKind,
    /// The object, in the state that was learned; or its last known one.
    pub object: StoredObject,
}

/// What was learned of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeltaKind {
    /// It is new.
    Added,
    /// It has changed.
    Updated,
    /// It is gone.
    Deleted {
        /// Whether the object is in the state it was deleted in; if not, this is a tombstone: the deletion was not seen.
        final_state_known: bool,
    },
    /// It was in a full list.
    Replaced,
    /// Nothing new: it is delivered once more.
    Sync,
}

#[derive(Debug, Default)]
pub(super) struct State {
    /// Of each queued key; never empty.
    pub(super) deltas: HashMap<Key, Vec<KeyDelta>>,
    pub(super) order: VecDeque<Key>,
    /// How many deltas there are in all.
    pub(super) len: usize,
    /// What is out: the key and its newest delta.
    pub(super) processing: Option<(Key, KeyDelta)>,
    pub(super) scopes: BTreeMap<Scope, ScopeState>,
    pub(super) closed: bool,
}

#[derive(Debug, Default)]
pub(super) struct ScopeState {
    pub(super) resource_version: String,
    /// Something was queued.
    pub(super) populated: bool,
    /// Keys of the first full state that are not processed yet.
    pub(super) initial: usize,
}

// === impl State ===

impl State {
    pub(super) fn is_synced(&self, scope: Scope) -> bool {
        self.scopes.get(&scope).is_some_and(|scope| scope.populated && scope.initial == 0)
    }

    pub(super) fn is_processing(&self, key: &Key) -> bool {
        self.processing.as_ref().is_some_and(|(out, _)| out == key)
    }

    pub(super) fn push(&mut self, delta: KeyDelta) {
        let key = delta.object.key();
        let deltas = self.deltas.entry(key.clone()).or_default();
        if deltas.is_empty() {
            self.order.push_back(key);
        }
        self.len += 1;
        self.len -= join(deltas, delta);
    }

    /// The newest state of each key of a scope that is queued or out.
    pub(super) fn newest_of(&self, scope: Scope) -> Vec<StoredObject> {
        let out = self.processing.iter().filter(|(key, delta)| {
            let is_there = !matches!(delta.kind, DeltaKind::Deleted { .. });
            is_there && delta.object.scope() == scope && !self.deltas.contains_key(key)
        });
        self.queued_of(scope).chain(out.map(|(_, delta)| &delta.object)).cloned().collect()
    }

    /// The newest state of each queued key of a scope.
    pub(super) fn queued_of(&self, scope: Scope) -> impl Iterator<Item = &StoredObject> {
        let newest = self.order.iter().filter_map(|key| self.deltas.get(key)?.last());
        newest.map(|delta| &delta.object).filter(move |object| object.scope() == scope)
    }

    /// The next key, its deltas, and whether they are of the first full state; `Some(None)` when there will be none.
    pub(super) fn pop(&mut self) -> Option<Option<(Key, Vec<KeyDelta>, bool)>> {
        if self.processing.is_some() {
            return None;
        }
        let Some(key) = self.order.pop_front() else { return self.closed.then_some(None) };
        let deltas = self.deltas.remove(&key).unwrap_or_default();
        self.len -= deltas.len();
        let newest = deltas.last()?.clone();
        let initial = self.scopes.get(&newest.object.scope()).is_some_and(|scope| scope.initial > 0);
        self.processing = Some((key.clone(), newest));
        Some(Some((key, deltas, initial)))
    }

    pub(super) fn put_back(&mut self, key: &Key, earlier: Vec<KeyDelta>) {
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

/// Appends a delta; two deletions in a row become one: the first that is real. Gives how many were saved.
fn join(deltas: &mut Vec<KeyDelta>, delta: KeyDelta) -> usize {
    if let (Some(last), DeltaKind::Deleted { .. }) = (deltas.last_mut(), delta.kind)
        && let DeltaKind::Deleted { final_state_known } = last.kind
    {
        if !final_state_known {
            *last = delta;
        }
        return 1;
    }
    deltas.push(delta);
    0
}

// === impl ScopeState ===

impl ScopeState {
    pub(super) fn advance(&mut self, version: &str) {
        if !version.is_empty() && !is_older(version, &self.resource_version) {
            version.clone_into(&mut self.resource_version);
        }
    }
}

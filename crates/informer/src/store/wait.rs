//! Waiting until the store shows something: one's own write, a state of an object, or its deletion.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use super::object::text_hash;
use super::root::{Mark, Root};
use super::{Store, StoredObject};
use crate::Key;
use crate::scope::Scope;
use crate::version::is_older;

/// The server was reset to an earlier state, so that a resourceVersion may never be reached.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error(
    "the server was reset to an earlier state while waiting for resourceVersion {resource_version} of `{key}`: \
     read the object again"
)]
#[non_exhaustive]
pub struct ServerReset {
    /// The object's key.
    pub key: Key,
    /// The resourceVersion that was waited for.
    pub resource_version: String,
}

/// What a caller waits for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum StoreTopic {
    /// A change of the object with a key of this hash.
    Key(u64),
    /// A scope reaches a resourceVersion: its length, then its text, which is the order of those that can be compared.
    Version(Scope, usize, String),
}

impl Store {
    /// Waits until a write is in: the object has reached its resourceVersion, or everything of the scope up to it is in
    /// (for a deletion, or for an object that is not selected).
    ///
    /// Gives the object, if it is there then.
    ///
    /// # Errors
    /// If the server was reset to an earlier state meanwhile.
    ///
    /// # Cancel safety
    /// May be dropped at any point.
    pub async fn wait_for(
        &self,
        scope: Scope,
        key: &Key,
        resource_version: &str,
    ) -> Result<Option<StoredObject>, ServerReset> {
        let epoch = |root: &Root| root.scope(scope).map_or(0, |state| state.epoch);
        let began = self.read(epoch);
        let check = |root: &Root| {
            if root.has_seen(scope, key, resource_version) {
                return Some(Ok(root.get(key).cloned()));
            }
            (epoch(root) != began).then(|| {
                let resource_version = resource_version.to_owned();
                Err(ServerReset { key: key.clone(), resource_version })
            })
        };
        let topics = [StoreTopic::key(key), StoreTopic::version(scope, resource_version)];
        self.waiters.until_some(topics, || self.read(check)).await
    }

    /// Whether a write is in: what [`wait_for`](Self::wait_for) waits for, without waiting.
    pub fn has_seen(&self, scope: Scope, key: &Key, resource_version: &str) -> bool {
        self.read(|root| root.has_seen(scope, key, resource_version))
    }

    /// Waits until the object with this key (`None`: there is none) is such that `check` gives something; gives that.
    /// `check` is called once for each state it sees. States that came and went while it was running may be missed; the
    /// last one never is.
    ///
    /// # Cancel safety
    /// May be dropped at any point.
    pub async fn wait_until<T>(
        &self,
        key: &Key,
        mut check: impl FnMut(Option<&StoredObject>) -> Option<T>,
    ) -> T {
        let mut checked = None::<Option<StoredObject>>;
        let check_anew = || {
            let object = self.get(key);
            let is_checked =
                checked.as_ref().is_some_and(|checked| is_same(checked.as_ref(), object.as_ref()));
            if is_checked {
                return None;
            }
            let found = check(object.as_ref());
            checked = Some(object);
            found
        };
        self.waiters.until_some([StoreTopic::key(key)], check_anew).await
    }

    /// Waits until the first full state of a scope is in, and no object with this key and uid.
    ///
    /// # Cancel safety
    /// May be dropped at any point.
    pub(crate) async fn wait_gone(&self, scope: Scope, key: &Key, uid: &str) {
        // Before the first full state, absence means nothing.
        let is_complete = |root: &Root| root.scope(scope).is_some_and(|state| state.complete).then_some(());
        self.waiters.until_some([StoreTopic::full_state(scope)], || self.read(is_complete)).await;
        let is_gone = |root: &Root| root.get(key).is_none_or(|object| object.uid() != uid).then_some(());
        self.waiters.until_some([StoreTopic::key(key)], || self.read(is_gone)).await;
    }

    /// Wakes the callers that a commit concerns.
    pub(super) fn wake(&self, keys: impl Iterator<Item = u64>, marks: &[Mark<'_>]) {
        if !self.waiters.any() {
            return;
        }
        let mut replaced = BTreeMap::new();
        for mark in marks {
            match mark {
                Mark::Reached(scope, _) => drop(replaced.entry(*scope).or_insert(false)),
                Mark::Replaced { scope, .. } => drop(replaced.insert(*scope, true)),
            }
        }
        let scopes = replaced.into_iter().map(|(scope, replaced)| match replaced {
            true => StoreTopic::all_versions(scope),
            false => StoreTopic::versions_up_to(scope, &self.resource_version(scope)),
        });
        let keys = keys.map(StoreTopic::Key).map(|key| key.clone()..=key);
        self.waiters.wake(keys.chain(scopes));
    }
}

// === impl StoreTopic ===

impl StoreTopic {
    fn key(key: &Key) -> Self {
        Self::Key(text_hash(key.as_str()))
    }

    fn version(scope: Scope, version: &str) -> Self {
        Self::Version(scope, version.len(), version.to_owned())
    }

    /// Behind every version: reached with a full state only.
    fn full_state(scope: Scope) -> Self {
        Self::Version(scope, usize::MAX, String::new())
    }

    fn versions_up_to(scope: Scope, version: &str) -> RangeInclusive<Self> {
        Self::version(scope, "")..=Self::version(scope, version)
    }

    fn all_versions(scope: Scope) -> RangeInclusive<Self> {
        Self::version(scope, "")..=Self::full_state(scope)
    }
}

/// Whether both are the same stored state, or both are absent.
fn is_same(one: Option<&StoredObject>, other: Option<&StoredObject>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => one.ptr_eq(other),
        (None, None) => true,
        _ => false,
    }
}

impl Root {
    fn has_seen(&self, scope: Scope, key: &Key, resource_version: &str) -> bool {
        let is_in = |version: &str| version == resource_version || is_older(resource_version, version);
        self.scope(scope).is_some_and(|state| is_in(&state.resource_version))
            || self.get(key).is_some_and(|object| is_in(object.resource_version()))
    }
}

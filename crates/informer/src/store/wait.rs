//! Waits until the store shows a write, a state of an object, or its deletion.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use super::root::{Mark, Root, ScopeVersion};
use super::{Store, StoredObject};
use crate::Key;
use crate::object::text_hash;
use crate::scope::Scope;
use crate::version::is_older;

/// The server was reset to an earlier state, so a resourceVersion may never be reached.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error(
    "cannot wait for resourceVersion {resource_version} of `{key}`: the server was reset to an earlier state; \
     read the object again"
)]
#[non_exhaustive]
pub struct ServerReset {
    /// The object's key.
    pub key: Key,
    /// The awaited resourceVersion.
    pub resource_version: String,
}

/// What a caller waits for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum StoreTopic {
    /// A change of the object whose key has this hash.
    Key(u64),
    /// A scope reaches a resourceVersion: its length, then its text, which is the order of comparable ones.
    Version(Scope, usize, String),
}

impl Store {
    /// Waits until a write is in the store: the object has reached its resourceVersion, or the whole scope has (for a
    /// deletion, or an object that is not selected).
    ///
    /// Returns the object, if it exists then.
    ///
    /// # Errors
    /// Returns an error if the server is reset to an earlier state meanwhile.
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

    /// Whether a write is in the store: the check of [`wait_for`](Self::wait_for), without waiting.
    pub fn has_seen(&self, scope: Scope, key: &Key, resource_version: &str) -> bool {
        self.read(|root| root.has_seen(scope, key, resource_version))
    }

    /// Waits until `check` returns a value for the object with this key (`None` if there is no object). Returns that value.
    /// `check` is called once per state it sees. It may miss intermediate states, but never the last one.
    ///
    /// # Cancel safety
    /// May be dropped at any point.
    pub async fn wait_until<T>(&self, key: &Key, check: impl FnMut(Option<&StoredObject>) -> Option<T>) -> T {
        self.wait_for_state([StoreTopic::key(key)], None, key, check).await
    }

    /// As [`wait_until`](Self::wait_until). The absence of an object is a state only once the initial list of its scope is stored.
    pub(crate) async fn wait_until_in<T>(
        &self,
        scope: Scope,
        key: &Key,
        check: impl FnMut(Option<&StoredObject>) -> Option<T>,
    ) -> T {
        let topics = [StoreTopic::key(key), StoreTopic::complete_list(scope)];
        self.wait_for_state(topics, Some(scope), key, check).await
    }

    async fn wait_for_state<T, const N: usize>(
        &self,
        topics: [StoreTopic; N],
        scope: Option<Scope>,
        key: &Key,
        mut check: impl FnMut(Option<&StoredObject>) -> Option<T>,
    ) -> T {
        let mut checked = None::<Option<StoredObject>>;
        let check_anew = || {
            let is_listed = |root: &Root| scope.is_none_or(|scope| root.has_list(scope));
            let (object, is_listed) = self.read(|root| (root.get(key).cloned(), is_listed(root)));
            if object.is_none() && !is_listed {
                return None;
            }
            let is_checked =
                checked.as_ref().is_some_and(|checked| is_same(checked.as_ref(), object.as_ref()));
            if is_checked {
                return None;
            }
            let found = check(object.as_ref());
            checked = Some(object);
            found
        };
        self.waiters.until_some(topics, check_anew).await
    }

    /// Waits until the initial list of a scope is stored, and no object with this key and uid is.
    ///
    /// # Cancel safety
    /// May be dropped at any point.
    pub(crate) async fn wait_gone(&self, scope: Scope, key: &Key, uid: &str) {
        // Before the initial list, absence means nothing.
        let is_complete = |root: &Root| root.has_list(scope).then_some(());
        self.waiters.until_some([StoreTopic::complete_list(scope)], || self.read(is_complete)).await;
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

    /// After every version: reached only with a complete list.
    fn complete_list(scope: Scope) -> Self {
        Self::Version(scope, usize::MAX, String::new())
    }

    fn versions_up_to(scope: Scope, version: &str) -> RangeInclusive<Self> {
        Self::version(scope, "")..=Self::version(scope, version)
    }

    fn all_versions(scope: Scope) -> RangeInclusive<Self> {
        Self::version(scope, "")..=Self::complete_list(scope)
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
    /// Whether the initial list of a scope is stored.
    fn has_list(&self, scope: Scope) -> bool {
        self.scope(scope).is_some_and(ScopeVersion::is_complete)
    }

    fn has_seen(&self, scope: Scope, key: &Key, resource_version: &str) -> bool {
        let early = deliberate_bug!("wait-ends-early");
        let is_in =
            |version: &str| early || version == resource_version || is_older(resource_version, version);
        self.scope(scope).is_some_and(|state| !state.reselected && is_in(&state.resource_version))
            || self.get(key).is_some_and(|object| is_in(object.resource_version()))
    }
}

//! Waiting until the store shows something: one's own write, or a state of an object.

use super::root::Root;
use super::{Store, StoredObject};
use crate::Key;
use crate::queue::Scope;
use crate::version::is_older;

/// Why waiting ended without what was waited for.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum WaitError {
    /// The server has gone back in time, so that the resourceVersion may never come.
    #[error(
        "the server was reset to an earlier state while waiting for resourceVersion {resource_version} of `{key}`: \
         read the object again"
    )]
    NewEpoch {
        /// The object's key.
        key: Key,
        /// The resourceVersion that was waited for.
        resource_version: String,
    },
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
    ) -> Result<Option<StoredObject>, WaitError> {
        let epoch = |root: &Root| root.scope(scope).map_or(0, |state| state.epoch);
        let began = self.read(epoch);
        self.waiters
            .until_some(|| {
                self.read(|root| {
                    if root.has_seen(scope, key, resource_version) {
                        return Some(Ok(root.get(key).cloned()));
                    }
                    (epoch(root) != began).then(|| {
                        let resource_version = resource_version.to_owned();
                        Err(WaitError::NewEpoch { key: key.clone(), resource_version })
                    })
                })
            })
            .await
    }

    /// Whether a write is in: what [`wait_for`](Self::wait_for) waits for, without waiting.
    pub fn has_seen(&self, scope: Scope, key: &Key, resource_version: &str) -> bool {
        self.read(|root| root.has_seen(scope, key, resource_version))
    }

    /// Waits until the object with this key (`None`: there is none) is such that `check` gives something; gives that.
    /// States that came and went while `check` was running may be missed; the last one never is.
    ///
    /// # Cancel safety
    /// May be dropped at any point.
    pub async fn wait_until<T>(
        &self,
        key: &Key,
        mut check: impl FnMut(Option<&StoredObject>) -> Option<T>,
    ) -> T {
        self.waiters
            .until_some(|| {
                let object = self.get(key);
                check(object.as_ref())
            })
            .await
    }
}

impl Root {
    fn has_seen(&self, scope: Scope, key: &Key, resource_version: &str) -> bool {
        let is_in = |version: &str| version == resource_version || is_older(resource_version, version);
        self.scope(scope).is_some_and(|state| is_in(&state.resource_version))
            || self.get(key).is_some_and(|object| is_in(object.resource_version()))
    }
}

//! The shard of a running informer: waits until a change of the shard has taken effect, and rejects waits for objects of other
//! shards.
//!
//! The source fixes the shard for each cycle of list and watch, and the reflector's status has the generation of the last
//! complete list. Comparing that with the assignment shows whether the store has the objects of the assigned shard.

use kube_core::ObjectMeta;

use super::core::Core;
use super::scopes::{Scopes, Watched};
use super::{SyncError, WaitError};
use crate::Key;
use crate::reflector::ReflectorStatus;

impl Core {
    /// Waits until the objects of the assigned shard are in the store and published.
    pub(super) async fn shard_synced(&self) -> Result<(), SyncError> {
        self.synced().await?;
        let listed = async {
            for watched in self.scopes.watched() {
                self.shard_listed(&watched).await;
            }
        };
        Ok(self.unless_stopped(listed).await?)
    }

    /// Runs a future once the assigned shard is listed in the scope of a key. Before that, an absent object may exist.
    pub(super) async fn once_listed<T>(&self, key: &Key, wait: impl Future<Output = T>) -> T {
        if let Ok(watched) = self.scopes.of(key) {
            self.shard_listed(&watched).await;
        }
        wait.await
    }

    async fn shard_listed(&self, watched: &Watched) {
        if self.scopes.shard.is_none() {
            return;
        }
        let mut status = watched.status.clone();
        // An error means that the scope was removed, or the informer stopped.
        let _ = status.wait_for(|status| self.scopes.has_assigned_shard(status)).await;
        let _ = self.queue.processed(watched.scope).await;
    }
}

impl Scopes {
    /// The error of waiting for an object of another shard, as far as its metadata shows that.
    pub(super) fn check_shard(&self, key: &Key, meta: &ObjectMeta) -> Result<(), WaitError> {
        let Some(assigned) = &self.shard else { return Ok(()) };
        let shard = assigned.get();
        if assigned.key().selects_meta(&shard, meta).unwrap_or(true) {
            return Ok(());
        }
        let why = match assigned.key().can_change() {
            true => "it is not in a slot that is assigned to this informer".to_owned(),
            false => {
                let slot = shard.slot(key.namespace(), meta.uid.as_deref().unwrap_or_default());
                format!("its slot {slot} of {} is not assigned to this informer", shard.of())
            }
        };
        Err(WaitError::Never { key: key.clone(), why })
    }

    /// If objects of the assigned shard may be missing in a scope, returns the reason.
    pub(super) fn shard_behind(&self, watched: &Watched) -> Option<String> {
        let behind = !self.has_assigned_shard(&watched.status.borrow());
        behind.then(|| format!("the assigned shard of {} is not listed yet", watched.resource))
    }

    /// Whether the last complete list of a reflector is of the assigned shard.
    fn has_assigned_shard(&self, status: &ReflectorStatus) -> bool {
        self.shard.as_ref().is_none_or(|assigned| assigned.generation() == status.selection)
    }
}

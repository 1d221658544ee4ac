//! What a controller does when this replica gains slots: its caches catch up with the previous owners, then all keys of the slots are
//! queued.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures::future::try_join_all;
use kube_client::Client;
use kube_core::metadata::PartialObjectMeta;
use kube_core::params::ListParams;
use kube_core::request::Request;
use kube_core::{DynamicObject, ObjectList, Resource};
use kube_informer::SyncError;
use tokio::time::{Instant, sleep, timeout};

use super::Team;
use super::clusters::Member;
use super::expect::key_of;
use super::intake::BACKGROUND;
use super::tools::Tools;
use super::trigger::Watched;
use crate::shards::WrittenVersions;

/// How often a cache is checked. No event reports that a cache of a quiet resource has reached a resourceVersion.
const CHECK_PAUSE: Duration = Duration::from_millis(100);

/// The pause before a request that failed is repeated.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// The time limit of one request.
const REQUEST_MAX: Duration = Duration::from_secs(10);

/// How long requests can fail while caches list gained slots, counted from the first failure. Then another replica should try.
const LIST_MAX: Duration = Duration::from_secs(60);

/// How long caches can take to reach a resourceVersion. A watch of a quiet resource receives a bookmark about once per minute.
const CATCH_UP_MAX: Duration = Duration::from_secs(150);

/// Why the caches cannot have the objects of gained slots.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CannotCatchUp {
    #[error("an informer has stopped")]
    Stopped,
    #[error("cannot list the objects: {0}")]
    Failed(String),
}

impl<D: Send + Sync + 'static> Team<D> {
    /// The cluster of a shared controller: it has one.
    fn cluster(&self) -> Option<Arc<Member>> {
        self.job.members.get(None)
    }

    /// Reads the current resourceVersion of each watched resource from the server: the state of all writes so far.
    pub(super) async fn read_versions(&self) -> Result<WrittenVersions, CannotCatchUp> {
        let Some(member) = self.cluster() else { return Ok(WrittenVersions::new()) };
        let Some(client) = &member.tools.client else { return Ok(WrittenVersions::new()) };
        let read = member.tools.watched.iter().map(|watched| async move {
            let version = read_version(client, &**watched).await?;
            Ok(version.map(|version| (Tools::resource_name(watched.resource()), version)))
        });
        Ok(try_join_all(read).await?.into_iter().flatten().collect())
    }

    /// Whether an informer has stopped, so that nothing can be reconciled any more.
    pub(super) fn has_stopped_informer(&self) -> bool {
        self.cluster().is_some_and(|member| member.tools.watched.iter().any(|watched| watched.is_stopped()))
    }

    /// Waits until the caches have the assigned shard, and these resourceVersions.
    pub(super) async fn catch_up(&self, needed: &WrittenVersions) -> Result<(), CannotCatchUp> {
        let Some(member) = self.cluster() else { return Ok(()) };
        let listed = member.tools.watched.iter().map(|watched| list_shard(&self.job.name, &**watched));
        try_join_all(listed).await?;
        let until = Instant::now() + CATCH_UP_MAX;
        for watched in &member.tools.watched {
            let resource = Tools::resource_name(watched.resource());
            let Some(version) = needed.get(&resource) else { continue };
            while !watched.has_reached(version) {
                if Instant::now() >= until {
                    tracing::warn!(controller = %self.job.name, resource, version, "a cache has not caught up with the previous owner; working anyway");
                    break;
                }
                sleep(CHECK_PAUSE).await;
            }
        }
        Ok(())
    }

    /// Queues the keys of these slots: of all cached objects, and of those that were deleted since they were cached.
    pub(super) fn queue_keys(&self, slots: &[u32]) {
        let (Some(member), Some(slot_keys)) = (self.cluster(), &self.job.intake.slot_keys) else { return };
        let slots: BTreeSet<u32> = slots.iter().copied().collect();
        for meta in member.tools.main().map(|main| main.cached(None)).unwrap_or_default() {
            let namespace = meta.namespace.as_deref().unwrap_or_default();
            let slot = slot_keys.slots().slot_of(namespace, meta.uid.as_deref());
            if slot.is_some_and(|slot| slots.contains(&slot)) {
                self.job.intake.add(key_of(&meta), BACKGROUND);
            }
        }
        for key in slot_keys.deleted_in(&slots) {
            self.job.intake.add(key, BACKGROUND);
        }
    }
}

/// Waits until an informer has listed the assigned shard. A list may take long; errors may not. A list that is repeated after an
/// error may take long, too, so only another error ends the wait.
async fn list_shard(controller: &str, watched: &dyn Watched) -> Result<(), CannotCatchUp> {
    let mut failing_since: Option<Instant> = None;
    loop {
        let error = match timeout(RETRY_PAUSE, watched.shard_synced()).await {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(SyncError::Stopped(_))) => return Err(CannotCatchUp::Stopped),
            Ok(Err(error)) => {
                sleep(RETRY_PAUSE).await;
                error.to_string()
            }
            Err(_) => match watched.failure() {
                Some(error) => error,
                None => {
                    failing_since = None;
                    continue;
                }
            },
        };
        let since = *failing_since.get_or_insert_with(Instant::now);
        if watched.is_retrying() {
            continue;
        }
        tracing::warn!(controller, error, "cannot list gained slots; retrying");
        if since.elapsed() >= LIST_MAX {
            return Err(CannotCatchUp::Failed(error));
        }
    }
}

/// The server's current resourceVersion of a resource; `None` if nothing is watched. Retries for a while.
async fn read_version(client: &Client, watched: &dyn Watched) -> Result<Option<String>, CannotCatchUp> {
    let Some(namespace) = watched.namespaces().into_iter().next() else { return Ok(None) };
    let until = Instant::now() + LIST_MAX;
    let path = DynamicObject::url_path(watched.resource(), namespace.as_deref());
    loop {
        // Without a resourceVersion, the server answers from its storage.
        let request = Request::new(&path).list_metadata(&ListParams::default().limit(1));
        let request = request.map_err(|error| CannotCatchUp::Failed(error.to_string()))?;
        let error = match timeout(REQUEST_MAX, client.request::<ObjectList<PartialObjectMeta>>(request)).await
        {
            Ok(Ok(list)) => return Ok(list.metadata.resource_version),
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("no answer within {REQUEST_MAX:?}"),
        };
        tracing::warn!(path, error, "cannot read the server's resourceVersion; retrying");
        if Instant::now() >= until {
            return Err(CannotCatchUp::Failed(error));
        }
        sleep(RETRY_PAUSE).await;
    }
}

//! The running informer, without its type: reflectors, queue, store, listeners and tasks.
//!
//! Tasks hold the [`Core`]; users hold the [`Owner`]. Dropping the user's last handle stops everything.

use std::cmp::Ordering;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering as Atomic};
use std::time::Duration;

use futures::FutureExt;
use futures::future::pending;
use kube_core::ApiResource;
use kube_wire::Projection;
use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::Instrument;

use super::listeners::Listeners;
use super::namespaces::{Follower, LIST_OF_NAMESPACES, Matching};
use super::scopes::{ScopeParts, ScopeStatus, Scopes, Watched};
use super::sink::StoreSink;
use super::{Stopped, SyncError, WaitError};
use crate::Key;
use crate::budget::Budget;
use crate::deadline::until;
use crate::object::StoredObject;
use crate::panic::panic_text;
use crate::process::in_process;
use crate::queue::{Fifo, FifoConfig, Sink, Transform, TransformSink};
use crate::reflector::{Reflector, ReflectorConfig, WatchError};
use crate::scope::Scope;
use crate::shard::AssignedShard;
use crate::source::{JsonSwitch, ShardedSource};
use crate::store::{ChangeBatch, Index, IndexError, Store};
use crate::version::compare_resource_versions;

/// A running informer.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) store: Arc<Store>,
    pub(crate) queue: Fifo,
    pub(crate) listeners: Listeners,
    pub(super) scopes: Scopes,
    /// Switch the sources to JSON when an object has unknown fields that would be lost.
    pub(super) json: Vec<JsonSwitch>,
    pub(super) resource: ApiResource,
    /// In the order they were added.
    indexes: Mutex<Vec<Index>>,
    wait_max: Duration,
    pub(crate) counts: Counts,
    pub(super) stop: CancellationToken,
    pub(super) tasks: TaskTracker,
}

/// Counters of a running informer.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    /// Complete lists applied.
    pub(crate) complete_lists: AtomicU64,
    /// Deltas applied one by one.
    pub(crate) changes: AtomicU64,
    /// Handler calls that panicked.
    pub(crate) panics: AtomicU64,
    /// How long applying and publishing a batch takes.
    #[cfg(feature = "metrics")]
    pub(crate) latency: crate::metrics::Latency,
}

impl Counts {
    fn add(&self, changes: &ChangeBatch, deltas: usize) {
        let count = match changes {
            ChangeBatch::List(_) => &self.complete_lists,
            _ => &self.changes,
        };
        count.fetch_add(deltas as u64, Atomic::Relaxed);
    }
}

/// Keeps the informer running.
pub(crate) struct Owner(pub(crate) Arc<Core>);

/// How scopes are watched.
pub(super) struct Watching<S> {
    pub(super) sink: Arc<S>,
    pub(super) reflector: ReflectorConfig,
    /// Limits how many reflectors fetch their initial list at the same time.
    pub(super) starts: Arc<Semaphore>,
}

/// The parts to start an informer with.
pub(super) struct CoreParts {
    pub(super) sources: Vec<ScopeParts>,
    /// Scopes that come and go.
    pub(super) matching: Option<Matching>,
    pub(super) resource: ApiResource,
    pub(super) store: Arc<Store>,
    pub(super) transform: Option<(Transform, Projection)>,
    pub(super) reflector: ReflectorConfig,
    pub(super) indexes: Vec<Index>,
    pub(super) wait_max: Duration,
    /// Limits how many reflectors fetch their initial list at the same time.
    pub(super) starts: Arc<Semaphore>,
    pub(super) json: Vec<JsonSwitch>,
    pub(super) budget: Option<Arc<Budget>>,
    /// The part of the objects to watch.
    pub(super) shard: Option<AssignedShard>,
}

/// The state of an informer.
#[derive(Clone, Debug, derive_more::Display)]
#[non_exhaustive]
pub enum InformerState {
    /// The initial list is not complete.
    #[display("syncing")]
    Syncing,
    /// The initial list is complete, and changes are followed.
    #[display("live")]
    Live,
    /// The server does not answer correctly, so the store may be stale. The informer keeps trying.
    #[display("degraded: {_0}")]
    Degraded(WatchError),
    /// The informer was stopped.
    #[display("stopped")]
    Stopped,
}

// === impl Core ===

impl Core {
    /// Starts the tasks. Requires a runtime.
    pub(super) fn start(mut parts: CoreParts) -> Arc<Self> {
        let queue = Fifo::new(FifoConfig::default()).charged_to(parts.budget.take());
        let sink = StoreSink::new(queue.clone(), parts.store.clone());
        match parts.transform.take() {
            Some((transform, projection)) => {
                Self::start_with(TransformSink::new(sink, transform, projection), queue, parts)
            }
            None => Self::start_with(sink, queue, parts),
        }
    }

    fn start_with(sink: impl Sink, queue: Fifo, parts: CoreParts) -> Arc<Self> {
        let (sources, matching) = (parts.sources, parts.matching);
        let scopes =
            (0..).map(Scope).take(sources.len()).chain(matching.as_ref().map(|_| LIST_OF_NAMESPACES));
        let core = Arc::new(Self {
            listeners: Listeners::new(parts.store.clone(), scopes),
            store: parts.store,
            queue,
            scopes: Scopes::new(matching.as_ref().map(|matching| matching.selector.clone()), parts.shard),
            json: parts.json,
            resource: parts.resource,
            indexes: Mutex::new(parts.indexes),
            wait_max: parts.wait_max,
            counts: Counts::default(),
            stop: CancellationToken::new(),
            tasks: TaskTracker::new(),
        });
        let fixed = u16::try_from(sources.len()).unwrap_or(u16::MAX);
        let watching = Watching { sink: Arc::new(sink), reflector: parts.reflector, starts: parts.starts };
        for (number, source) in (0..).zip(sources) {
            core.watch(Scope(number), source, &watching);
        }
        let span = tracing::debug_span!("informer", resource = %core.describe());
        if let Some(matching) = matching {
            let follow = Follower::new(core.clone(), watching, matching.parts, fixed);
            let follow = follow.run(matching.namespaces);
            core.spawn_vital("namespaces", follow.instrument(span.clone()));
        }
        core.spawn_vital("apply loop", core.clone().apply_loop().instrument(span));
        core
    }

    /// Starts to watch a scope. The watch ends when the scope is removed.
    pub(super) fn watch<S: Sink>(
        self: &Arc<Self>,
        scope: Scope,
        ScopeParts { namespace, source, selection }: ScopeParts,
        with: &Watching<S>,
    ) -> JoinHandle<()> {
        let resource: Arc<str> = source.describe().into();
        let span = tracing::debug_span!("reflector", %resource);
        let source = match &self.scopes.shard {
            Some(assigned) => {
                Arc::new(ShardedSource::new(source, assigned.clone(), self.scopes.unsplit.clone()))
            }
            None => source,
        };
        let reflector = Reflector::new(source, with.sink.clone(), scope, with.reflector.clone());
        let (status, last_version) = (reflector.status(), reflector.last_version());
        let (stop, starts) = (self.stop.child_token(), with.starts.clone());
        let watched = Watched { scope, namespace, selection, resource, status, last_version, stop };
        let stop = watched.stop.clone();
        self.scopes.add(Arc::new(watched));
        let reflect = async move {
            stop.run_until_cancelled(in_turn(reflector, starts)).await;
        };
        self.spawn_vital("reflector", reflect.instrument(span))
    }

    /// Runs a task that keeps the store up to date. If it panics, the informer stops, so that it does not serve stale data.
    fn spawn_vital(
        self: &Arc<Self>,
        name: &'static str,
        task: impl Future<Output = ()> + Send + 'static,
    ) -> JoinHandle<()> {
        let core = self.clone();
        self.tasks.spawn(in_process(async move {
            if let Err(panic) = AssertUnwindSafe(task).catch_unwind().await {
                let (resource, why) = (core.describe(), panic_text(&*panic));
                tracing::error!(resource, task = name, why, "informer stopped: its task panicked");
                core.stop();
            }
        }))
    }

    /// The apply loop: takes deltas from the queue, applies them to the store, and publishes the changes to the listeners.
    /// It waits only for listeners that [receive every change](super::ListenerConfig::coalesce) and are behind.
    async fn apply_loop(self: Arc<Self>) {
        let mut synced = false;
        loop {
            let due = self.listeners.next_resync();
            let deltas = tokio::select! {
                biased;
                () = self.stop.cancelled() => return,
                () = self.listeners.timers.notified() => continue,
                () = until(due) => {
                    self.listeners.resync(Instant::now());
                    continue;
                }
                deltas = self.queue.take() => deltas,
            };
            let Some(deltas) = deltas else { return };
            #[cfg(feature = "metrics")]
            let began = Instant::now();
            #[cfg(deliberate_bug)]
            let before = deliberate_bug!("notified-before-stored").then(|| self.store.snapshot());
            {
                // No listener may join between applying and publishing: it would miss the changes or receive them twice.
                let publisher = self.listeners.lock();
                let changes = self.store.apply(deltas.deltas());
                self.counts.add(&changes, deltas.deltas().len());
                publisher.publish(changes);
            }
            #[cfg(deliberate_bug)]
            if let Some(before) = before {
                let after = self.store.show(before);
                tokio::task::yield_now().await;
                self.store.show(after);
            }
            deltas.done();
            #[cfg(feature = "metrics")]
            self.counts.latency.observe(began.elapsed());
            if !synced && *self.listeners.synced().borrow() {
                synced = true;
                tracing::info!(resource = %self.describe(), objects = self.store.len(), "synced");
            }
            // Let listeners on the same thread run.
            tokio::task::yield_now().await;
            if self.stop.run_until_cancelled(self.listeners.caught_up()).await.is_none() {
                return;
            }
        }
    }

    /// Stops everything. Handler calls in progress finish.
    pub(super) fn stop(&self) {
        self.stop.cancel();
        self.queue.close();
        self.listeners.close();
        self.tasks.close();
    }

    /// Adds an index; an error if the name is taken.
    pub(super) fn add_index(&self, index: &Index) -> Result<(), IndexError> {
        let mut indexes = self.indexes.lock();
        self.store.add_index(index)?;
        indexes.push(index.clone());
        Ok(())
    }

    /// Adds the missing indexes. Adds none if one of the names exists with another definition.
    pub(super) fn ensure_indexes(&self, wanted: &[Index]) -> Result<(), IndexError> {
        let mut indexes = self.indexes.lock();
        let known = |index: &Index| indexes.iter().find(|known| known.name() == index.name());
        if let Some(other) =
            wanted.iter().find(|index| known(index).is_some_and(|known| !known.reads_as(index)))
        {
            return Err(IndexError::Duplicate(other.name().into()));
        }
        let missing = wanted.iter().filter(|index| known(index).is_none()).cloned().collect::<Vec<_>>();
        for index in missing {
            self.store.add_index(&index)?;
            indexes.push(index);
        }
        Ok(())
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stop.is_cancelled()
    }

    /// Runs a future until the informer is stopped.
    pub(super) async fn unless_stopped<T>(&self, future: impl Future<Output = T>) -> Result<T, Stopped> {
        self.stop.run_until_cancelled(future).await.ok_or(Stopped)
    }

    pub(super) fn describe(&self) -> String {
        let scopes = self.scopes.watched();
        let mut names = scopes.iter().take(3).map(|scope| &*scope.resource).collect::<Vec<_>>().join(", ");
        if let Some(selector) = &self.scopes.matching {
            names = format!("{} in namespaces matching {selector}", self.resource.plural);
        } else if scopes.len() > 3 {
            names += ", …";
        }
        names
    }

    pub(super) async fn synced(&self) -> Result<(), SyncError> {
        let mut synced = self.listeners.synced();
        let done = async {
            // Cannot fail: the sender lives in `self`.
            let _ = synced.wait_for(|synced| *synced).await;
        };
        self.unless_stopped(self.unless_refused(done)).await?
    }

    /// Runs a future until the server refuses the initial list of a scope.
    pub(super) async fn unless_refused<T>(&self, future: impl Future<Output = T>) -> Result<T, SyncError> {
        tokio::select! {
            biased;
            done = future => Ok(done),
            refusal = self.scopes.refusal() => Err(refusal),
        }
    }

    pub(crate) fn status(&self) -> Vec<ScopeStatus> {
        let status = |watched: &Arc<Watched>| {
            let reflector = watched.status.borrow().clone();
            ScopeStatus {
                scope: watched.scope,
                namespace: watched.namespace.clone(),
                resource: watched.resource.clone(),
                state: self.state_of(watched.degraded_by(), reflector.listed),
                resource_version: watched.last_version.get(),
                received_at: watched.last_version.received_at(),
                foreign_objects: watched.last_version.foreign(),
                reflector,
            }
        };
        self.scopes.watched().iter().map(status).collect()
    }

    /// Why the store may lack changes up to a resourceVersion of the server; `None` if it has them all and has published them.
    pub(super) fn behind(&self, revision: &str) -> Option<String> {
        if let Some(behind) = self.scopes.namespaces_behind(revision) {
            return Some(behind);
        }
        // The apply loop holds this lock until it has published the changes that are already in the store.
        let _published = self.listeners.lock();
        let snapshot = self.store.snapshot();
        let version = |watched: &Watched| snapshot.resource_version(watched.scope);
        // A shard without slots has nothing to watch.
        let is_empty = self.scopes.shard.as_ref().is_some_and(|assigned| assigned.get().is_empty());
        let has_reached = |watched: &Watched| {
            let order = compare_resource_versions(version(watched), revision);
            order.is_some_and(Ordering::is_ge) || (is_empty && !version(watched).is_empty())
        };
        let watched = self.scopes.watched();
        if let Some(behind) = watched.iter().find_map(|watched| self.scopes.shard_behind(watched)) {
            return Some(behind);
        }
        let behind = watched.iter().find(|watched| !has_reached(watched))?;
        Some(match (behind.degraded_by(), version(behind)) {
            (Some(error), _) => format!("{}: {error}", behind.resource),
            (None, "") => format!("{} is not listed yet", behind.resource),
            (None, version) => format!("{} is at {version}", behind.resource),
        })
    }

    pub(super) fn state(&self) -> InformerState {
        let error = self.scopes.errors().into_iter().next();
        self.state_of(error, *self.listeners.synced().borrow())
    }

    /// How many watches are down.
    #[cfg(feature = "metrics")]
    pub(crate) fn degraded_watches(&self) -> usize {
        self.scopes.errors().len()
    }

    fn state_of(&self, error: Option<WatchError>, synced: bool) -> InformerState {
        match error {
            _ if self.is_stopped() => InformerState::Stopped,
            Some(error) => InformerState::Degraded(error),
            None if synced => InformerState::Live,
            None => InformerState::Syncing,
        }
    }

    /// Whether the scope selects an object with this key and these labels.
    pub(super) fn check_labels<'a>(
        &self,
        key: &Key,
        labels: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<(), WaitError> {
        let watched = self.scopes.of(key)?;
        let selection = &watched.selection;
        if selection.labels.matches(labels) {
            return Ok(());
        }
        let why = format!("the label selector `{}` excludes it", selection.label_text);
        Err(WaitError::Never { key: key.clone(), why })
    }

    /// Whether a write is in the store; `false` for a key out of scope.
    pub(super) fn has_seen(&self, key: &Key, version: &str) -> bool {
        self.scopes.of(key).is_ok_and(|watched| self.store.has_seen(watched.scope, key, version))
    }

    pub(super) async fn wait_for(&self, key: &Key, version: &str) -> Result<Option<StoredObject>, WaitError> {
        self.limited(key, |scope| self.store.wait_for(scope, key, version)).await?.map_err(Into::into)
    }

    pub(super) async fn wait_gone(&self, key: &Key, uid: &str) -> Result<(), WaitError> {
        self.limited(key, |scope| self.store.wait_gone(scope, key, uid)).await
    }

    /// Waits until the object that had `version` is deleted.
    pub(super) async fn wait_deleted(&self, key: &Key, uid: &str, version: &str) -> Result<(), WaitError> {
        let deleted = async |scope| {
            // Before the creation has been received, a missing object does not mean that it was deleted.
            self.store.wait_for(scope, key, version).await?;
            self.store.wait_gone(scope, key, uid).await;
            Ok(())
        };
        self.limited(key, deleted).await?
    }

    /// Runs a future until the time limit passes or the key is no longer watched.
    async fn limited<T>(&self, key: &Key, wait: impl AsyncFnOnce(Scope) -> T) -> Result<T, WaitError> {
        let limited =
            async |scope| tokio::time::timeout(self.wait_max, self.once_listed(key, wait(scope))).await;
        let too_late = |_| WaitError::TimedOut { key: key.clone(), limit: self.wait_max };
        self.while_watched(key, limited).await?.map_err(too_late)
    }

    /// Runs a future until the key's scope is removed or the informer is stopped.
    pub(super) async fn while_watched<T>(
        &self,
        key: &Key,
        future: impl AsyncFnOnce(Scope) -> T,
    ) -> Result<T, WaitError> {
        let watched = self.scopes.of(key)?;
        match watched.stop.run_until_cancelled(future(watched.scope)).await {
            Some(done) => Ok(done),
            None if self.is_stopped() => Err(Stopped.into()),
            None => Err(self.scopes.unwatched(key)),
        }
    }
}

/// Runs a reflector once it has a permit to fetch the initial list. The permit is released when the list is complete, or
/// when the attempt failed.
async fn in_turn(reflector: Reflector<impl Sink>, starts: Arc<Semaphore>) {
    // The semaphore is never closed.
    let Ok(turn) = starts.acquire_owned().await else { return };
    let mut status = reflector.status();
    let answered = async {
        let _ = status.wait_for(|status| status.listed || status.failure.is_some()).await;
        drop(turn);
        pending::<()>().await;
    };
    tokio::select! {
        biased;
        () = reflector.run() => {}
        () = answered => {}
    }
}

impl std::fmt::Debug for Owner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Owner")
            .field("resource", &self.0.describe())
            .field("state", &self.0.state())
            .field("objects", &self.0.store.len())
            .finish_non_exhaustive()
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.0.stop();
    }
}

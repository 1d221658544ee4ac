//! The running informer, without its type: reflectors, queue, store, listeners, and the tasks that move things along.
//!
//! Tasks hold the [`Core`]; users hold the [`Owner`]. So when the last handle of a user goes, everything stops.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures::FutureExt;
use futures::future::{pending, select_all};
use kube_wire::Projection;
use parking_lot::Mutex;
use tokio::sync::{Semaphore, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::Instrument;

use super::listeners::Listeners;
use super::sink::StoreSink;
use super::{Stopped, SyncError, WaitError};
use crate::deadline::until;
use crate::panic::panic_text;
use crate::queue::{Fifo, FifoConfig, Sink, Transform, TransformSink};
use crate::reflector::{
    LastVersion, Reflector, ReflectorConfig, ReflectorError, ReflectorState, ReflectorStatus,
};
use crate::scope::Scope;
use crate::source::{JsonSwitch, ListerWatcher, Resource};
use crate::store::{ChangeBatch, Index, IndexError, Store, StoredObject};
use crate::{FieldSelector, Key, LabelSelector};

/// What a running informer consists of.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) store: Arc<Store>,
    pub(crate) queue: Fifo,
    pub(crate) listeners: Listeners,
    scopes: Vec<Watched>,
    /// Turned when an object has fields that are not known, and would be lost.
    pub(super) json: Vec<JsonSwitch>,
    pub(super) resource: Resource,
    /// As they were added.
    indexes: Mutex<Vec<Index>>,
    wait_max: Duration,
    pub(crate) counts: Counts,
    stop: CancellationToken,
    pub(super) tasks: TaskTracker,
}

/// What is counted while an informer runs.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    /// Complete lists that were applied.
    pub(crate) full_states: AtomicU64,
    /// Deltas that were applied one by one.
    pub(crate) changes: AtomicU64,
    /// Calls of handlers that panicked.
    pub(crate) panics: AtomicU64,
    /// How long applying a batch takes, publishing included.
    #[cfg(feature = "metrics")]
    pub(crate) latency: crate::metrics::Latency,
}

impl Counts {
    fn add(&self, changes: &ChangeBatch, deltas: usize) {
        let count = match changes {
            ChangeBatch::List(_) => &self.full_states,
            _ => &self.changes,
        };
        count.fetch_add(deltas as u64, Ordering::Relaxed);
    }
}

/// Keeps the informer running.
#[derive(Debug)]
pub(crate) struct Owner(pub(crate) Arc<Core>);

/// What an informer selects, as far as an object's metadata shows.
#[derive(Clone, Debug, Default)]
pub(super) struct Selection {
    pub(super) labels: LabelSelector,
    pub(super) label_text: String,
    pub(super) fields: FieldSelector,
}

/// What an informer is started with.
pub(super) struct CoreParts {
    pub(super) sources: Vec<ScopeParts>,
    pub(super) resource: Resource,
    pub(super) store: Arc<Store>,
    pub(super) transform: Option<(Transform, Projection)>,
    pub(super) reflector: ReflectorConfig,
    pub(super) indexes: Vec<Index>,
    pub(super) wait_max: Duration,
    /// How many reflectors may fetch their first full state at the same time.
    pub(super) starts: Arc<Semaphore>,
    pub(super) json: Vec<JsonSwitch>,
}

/// What one scope is started with.
pub(super) struct ScopeParts {
    /// `None`: all.
    pub(super) namespace: Option<String>,
    pub(super) source: Arc<dyn ListerWatcher>,
    pub(super) selection: Selection,
}

#[derive(Debug)]
struct Watched {
    /// `None`: all.
    namespace: Option<String>,
    selection: Selection,
    resource: Arc<str>,
    status: watch::Receiver<ReflectorStatus>,
    last_version: LastVersion,
}

/// How one scope of an informer (all namespaces, or one of several) is doing.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ScopeStatus {
    /// Which: its number in the store.
    pub scope: Scope,
    /// The namespace; none if it is all of them.
    pub namespace: Option<String>,
    /// What is watched, in words.
    pub resource: Arc<str>,
    /// What its reflector is doing.
    pub reflector: ReflectorStatus,
    /// Up to which resourceVersion everything was received. (What is in the store: see a snapshot.)
    pub resource_version: String,
    /// When something was received last: a full state, an event or a bookmark.
    pub received_at: Option<Instant>,
}

/// How an informer is doing.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum InformerState {
    /// The initial list is not complete.
    Syncing,
    /// The initial list is in, and changes are followed.
    Live,
    /// Its server does not answer as it should: what it shows, if anything, may be stale. It goes on trying.
    Degraded(Arc<ReflectorError>),
    /// It was stopped.
    Stopped,
}

impl std::fmt::Display for InformerState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Syncing => f.write_str("syncing"),
            Self::Live => f.write_str("live"),
            Self::Degraded(error) => write!(f, "degraded: {error}"),
            Self::Stopped => f.write_str("stopped"),
        }
    }
}

// === impl Core ===

impl Core {
    /// Starts the tasks. There must be a runtime.
    pub(super) fn start(mut parts: CoreParts) -> Arc<Self> {
        let queue = Fifo::new(FifoConfig::default());
        let sink = StoreSink::new(queue.clone(), parts.store.clone());
        match parts.transform.take() {
            Some((transform, projection)) => {
                Self::start_with(TransformSink::new(sink, transform, projection), queue, parts)
            }
            None => Self::start_with(sink, queue, parts),
        }
    }

    fn start_with(sink: impl Sink, queue: Fifo, parts: CoreParts) -> Arc<Self> {
        let (mut scopes, mut reflectors, sink) = (Vec::new(), Vec::new(), Arc::new(sink));
        for (number, ScopeParts { namespace, source, selection }) in (0..).zip(parts.sources) {
            let resource = source.describe().into();
            let reflector = Reflector::new(source, sink.clone(), Scope(number), parts.reflector.clone());
            let (status, last_version) = (reflector.status(), reflector.last_version());
            scopes.push(Watched { namespace, selection, resource, status, last_version });
            reflectors.push(reflector);
        }
        let core = Arc::new(Self {
            listeners: Listeners::new(parts.store.clone(), (0..).map(Scope).take(scopes.len())),
            store: parts.store,
            queue,
            scopes,
            json: parts.json,
            resource: parts.resource,
            indexes: Mutex::new(parts.indexes),
            wait_max: parts.wait_max,
            counts: Counts::default(),
            stop: CancellationToken::new(),
            tasks: TaskTracker::new(),
        });
        for (reflector, scope) in reflectors.into_iter().zip(&core.scopes) {
            let (stop, starts) = (core.stop.clone(), parts.starts.clone());
            let span = tracing::debug_span!("reflector", resource = %scope.resource);
            let reflect = async move {
                stop.run_until_cancelled(in_turn(reflector, starts)).await;
            };
            core.spawn_vital("reflector", reflect.instrument(span));
        }
        let span = tracing::debug_span!("informer", resource = %core.describe());
        core.spawn_vital("apply loop", core.clone().apply_loop().instrument(span));
        core
    }

    /// Runs a task without which the store is no longer kept up to date. Should it panic, the informer is stopped: it must
    /// not look alive.
    fn spawn_vital(self: &Arc<Self>, name: &'static str, task: impl Future<Output = ()> + Send + 'static) {
        let core = self.clone();
        self.tasks.spawn(async move {
            if let Err(panic) = AssertUnwindSafe(task).catch_unwind().await {
                let (resource, why) = (core.describe(), panic_text(&*panic));
                tracing::error!(resource, task = name, why, "informer stopped: its task panicked");
                core.stop();
            }
        });
    }

    /// The apply loop: takes deltas from the queue, applies them to the store, and publishes the changes to the listeners.
    /// It never waits for a listener, unless one [receives every change](super::ListenerConfig::coalesce) and is behind.
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
            {
                // Until the changes are published no listener joins: it would miss them, or receive them twice.
                let publisher = self.listeners.lock();
                let changes = self.store.apply(deltas.deltas());
                self.counts.add(&changes, deltas.deltas().len());
                publisher.publish(changes);
            }
            deltas.done();
            #[cfg(feature = "metrics")]
            self.counts.latency.observe(began.elapsed());
            if !synced && *self.listeners.synced().borrow() {
                synced = true;
                tracing::info!(resource = %self.describe(), objects = self.store.len(), "synced");
            }
            // Listeners on the same thread get their turn.
            tokio::task::yield_now().await;
            if self.stop.run_until_cancelled(self.listeners.caught_up()).await.is_none() {
                return;
            }
        }
    }

    /// Stops everything. Calls of handlers that are under way are finished.
    pub(super) fn stop(&self) {
        self.stop.cancel();
        self.queue.close();
        self.listeners.close();
        self.tasks.close();
    }

    /// Adds an index that there is not.
    pub(super) fn add_index(&self, index: &Index) -> Result<(), IndexError> {
        let mut indexes = self.indexes.lock();
        self.store.add_index(index)?;
        indexes.push(index.clone());
        Ok(())
    }

    /// Adds those of the indexes that there are not; adds none if one of them is there and reads something else.
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

    /// Runs a future unless the informer is stopped before.
    pub(super) async fn unless_stopped<T>(&self, future: impl Future<Output = T>) -> Result<T, Stopped> {
        self.stop.run_until_cancelled(future).await.ok_or(Stopped)
    }

    pub(super) fn describe(&self) -> String {
        let mut names = self.scopes.iter().map(|scope| &*scope.resource).collect::<Vec<_>>();
        names.truncate(3);
        let more = if self.scopes.len() > 3 { ", …" } else { "" };
        names.join(", ") + more
    }

    pub(super) async fn synced(&self) -> Result<(), SyncError> {
        let mut synced = self.listeners.synced();
        let done = async {
            // The sender lives in `self`.
            let _ = synced.wait_for(|synced| *synced).await;
        };
        self.unless_stopped(self.unless_refused(done)).await?
    }

    /// Runs a future unless the server refuses the first full state of a scope.
    pub(super) async fn unless_refused<T>(&self, future: impl Future<Output = T>) -> Result<T, SyncError> {
        let refusals = self.scopes.iter().map(|scope| scope.refusal().boxed());
        tokio::select! {
            biased;
            done = future => Ok(done),
            (refusal, ..) = select_all(refusals) => Err(refusal),
        }
    }

    pub(crate) fn status(&self) -> Vec<ScopeStatus> {
        let status = |(number, scope): (u16, &Watched)| ScopeStatus {
            scope: Scope(number),
            namespace: scope.namespace.clone(),
            resource: scope.resource.clone(),
            reflector: scope.status.borrow().clone(),
            resource_version: scope.last_version.get(),
            received_at: scope.last_version.received_at(),
        };
        (0..).zip(&self.scopes).map(status).collect()
    }

    pub(super) fn state(&self) -> InformerState {
        if self.is_stopped() {
            return InformerState::Stopped;
        }
        let error = self.scopes.iter().find_map(|scope| match &scope.status.borrow().state {
            ReflectorState::BackingOff { error, .. } | ReflectorState::Degraded { error } => {
                Some(error.clone())
            }
            _ => None,
        });
        match error {
            Some(error) => InformerState::Degraded(error),
            None if *self.listeners.synced().borrow() => InformerState::Live,
            None => InformerState::Syncing,
        }
    }

    /// The scope that an object of this name is seen in.
    pub(super) fn scope_of(&self, key: &Key) -> Result<Scope, WaitError> {
        self.watched(key).map(|(scope, _)| scope)
    }

    fn watched(&self, key: &Key) -> Result<(Scope, &Watched), WaitError> {
        let sees = |scope: &Watched| scope.namespace.as_deref().is_none_or(|name| name == key.namespace());
        let found = (0..).map(Scope).zip(&self.scopes).find(|(_, scope)| sees(scope));
        let why = match found {
            Some((_, scope)) if !scope.selection.fields.may_select(key.namespace(), key.name()) => {
                format!("the field selector `{}` excludes it", scope.selection.fields)
            }
            Some(found) => return Ok(found),
            None => format!("namespace `{}` is not watched", key.namespace()),
        };
        Err(WaitError::NotInScope { key: key.clone(), why })
    }

    /// Whether an object of this name with these labels is selected.
    pub(super) fn check_labels<'a>(
        &self,
        key: &Key,
        labels: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<(), WaitError> {
        let selection = &self.watched(key)?.1.selection;
        if selection.labels.matches(labels) {
            return Ok(());
        }
        let why = format!("the label selector `{}` excludes it", selection.label_text);
        Err(WaitError::NotInScope { key: key.clone(), why })
    }

    /// Whether a write is in the store, which a key outside the scope never is.
    pub(super) fn has_seen(&self, key: &Key, version: &str) -> bool {
        self.scope_of(key).is_ok_and(|scope| self.store.has_seen(scope, key, version))
    }

    pub(super) async fn wait_for(&self, key: &Key, version: &str) -> Result<Option<StoredObject>, WaitError> {
        let scope = self.scope_of(key)?;
        self.limited(key, self.store.wait_for(scope, key, version)).await?.map_err(Into::into)
    }

    pub(super) async fn wait_gone(&self, key: &Key, uid: &str) -> Result<(), WaitError> {
        let scope = self.scope_of(key)?;
        self.limited(key, self.store.wait_gone(scope, key, uid)).await
    }

    /// Waits until an object that was in `version` is gone.
    pub(super) async fn wait_deleted(&self, key: &Key, uid: &str, version: &str) -> Result<(), WaitError> {
        let scope = self.scope_of(key)?;
        let deleted = async {
            // Until its creation has been seen, absence means nothing.
            self.store.wait_for(scope, key, version).await?;
            self.store.wait_gone(scope, key, uid).await;
            Ok(())
        };
        self.limited(key, deleted).await?
    }

    /// Runs a future unless it takes too long or the informer is stopped.
    async fn limited<T>(&self, key: &Key, future: impl Future<Output = T>) -> Result<T, WaitError> {
        let limited = tokio::time::timeout(self.wait_max, future);
        let too_late = |_| WaitError::TimedOut { key: key.clone(), limit: self.wait_max };
        self.unless_stopped(limited).await?.map_err(too_late)
    }
}

/// Reflects, after waiting for a turn to fetch the first full state. The turn ends when it is there, or when it is tried
/// again later.
async fn in_turn(reflector: Reflector<impl Sink>, starts: Arc<Semaphore>) {
    // It is never closed.
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

impl Watched {
    /// Waits for the server to refuse what was never had.
    async fn refusal(&self) -> SyncError {
        let mut status = self.status.clone();
        let refused = status.wait_for(|status| !status.listed && refusal_in(status).is_some()).await;
        let refused = refused.ok().as_deref().and_then(refusal_in);
        match refused {
            Some(status) => SyncError::Refused { resource: self.resource.clone(), status },
            // The reflector has ended, and so has the informer.
            None => pending().await,
        }
    }
}

fn refusal_in(status: &ReflectorStatus) -> Option<kube_wire::Status> {
    let failure = status.failure.as_ref()?;
    let refusal = failure.status()?;
    let refused = match &**failure {
        ReflectorError::List(_) => refusal.is_list_refusal(),
        _ => refusal.is_refusal(),
    };
    refused.then(|| refusal.clone())
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.0.stop();
    }
}

//! The scopes of a running informer: the namespace, source and status of each.
//!
//! Most informers have fixed scopes. Informers over namespaces chosen by label add and remove scopes while they run
//! (`namespaces.rs`), so callers that wait also observe changes of the list of scopes.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use futures::FutureExt;
use futures::future::{pending, select_all};
use kube_wire::{FieldSelector, LabelSelector};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::backlog::Backlog;
use super::core::Core;
use super::{InformerState, SyncError, WaitError};
use crate::Key;
use crate::queue::SinkError;
use crate::reflector::{LastVersion, ReflectorError, ReflectorState, ReflectorStatus, WatchError};
use crate::scope::Scope;
use crate::shard::AssignedShard;
use crate::source::ListerWatcher;

/// The scopes, as they change.
#[derive(Debug, Default)]
pub(super) struct Scopes {
    list: watch::Sender<ScopeList>,
    /// The label selector of the watched namespaces, if they can change.
    pub(super) matching: Option<String>,
    /// The watched part of the objects; `None` for all of them.
    pub(super) shard: Option<AssignedShard>,
    /// Whether a server was found to ignore the request for that part.
    pub(super) unsplit: Arc<AtomicBool>,
    /// The progress of the follower of these namespaces.
    followed: OnceLock<Arc<Followed>>,
}

/// The informer of the namespaces that match, and the progress of its follower.
#[derive(Debug)]
pub(super) struct Followed {
    namespaces: Arc<Core>,
    /// The events that the follower has yet to process.
    events: Arc<Backlog>,
    /// Whether the follower waits for an event.
    idle: AtomicBool,
}

#[derive(Clone, Debug, Default)]
struct ScopeList {
    watched: Vec<Arc<Watched>>,
    /// The watch of the namespaces themselves.
    namespaces: Option<Arc<Watched>>,
}

/// One scope.
#[derive(Debug)]
pub(super) struct Watched {
    pub(super) scope: Scope,
    /// `None` for all namespaces.
    pub(super) namespace: Option<String>,
    pub(super) selection: Selection,
    pub(super) resource: Arc<str>,
    pub(super) status: watch::Receiver<ReflectorStatus>,
    pub(super) last_version: LastVersion,
    /// Cancelled when the scope is removed, or the informer stopped.
    pub(super) stop: CancellationToken,
}

/// The parts to start one scope with.
pub(super) struct ScopeParts {
    /// `None` for all namespaces.
    pub(super) namespace: Option<String>,
    pub(super) source: Arc<dyn ListerWatcher>,
    pub(super) selection: Selection,
}

/// The informer's selectors, as far as an object's metadata can be checked against them.
#[derive(Clone, Debug, Default)]
pub(super) struct Selection {
    pub(super) labels: LabelSelector,
    pub(super) label_text: String,
    pub(super) fields: FieldSelector,
}

/// The status of one scope of an informer: all namespaces, or one of several.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ScopeStatus {
    /// Its number in the store.
    #[cfg(feature = "building-blocks")]
    pub scope: Scope,
    #[cfg(not(feature = "building-blocks"))]
    pub(crate) scope: Scope,
    /// The namespace; `None` for all of them.
    pub namespace: Option<String>,
    /// A description of what is watched.
    pub resource: Arc<str>,
    /// The status of its reflector.
    pub state: InformerState,
    /// The resourceVersion up to which everything was received. (For the store's, see a snapshot.)
    pub resource_version: String,
    /// When the last list, event or bookmark was received.
    pub received_at: Option<Instant>,
    /// How many objects and events of other shards were received and dropped. It grows if the server does not support
    /// `shardSelector`, if the shard is by owner, label or field, or if it has more than 32 ranges of adjacent slots: a request names
    /// at most 32, which then cover some slots of other shards.
    #[cfg(feature = "shards")]
    pub foreign_objects: u64,
    #[cfg(not(feature = "shards"))]
    pub(crate) foreign_objects: u64,
    pub(crate) reflector: ReflectorStatus,
}

#[cfg(feature = "building-blocks")]
impl ScopeStatus {
    /// What its reflector is doing.
    pub fn reflector(&self) -> &ReflectorStatus {
        &self.reflector
    }
}

// === impl Scopes ===

impl Scopes {
    pub(super) fn new(matching: Option<String>, shard: Option<AssignedShard>) -> Self {
        Self { matching, shard, ..Self::default() }
    }

    pub(super) fn add(&self, watched: Arc<Watched>) {
        self.list.send_modify(|list| list.watched.push(watched));
    }

    /// Stops watching a scope. Callers that wait for its objects get an error.
    pub(super) fn remove(&self, scope: Scope) {
        let stopped = |watched: &Arc<Watched>| {
            let is_it = watched.scope == scope;
            if is_it {
                watched.stop.cancel();
            }
            is_it
        };
        self.list.send_modify(|list| list.watched.retain(|watched| !stopped(watched)));
    }

    /// Adds the watch of the namespaces to the informer's watches. `events` is the backlog that the follower reads.
    pub(super) fn follow(&self, namespaces: &Arc<Core>, events: Arc<Backlog>) -> Arc<Followed> {
        let first = namespaces.scopes.watched().into_iter().next();
        self.list.send_modify(|list| list.namespaces = first);
        let new = || Followed { namespaces: namespaces.clone(), events, idle: AtomicBool::new(false) };
        self.followed.get_or_init(|| Arc::new(new())).clone()
    }

    /// Why the list of watched namespaces may lack changes up to a resourceVersion of the server; `None` if it has them all.
    pub(super) fn namespaces_behind(&self, revision: &str) -> Option<String> {
        self.matching.as_ref()?;
        let Some(followed) = self.followed.get() else {
            return Some("namespaces are not watched yet".into());
        };
        let behind = followed.namespaces.behind(revision);
        behind.or_else(|| (!followed.is_idle()).then(|| "changes of namespaces are pending".into()))
    }

    /// The scopes of objects.
    pub(super) fn watched(&self) -> Vec<Arc<Watched>> {
        self.list.borrow().watched.clone()
    }

    /// The error of a watch that is down: of the namespaces, or of a scope.
    pub(super) fn errors(&self) -> Vec<WatchError> {
        self.list.borrow().all().filter_map(|watched| watched.degraded_by()).collect()
    }

    pub(super) fn has_namespace(&self, namespace: &str) -> bool {
        self.list.borrow().watched.iter().any(|watched| watched.namespace.as_deref() == Some(namespace))
    }

    /// The scope that contains this key, unless a selector excludes it.
    pub(super) fn of(&self, key: &Key) -> Result<Arc<Watched>, WaitError> {
        let list = self.list.borrow();
        let sees = |scope: &&Arc<Watched>| {
            scope.namespace.as_deref().is_none_or(|namespace| namespace == key.namespace())
        };
        let why = match list.watched.iter().find(sees) {
            Some(scope) if !scope.selection.fields.may_select(key.namespace(), key.name()) => {
                format!("the field selector `{}` excludes it", scope.selection.fields)
            }
            Some(found) => return Ok(found.clone()),
            None => return Err(self.unwatched(key)),
        };
        Err(WaitError::Never { key: key.clone(), why })
    }

    /// The error of waiting for a key whose namespace is not watched.
    pub(super) fn unwatched(&self, key: &Key) -> WaitError {
        let namespace = key.namespace();
        let why = match &self.matching {
            Some(selector) => {
                format!("namespace `{namespace}` is not watched: it does not match `{selector}`")
            }
            None => format!("namespace `{namespace}` is not watched"),
        };
        WaitError::Never { key: key.clone(), why }
    }

    /// Waits until the server refuses the initial list of a scope, or of the namespaces.
    pub(super) async fn refusal(&self) -> SyncError {
        let mut changes = self.list.subscribe();
        loop {
            let list = changes.borrow_and_update().clone();
            let refusals = list.all().map(|scope| scope.refusal().boxed()).chain([pending().boxed()]);
            tokio::select! {
                biased;
                (refusal, ..) = select_all(refusals) => return refusal,
                // Cannot fail: the sender lives in `self`.
                _ = changes.changed() => {}
            }
        }
    }
}

// === impl Followed ===

impl Followed {
    /// Sets whether the follower waits for an event. `false` before it takes one.
    pub(super) fn set_idle(&self, idle: bool) {
        self.idle.store(idle, Ordering::Release);
    }

    /// Whether every event that was published is processed.
    fn is_idle(&self) -> bool {
        // The order matters: the follower sets `idle` to false before it takes an event, and to true after it has processed it.
        self.events.lag() == 0 && self.idle.load(Ordering::Acquire)
    }
}

impl ScopeList {
    fn all(&self) -> impl Iterator<Item = &Arc<Watched>> {
        self.namespaces.iter().chain(&self.watched)
    }
}

// === impl Watched ===

impl Watched {
    /// Waits until an initial list is refused, by the server or for lack of memory.
    async fn refusal(&self) -> SyncError {
        let mut status = self.status.clone();
        let refusal = |status: &ReflectorStatus| self.refusal_in(status).filter(|_| !status.listed);
        let refused = status.wait_for(|status| refusal(status).is_some()).await;
        let refused = refused.ok().as_deref().and_then(refusal);
        match refused {
            Some(refusal) => refusal,
            // The reflector has ended, and so has the informer or the scope.
            None => pending().await,
        }
    }

    fn refusal_in(&self, status: &ReflectorStatus) -> Option<SyncError> {
        let failure = status.failure.as_ref()?;
        if let ReflectorError::Sink(SinkError::OverBudget(over)) = &**failure {
            return Some(SyncError::OverBudget(format!("cannot sync {}: {over}", self.resource)));
        }
        let status = failure.status()?.clone();
        let refused = match &**failure {
            ReflectorError::List(_) => status.is_list_refusal(),
            _ => status.is_refusal(),
        };
        refused.then(|| SyncError::Refused { resource: self.resource.clone(), status })
    }

    /// The error that its reflector has yet to recover from.
    pub(super) fn degraded_by(&self) -> Option<WatchError> {
        let status = self.status.borrow();
        let error = match &status.state {
            ReflectorState::BackingOff { error, .. } | ReflectorState::Degraded { error } => Some(error),
            // The reflector is retrying. The attempt may take long, so the last error still counts.
            ReflectorState::Listing | ReflectorState::Streaming | ReflectorState::Opening
                if status.listed =>
            {
                status.failure.as_ref()
            }
            _ => None,
        };
        error.cloned().map(WatchError::new)
    }
}

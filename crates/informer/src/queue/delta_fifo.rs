//! The queue that client-go's DeltaFIFO is: deltas gathered per key.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use kube_wire::RawObject;
use parking_lot::Mutex;

use super::deltas::{DeltaKind, KeyDelta, State};
use super::topic::Topic;
use super::{Committed, Newest, Replace, Scope, Sink, SinkError};
use crate::Key;
use crate::store::{Store, StoredObject};
use crate::version::is_older;
use crate::waiters::Waiters;

/// Deltas gathered per key: a key is popped with all that was learned of it since it was popped last. Keys come in the
/// order in which they were first queued; the order *between* keys is not kept, which is why informers use
/// [`Fifo`](super::Fifo).
///
/// - It is bounded: a writer waits while the queue is full. Only a full state and a resync may exceed the bound, because
///   they are queued as a whole.
/// - Two deletions in a row become one. The deletion of what is neither queued nor known is dropped.
/// - Bookmarks are not kept: without an order between keys nobody could say when one is reached.
/// - A scope is synced when everything in its first full state has been popped *and processed*; at once, if that was
///   empty or if something was queued before it.
///
/// One key is out at a time: the next one is given when it is [done](Popped::done). One that is dropped before (its
/// processor panicked, or was cancelled) goes back to the front of the queue, before what was learned of it meanwhile.
///
/// Cloning gives another handle to the same queue.
#[derive(Clone, Debug)]
pub struct DeltaFifo {
    shared: Arc<Shared>,
}

/// What a [`DeltaFifo`] knows, and how much it holds.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct DeltaFifoConfig {
    /// The objects that its reader has: without them nobody can tell what has vanished, or deliver it again.
    pub known_objects: Option<Arc<Store>>,
    /// How many deltas wait at most.
    pub deltas_max: usize,
}

/// A key and what was learned of it. Say [`done`](Self::done) when it is processed.
#[derive(Debug)]
pub struct Popped {
    key: Key,
    deltas: Vec<KeyDelta>,
    initial: bool,
    shared: Arc<Shared>,
}

/// A full state on its way into a [`DeltaFifo`].
#[derive(Debug)]
pub struct DeltaReplace {
    shared: Arc<Shared>,
    scope: Scope,
    /// In the order of the list; `None`: put again later, or removed.
    objects: Vec<Option<StoredObject>>,
    places: HashMap<Key, usize>,
    /// Of what is there and could not be put.
    kept: HashSet<Key>,
}

#[derive(Debug)]
struct Shared {
    config: DeltaFifoConfig,
    state: Mutex<State>,
    waiters: Waiters<Topic>,
}

// === impl DeltaFifo ===

impl DeltaFifo {
    /// A queue.
    pub fn new(config: DeltaFifoConfig) -> Self {
        let (state, waiters) = Default::default();
        Self { shared: Arc::new(Shared { config, state, waiters }) }
    }

    /// Waits for the next key; `None` when the queue is closed and empty.
    ///
    /// # Cancel safety
    /// Dropping the future leaves everything in the queue. A future that was polled has to be polled on or dropped: it may be
    /// the one that was woken.
    pub async fn pop(&self) -> Option<Popped> {
        let (key, deltas, initial) = self.shared.when(Topic::Ready, State::pop).await?;
        self.shared.waiters.wake_one(&Topic::Space);
        Some(Popped { key, deltas, initial, shared: self.shared.clone() })
    }

    /// Whether everything in the first full state of a scope has been processed.
    pub fn is_synced(&self, scope: Scope) -> bool {
        self.shared.state.lock().is_synced(scope)
    }

    /// Waits until everything in the first full state of a scope has been processed.
    ///
    /// # Errors
    /// If the queue is closed before.
    ///
    /// # Cancel safety
    /// May be dropped at any point.
    pub async fn synced(&self, scope: Scope) -> Result<(), SinkError> {
        let check = |state: &mut State| match state.is_synced(scope) {
            true => Some(Ok(())),
            false => (state.closed && state.order.is_empty() && state.processing.is_none())
                .then_some(Err(SinkError::Closed)),
        };
        self.shared.when(Topic::Processed(scope), check).await
    }

    /// How many keys wait.
    pub fn len(&self) -> usize {
        self.shared.state.lock().order.len()
    }

    /// Whether no key waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Takes nothing more. What waits can still be popped.
    pub fn close(&self) {
        self.shared.state.lock().closed = true;
        self.shared.waiters.wake_all();
    }

    async fn push(&self, kind: DeltaKind, scope: Scope, object: RawObject) -> Result<(), SinkError> {
        let object = StoredObject::new(scope, object)?;
        let shared = &self.shared;
        let push = |state: &mut State| {
            if state.closed {
                return Some(Err(SinkError::Closed));
            }
            if state.len >= shared.config.deltas_max {
                return None;
            }
            let of_scope = state.scopes.entry(scope).or_default();
            let is_first = !std::mem::replace(&mut of_scope.populated, true);
            of_scope.advance(object.resource_version());
            let deletes = matches!(kind, DeltaKind::Deleted { .. });
            if !deletes || shared.is_known(state, &object) {
                state.push(KeyDelta { kind, object: object.clone() });
            }
            Some(Ok(is_first))
        };
        let is_first = shared.when(Topic::Space, push).await?;
        shared.waiters.wake_one(&Topic::Ready);
        if is_first {
            // The scope counts as synced.
            shared.wake_processed(scope);
        }
        Ok(())
    }
}

impl Sink for DeltaFifo {
    type Replace = DeltaReplace;

    async fn add(&self, scope: Scope, object: RawObject) -> Result<(), SinkError> {
        self.push(DeltaKind::Added, scope, object).await
    }

    async fn update(&self, scope: Scope, object: RawObject) -> Result<(), SinkError> {
        self.push(DeltaKind::Updated, scope, object).await
    }

    async fn delete(&self, scope: Scope, object: RawObject) -> Result<(), SinkError> {
        self.push(DeltaKind::Deleted { final_state_known: true }, scope, object).await
    }

    /// Not queued: see [`DeltaFifo`].
    async fn bookmark(&self, scope: Scope, resource_version: &str) -> Result<(), SinkError> {
        let mut state = self.shared.state.lock();
        if state.closed {
            return Err(SinkError::Closed);
        }
        state.scopes.entry(scope).or_default().advance(resource_version);
        Ok(())
    }

    async fn resync(&self, scope: Scope) -> Result<(), SinkError> {
        let mut state = self.shared.state.lock();
        if state.closed {
            return Err(SinkError::Closed);
        }
        // Looked up under the lock, or it might meanwhile have been popped and deleted.
        for object in self.shared.known_of(scope) {
            let key = object.key();
            // What is queued will be delivered anyway, and may be newer.
            if !state.deltas.contains_key(&key) && !state.is_processing(&key) {
                state.push(KeyDelta { kind: DeltaKind::Sync, object });
            }
        }
        drop(state);
        self.shared.waiters.wake_one(&Topic::Ready);
        Ok(())
    }

    async fn begin_replace(&self, scope: Scope) -> Result<DeltaReplace, SinkError> {
        if self.shared.state.lock().closed {
            return Err(SinkError::Closed);
        }
        let (objects, places, kept) = Default::default();
        Ok(DeltaReplace { shared: self.shared.clone(), scope, objects, places, kept })
    }

    async fn newest(&self, scope: Scope) -> Result<Newest, SinkError> {
        let Some(known) = &self.shared.config.known_objects else { return Ok(Newest::Unknown) };
        let processed = |state: &mut State| match state.closed {
            true => Some(Err(SinkError::Closed)),
            false => (state.order.is_empty() && state.processing.is_none()).then_some(Ok(())),
        };
        self.shared.when(Topic::Idle, processed).await?;
        let snapshot = known.snapshot();
        Ok(Newest::of(snapshot.scope(scope)).await)
    }
}

impl Replace for DeltaReplace {
    fn put(&mut self, object: RawObject) -> Result<(), SinkError> {
        let object = StoredObject::new(self.scope, object)?;
        if let Some(before) = self.places.insert(object.key(), self.objects.len()) {
            self.objects[before] = None;
        }
        self.objects.push(Some(object));
        Ok(())
    }

    fn keep(&mut self, key: &Key) {
        // Not among those that are told to be gone.
        self.kept.insert(key.clone());
    }

    fn remove(&mut self, key: &Key) {
        self.kept.remove(key);
        if let Some(at) = self.places.remove(key) {
            self.objects[at] = None;
        }
    }

    async fn commit(self, resource_version: &str) -> Result<Committed, SinkError> {
        let Self { shared, scope, objects, places, kept } = self;
        let is_there = |key: &Key| places.contains_key(key) || kept.contains(key);
        let mut state = shared.state.lock();
        if state.closed {
            return Err(SinkError::Closed);
        }
        for object in objects.into_iter().flatten() {
            state.push(KeyDelta { kind: DeltaKind::Replaced, object });
        }
        let tombstone = DeltaKind::Deleted { final_state_known: false };
        for object in state.newest_of(scope).into_iter().filter(|object| !is_there(&object.key())) {
            state.push(KeyDelta { kind: tombstone, object });
        }
        for object in shared.known_of(scope) {
            let key = object.key();
            if !is_there(&key) && !state.deltas.contains_key(&key) && !state.is_processing(&key) {
                state.push(KeyDelta { kind: tombstone, object });
            }
        }
        let queued = state.queued_of(scope).count();
        let of_scope = state.scopes.entry(scope).or_default();
        if !std::mem::replace(&mut of_scope.populated, true) {
            of_scope.initial = queued;
        }
        let new_epoch = is_older(resource_version, &of_scope.resource_version);
        resource_version.clone_into(&mut of_scope.resource_version);
        drop(state);
        shared.waiters.wake_one(&Topic::Ready);
        // An empty one is processed.
        shared.wake_processed(scope);
        Ok(Committed::new(new_epoch))
    }
}

// === impl Popped ===

impl Popped {
    /// The key.
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// What was learned, oldest first.
    pub fn deltas(&self) -> &[KeyDelta] {
        &self.deltas
    }

    /// Whether it belongs to the first full state.
    pub fn is_initial(&self) -> bool {
        self.initial
    }

    /// The deltas are processed.
    pub fn done(mut self) {
        let deltas = std::mem::take(&mut self.deltas);
        if let (Some(delta), true) = (deltas.last(), self.initial) {
            let scope = delta.object.scope();
            let mut state = self.shared.state.lock();
            let of_scope = state.scopes.entry(scope).or_default();
            of_scope.initial = of_scope.initial.saturating_sub(1);
            let processed = of_scope.initial == 0;
            drop(state);
            if processed {
                self.shared.wake_processed(scope);
            }
        }
    }
}

/// What was not processed is popped again.
impl Drop for Popped {
    fn drop(&mut self) {
        let mut state = self.shared.state.lock();
        state.processing = None;
        if !self.deltas.is_empty() {
            state.put_back(&self.key, std::mem::take(&mut self.deltas));
        }
        let (closed, idle) = (state.closed, state.order.is_empty());
        drop(state);
        if closed {
            // It may be drained now, which ends every wait.
            return self.shared.waiters.wake_all();
        }
        self.shared.waiters.wake_one(&Topic::Ready);
        if idle {
            self.shared.waiters.wake([Topic::Idle..=Topic::Idle]);
        }
    }
}

// === impl Shared ===

impl Shared {
    async fn when<T>(&self, topic: Topic, mut check: impl FnMut(&mut State) -> Option<T>) -> T {
        self.waiters.until_some([topic], || check(&mut self.state.lock())).await
    }

    fn wake_processed(&self, scope: Scope) {
        let topic = Topic::Processed(scope);
        self.waiters.wake([topic..=topic]);
    }

    fn known_of(&self, scope: Scope) -> Vec<StoredObject> {
        let snapshot = self.config.known_objects.as_ref().map(|store| store.snapshot());
        snapshot.map(|snapshot| snapshot.scope(scope).cloned().collect()).unwrap_or_default()
    }

    /// Whether an object's key is queued, out, or known.
    fn is_known(&self, state: &State, object: &StoredObject) -> bool {
        let key = object.key();
        let store = self.config.known_objects.as_ref();
        state.deltas.contains_key(&key)
            || state.is_processing(&key)
            || store.is_some_and(|store| store.get(&key).is_some())
    }
}

impl Default for DeltaFifoConfig {
    fn default() -> Self {
        Self { known_objects: None, deltas_max: 10_000 }
    }
}

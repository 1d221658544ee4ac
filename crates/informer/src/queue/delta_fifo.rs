//! The queue that client-go's DeltaFIFO is: deltas collected per key.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

use kube_wire::RawObject;
use parking_lot::Mutex;

use super::key_deltas::{KeyedState, deletes};
use super::topic::QueueTopic;
use super::{Committed, Newest, Replace, Sink, SinkError};
use crate::delta::Delta;
use crate::scope::Scope;
use crate::version::is_older;
use crate::waiters::Waiters;
use crate::{Key, StoredObject};

/// Deltas collected per key: a key is popped with all its deltas since it was popped last. Keys come in the order in which
/// they were first queued; the order *between* keys is not kept, which is why informers use [`Fifo`](super::Fifo).
///
/// - It is bounded: a writer waits while the queue is full. Only a list and a resync may exceed the bound, because they are
///   queued as a whole.
/// - Two deletions in a row become one. The deletion of an object that is neither queued nor known is dropped.
/// - Bookmarks are not queued: without an order between keys there is no point at which one is reached.
/// - A scope is synced when everything in its first list has been popped *and processed*; immediately, if that was empty or
///   if something was queued before it.
///
/// One key is out at a time: the next one follows when it is [done](Popped::done). One that is dropped before (its processor
/// panicked, or was cancelled) returns to the front of the queue, before its later deltas.
///
/// Cloning gives another handle to the same queue.
#[derive(Clone, Debug)]
pub struct DeltaFifo {
    shared: Arc<SharedDeltaFifo>,
}

/// Settings of a [`DeltaFifo`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct DeltaFifoConfig {
    /// The objects that its reader has: without them the queue cannot tell which have vanished, nor deliver them again.
    pub known_objects: Option<Arc<dyn KnownObjects>>,
    /// How many deltas wait at most.
    pub deltas_max: usize,
}

/// The objects that the reader of a [`DeltaFifo`] has, as client-go's `KnownObjects`. A [`Store`](crate::store::Store) is one.
pub trait KnownObjects: fmt::Debug + Send + Sync + 'static {
    /// Whether there is an object with this key.
    fn contains(&self, key: &Key) -> bool;

    /// All objects of a scope.
    fn list(&self, scope: Scope) -> Vec<StoredObject>;
}

/// A key and its deltas. Call [`done`](Self::done) when they are processed.
#[derive(Debug)]
#[must_use = "a key that is not done is popped again"]
pub struct Popped {
    key: Key,
    deltas: Vec<Delta>,
    initial: bool,
    shared: Arc<SharedDeltaFifo>,
}

/// A list on its way into a [`DeltaFifo`].
#[derive(Debug)]
pub struct DeltaReplace {
    shared: Arc<SharedDeltaFifo>,
    scope: Scope,
    /// In the order of the list; `None`: put again later, or removed.
    objects: Vec<Option<StoredObject>>,
    places: HashMap<Key, usize>,
    /// Keys that are listed and could not be put.
    kept: HashSet<Key>,
}

#[derive(Debug)]
struct SharedDeltaFifo {
    config: DeltaFifoConfig,
    state: Mutex<KeyedState>,
    waiters: Waiters<QueueTopic>,
}

// === impl DeltaFifo ===

impl DeltaFifo {
    /// A queue.
    pub fn new(config: DeltaFifoConfig) -> Self {
        let (state, waiters) = Default::default();
        Self { shared: Arc::new(SharedDeltaFifo { config, state, waiters }) }
    }

    /// Waits for the next key; `None` when the queue is closed and empty.
    ///
    /// # Cancel safety
    /// Dropping the future leaves everything in the queue. A future that was polled has to be polled on or dropped: it may be
    /// the one that was woken.
    pub async fn pop(&self) -> Option<Popped> {
        let (key, deltas, initial) = self.shared.when(QueueTopic::Ready, KeyedState::pop).await?;
        self.shared.waiters.wake_one(&QueueTopic::Space);
        Some(Popped { key, deltas, initial, shared: self.shared.clone() })
    }

    /// Whether everything in the first list of a scope has been processed.
    pub fn is_synced(&self, scope: Scope) -> bool {
        self.shared.state.lock().is_synced(scope)
    }

    /// Waits until everything in the first list of a scope has been processed.
    ///
    /// # Errors
    /// If the queue is closed before.
    ///
    /// # Cancel safety
    /// May be dropped at any point.
    pub async fn synced(&self, scope: Scope) -> Result<(), SinkError> {
        let check = |state: &mut KeyedState| match state.is_synced(scope) {
            true => Some(Ok(())),
            false => (state.closed && state.order.is_empty() && state.processing.is_none())
                .then_some(Err(SinkError::Closed)),
        };
        self.shared.when(QueueTopic::Processed(scope), check).await
    }

    /// How many keys wait.
    pub fn len(&self) -> usize {
        self.shared.state.lock().order.len()
    }

    /// Whether no key waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Accepts nothing more. Waiting keys can still be popped.
    pub fn close(&self) {
        self.shared.state.lock().closed = true;
        self.shared.waiters.wake_all();
    }

    async fn push(&self, delta: Delta) -> Result<(), SinkError> {
        let Some(object) = delta.object() else { return Ok(()) };
        let (shared, scope, key) = (&self.shared, delta.scope(), object.key());
        let push = |state: &mut KeyedState| {
            if state.closed {
                return Some(Err(SinkError::Closed));
            }
            if state.len >= shared.config.deltas_max {
                return None;
            }
            let of_scope = state.scopes.entry(scope).or_default();
            let is_first = !std::mem::replace(&mut of_scope.populated, true);
            of_scope.advance(object.resource_version());
            if !deletes(&delta) || shared.is_known(state, &key) {
                state.push(key.clone(), delta.clone());
            }
            Some(Ok(is_first))
        };
        let is_first = shared.when(QueueTopic::Space, push).await?;
        shared.waiters.wake_one(&QueueTopic::Ready);
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
        self.push(Delta::Added(StoredObject::new(scope, object)?)).await
    }

    async fn update(&self, scope: Scope, object: RawObject) -> Result<(), SinkError> {
        self.push(Delta::Updated(StoredObject::new(scope, object)?)).await
    }

    async fn delete(&self, scope: Scope, object: RawObject) -> Result<(), SinkError> {
        self.push(Delta::Deleted(StoredObject::new(scope, object)?)).await
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
                state.push(key, Delta::Sync(object));
            }
        }
        drop(state);
        self.shared.waiters.wake_one(&QueueTopic::Ready);
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
        let processed = |state: &mut KeyedState| match state.closed {
            true => Some(Err(SinkError::Closed)),
            false => (state.order.is_empty() && state.processing.is_none()).then_some(Ok(())),
        };
        self.shared.when(QueueTopic::Idle, processed).await?;
        Ok(Newest::of(known.list(scope).iter()).await)
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
        // Not among those that have vanished.
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
            state.push(object.key(), Delta::Replaced(object));
        }
        for object in state.newest_of(scope).into_iter().filter(|object| !is_there(&object.key())) {
            state.push(object.key(), Delta::Vanished(object));
        }
        for object in shared.known_of(scope) {
            let key = object.key();
            if !is_there(&key) && !state.deltas.contains_key(&key) && !state.is_processing(&key) {
                state.push(key, Delta::Vanished(object));
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
        shared.waiters.wake_one(&QueueTopic::Ready);
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

    /// The deltas, oldest first.
    pub fn deltas(&self) -> &[Delta] {
        &self.deltas
    }

    /// Whether it belongs to the first list.
    pub fn is_initial(&self) -> bool {
        self.initial
    }

    /// The deltas are processed.
    pub fn done(mut self) {
        let deltas = std::mem::take(&mut self.deltas);
        if let (Some(delta), true) = (deltas.last(), self.initial) {
            let scope = delta.scope();
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

/// Deltas that are not processed are popped again.
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
        self.shared.waiters.wake_one(&QueueTopic::Ready);
        if idle {
            self.shared.waiters.wake([QueueTopic::Idle..=QueueTopic::Idle]);
        }
    }
}

// === impl SharedDeltaFifo ===

impl SharedDeltaFifo {
    async fn when<T>(&self, topic: QueueTopic, mut check: impl FnMut(&mut KeyedState) -> Option<T>) -> T {
        self.waiters.until_some([topic], || check(&mut self.state.lock())).await
    }

    fn wake_processed(&self, scope: Scope) {
        let topic = QueueTopic::Processed(scope);
        self.waiters.wake([topic..=topic]);
    }

    fn known_of(&self, scope: Scope) -> Vec<StoredObject> {
        self.config.known_objects.as_ref().map(|known| known.list(scope)).unwrap_or_default()
    }

    /// Whether a key is queued, out, or known.
    fn is_known(&self, state: &KeyedState, key: &Key) -> bool {
        let known = self.config.known_objects.as_ref();
        state.deltas.contains_key(key)
            || state.is_processing(key)
            || known.is_some_and(|known| known.contains(key))
    }
}

impl Default for DeltaFifoConfig {
    fn default() -> Self {
        Self { known_objects: None, deltas_max: 10_000 }
    }
}

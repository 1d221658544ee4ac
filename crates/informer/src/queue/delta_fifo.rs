//! A queue like client-go's DeltaFIFO: deltas collected per key.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

use educe::Educe;
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

/// Deltas collected per key: a key is popped with all its deltas since it was last popped. Keys come in the order in which
/// they were first queued. The order *between* keys is not kept, which is why informers use [`Fifo`](super::Fifo).
///
/// - It is bounded: a writer waits while the queue is full. Only a list and a resync may exceed the bound, because they are
///   queued as a whole.
/// - Two consecutive deletions become one. The deletion of an object that is neither queued nor known is dropped.
/// - Bookmarks are not queued: without an order between keys, no point in the queue corresponds to one.
/// - A scope is synced when everything in its first list has been popped *and processed*; immediately if that list was
///   empty or something was queued before it.
///
/// One key is out at a time: the next one follows when it is [done](Popped::done). A key that is dropped before (its
/// processor panicked or was cancelled) returns to the front of the queue, before its later deltas.
///
/// Clones are handles to the same queue.
///
/// ```
/// use kube_informer::Scope;
/// use kube_informer::building_blocks::{Delta, DeltaFifo, DeltaFifoConfig, Sink};
/// # use kube_informer::testing::ScriptedSource;
/// # use serde_json::json;
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let pods = ScriptedSource::new("v1", "Pod");
/// # let pod = |version| pods.object(&json!({"metadata": {"name": "api", "resourceVersion": version}}));
/// let queue = DeltaFifo::new(DeltaFifoConfig::default());
/// queue.add(Scope::default(), pod("7")).await?;
/// queue.update(Scope::default(), pod("8")).await?;
///
/// let popped = queue.pop().await.ok_or("the queue is closed")?;
/// assert!(matches!(popped.deltas(), [Delta::Added(_), Delta::Updated(_)]));
/// popped.done();
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct DeltaFifo {
    shared: Arc<SharedDeltaFifo>,
}

/// Settings of a [`DeltaFifo`].
#[derive(Clone, Debug, Educe)]
#[educe(Default)]
#[non_exhaustive]
pub struct DeltaFifoConfig {
    /// The reader's objects. Without them the queue can neither detect deletions nor resync.
    pub known_objects: Option<Arc<dyn KnownObjects>>,
    /// How many deltas may be pending.
    #[educe(Default = 10_000)]
    pub deltas_max: usize,
}

/// The objects that the reader of a [`DeltaFifo`] has, like client-go's `KnownObjects`. Implemented by
/// [`Store`](crate::store::Store).
///
/// ```
/// use std::sync::Arc;
/// use kube_informer::Scope;
/// use kube_informer::building_blocks::{Delta, DeltaFifo, DeltaFifoConfig, Replace, Sink, Store, StoreConfig};
/// # use kube_informer::testing::ScriptedSource;
/// # use kube_informer::StoredObject;
/// # use serde_json::json;
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let pods = ScriptedSource::new("v1", "Pod");
/// # let pod = pods.object(&json!({"metadata": {"name": "api", "resourceVersion": "7"}}));
/// let store = Store::new(StoreConfig::default())?;
/// store.apply(&[Delta::Added(StoredObject::new(Scope::default(), pod)?)]);
///
/// let mut config = DeltaFifoConfig::default();
/// config.known_objects = Some(Arc::new(store));
/// let queue = DeltaFifo::new(config);
/// queue.begin_replace(Scope::default()).await?.commit("9").await?; // a list without the pod
///
/// let popped = queue.pop().await.ok_or("the queue is closed")?;
/// assert!(matches!(popped.deltas(), [Delta::Vanished(_)]), "the store had the pod");
/// popped.done();
/// # Ok(()) }
/// ```
pub trait KnownObjects: fmt::Debug + Send + Sync + 'static {
    /// Whether there is an object with this key.
    fn contains(&self, key: &Key) -> bool;

    /// All objects of a scope.
    fn list(&self, scope: Scope) -> Vec<StoredObject>;
}

/// A key and its deltas. Call [`done`](Self::done) after processing them.
#[derive(Debug)]
#[must_use = "a key that is not done is popped again"]
pub struct Popped {
    key: Key,
    deltas: Vec<Delta>,
    initial: bool,
    shared: Arc<SharedDeltaFifo>,
}

/// A list in progress into a [`DeltaFifo`].
#[derive(Debug)]
pub struct DeltaReplace {
    shared: Arc<SharedDeltaFifo>,
    scope: Scope,
    /// In the order of the list; `None` if put again later, or removed.
    objects: Vec<Option<StoredObject>>,
    places: HashMap<Key, usize>,
    /// Keys that are listed but could not be put.
    kept: HashSet<Key>,
    /// Whether known objects that are not listed are kept, because the list may contain them under an unreadable key.
    keeps_unlisted: bool,
}

#[derive(Debug)]
struct SharedDeltaFifo {
    config: DeltaFifoConfig,
    state: Mutex<KeyedState>,
    waiters: Waiters<QueueTopic>,
}

// === impl DeltaFifo ===

impl DeltaFifo {
    /// Creates a queue.
    pub fn new(config: DeltaFifoConfig) -> Self {
        let (state, waiters) = Default::default();
        Self { shared: Arc::new(SharedDeltaFifo { config, state, waiters }) }
    }

    /// Waits for the next key; `None` when the queue is closed and empty.
    ///
    /// # Cancel safety
    /// Dropping the future leaves everything in the queue. A future that was polled must be polled again or dropped: it may
    /// be the one that was woken.
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
    /// Returns an error if the queue is closed before.
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

    /// The number of pending keys.
    pub fn len(&self) -> usize {
        self.shared.state.lock().order.len()
    }

    /// Whether no key is pending.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Closes the queue to writers. Pending keys can still be popped.
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
            // The scope now counts as synced.
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

    async fn delete_unread(&self, scope: Scope, key: &Key) -> Result<(), SinkError> {
        let queued = self.shared.state.lock().newest_of(scope);
        let mut states = queued.into_iter().chain(self.shared.known_of(scope));
        match states.find(|object| object.key() == *key) {
            Some(object) => self.push(Delta::DeletedUnread(object)).await,
            None => Ok(()),
        }
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
        // List under the lock: an object might otherwise be popped and deleted meanwhile.
        for object in self.shared.known_of(scope) {
            let key = object.key();
            // A queued object will be delivered anyway, and may be newer.
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
        let (objects, places, kept, keeps_unlisted) = Default::default();
        Ok(DeltaReplace { shared: self.shared.clone(), scope, objects, places, kept, keeps_unlisted })
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
        // It did not vanish.
        self.kept.insert(key.clone());
    }

    fn keep_unlisted(&mut self) {
        self.keeps_unlisted = true;
    }

    fn remove(&mut self, key: &Key) {
        self.kept.remove(key);
        if let Some(at) = self.places.remove(key) {
            self.objects[at] = None;
        }
    }

    async fn commit(self, resource_version: &str) -> Result<Committed, SinkError> {
        let Self { shared, scope, objects, places, kept, keeps_unlisted } = self;
        let is_there = |key: &Key| keeps_unlisted || places.contains_key(key) || kept.contains(key);
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
        // An empty list is already processed.
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

    /// Marks the deltas as processed.
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

/// Unprocessed deltas are popped again.
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
            // The queue may be drained now, which ends every wait.
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

    /// Whether a key is queued, being processed, or known.
    fn is_known(&self, state: &KeyedState, key: &Key) -> bool {
        let known = self.config.known_objects.as_ref();
        state.deltas.contains_key(key)
            || state.is_processing(key)
            || known.is_some_and(|known| known.contains(key))
    }
}

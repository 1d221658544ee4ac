//! The queue that informers use: everything in the order in which it came.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use kube_wire::RawObject;
use parking_lot::Mutex;

use super::apply::Applied;
use super::topic::Topic;
use super::{Committed, Newest, Replace, Scope, Sink, SinkError};
use crate::Key;
use crate::store::{ChangeSet, Hashes, Staging, Store, StoredObject};
use crate::waiters::Waiters;

/// Deltas in strict order, popped in batches.
///
/// - It is bounded: a writer waits while the queue is full, and so does the socket it reads from.
/// - A [`Batch`] holds up to [`Fifo::BATCH_MAX`] deltas, of different keys. A full state and a resync are batches of
///   their own, so that no batch crosses the end of the initial state.
/// - A full state is compared with the store while it comes in (which begins once everything before it in its scope has
///   been processed), and travels as the finished differences.
/// - A scope is synced when its first full state has been popped *and processed*.
///
/// One batch is out at a time: the next one is given when it is [done](Batch::done). A batch that is dropped before (its
/// processor panicked, or was cancelled) goes back to the front of the queue and is popped again. So nothing is lost, and
/// a processor may see the same delta twice; applying it to the store twice does no harm.
///
/// Cloning gives another handle to the same queue.
#[derive(Clone, Debug)]
pub struct Fifo {
    shared: Arc<Shared>,
}

/// How much a [`Fifo`] holds.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct FifoConfig {
    /// How many deltas wait at most.
    pub deltas_max: usize,
    /// How many bytes the waiting objects hold at most (one object is always taken, however large).
    pub bytes_max: usize,
}

/// One thing that was learned.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Delta {
    /// An object is new.
    Added(StoredObject),
    /// An object has changed.
    Updated(StoredObject),
    /// An object is gone.
    Deleted(StoredObject),
    /// Nothing changed in a scope up to this resourceVersion.
    Bookmark {
        /// The scope.
        scope: Scope,
        /// The resourceVersion.
        resource_version: String,
    },
    /// The full state of a scope: what it changes.
    Replaced(Arc<ChangeSet>),
    /// Everything in a scope is to be delivered once more.
    Resync(Scope),
}

/// Deltas that are processed together. Say [`done`](Self::done) when they are.
#[derive(Debug)]
pub struct Batch {
    deltas: Vec<Delta>,
    shared: Arc<Shared>,
}

/// A full state on its way into a [`Fifo`].
#[derive(Debug)]
pub struct FifoReplace {
    shared: Arc<Shared>,
    staging: Staging,
}

#[derive(Debug)]
struct Shared {
    store: Arc<Store>,
    config: FifoConfig,
    state: Mutex<State>,
    waiters: Waiters<Topic>,
}

#[derive(Debug, Default)]
struct State {
    deltas: VecDeque<Delta>,
    bytes: usize,
    scopes: BTreeMap<Scope, ScopeState>,
    /// A batch is out.
    processing: bool,
    closed: bool,
    /// Of the batch at hand; kept for its room.
    keys: Hashes,
}

#[derive(Debug, Default)]
struct ScopeState {
    /// Deltas that are not processed yet.
    pending: usize,
    synced: bool,
}

// === impl Fifo ===

impl Fifo {
    /// How many deltas a batch holds at most.
    pub const BATCH_MAX: usize = 1000;

    /// A queue in front of a store.
    pub fn new(store: Arc<Store>) -> Self {
        Self::with_config(store, FifoConfig::default())
    }

    /// A queue of a certain size in front of a store.
    pub fn with_config(store: Arc<Store>, config: FifoConfig) -> Self {
        let (state, waiters) = Default::default();
        Self { shared: Arc::new(Shared { store, config, state, waiters }) }
    }

    /// Waits for the next batch; `None` when the queue is closed and empty.
    ///
    /// # Cancel safety
    /// Dropping the future leaves everything in the queue. A future that was polled has to be polled on or dropped: it may be
    /// the one that was woken.
    pub async fn pop_batch(&self) -> Option<Batch> {
        let deltas = self.shared.when(Topic::Ready, State::pop).await?;
        self.shared.waiters.wake_one(&Topic::Space);
        Some(Batch { deltas, shared: self.shared.clone() })
    }

    /// Whether the first full state of a scope has been processed.
    pub fn is_synced(&self, scope: Scope) -> bool {
        self.shared.state.lock().is_synced(scope)
    }

    /// Waits until the first full state of a scope has been processed.
    ///
    /// # Errors
    /// If the queue is closed before.
    ///
    /// # Cancel safety
    /// May be dropped at any point.
    pub async fn synced(&self, scope: Scope) -> Result<(), SinkError> {
        let synced = |state: &mut State| match state.is_synced(scope) {
            true => Some(Ok(())),
            false => (state.closed && state.is_drained()).then_some(Err(SinkError::Closed)),
        };
        self.shared.when(Topic::Processed(scope), synced).await
    }

    /// How many deltas wait.
    pub fn len(&self) -> usize {
        self.shared.state.lock().deltas.len()
    }

    /// Whether no delta waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Takes nothing more. What waits can still be popped.
    pub fn close(&self) {
        self.shared.state.lock().closed = true;
        self.shared.waiters.wake_all();
    }

    async fn push(&self, delta: Delta) -> Result<(), SinkError> {
        self.shared.push(delta).await
    }
}

impl Sink for Fifo {
    type Replace = FifoReplace;

    async fn add(&self, scope: Scope, object: RawObject) -> Result<(), SinkError> {
        self.push(Delta::Added(StoredObject::new(scope, object)?)).await
    }

    async fn update(&self, scope: Scope, object: RawObject) -> Result<(), SinkError> {
        self.push(Delta::Updated(StoredObject::new(scope, object)?)).await
    }

    async fn delete(&self, scope: Scope, object: RawObject) -> Result<(), SinkError> {
        self.push(Delta::Deleted(StoredObject::new(scope, object)?)).await
    }

    async fn bookmark(&self, scope: Scope, resource_version: &str) -> Result<(), SinkError> {
        self.push(Delta::Bookmark { scope, resource_version: resource_version.to_owned() }).await
    }

    async fn resync(&self, scope: Scope) -> Result<(), SinkError> {
        self.push(Delta::Resync(scope)).await
    }

    /// Waits until everything before it in its scope has been processed: it is compared with the store.
    async fn begin_replace(&self, scope: Scope) -> Result<FifoReplace, SinkError> {
        self.shared.until_processed(scope).await?;
        let staging = self.shared.store.stage_replace(scope);
        Ok(FifoReplace { shared: self.shared.clone(), staging })
    }

    async fn newest(&self, scope: Scope) -> Result<Newest, SinkError> {
        self.shared.until_processed(scope).await?;
        let snapshot = self.shared.store.snapshot();
        Ok(Newest::of(snapshot.scope(scope)).await)
    }
}

impl Replace for FifoReplace {
    fn put(&mut self, object: RawObject) -> Result<(), SinkError> {
        Ok(self.staging.put(object)?)
    }

    fn keep(&mut self, key: &Key) {
        self.staging.keep_known(key);
    }

    fn remove(&mut self, key: &Key) {
        self.staging.remove(key);
    }

    async fn commit(self, resource_version: &str) -> Result<Committed, SinkError> {
        let set = self.staging.finish(resource_version);
        let committed = Committed::new(set.is_new_epoch());
        self.shared.push(Delta::Replaced(Arc::new(set))).await?;
        Ok(committed)
    }
}

// === impl Batch ===

impl Batch {
    /// The deltas, in order.
    pub fn deltas(&self) -> &[Delta] {
        &self.deltas
    }

    /// Applies the deltas to a store, all in one step; gives what that changed, to be told to those who listen.
    pub fn apply(&self, store: &Store) -> Applied {
        Applied::new(store, &self.deltas)
    }

    /// The deltas are processed.
    pub fn done(mut self) {
        let deltas = std::mem::take(&mut self.deltas);
        let mut state = self.shared.state.lock();
        for delta in &deltas {
            let scope = state.scope(delta.scope());
            scope.pending -= 1;
            scope.synced |= matches!(delta, Delta::Replaced(_));
        }
        drop(state);
        self.shared.wake_processed(&deltas);
    }
}

/// What was not processed is popped again.
impl Drop for Batch {
    fn drop(&mut self) {
        let mut state = self.shared.state.lock();
        state.processing = false;
        for delta in self.deltas.drain(..).rev() {
            state.bytes += delta.bytes();
            state.deltas.push_front(delta);
        }
        let closed = state.closed;
        drop(state);
        match closed {
            // It may be drained now, which ends every wait.
            true => self.shared.waiters.wake_all(),
            false => self.shared.waiters.wake_one(&Topic::Ready),
        }
    }
}

// === impl Delta ===

impl Delta {
    /// The scope it is about.
    pub fn scope(&self) -> Scope {
        match self {
            Self::Added(object) | Self::Updated(object) | Self::Deleted(object) => object.scope(),
            Self::Bookmark { scope, .. } | Self::Resync(scope) => *scope,
            Self::Replaced(set) => set.scope(),
        }
    }

    /// The object it is about, if it is about one.
    pub fn object(&self) -> Option<&StoredObject> {
        match self {
            Self::Added(object) | Self::Updated(object) | Self::Deleted(object) => Some(object),
            Self::Bookmark { .. } | Self::Resync(_) | Self::Replaced(_) => None,
        }
    }

    fn is_atomic(&self) -> bool {
        matches!(self, Self::Replaced(_) | Self::Resync(_))
    }

    fn bytes(&self) -> usize {
        self.object().map_or(0, StoredObject::stored_bytes)
    }
}

// === impl Shared ===

impl Shared {
    async fn when<T>(&self, topic: Topic, mut check: impl FnMut(&mut State) -> Option<T>) -> T {
        self.waiters.until_some([topic], || check(&mut self.state.lock())).await
    }

    /// Wakes the callers that wait for a scope of these deltas, if that is through.
    fn wake_processed(&self, deltas: &[Delta]) {
        if !self.waiters.any() {
            return;
        }
        let is_full_state = matches!(deltas, [Delta::Replaced(_)]);
        let mut scopes = deltas.iter().map(Delta::scope).collect::<BTreeSet<_>>();
        let mut state = self.state.lock();
        scopes.retain(|scope| is_full_state || state.scope(*scope).pending == 0);
        drop(state);
        self.waiters.wake(scopes.into_iter().map(Topic::Processed).map(|topic| topic..=topic));
    }

    /// Waits until everything in a scope has been processed.
    async fn until_processed(&self, scope: Scope) -> Result<(), SinkError> {
        let idle = |state: &mut State| match state.closed {
            true => Some(Err(SinkError::Closed)),
            false => (state.scope(scope).pending == 0).then_some(Ok(())),
        };
        self.when(Topic::Processed(scope), idle).await
    }

    /// Waits for room.
    async fn push(&self, delta: Delta) -> Result<(), SinkError> {
        let mut delta = Some(delta);
        self.when(Topic::Space, |state| {
            if state.closed {
                return Some(Err(SinkError::Closed));
            }
            if state.deltas.len() >= self.config.deltas_max || state.bytes >= self.config.bytes_max {
                return None;
            }
            let delta = delta.take()?;
            state.scope(delta.scope()).pending += 1;
            state.bytes += delta.bytes();
            state.deltas.push_back(delta);
            Some(Ok(()))
        })
        .await?;
        self.waiters.wake_one(&Topic::Ready);
        Ok(())
    }
}

// === impl State ===

impl State {
    fn scope(&mut self, scope: Scope) -> &mut ScopeState {
        self.scopes.entry(scope).or_default()
    }

    fn is_synced(&self, scope: Scope) -> bool {
        self.scopes.get(&scope).is_some_and(|scope| scope.synced)
    }

    fn is_drained(&self) -> bool {
        self.deltas.is_empty() && !self.processing
    }

    /// The next batch; `Some(None)` when there will be none.
    fn pop(&mut self) -> Option<Option<Vec<Delta>>> {
        if self.processing {
            return None;
        }
        let len = self.batch_len();
        if len == 0 {
            return self.closed.then_some(None);
        }
        let deltas = self.deltas.drain(..len).collect::<Vec<_>>();
        self.bytes -= deltas.iter().map(Delta::bytes).sum::<usize>();
        self.processing = true;
        Some(Some(deltas))
    }

    /// How many deltas from the front go together: up to the first atomic one, or the first key that comes again.
    fn batch_len(&mut self) -> usize {
        if self.deltas.front().is_some_and(Delta::is_atomic) {
            return 1;
        }
        self.keys.clear();
        // Two keys with one hash end a batch early, which is no harm.
        let fits = |delta: &&Delta| match delta.object() {
            Some(object) => self.keys.insert(object.key_hash()),
            None => !delta.is_atomic(),
        };
        self.deltas.iter().take(Fifo::BATCH_MAX).take_while(fits).count()
    }
}

impl Default for FifoConfig {
    fn default() -> Self {
        Self { deltas_max: 10_000, bytes_max: 8 << 20 }
    }
}

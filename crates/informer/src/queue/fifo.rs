//! The queue that informers use: all deltas in the order they were pushed.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use educe::Educe;
use parking_lot::Mutex;

use super::SinkError;
use super::topic::QueueTopic;
use crate::StoredObject;
use crate::budget::{Budget, Charge};
use crate::delta::Delta;
use crate::hashes::Hashes;
use crate::scope::Scope;
use crate::waiters::Waiters;

/// Deltas in strict order, taken in batches.
///
/// - It is bounded: while the queue is full, its writer waits, and so does the socket behind it.
/// - A [`DeltaBatch`] holds up to [`Fifo::BATCH_MAX`] deltas of different keys. A complete list is a separate batch, so
///   that no batch spans the end of the initial list.
/// - A scope is synced when its first list has been taken *and processed*.
///
/// One batch is out at a time: the next one follows when it is [done](DeltaBatch::done). A batch that is dropped before
/// (its processor panicked or was cancelled) returns to the front of the queue and is taken again. So no delta is lost, but
/// a processor may see one twice; applying it to the store twice is harmless.
///
/// A reflector writes to it through a [`StoreSink`](crate::building_blocks::StoreSink). Clones are handles to the same queue.
///
/// ```
/// use std::sync::Arc;
/// use kube_informer::Scope;
/// use kube_informer::building_blocks::{Change, Fifo, FifoConfig, Sink, Store, StoreSink};
/// # use kube_informer::testing::ScriptedSource;
/// # use serde_json::json;
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let pod = ScriptedSource::new("v1", "Pod").object(&json!({"metadata": {"name": "api", "resourceVersion": "7"}}));
/// let (queue, store) = (Fifo::new(FifoConfig::default()), Arc::new(Store::default()));
/// StoreSink::new(queue.clone(), store.clone()).add(Scope::default(), pod).await?;
///
/// let deltas = queue.take().await.ok_or("the queue is closed")?;
/// let changes = store.apply(deltas.deltas());
/// assert!(matches!(changes.changes(), [Change::Added { object, .. }] if object.name() == "api"));
/// deltas.done();
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Fifo {
    shared: Arc<SharedFifo>,
}

/// How much a [`Fifo`] holds.
#[derive(Clone, Debug, Educe)]
#[educe(Default)]
#[non_exhaustive]
pub struct FifoConfig {
    /// How many deltas may be pending.
    #[educe(Default = 10_000)]
    pub deltas_max: usize,
    /// How many bytes the pending objects may hold (one object is always accepted, whatever its size).
    #[educe(Default(expression = 8 << 20))]
    pub bytes_max: usize,
}

/// Deltas to process together. Call [`done`](Self::done) afterwards.
#[derive(Debug)]
#[must_use = "deltas that are not done are taken again"]
pub struct DeltaBatch {
    deltas: Vec<Delta>,
    shared: Arc<SharedFifo>,
}

#[derive(Debug)]
struct SharedFifo {
    config: FifoConfig,
    state: Mutex<FifoState>,
    waiters: Waiters<QueueTopic>,
}

#[derive(Debug, Default)]
struct FifoState {
    deltas: VecDeque<Delta>,
    bytes: usize,
    charge: Charge,
    scopes: BTreeMap<Scope, FifoScope>,
    /// A batch is being processed.
    processing: bool,
    closed: bool,
    /// The keys of the current batch; kept to reuse the allocation.
    keys: Hashes,
}

#[derive(Debug, Default)]
struct FifoScope {
    /// Deltas not processed yet.
    pending: usize,
    synced: bool,
}

// === impl Fifo ===

impl Fifo {
    /// How many deltas a batch holds at most.
    pub const BATCH_MAX: usize = 1000;

    /// Creates a queue with these limits.
    pub fn new(config: FifoConfig) -> Self {
        let (state, waiters) = Default::default();
        Self { shared: Arc::new(SharedFifo { config, state, waiters }) }
    }

    /// Charges the pending objects to a budget.
    pub(crate) fn charged_to(self, budget: Option<Arc<Budget>>) -> Self {
        self.shared.state.lock().charge = Charge::new(budget);
        self
    }

    /// Adds a delta; waits while the queue is full.
    ///
    /// # Cancel safety
    /// Dropping the future while it waits leaves the queue unchanged.
    pub(crate) async fn push(&self, delta: Delta) -> Result<(), SinkError> {
        let (shared, mut delta) = (&self.shared, Some(delta));
        let push = |state: &mut FifoState| {
            if state.closed {
                return Some(Err(SinkError::Closed));
            }
            let config = &shared.config;
            if state.deltas.len() >= config.deltas_max || state.bytes >= config.bytes_max {
                return None;
            }
            let delta = delta.take()?;
            state.scope(delta.scope()).pending += 1;
            state.bytes += bytes(&delta);
            state.charge.set(state.bytes);
            state.deltas.push_back(delta);
            Some(Ok(()))
        };
        shared.when(QueueTopic::Space, push).await?;
        shared.waiters.wake_one(&QueueTopic::Ready);
        Ok(())
    }

    /// Waits for the next batch; `None` when the queue is closed and empty.
    ///
    /// # Cancel safety
    /// Dropping the future leaves everything in the queue. A future that was polled must be polled again or dropped: it may
    /// be the one that was woken.
    pub async fn take(&self) -> Option<DeltaBatch> {
        let deltas = self.shared.when(QueueTopic::Ready, FifoState::take).await?;
        self.shared.waiters.wake_one(&QueueTopic::Space);
        Some(DeltaBatch { deltas, shared: self.shared.clone() })
    }

    /// Waits until everything queued for a scope has been processed.
    ///
    /// # Errors
    /// Returns an error if the queue is closed.
    ///
    /// # Cancel safety
    /// May be dropped at any point.
    pub(crate) async fn processed(&self, scope: Scope) -> Result<(), SinkError> {
        let idle = |state: &mut FifoState| match state.closed {
            true => Some(Err(SinkError::Closed)),
            false => (state.scope(scope).pending == 0).then_some(Ok(())),
        };
        self.shared.when(QueueTopic::Processed(scope), idle).await
    }

    /// Whether something queued for a scope has not been processed yet.
    pub(crate) fn has_pending(&self, scope: Scope) -> bool {
        self.shared.state.lock().scope(scope).pending > 0
    }

    /// Whether the first list of a scope has been processed.
    pub fn is_synced(&self, scope: Scope) -> bool {
        self.shared.state.lock().is_synced(scope)
    }

    /// Waits until the first list of a scope has been processed.
    ///
    /// # Errors
    /// Returns an error if the queue is closed before.
    ///
    /// # Cancel safety
    /// May be dropped at any point.
    pub async fn synced(&self, scope: Scope) -> Result<(), SinkError> {
        let synced = |state: &mut FifoState| match state.is_synced(scope) {
            true => Some(Ok(())),
            false => (state.closed && state.is_drained()).then_some(Err(SinkError::Closed)),
        };
        self.shared.when(QueueTopic::Processed(scope), synced).await
    }

    /// The number of pending deltas.
    pub fn len(&self) -> usize {
        self.shared.state.lock().deltas.len()
    }

    /// Whether no delta is pending.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Closes the queue to writers. Pending deltas can still be taken.
    pub fn close(&self) {
        self.shared.state.lock().closed = true;
        self.shared.waiters.wake_all();
    }
}

// === impl DeltaBatch ===

impl DeltaBatch {
    /// The deltas, in order.
    pub fn deltas(&self) -> &[Delta] {
        &self.deltas
    }

    /// Marks the deltas as processed.
    pub fn done(mut self) {
        let deltas = std::mem::take(&mut self.deltas);
        let mut state = self.shared.state.lock();
        for delta in &deltas {
            let scope = state.scope(delta.scope());
            scope.pending -= 1;
            scope.synced |= is_list(delta);
        }
        drop(state);
        self.shared.wake_processed(&deltas);
    }
}

/// Unprocessed deltas are taken again.
impl Drop for DeltaBatch {
    fn drop(&mut self) {
        let mut state = self.shared.state.lock();
        state.processing = false;
        for delta in self.deltas.drain(..).rev() {
            state.bytes += bytes(&delta);
            state.deltas.push_front(delta);
        }
        let closed = state.closed;
        drop(state);
        match closed {
            // The queue may be drained now, which ends every wait.
            true => self.shared.waiters.wake_all(),
            false => self.shared.waiters.wake_one(&QueueTopic::Ready),
        }
    }
}

// === impl SharedFifo ===

impl SharedFifo {
    async fn when<T>(&self, topic: QueueTopic, mut check: impl FnMut(&mut FifoState) -> Option<T>) -> T {
        self.waiters.until_some([topic], || check(&mut self.state.lock())).await
    }

    /// Wakes the callers that wait for a scope of these deltas, if it has been processed.
    fn wake_processed(&self, deltas: &[Delta]) {
        if !self.waiters.any() {
            return;
        }
        let is_list = matches!(deltas, [delta] if is_list(delta));
        let mut scopes = deltas.iter().map(Delta::scope).collect::<BTreeSet<_>>();
        let mut state = self.state.lock();
        scopes.retain(|scope| is_list || state.scope(*scope).pending == 0);
        drop(state);
        self.waiters.wake(scopes.into_iter().map(QueueTopic::Processed).map(|topic| topic..=topic));
    }
}

// === impl FifoState ===

impl FifoState {
    fn scope(&mut self, scope: Scope) -> &mut FifoScope {
        self.scopes.entry(scope).or_default()
    }

    fn is_synced(&self, scope: Scope) -> bool {
        self.scopes.get(&scope).is_some_and(|scope| scope.synced)
    }

    fn is_drained(&self) -> bool {
        self.deltas.is_empty() && !self.processing
    }

    /// The next batch; `Some(None)` when there will be no more.
    fn take(&mut self) -> Option<Option<Vec<Delta>>> {
        if self.processing {
            return None;
        }
        let len = self.batch_len();
        if len == 0 {
            return self.closed.then_some(None);
        }
        let deltas = self.deltas.drain(..len).collect::<Vec<_>>();
        self.bytes -= deltas.iter().map(bytes).sum::<usize>();
        self.charge.set(self.bytes);
        self.processing = true;
        Some(Some(deltas))
    }

    /// The length of the next batch: up to the first list, or the first key that repeats.
    fn batch_len(&mut self) -> usize {
        if self.deltas.front().is_some_and(is_list) {
            return 1;
        }
        self.keys.clear();
        // Keys with equal hashes end a batch early, which is harmless.
        let fits = |delta: &&Delta| match delta.object() {
            Some(object) => self.keys.insert(object.key_hash()),
            None => !is_list(delta),
        };
        self.deltas.iter().take(Fifo::BATCH_MAX).take_while(fits).count()
    }
}

fn is_list(delta: &Delta) -> bool {
    matches!(delta, Delta::ReplacedAll(_))
}

fn bytes(delta: &Delta) -> usize {
    delta.object().map_or(0, StoredObject::stored_bytes)
}

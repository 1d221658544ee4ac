//! The sink of an informer's reflectors: a queue, and the store that its deltas are applied to.
//!
//! Queue and store do not know each other; this module connects them.

use std::sync::Arc;

use kube_wire::{Head, RawObject};

use crate::Key;
use crate::delta::Delta;
use crate::object::StoredObject;
use crate::queue::{Committed, Fifo, KnownObjects, Newest, Replace, Sink, SinkError};
use crate::scope::Scope;
use crate::shard::Shard;
use crate::store::{Replacement, Store};

/// Writes what a reflector reports to a [`Fifo`] whose deltas are applied to a [`Store`].
///
/// Watch events are queued one by one. A list is compared with the store while it arrives, after everything before it in
/// its scope has been processed. Only the differences are queued.
///
/// ```
/// # use std::sync::Arc;
/// # use kube_informer::building_blocks::{Fifo, FifoConfig, Store, StoreSink};
/// let (queue, store) = (Fifo::new(FifoConfig::default()), Arc::new(Store::default()));
/// let sink = StoreSink::new(queue.clone(), store.clone());
/// # async fn apply(queue: Fifo, store: Arc<Store>) {
/// // A reflector writes to the sink. Its deltas are applied to the store:
/// while let Some(deltas) = queue.take().await {
///     let changes = store.apply(deltas.deltas());
///     println!("{:?}", changes.changes());
///     deltas.done();
/// }
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct StoreSink {
    queue: Fifo,
    store: Arc<Store>,
}

/// A list in progress through a [`StoreSink`].
#[derive(Debug)]
pub struct StoreReplace {
    queue: Fifo,
    replacement: Replacement,
}

// === impl StoreSink ===

impl StoreSink {
    /// A sink for a queue and the store that its deltas are applied to.
    pub fn new(queue: Fifo, store: Arc<Store>) -> Self {
        Self { queue, store }
    }
}

impl Sink for StoreSink {
    type Replace = StoreReplace;

    async fn add(&self, scope: Scope, object: RawObject) -> Result<(), SinkError> {
        self.store.admit(&object)?;
        self.queue.push(Delta::Added(StoredObject::new(scope, object)?)).await
    }

    async fn update(&self, scope: Scope, object: RawObject) -> Result<(), SinkError> {
        self.store.admit(&object)?;
        self.queue.push(Delta::Updated(StoredObject::new(scope, object)?)).await
    }

    async fn delete(&self, scope: Scope, object: RawObject) -> Result<(), SinkError> {
        self.queue.push(Delta::Deleted(StoredObject::new(scope, object)?)).await
    }

    /// Queues the deletion of the cached state, after everything before it has been processed.
    async fn delete_unread(&self, scope: Scope, key: &Key) -> Result<(), SinkError> {
        self.queue.processed(scope).await?;
        match self.store.get(key).filter(|object| object.scope() == scope) {
            Some(object) => self.queue.push(Delta::DeletedUnread(object)).await,
            None => Ok(()),
        }
    }

    fn may_have(&self, scope: Scope, head: &Head<'_>) -> bool {
        // In this order: what is no longer pending is stored.
        self.queue.has_pending(scope) || self.store.has_key(head.namespace(), head.name())
    }

    async fn leave(&self, scope: Scope, object: RawObject) -> Result<(), SinkError> {
        self.queue.push(Delta::Left(StoredObject::new(scope, object)?)).await
    }

    async fn bookmark(&self, scope: Scope, resource_version: &str) -> Result<(), SinkError> {
        self.queue.push(Delta::Bookmark { scope, resource_version: resource_version.to_owned() }).await
    }

    /// Queues every object of the scope, after everything before it has been processed.
    async fn resync(&self, scope: Scope) -> Result<(), SinkError> {
        self.queue.processed(scope).await?;
        let objects = self.store.snapshot().into_objects();
        for object in objects.filter(|object| object.scope() == scope) {
            self.queue.push(Delta::Sync(object)).await?;
        }
        Ok(())
    }

    async fn reselect(&self, scope: Scope) -> Result<(), SinkError> {
        self.queue.processed(scope).await?;
        self.store.reselect(scope);
        Ok(())
    }

    async fn begin_replace(&self, scope: Scope) -> Result<StoreReplace, SinkError> {
        self.queue.processed(scope).await?;
        Ok(StoreReplace { queue: self.queue.clone(), replacement: self.store.begin_replace(scope) })
    }

    async fn newest(&self, scope: Scope) -> Result<Newest, SinkError> {
        self.queue.processed(scope).await?;
        let snapshot = self.store.snapshot();
        Ok(Newest::of(snapshot.scope(scope)).await)
    }
}

impl Replace for StoreReplace {
    fn put(&mut self, object: RawObject) -> Result<(), SinkError> {
        self.replacement.admit(&object)?;
        Ok(self.replacement.put(object)?)
    }

    fn keep(&mut self, key: &Key) {
        self.replacement.keep(key);
    }

    fn keep_unlisted(&mut self) {
        self.replacement.keep_unlisted();
    }

    fn within(&mut self, shard: Shard) {
        self.replacement.within(shard);
    }

    fn leave(&mut self, head: &Head<'_>) {
        self.replacement.leave(head);
    }

    fn remove(&mut self, key: &Key) {
        self.replacement.remove(key);
    }

    async fn commit(self, resource_version: &str) -> Result<Committed, SinkError> {
        let list = self.replacement.finish(resource_version);
        let committed = Committed::new(list.new_epoch);
        self.queue.push(Delta::ReplacedAll(Arc::new(list))).await?;
        Ok(committed)
    }
}

impl KnownObjects for Store {
    fn contains(&self, key: &Key) -> bool {
        self.get(key).is_some()
    }

    fn list(&self, scope: Scope) -> Vec<StoredObject> {
        self.snapshot().scope(scope).cloned().collect()
    }
}

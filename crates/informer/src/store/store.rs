//! The store itself: one writer, many readers. Writing is in `apply.rs` and `replace.rs`, waiting in `wait.rs`.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use kube_wire::{Projection, TypeMeta};
use parking_lot::{Mutex, RwLock};

use super::commit::Writer;
use super::index::{Index, IndexError, IndexFailure};
use super::memory::Memory;
use super::packing::Packer;
use super::root::Root;
use super::wait::StoreTopic;
use super::{Snapshot, StoredObject};
use crate::Key;
use crate::panic::guarded;
use crate::scope::Scope;
use crate::waiters::Waiters;

/// Objects by key, indexed, readable at any time.
///
/// Writes take their turn; each takes effect as a whole. Reads of one object look at the current state and never wait for
/// more than one write in progress; everything that reads several objects does so in a [`Snapshot`], while writes go on.
#[derive(Default)]
pub struct Store {
    pub(super) root: RwLock<Arc<Root>>,
    pub(super) writer: Mutex<Writer>,
    pub(super) waiters: Waiters<StoreTopic>,
    config: StoreChecks,
    pub(super) packer: Arc<Packer>,
    pub(super) stale: AtomicU64,
    index_failures: AtomicU64,
}

/// What a [`Store`] is made with.
#[derive(Clone, Debug, Default)]
pub struct StoreConfig {
    indexes: Vec<Index>,
    memory: Memory,
    config: StoreChecks,
}

type OnIndexFailure = dyn Fn(&IndexFailure) + Send + Sync;

/// What indexes are checked against, and where their failures are reported.
#[derive(Clone, Default)]
struct StoreChecks {
    projection: Option<Projection>,
    type_meta: Option<TypeMeta>,
    on_index_failure: Option<Arc<OnIndexFailure>>,
}

/// What was counted since a store was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoreStats {
    /// Writes that were left out because a newer state was there.
    pub stale: u64,
    /// Objects that an index could not read.
    pub index_failures: u64,
}

// === impl StoreConfig ===

impl StoreConfig {
    /// With an index.
    #[must_use]
    pub fn index(mut self, index: Index) -> Self {
        self.indexes.push(index);
        self
    }

    /// Says what is kept of each object, so that an index over something else is refused.
    #[must_use]
    pub fn projection(mut self, projection: Projection) -> Self {
        self.config.projection = Some(projection);
        self
    }

    /// Says of which type the objects are, so that an index over a field that the type lacks is refused.
    #[must_use]
    pub fn type_meta(mut self, type_meta: TypeMeta) -> Self {
        self.config.type_meta = Some(type_meta);
        self
    }

    /// How objects are held. Default: packed.
    #[must_use]
    pub fn memory(mut self, memory: impl Into<Memory>) -> Self {
        self.memory = memory.into();
        self
    }

    /// Reports objects that an index cannot read. They are logged and counted in any case.
    #[must_use]
    pub fn on_index_failure(mut self, report: impl Fn(&IndexFailure) + Send + Sync + 'static) -> Self {
        self.config.on_index_failure = Some(Arc::new(report));
        self
    }
}

// === impl Store: reading ===

impl Store {
    /// An empty store.
    ///
    /// # Errors
    /// If an index has an invalid path, reads a field that the projection drops, or has the name of another.
    pub fn new(config: StoreConfig) -> Result<Self, IndexError> {
        let packer = Arc::new(Packer::new(config.memory));
        let store = Self { config: config.config, packer, ..Self::default() };
        config.indexes.into_iter().try_for_each(|index| store.add_index(&index))?;
        Ok(store)
    }

    /// The object with this key.
    pub fn get(&self, key: &Key) -> Option<StoredObject> {
        self.root.read().get(key).cloned()
    }

    /// The objects that have a value in an index.
    ///
    /// # Errors
    /// If there is no such index.
    pub fn by_index(&self, index: impl AsRef<str>, value: &str) -> Result<Vec<StoredObject>, IndexError> {
        // The set is taken out as it is, so that a writer need not wait until it is copied.
        let group = self.root.read().index(index.as_ref())?.group(value).map(|group| group.objects.clone());
        Ok(group.map(|objects| objects.iter().cloned().collect()).unwrap_or_default())
    }

    /// How many objects there are.
    pub fn len(&self) -> usize {
        self.root.read().objects.len()
    }

    /// Whether there is no object.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The state at this moment.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot(self.root.read().clone())
    }

    /// Up to which resourceVersion everything of a scope is in; empty if nothing is.
    pub fn resource_version(&self, scope: Scope) -> String {
        self.root.read().scope(scope).map(|state| state.resource_version.clone()).unwrap_or_default()
    }

    /// What was counted.
    pub fn stats(&self) -> StoreStats {
        StoreStats {
            stale: self.stale.load(Ordering::Relaxed),
            index_failures: self.index_failures.load(Ordering::Relaxed),
        }
    }

    pub(super) fn read<T>(&self, read: impl FnOnce(&Root) -> T) -> T {
        read(&self.root.read())
    }
}

// === impl Store: writing ===

impl Store {
    /// Adds an index; what is stored already is indexed before this returns.
    ///
    /// # Errors
    /// If the name is taken, the path is invalid, or the projection drops the field.
    pub fn add_index(&self, index: &Index) -> Result<(), IndexError> {
        let mut writer = self.writer.lock();
        if self.read(|root| root.index(index.name()).is_ok()) {
            return Err(IndexError::Duplicate(index.name().into()));
        }
        let compiled = index.compile(self.config.projection.as_ref(), self.config.type_meta.as_ref())?;
        writer.add_index(&self.root, compiled, &mut |failure| self.report(&failure));
        Ok(())
    }

    /// What is stored under the key of `object`.
    pub(super) fn stored(&self, object: &StoredObject) -> Option<StoredObject> {
        self.root.read().stored(object).cloned()
    }

    pub(super) fn report(&self, failure: &IndexFailure) {
        self.index_failures.fetch_add(1, Ordering::Relaxed);
        tracing::warn!(index = %failure.index, key = %failure.key, why = %failure.why, "index cannot read an object");
        if let Some(callback) = &self.config.on_index_failure {
            // Or a write would end half-way, with indexes that do not fit their objects.
            if let Err(why) = guarded(|| callback(failure)) {
                tracing::error!(index = %failure.index, why, "the callback for index errors failed");
            }
        }
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store")
            .field("objects", &self.len())
            .field("stats", &self.stats())
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for StoreChecks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreChecks")
            .field("projection", &self.projection)
            .field("type_meta", &self.type_meta)
            .finish_non_exhaustive()
    }
}

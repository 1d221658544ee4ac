//! The store: one writer, many readers. Writing is in `apply.rs` and `replace.rs`, waiting in `wait.rs`.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use kube_wire::path::{CustomSchema, PathReader};
use kube_wire::projection::Kept;
use kube_wire::{FieldPath, Projection, RawObject, TypeMeta};
use parking_lot::{Mutex, RwLock};

use super::commit::Writer;
use super::index::{Index, IndexError, IndexFailure};
use super::root::Root;
use super::wait::StoreTopic;
use super::{Snapshot, StoredObject};
use crate::Key;
use crate::budget::{Budget, Charge, OBJECT_BYTES, OverBudget};
use crate::memory::Memory;
use crate::object::key_hash;
use crate::packing::Packer;
use crate::panic::guarded;
use crate::scope::Scope;
use crate::waiters::Waiters;

/// Objects by key, indexed, readable at any time.
///
/// Writes are serialized; each takes effect as a whole. Reads of one object see the current state and wait for at most one
/// write in progress. Reads of several objects use a [`Snapshot`], while writes continue.
///
/// ```
/// use kube_informer::{Index, Scope, StoredObject};
/// use kube_informer::building_blocks::{Delta, Store, StoreConfig};
/// use kube_informer::kube_wire::{Encoding, Limits, ObjectReader, Projection};
///
/// let by_node = Index::field("node", "spec.nodeName");
/// let store = Store::new(StoreConfig::default().index(by_node.clone()).projection(Projection::default()))?;
///
/// let pod = br#"{"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"web","name":"api","uid":"u1",
///                "resourceVersion":"7"},"spec":{"nodeName":"node-7"}}"#;
/// let pod = ObjectReader::new(Projection::default(), Limits::default()).read(pod, Encoding::Json, None)?;
/// let changes = store.apply(&[Delta::Added(StoredObject::new(Scope::default(), pod)?)]);
/// assert_eq!(changes.changes().len(), 1);
///
/// let found = store.by_index(&by_node, "node-7")?;
/// assert_eq!(found[0].key().to_string(), "web/api");
/// assert_eq!(store.snapshot().resource_version(Scope::default()), "7");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Default)]
pub struct Store {
    pub(super) root: RwLock<Arc<Root>>,
    pub(super) writer: Mutex<Writer>,
    pub(super) waiters: Waiters<StoreTopic>,
    config: StoreChecks,
    /// The fields of a custom resource, once a request has brought them.
    definition: Definition,
    pub(super) packer: Arc<Packer>,
    /// Set by every commit.
    pub(super) charge: Charge,
    pub(super) stale: AtomicU64,
    index_failures: AtomicU64,
}

/// The configuration of a [`Store`].
#[derive(Clone, Debug, Default)]
pub struct StoreConfig {
    indexes: Vec<Index>,
    memory: Memory,
    budget: Option<Arc<Budget>>,
    config: StoreChecks,
}

/// The fields of a custom resource: a cell that the store shares with the readers of its objects.
pub(crate) type Definition = Arc<OnceLock<CustomSchema>>;

type OnIndexFailure = dyn Fn(&IndexFailure) + Send + Sync;

/// The projection that indexes are validated against, and the callback for their failures.
#[derive(Clone, Default)]
struct StoreChecks {
    projection: Option<Projection>,
    type_meta: Option<TypeMeta>,
    on_index_failure: Option<Arc<OnIndexFailure>>,
}

/// Counters of a store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoreStats {
    /// Writes dropped because the store had a newer state.
    pub stale: u64,
    /// Objects that an index could not read.
    pub index_failures: u64,
}

// === impl StoreConfig ===

impl StoreConfig {
    /// Adds an index.
    #[must_use]
    pub fn index(mut self, index: Index) -> Self {
        self.indexes.push(index);
        self
    }

    /// Sets what is kept of each object, so that an index over a dropped field is rejected.
    #[must_use]
    pub fn projection(mut self, projection: Projection) -> Self {
        self.config.projection = Some(projection);
        self
    }

    /// Sets the type of the objects, so that an index over a field that the type lacks is rejected.
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

    /// Charges the objects to a budget.
    pub(crate) fn budget(mut self, budget: Option<Arc<Budget>>) -> Self {
        self.budget = budget;
        self
    }

    /// Called for objects that an index cannot read. They are always logged and counted.
    #[must_use]
    pub fn on_index_failure(mut self, report: impl Fn(&IndexFailure) + Send + Sync + 'static) -> Self {
        self.config.on_index_failure = Some(Arc::new(report));
        self
    }
}

// === impl Store: reading ===

impl Store {
    /// Creates an empty store.
    ///
    /// # Errors
    /// Returns an error if an index has an invalid path, reads a field that the projection drops, or has a name that is
    /// taken.
    pub fn new(config: StoreConfig) -> Result<Self, IndexError> {
        let packer = Arc::new(Packer::new(config.memory));
        let charge = Charge::new(config.budget);
        let store = Self { config: config.config, packer, charge, ..Self::default() };
        config.indexes.into_iter().try_for_each(|index| store.add_index(&index))?;
        Ok(store)
    }

    /// The object with this key.
    pub fn get(&self, key: &Key) -> Option<StoredObject> {
        self.root.read().get(key).cloned()
    }

    /// The objects with a value in an index.
    ///
    /// # Errors
    /// Returns an error if there is no such index.
    pub fn by_index(&self, index: impl AsRef<str>, value: &str) -> Result<Vec<StoredObject>, IndexError> {
        // Clone the set first, so that a writer need not wait until it is copied.
        let group = self.root.read().index(index.as_ref())?.group(value).map(|group| group.objects.clone());
        Ok(group.map(|objects| objects.iter().cloned().collect()).unwrap_or_default())
    }

    /// The number of objects.
    pub fn len(&self) -> usize {
        self.root.read().objects.len()
    }

    /// Whether there is no object.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The current state.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot(self.root.read().clone())
    }

    /// The resourceVersion up to which a scope is complete; empty before the first.
    pub fn resource_version(&self, scope: Scope) -> String {
        self.root.read().scope(scope).map(|state| state.resource_version.clone()).unwrap_or_default()
    }

    /// The counters.
    pub fn stats(&self) -> StoreStats {
        StoreStats {
            stale: self.stale.load(Ordering::Relaxed),
            index_failures: self.index_failures.load(Ordering::Relaxed),
        }
    }

    /// Sets the fields of the objects, if they are a custom resource. The first schema stays.
    pub(crate) fn define(&self, schema: CustomSchema) {
        let _ = self.definition.set(schema);
    }

    /// The fields of the objects, if they are a custom resource: empty until [`define`](Self::define) is called.
    pub(crate) fn definition(&self) -> &Definition {
        &self.definition
    }

    /// Whether the stored objects can have a field.
    pub(crate) fn check_field(&self, path: &FieldPath) -> Result<(), kube_wire::Error> {
        if let Some(schema) = self.definition.get() {
            schema.check(path)?;
        }
        if let Some(type_meta) = &self.config.type_meta {
            PathReader::new(path, type_meta)?;
        }
        match &self.config.projection {
            Some(projection) if projection.keeps(path) == Kept::Dropped => {
                let why = "the projection drops it; keep it, or choose another".to_owned();
                Err(kube_wire::Error::Path { path: path.to_string(), why })
            }
            _ => Ok(()),
        }
    }

    /// Whether an object of this key is stored.
    pub(crate) fn has_key(&self, namespace: &str, name: &str) -> bool {
        let is_it = |object: &StoredObject| object.has_key(namespace, name);
        self.read(|root| root.objects.get(key_hash(namespace, name), is_it).is_some())
    }

    pub(super) fn read<T>(&self, read: impl FnOnce(&Root) -> T) -> T {
        read(&self.root.read())
    }
}

// === impl Store: writing ===

impl Store {
    /// Adds an index. Stored objects are indexed before this returns.
    ///
    /// # Errors
    /// Returns an error if the name is taken, the path is invalid, or the projection drops the field.
    pub fn add_index(&self, index: &Index) -> Result<(), IndexError> {
        let mut writer = self.writer.lock();
        if self.read(|root| root.index(index.name()).is_ok()) {
            return Err(IndexError::Duplicate(index.name().into()));
        }
        self.definition.get().map_or(Ok(()), |schema| index.check(schema))?;
        let compiled = index.compile(self.config.projection.as_ref(), self.config.type_meta.as_ref())?;
        writer.add_index(&self.root, compiled, &mut |failure| self.report(&failure));
        Ok(())
    }

    /// The selection of a scope has changed: it is incomplete until the next list.
    pub(crate) fn reselect(&self, scope: Scope) {
        let _writer = self.writer.lock();
        Arc::make_mut(&mut self.root.write()).reselect(scope);
    }

    /// Forgets the progress of a scope without objects: the next list of that number is an initial one.
    pub(crate) fn forget_scope(&self, scope: Scope) {
        let _writer = self.writer.lock();
        Arc::make_mut(&mut self.root.write()).forget_scope(scope);
    }

    /// Whether an object fits the budget when it replaces the one with its key.
    pub(crate) fn admit(&self, object: &RawObject) -> Result<(), OverBudget> {
        let head = object.head();
        let replaced = || self.get(&Key::of_head(&head)).map_or(0, |old| old.stored_bytes() + OBJECT_BYTES);
        self.charge.admit(object.bytes().len(), replaced)
    }

    /// Shows readers another moment; returns the one that it replaces. For a deliberate bug.
    #[cfg(deliberate_bug)]
    pub(crate) fn show(&self, moment: Snapshot) -> Snapshot {
        Snapshot(std::mem::replace(&mut self.root.write(), moment.0))
    }

    /// The object stored under the key of `object`.
    pub(super) fn stored(&self, object: &StoredObject) -> Option<StoredObject> {
        self.root.read().stored(object).cloned()
    }

    pub(super) fn report(&self, failure: &IndexFailure) {
        self.index_failures.fetch_add(1, Ordering::Relaxed);
        tracing::warn!(index = %failure.index, key = %failure.key, why = %failure.why, "index cannot read object");
        if let Some(callback) = &self.config.on_index_failure {
            // A panic here would leave a write half-done, with indexes that do not match their objects.
            if let Err(why) = guarded(|| callback(failure)) {
                tracing::error!(index = %failure.index, why, "callback for index errors panicked");
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

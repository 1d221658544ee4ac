//! The store itself: one writer, many readers.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use kube_wire::{Projection, TypeMeta};
use parking_lot::{Mutex, RwLock};

use super::change::ChangeSet;
use super::index::{Index, IndexError, IndexTrouble};
use super::memory::Memory;
use super::packing::Packer;
use super::root::{Mark, Root};
use super::wait::Topic;
use super::commit::{Aside, Edit, IN_PLACE_MAX, Writer};
use super::{Snapshot, Staging, StoredObject};
use crate::Key;
use crate::calls::guarded;
use crate::queue::Scope;
use crate::waiters::Waiters;

/// Objects by key, indexed, readable at any time by anybody.
///
/// Writes take their turn; each takes effect as a whole. Reads of one object look at the present state and never wait for
/// more than one write in progress; everything that reads several objects does so in a [`Snapshot`], while writes go on.
#[derive(Default)]
pub struct Store {
    root: RwLock<Arc<Root>>,
    pub(super) writer: Mutex<Writer>,
    pub(super) waiters: Waiters<Topic>,
    config: Config,
    pub(super) packer: Arc<Packer>,
    pub(super) stale: AtomicU64,
    index_troubles: AtomicU64,
}

/// What a [`Store`] is made with.
#[derive(Clone, Debug, Default)]
pub struct StoreConfig {
    indexes: Vec<Index>,
    memory: Memory,
    config: Config,
}

type HearTrouble = dyn Fn(&IndexTrouble) + Send + Sync;

#[derive(Clone, Default)]
struct Config {
    projection: Option<Projection>,
    type_meta: Option<TypeMeta>,
    on_index_trouble: Option<Arc<HearTrouble>>,
}

/// What was counted since a store was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoreStats {
    /// Writes that were left out because a newer state was there.
    pub stale: u64,
    /// Objects that an index could not read.
    pub index_troubles: u64,
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

    /// Who hears of objects that an index cannot read. They are logged and counted in any case.
    #[must_use]
    pub fn on_index_trouble(mut self, hear: impl Fn(&IndexTrouble) + Send + Sync + 'static) -> Self {
        self.config.on_index_trouble = Some(Arc::new(hear));
        self
    }
}

// === impl Store: reading ===

impl Store {
    /// An empty store.
    ///
    /// # Errors
    /// If an index cannot be: its path is none, what it reads is not kept, or another has its name.
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

    /// The object with this namespace (empty for cluster-scoped ones) and name.
    pub fn get_by_name(&self, namespace: &str, name: &str) -> Option<StoredObject> {
        self.root.read().get_by_name(namespace, name).cloned()
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
            index_troubles: self.index_troubles.load(Ordering::Relaxed),
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
    /// If an index of that name exists, its path is none, or what it reads is not kept.
    pub fn add_index(&self, index: &Index) -> Result<(), IndexError> {
        let mut writer = self.writer.lock();
        if self.read(|root| root.index(index.name()).is_ok()) {
            return Err(IndexError::Duplicate(index.name().into()));
        }
        let compiled = index.compile(self.config.projection.as_ref(), self.config.type_meta.as_ref())?;
        writer.add_index(&self.root, compiled, &mut |trouble| self.report(&trouble));
        Ok(())
    }

    /// Begins to work out what a new full state of a scope changes. The scope must not be written to meanwhile.
    pub fn stage_replace(&self, scope: Scope) -> Staging {
        Staging::new(self.snapshot(), scope, self.packer.clone())
    }

    /// Applies a new full state, in one step. What it changed is told by [`ChangeSet::changes`].
    pub fn replace(&self, set: &ChangeSet) {
        let mut writer = self.writer.lock();
        let removed = set.deleted.iter().filter_map(|old| Some(Edit::Remove { old: self.known(old)? }));
        let put = set.puts.iter().enumerate().map(|(at, put)| {
            let (old, new) = (self.known(put.object()), put.object().clone());
            Edit::put(old, new, set.values.get(at).cloned().flatten())
        });
        let mark = Mark::Replaced {
            scope: set.scope,
            resource_version: &set.resource_version,
            new_epoch: set.new_epoch,
        };
        let written = set.deleted.len() + set.puts.len();
        if written <= IN_PLACE_MAX {
            self.commit(&mut writer, &mut removed.chain(put).collect(), &[mark]);
        } else {
            self.commit_aside(&mut writer, removed.chain(put), &[mark]);
        }
        self.upkeep(&mut writer, written);
    }

    pub(super) fn commit(&self, writer: &mut Writer, edits: &mut Vec<Edit>, marks: &[Mark<'_>]) {
        if edits.len() > IN_PLACE_MAX {
            return self.commit_aside(writer, edits.drain(..), marks);
        }
        let gone = self.admit(edits);
        writer.write(&self.root, edits, marks, &mut |trouble| self.report(&trouble));
        self.packer.release(gone);
        self.wake(edits, marks);
    }

    /// Commits a part after the other, so that a large state is not held in yet another form.
    fn commit_aside(&self, writer: &mut Writer, edits: impl Iterator<Item = Edit>, marks: &[Mark<'_>]) {
        let (mut edits, mut aside, mut gone) = (edits, Aside::new(&self.root), 0);
        let mut part = Vec::with_capacity(IN_PLACE_MAX);
        loop {
            part.extend(edits.by_ref().take(IN_PLACE_MAX));
            if part.is_empty() {
                break;
            }
            gone += self.admit(&mut part);
            writer.write_aside(&mut aside, &part, &mut |trouble| self.report(&trouble));
            part.clear();
        }
        aside.replace(&self.root, marks);
        self.packer.release(gone);
        // So many keys have changed that looking for those of waiting callers costs more than waking them.
        self.waiters.wake_all();
    }

    /// Makes what is to be stored ready for it; gives how many objects will go, or take another state.
    fn admit(&self, edits: &mut [Edit]) -> usize {
        let mut gone = 0;
        for edit in edits {
            match edit {
                Edit::Put { old, new, kept, .. } => {
                    gone += usize::from(old.is_some());
                    *kept = self.packer.admit(new);
                }
                Edit::Remove { .. } => gone += 1,
                Edit::Repack { .. } => {}
            }
        }
        gone
    }

    /// Puts objects in the place of the same ones, packed otherwise. There is nothing to tell.
    pub(super) fn repack(&self, writer: &mut Writer, edits: &[Edit]) {
        writer.write(&self.root, edits, &[], &mut |_| {});
    }

    pub(super) fn known(&self, object: &StoredObject) -> Option<StoredObject> {
        self.root.read().known(object).cloned()
    }

    pub(super) fn report(&self, trouble: &IndexTrouble) {
        self.index_troubles.fetch_add(1, Ordering::Relaxed);
        tracing::warn!(index = %trouble.index, key = %trouble.key, why = %trouble.why, "an index could not read an object");
        if let Some(hear) = &self.config.on_index_trouble {
            // Or a write would end half-way, with indexes that do not fit their objects.
            if let Err(why) = guarded(|| hear(trouble)) {
                tracing::error!(index = %trouble.index, why, "the callback for index errors failed");
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

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config")
            .field("projection", &self.projection)
            .field("type_meta", &self.type_meta)
            .finish_non_exhaustive()
    }
}

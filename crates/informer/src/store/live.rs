//! The store itself: one writer, many readers.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use kube_wire::{Projection, TypeMeta};
use parking_lot::{Mutex, RwLock};

use super::change::{Change, ChangeSet, Origin};
use super::index::{Index, IndexError, IndexTrouble};
use super::object::Likeness;
use super::root::{Mark, Root};
use super::table::Hashes;
use super::wait::Waiters;
use super::write::{Edit, IN_PLACE_MAX, Writer};
use super::{Snapshot, Staging, StoredObject};
use crate::Key;
use crate::queue::Scope;
use crate::version::is_older;

/// Objects by key, indexed, readable at any time by anybody.
///
/// Writes take their turn; each takes effect as a whole. Reads of one object look at the present state and never wait for
/// more than one write in progress; everything that reads several objects does so in a [`Snapshot`], while writes go on.
#[derive(Default)]
pub struct Store {
    root: RwLock<Arc<Root>>,
    writer: Mutex<Writer>,
    pub(super) waiters: Waiters,
    config: Config,
    stale: AtomicU64,
    index_troubles: AtomicU64,
}

/// What a [`Store`] is made with.
#[derive(Clone, Debug, Default)]
pub struct StoreConfig {
    indexes: Vec<Index>,
    config: Config,
}

type HearTrouble = dyn Fn(&IndexTrouble) + Send + Sync;

#[derive(Clone, Default)]
struct Config {
    projection: Option<Projection>,
    type_meta: Option<TypeMeta>,
    on_index_trouble: Option<Arc<HearTrouble>>,
}

/// One thing to write.
#[derive(Clone, Copy, Debug)]
pub enum Write<'a> {
    /// The object is there, in this state, as a watch has told.
    Put(&'a StoredObject),
    /// The object is there, in this state, as a full list shows: right even where it is older than what is known.
    Listed(&'a StoredObject),
    /// The object was deleted in this state.
    Delete(&'a StoredObject),
    /// The object is no longer there; this is what was known of it.
    Vanished(&'a StoredObject),
    /// Everything up to this resourceVersion is in.
    Bookmark(Scope, &'a str),
}

/// What is written in one step: no key appears twice.
struct Step<'a> {
    edits: Vec<Edit>,
    keys: Hashes,
    marks: Vec<Mark<'a>>,
    changes: Vec<Change>,
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

    /// Who hears of objects that an index cannot read. They are logged and counted in any case.
    #[must_use]
    pub fn on_index_trouble(mut self, hear: impl Fn(&IndexTrouble) + Send + Sync + 'static) -> Self {
        self.config.on_index_trouble = Some(Arc::new(hear));
        self
    }
}

// === impl Step ===

impl<'a> Step<'a> {
    /// Whether the write's key does not appear yet. (Two keys with one hash begin a step too many, which is no harm.)
    fn is_new(&mut self, write: &Write<'_>) -> bool {
        write.object().is_none_or(|object| self.keys.insert(object.key_hash()))
    }

    /// Begins the next step; the changes go on.
    fn clear(&mut self) {
        self.edits.clear();
        self.marks.clear();
        self.keys.clear();
    }
}

// === impl Write ===

impl<'a> Write<'a> {
    fn object(&self) -> Option<&'a StoredObject> {
        match self {
            Self::Put(object) | Self::Listed(object) | Self::Delete(object) | Self::Vanished(object) => {
                Some(object)
            }
            Self::Bookmark(..) => None,
        }
    }
}

// === impl Store: reading ===

impl Store {
    /// An empty store.
    ///
    /// # Errors
    /// If an index cannot be: its path is none, what it reads is not kept, or another has its name.
    pub fn new(config: StoreConfig) -> Result<Self, IndexError> {
        let store = Self { config: config.config, ..Self::default() };
        config.indexes.into_iter().try_for_each(|index| store.add_index(&index))?;
        Ok(store)
    }

    /// The object with this key.
    pub fn get(&self, key: &Key) -> Option<StoredObject> {
        self.get_by_name(key.namespace(), key.name())
    }

    /// The object with this namespace (empty for cluster-scoped ones) and name.
    pub fn get_by_name(&self, namespace: &str, name: &str) -> Option<StoredObject> {
        self.root.read().get(namespace, name).cloned()
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
        if writer.index(index.name()).is_some() {
            return Err(IndexError::Duplicate(index.name().into()));
        }
        let compiled = index.compile(self.config.projection.as_ref(), self.config.type_meta.as_ref())?;
        writer.add_index(&self.root, compiled, &mut |trouble| self.report(&trouble));
        Ok(())
    }

    /// Writes what a watch has told, in one step; gives what that changed, in order.
    ///
    /// - A state that is older than the stored one of the same object is left out, and counted (unless it was listed).
    /// - The same state once more is told as a resync; in another encoding it is swapped silently.
    /// - A key under which there was another object (another uid) is told as deleted, its final state unknown, and added.
    /// - The deletion of an object that is not stored is told all the same.
    ///
    /// A key that appears again begins a second step.
    pub fn write<'a>(&self, writes: impl IntoIterator<Item = Write<'a>>) -> Vec<Change> {
        let mut writer = self.writer.lock();
        let writes = writes.into_iter();
        let (edits, keys) = writer.take_room();
        let mut step = Step { edits, keys, marks: Vec::new(), changes: Vec::new() };
        step.changes.reserve(writes.size_hint().1.unwrap_or_default().min(IN_PLACE_MAX));
        for write in writes {
            if !step.is_new(&write) {
                self.commit(&mut writer, &step.edits, &step.marks);
                step.clear();
                step.is_new(&write);
            }
            self.resolve(write, &mut step);
        }
        self.commit(&mut writer, &step.edits, &step.marks);
        step.clear();
        writer.give_room(step.edits, step.keys);
        step.changes
    }

    /// Begins to work out what a new full state of a scope changes. The scope must not be written to meanwhile.
    pub fn stage_replace(&self, scope: Scope) -> Staging {
        Staging::new(self.snapshot(), scope)
    }

    /// Applies a new full state, in one step. What it changed is told by [`ChangeSet::changes`].
    pub fn replace(&self, set: &ChangeSet) {
        let mut writer = self.writer.lock();
        let mut edits = Vec::with_capacity(set.deleted.len() + set.puts.len());
        edits.extend(set.deleted.iter().filter_map(|old| Some(Edit::Remove { old: self.known(old)? })));
        edits.extend(
            set.puts.iter().map(|put| Edit::Put { old: self.known(put.object()), new: put.object().clone() }),
        );
        let mark = Mark::Replaced {
            scope: set.scope,
            resource_version: &set.resource_version,
            new_epoch: set.new_epoch,
        };
        self.commit(&mut writer, &edits, &[mark]);
    }

    fn commit(&self, writer: &mut Writer, edits: &[Edit], marks: &[Mark<'_>]) {
        writer.write(&self.root, edits, marks, &mut |trouble| self.report(&trouble));
        self.waiters.wake();
    }

    fn known(&self, object: &StoredObject) -> Option<StoredObject> {
        self.root.read().known(object).cloned()
    }

    /// Works out what a write does to what is stored now.
    fn resolve<'a>(&self, write: Write<'a>, step: &mut Step<'a>) {
        let reached = |object: &'a StoredObject| Mark::Reached(object.scope(), object.resource_version());
        match write {
            Write::Bookmark(scope, version) => step.marks.push(Mark::Reached(scope, version)),
            Write::Put(new) => {
                step.marks.push(reached(new));
                self.put(new, Origin::Live, step);
            }
            Write::Listed(new) => {
                step.marks.push(reached(new));
                self.put(new, Origin::Relist, step);
            }
            Write::Delete(last) => {
                step.marks.push(reached(last));
                self.delete(last, step);
            }
            // It does not say up to where the scope is known.
            Write::Vanished(last) => {
                if let Some(old) = self.known(last) {
                    step.changes.push(Change::deleted(old.clone(), false, Origin::Relist));
                    step.edits.push(Edit::Remove { old });
                }
            }
        }
    }

    fn put(&self, new: &StoredObject, origin: Origin, step: &mut Step<'_>) {
        let Some(old) = self.known(new) else {
            step.changes.push(Change::added(new.clone(), origin));
            step.edits.push(Edit::Put { old: None, new: new.clone() });
            return;
        };
        let older = || is_older(new.resource_version(), old.resource_version());
        match old.likeness_of(new) {
            Likeness::Same => return step.changes.push(Change::updated(old.clone(), old, Origin::Resync)),
            Likeness::Reencoded => {}
            Likeness::Changed if origin == Origin::Live && older() => return self.count_stale(),
            Likeness::Changed => step.changes.push(Change::updated(old.clone(), new.clone(), origin)),
            Likeness::Recreated => {
                step.changes.push(Change::deleted(old.clone(), false, origin));
                step.changes.push(Change::added(new.clone(), origin));
            }
        }
        step.edits.push(Edit::Put { old: Some(old), new: new.clone() });
    }

    fn delete(&self, last: &StoredObject, step: &mut Step<'_>) {
        let Some(old) = self.known(last) else {
            return step.changes.push(Change::deleted(last.clone(), true, Origin::Live));
        };
        if is_older(last.resource_version(), old.resource_version()) {
            return self.count_stale();
        }
        // The deletion of an earlier object tells that this one is gone too, but not in which state.
        let same = old.uid() == last.uid();
        step.changes.push(Change::deleted(if same { last.clone() } else { old.clone() }, same, Origin::Live));
        step.edits.push(Edit::Remove { old });
    }

    fn count_stale(&self) {
        self.stale.fetch_add(1, Ordering::Relaxed);
    }

    /// The values that an object has, or would have, in an index.
    pub(super) fn index_values_of(
        &self,
        name: &str,
        object: &StoredObject,
    ) -> Result<Vec<String>, IndexError> {
        let index = self.writer.lock().index(name).ok_or_else(|| IndexError::Unknown(name.into()))?;
        let mut values = Vec::new();
        if let Err(why) = index.values(object, |value| values.push(value.to_owned())) {
            self.report(&IndexTrouble { index: index.name.clone(), key: object.key(), why });
        }
        Ok(values)
    }

    fn report(&self, trouble: &IndexTrouble) {
        self.index_troubles.fetch_add(1, Ordering::Relaxed);
        tracing::warn!(index = %trouble.index, key = %trouble.key, why = %trouble.why, "an index could not read an object");
        if let Some(hear) = &self.config.on_index_trouble {
            hear(trouble);
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

//! client-go's Indexer: the store with client-go's names.

use std::collections::HashSet;
use std::sync::Arc;

use super::{Index, IndexError, IndexFailure, Store, StoredObject};
use crate::Key;
use crate::delta::Delta;
use crate::scope::Scope;

/// A [`Store`] with the methods of client-go's `Indexer`, for hand-written pop loops. Clones are handles to the same store.
///
/// A queue by key returns the deltas of one object before earlier ones of others. So a write here proves nothing about
/// other objects: only [`replace`](Self::replace) advances the resourceVersion of a scope, and [`Store::wait_for`] waits
/// for the object itself. A caller that knows more applies a [`Delta::Bookmark`] to the [`store`](Self::store).
///
/// ```
/// use std::sync::Arc;
/// use kube_informer::{Index, Scope, StoredObject};
/// use kube_informer::building_blocks::{Indexer, Store, StoreConfig};
/// # use kube_informer::testing::ScriptedSource;
/// # use serde_json::json;
///
/// # let pod = json!({"metadata": {"namespace": "web", "name": "api", "resourceVersion": "7"}, "spec": {"nodeName": "node-7"}});
/// # let pod = ScriptedSource::new("v1", "Pod").object(&pod);
/// let by_node = Index::field("node", "spec.nodeName");
/// let indexer = Indexer::new(Arc::new(Store::new(StoreConfig::default().index(by_node.clone()))?));
/// let pod = StoredObject::new(Scope::default(), pod)?;
/// indexer.add(&pod);
/// assert_eq!(indexer.by_index(&by_node, "node-7")?[0].name(), "api");
/// indexer.delete(&pod);
/// assert!(indexer.list().is_empty());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Indexer {
    store: Arc<Store>,
}

impl Indexer {
    /// An indexer over a store.
    pub fn new(store: Arc<Store>) -> Self {
        Self { store }
    }

    /// The store.
    pub fn store(&self) -> &Arc<Store> {
        &self.store
    }

    /// Stores an object. Same as [`update`](Self::update).
    pub fn add(&self, object: &StoredObject) {
        self.update(object);
    }

    /// Stores an object, unless a newer state of it is stored.
    pub fn update(&self, object: &StoredObject) {
        self.apply(&Delta::Updated(object.clone()));
    }

    /// Removes an object.
    pub fn delete(&self, object: &StoredObject) {
        self.apply(&Delta::Deleted(object.clone()));
    }

    /// Applies one delta of a [`DeltaFifo`](crate::queue::DeltaFifo). A listed object replaces even a newer state.
    pub fn apply(&self, delta: &Delta) {
        self.store.apply_each(std::slice::from_ref(delta), false);
    }

    /// The object stored under the key of `object`.
    pub fn get(&self, object: &StoredObject) -> Option<StoredObject> {
        self.store.stored(object)
    }

    /// The object stored under a key.
    pub fn get_by_key(&self, key: &Key) -> Option<StoredObject> {
        self.store.get(key)
    }

    /// All objects.
    pub fn list(&self) -> Vec<StoredObject> {
        self.store.snapshot().into_objects().collect()
    }

    /// All keys.
    pub fn list_keys(&self) -> Vec<Key> {
        self.store.snapshot().iter().map(StoredObject::key).collect()
    }

    /// Replaces everything in a scope with these objects.
    pub fn replace(
        &self,
        scope: Scope,
        objects: impl IntoIterator<Item = StoredObject>,
        resource_version: &str,
    ) {
        let mut replacement = self.store.begin_replace(scope);
        for object in objects {
            replacement.put(object.raw()).expect("a stored object has a name");
        }
        self.store.apply(&[Delta::ReplacedAll(Arc::new(replacement.finish(resource_version)))]);
    }

    /// The objects that share a value with `object` in an index; `object` itself need not be stored. If the index cannot
    /// read it, that is reported, and the result is empty.
    ///
    /// # Errors
    /// Returns an error if there is no such index.
    pub fn index(
        &self,
        index: impl AsRef<str>,
        object: &StoredObject,
    ) -> Result<Vec<StoredObject>, IndexError> {
        let snapshot = self.store.snapshot();
        let known = snapshot.0.index(index.as_ref())?;
        let mut groups = Vec::new();
        if let Err(why) = known.index.values(object, |value| groups.extend(known.group(value))) {
            self.store.report(&IndexFailure { index: known.index.name.clone(), key: object.key(), why });
            return Ok(Vec::new());
        }
        // Duplicates occur only with several values; in one snapshot they are the same handle.
        let (several, mut places) = (groups.len() > 1, HashSet::new());
        let found = groups.into_iter().flat_map(|group| group.objects.iter());
        Ok(found.filter(|object| !several || places.insert(object.place())).cloned().collect())
    }

    /// The objects with a value in an index.
    ///
    /// # Errors
    /// Returns an error if there is no such index.
    pub fn by_index(&self, index: impl AsRef<str>, value: &str) -> Result<Vec<StoredObject>, IndexError> {
        self.store.by_index(index, value)
    }

    /// The keys of the objects with a value in an index.
    ///
    /// # Errors
    /// Returns an error if there is no such index.
    pub fn index_keys(&self, index: impl AsRef<str>, value: &str) -> Result<Vec<Key>, IndexError> {
        Ok(self.store.snapshot().by_index(index, value)?.map(StoredObject::key).collect())
    }

    /// The values of an index.
    ///
    /// # Errors
    /// Returns an error if there is no such index.
    pub fn list_index_func_values(&self, index: impl AsRef<str>) -> Result<Vec<String>, IndexError> {
        Ok(self.store.snapshot().index_values(index)?.map(|(value, _)| value.to_owned()).collect())
    }

    /// Adds indexes over stored and future objects.
    ///
    /// # Errors
    /// Returns the error of the first index that cannot be added: see [`Store::add_index`].
    pub fn add_indexers(&self, indexes: impl IntoIterator<Item = Index>) -> Result<(), IndexError> {
        indexes.into_iter().try_for_each(|index| self.store.add_index(&index))
    }
}

//! One moment of a store.

use std::sync::Arc;

use super::index::{Index, IndexError};
use super::root::Root;
use super::{StoredObject, root::ScopeVersion};
use crate::Key;
use crate::scope::Scope;

/// The state of a store at one moment: objects, indexes and resourceVersions that belong together.
///
/// Taking one is nearly free. Holding one costs memory for changes: it keeps replaced and deleted objects alive, and makes
/// writers copy what they touch (once).
///
/// ```
/// use kube_informer::{Scope, building_blocks::{Delta, Store}};
/// # use kube_informer::{StoredObject, testing::ScriptedSource};
///
/// # let pod = ScriptedSource::new("v1", "Pod").object(&serde_json::json!({"metadata": {"name": "api", "resourceVersion": "7"}}));
/// # let pod = StoredObject::new(Scope::default(), pod)?;
/// let store = Store::default();
/// store.apply(&[Delta::Added(pod.clone())]);
/// let moment = store.snapshot();
/// store.apply(&[Delta::Deleted(pod)]);
/// assert_eq!((moment.len(), store.len()), (1, 0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Snapshot(pub(super) Arc<Root>);

/// An iterator over all objects of a snapshot that does not borrow it, for slow readers.
#[derive(Clone, Debug)]
pub struct Objects {
    snapshot: Snapshot,
    leaf: usize,
    at_hand: std::vec::IntoIter<StoredObject>,
    left: usize,
}

impl Snapshot {
    /// The object with this key.
    pub fn get(&self, key: &Key) -> Option<&StoredObject> {
        self.0.get(key)
    }

    /// The number of objects.
    pub fn len(&self) -> usize {
        self.0.objects.len()
    }

    /// Whether there is no object.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many bytes the objects hold.
    pub fn stored_bytes(&self) -> usize {
        self.0.bytes
    }

    /// How many dictionaries its objects use: at most four per kind. For tests.
    #[doc(hidden)]
    pub fn dictionaries(&self) -> usize {
        self.0.dictionaries.len()
    }

    /// All objects, in no particular order (but deterministic for the same history).
    pub fn iter(&self) -> impl Iterator<Item = &StoredObject> + Clone {
        self.0.objects.iter()
    }

    /// All objects, as handles.
    pub fn into_objects(self) -> Objects {
        let left = self.len();
        Objects { snapshot: self, leaf: 0, at_hand: Vec::new().into_iter(), left }
    }

    /// The objects of one scope.
    pub fn scope(&self, scope: Scope) -> impl Iterator<Item = &StoredObject> + Clone {
        self.iter().filter(move |object| object.scope() == scope)
    }

    /// The objects of one namespace. With [`Index::namespace`] this does not scan the others.
    pub fn namespace<'a>(&'a self, namespace: &'a str) -> impl Iterator<Item = &'a StoredObject> + Clone {
        let index = self.0.index(Index::NAMESPACE).ok();
        let found = index.and_then(|index| index.group(namespace)).map(|group| group.objects.iter());
        // Not indexed: cluster-scoped objects, or everything if the index is absent.
        let scanned = (index.is_none() || namespace.is_empty())
            .then(|| self.iter().filter(move |object| object.namespace() == namespace));
        found.into_iter().flatten().chain(scanned.into_iter().flatten())
    }

    /// The objects with a value in an index.
    ///
    /// # Errors
    /// Returns an error if there is no such index.
    pub fn by_index(
        &self,
        index: impl AsRef<str>,
        value: &str,
    ) -> Result<impl Iterator<Item = &StoredObject> + Clone, IndexError> {
        let group = self.0.index(index.as_ref())?.group(value);
        Ok(group.into_iter().flat_map(|group| group.objects.iter()))
    }

    /// The values of an index, each with its number of objects.
    ///
    /// # Errors
    /// Returns an error if there is no such index.
    pub fn index_values(
        &self,
        index: impl AsRef<str>,
    ) -> Result<impl Iterator<Item = (&str, usize)> + Clone, IndexError> {
        let groups = self.0.index(index.as_ref())?.groups.iter();
        Ok(groups.map(|group| (&*group.value, group.objects.len())))
    }

    /// The names of the indexes, in the order they were added.
    pub fn indexes(&self) -> impl Iterator<Item = &str> {
        self.0.indexes.iter().map(|known| &*known.index.name)
    }

    /// The resourceVersion up to which this scope is complete; empty before the first.
    pub fn resource_version(&self, scope: Scope) -> &str {
        self.scope_version(scope).map_or("", |state| &state.resource_version)
    }

    /// How often the server regressed. resourceVersions of different epochs are not comparable.
    pub fn epoch(&self, scope: Scope) -> u64 {
        self.scope_version(scope).map_or(0, |state| state.epoch)
    }

    /// Whether a complete list of this scope has been applied, since its selection last changed.
    pub fn is_complete(&self, scope: Scope) -> bool {
        self.scope_version(scope).is_some_and(ScopeVersion::is_complete)
    }

    pub(super) fn scope_version(&self, scope: Scope) -> Option<&ScopeVersion> {
        self.0.scope(scope)
    }
}

impl Iterator for Objects {
    type Item = StoredObject;

    fn next(&mut self) -> Option<StoredObject> {
        loop {
            if let Some(object) = self.at_hand.next() {
                self.left -= 1;
                return Some(object);
            }
            self.at_hand = self.snapshot.0.objects.leaf_entries(self.leaf)?.into_iter();
            self.leaf += 1;
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Objects {}

//! The root of everything readable: objects, indexes, and the version of each scope.
//!
//! Readers take it as a whole, so everything they see is consistent.

use std::sync::Arc;

use super::index::CompiledIndex;
use super::table::{Hashed, Table};
use super::{IndexError, StoredObject};
use crate::Key;
use crate::budget::OBJECT_BYTES;
use crate::object::text_hash;
use crate::packing::Dictionary;
use crate::scope::Scope;
use crate::version::is_older;

/// One moment of a store. Cheap to clone: everything is shared until it is written to.
#[derive(Clone, Debug, Default)]
pub(super) struct Root {
    pub(super) objects: Table<StoredObject>,
    /// In the order they were added.
    pub(super) indexes: Vec<Grouping>,
    /// Ascending by scope.
    scopes: Vec<(Scope, ScopeVersion)>,
    /// The bytes of all objects.
    pub(super) bytes: usize,
    /// The dictionaries in use, each with its number of objects.
    pub(super) dictionaries: Vec<(Arc<Dictionary>, usize)>,
}

/// The progress of a scope.
#[derive(Clone, Debug, Default)]
pub(super) struct ScopeVersion {
    pub(super) resource_version: String,
    pub(super) epoch: u64,
    /// A complete list has been applied.
    pub(super) complete: bool,
    /// The selection has changed since then: objects of the new one are missing.
    pub(super) reselected: bool,
    pub(super) objects: usize,
}

/// An index: objects grouped by value.
#[derive(Clone, Debug)]
pub(super) struct Grouping {
    pub(super) index: Arc<CompiledIndex>,
    pub(super) groups: Table<Group>,
}

/// The objects with one value. Never empty.
#[derive(Clone)]
pub(super) struct Group {
    pub(super) value: Arc<str>,
    pub(super) objects: Table<StoredObject>,
}

/// Omits the content, which may be that of a Secret.
impl std::fmt::Debug for Group {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Group").field("objects", &self.objects).finish_non_exhaustive()
    }
}

/// How a write advances a scope.
#[derive(Debug)]
pub(super) enum Mark<'a> {
    /// Everything up to this resourceVersion is stored.
    Reached(Scope, &'a str),
    /// A complete list was applied.
    Replaced { scope: Scope, resource_version: &'a str, new_epoch: bool },
}

// === impl Root ===

impl Root {
    pub(super) fn get(&self, key: &Key) -> Option<&StoredObject> {
        self.objects.get(text_hash(key.as_str()), |object| object.has_key_text(key.as_str()))
    }

    /// The object stored under the key of `object`.
    pub(super) fn stored(&self, object: &StoredObject) -> Option<&StoredObject> {
        self.objects.get(object.key_hash(), |known| known.has_key_of(object))
    }

    /// Stores an object in place of `old`, the stored object of its key.
    pub(super) fn insert(&mut self, object: StoredObject, old: Option<&StoredObject>) {
        self.scope_mut(object.scope()).objects += 1;
        self.bytes += object.stored_bytes();
        if let Some(dictionary) = object.dictionary() {
            match self.dictionaries.iter_mut().find(|(known, _)| Arc::ptr_eq(known, dictionary)) {
                Some((_, objects)) => *objects += 1,
                None => self.dictionaries.push((dictionary.clone(), 1)),
            }
        }
        self.objects.insert(object, |other| is_handle(old, other));
        if let Some(old) = old {
            self.forget(old);
        }
    }

    /// Removes `old`, which is stored.
    pub(super) fn remove(&mut self, old: &StoredObject) {
        self.objects.remove(old.key_hash(), |other| old.ptr_eq(other));
        self.forget(old);
    }

    fn forget(&mut self, old: &StoredObject) {
        self.scope_mut(old.scope()).objects -= 1;
        self.bytes -= old.stored_bytes();
        if let Some(dictionary) = old.dictionary()
            && let Some(at) = self.dictionaries.iter().position(|(known, _)| Arc::ptr_eq(known, dictionary))
        {
            self.dictionaries[at].1 -= 1;
            if self.dictionaries[at].1 == 0 {
                self.dictionaries.remove(at);
            }
        }
    }

    /// What its objects take of a memory budget.
    pub(super) fn cost(&self) -> usize {
        self.bytes + self.objects.len() * OBJECT_BYTES
    }

    pub(super) fn index(&self, name: &str) -> Result<&Grouping, IndexError> {
        self.indexes
            .iter()
            .find(|known| &*known.index.name == name)
            .ok_or_else(|| IndexError::Unknown(name.into()))
    }

    pub(super) fn scope(&self, scope: Scope) -> Option<&ScopeVersion> {
        self.scopes.iter().find(|(known, _)| *known == scope).map(|(_, state)| state)
    }

    pub(super) fn reselect(&mut self, scope: Scope) {
        self.scope_mut(scope).reselected = true;
    }

    pub(super) fn forget_scope(&mut self, scope: Scope) {
        self.scopes.retain(|(known, state)| *known != scope || state.objects > 0);
    }

    fn scope_mut(&mut self, scope: Scope) -> &mut ScopeVersion {
        let at = self.scopes.binary_search_by_key(&scope, |(known, _)| *known).unwrap_or_else(|at| {
            self.scopes.insert(at, (scope, ScopeVersion::default()));
            at
        });
        &mut self.scopes[at].1
    }

    pub(super) fn mark(&mut self, mark: &Mark<'_>) {
        match *mark {
            Mark::Reached(scope, version) => {
                let state = self.scope_mut(scope);
                // A repeated or unordered event does not move the scope back.
                if !version.is_empty() && !is_older(version, &state.resource_version) {
                    version.clone_into(&mut state.resource_version);
                }
                if deliberate_bug!("version-ahead-of-objects")
                    && let Ok(version) = version.parse::<u64>()
                {
                    state.resource_version = (version + 1).to_string();
                }
            }
            Mark::Replaced { scope, resource_version, new_epoch } => {
                let state = self.scope_mut(scope);
                resource_version.clone_into(&mut state.resource_version);
                (state.complete, state.reselected) = (true, false);
                state.epoch += u64::from(new_epoch);
            }
        }
    }
}

// === impl ScopeVersion ===

impl ScopeVersion {
    /// Whether everything selected up to the resourceVersion is stored.
    pub(super) fn is_complete(&self) -> bool {
        self.complete && !self.reselected
    }
}

// === impl Grouping ===

impl Grouping {
    pub(super) fn new(index: Arc<CompiledIndex>) -> Self {
        Self { index, groups: Table::default() }
    }

    pub(super) fn group(&self, value: &str) -> Option<&Group> {
        self.groups.get(text_hash(value), |group| &*group.value == value)
    }

    /// Whether exactly this state of an object is indexed under a value.
    pub(super) fn has(&self, value: &str, object: &StoredObject) -> bool {
        let group = self.group(value);
        group
            .is_some_and(|group| group.objects.get(object.key_hash(), |other| object.ptr_eq(other)).is_some())
    }

    /// Adds an object under a value, in place of `old` if that is there.
    pub(super) fn put(&mut self, value: &str, object: StoredObject, old: Option<&StoredObject>) {
        let hash = text_hash(value);
        match self.groups.get_mut(hash, |group| &*group.value == value) {
            Some(group) => {
                // An index function may return a value twice.
                let known = object.clone();
                group.objects.insert(object, |other| is_handle(old, other) || known.ptr_eq(other));
            }
            None => {
                let mut objects = Table::default();
                objects.insert(object, |_| false);
                self.groups.insert(Group { value: value.into(), objects }, |_| false);
            }
        }
    }

    /// Removes an object from a value, and the value with its last object.
    pub(super) fn take(&mut self, value: &str, object: &StoredObject) {
        let hash = text_hash(value);
        let Some(group) = self.groups.get_mut(hash, |group| &*group.value == value) else { return };
        group.objects.remove(object.key_hash(), |other| object.ptr_eq(other));
        if group.objects.is_empty() {
            self.groups.remove(hash, |group| &*group.value == value);
        }
    }
}

/// Compares stored objects by handle, without reading them.
fn is_handle(old: Option<&StoredObject>, other: &StoredObject) -> bool {
    old.is_some_and(|old| old.ptr_eq(other))
}

impl Hashed for StoredObject {
    fn hash(&self) -> u64 {
        self.key_hash()
    }
}

impl Hashed for Group {
    fn hash(&self) -> u64 {
        text_hash(&self.value)
    }
}

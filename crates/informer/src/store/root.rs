//! The one root under which everything that can be read hangs: objects, indexes, and how far each scope has come.
//!
//! Readers take it as a whole, so whatever they see belongs together.

use std::sync::Arc;

use super::index::CompiledIndex;
use super::object::text_hash;
use super::packing::Dictionary;
use super::table::{Hashed, Table};
use super::{IndexError, StoredObject};
use crate::Key;
use crate::scope::Scope;
use crate::version::is_older;

/// One moment of a store. Cheap to clone: everything in it is shared until it is written to.
#[derive(Clone, Debug, Default)]
pub(super) struct Root {
    pub(super) objects: Table<StoredObject>,
    /// In the order in which they were added.
    pub(super) indexes: Vec<Grouping>,
    /// Ascending by scope.
    scopes: Vec<(Scope, ScopeVersion)>,
    /// Of all objects together.
    pub(super) bytes: usize,
    /// The dictionaries that objects are packed with, and how many with each.
    pub(super) dictionaries: Vec<(Arc<Dictionary>, usize)>,
}

/// How far a scope has come.
#[derive(Clone, Debug, Default)]
pub(super) struct ScopeVersion {
    pub(super) resource_version: String,
    pub(super) epoch: u64,
    /// A full state has been applied.
    pub(super) complete: bool,
    pub(super) objects: usize,
}

/// An index: objects grouped by value.
#[derive(Clone, Debug)]
pub(super) struct Grouping {
    pub(super) index: Arc<CompiledIndex>,
    pub(super) groups: Table<Group>,
}

/// The objects that have one value. Never empty.
#[derive(Clone)]
pub(super) struct Group {
    pub(super) value: Arc<str>,
    pub(super) objects: Table<StoredObject>,
}

/// Without the content, which may be that of a Secret.
impl std::fmt::Debug for Group {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Group").field("objects", &self.objects).finish_non_exhaustive()
    }
}

/// How a scope's state moves with a write.
#[derive(Debug)]
pub(super) enum Mark<'a> {
    /// Everything up to this resourceVersion is in.
    Reached(Scope, &'a str),
    /// A full state was applied.
    Replaced { scope: Scope, resource_version: &'a str, new_epoch: bool },
}

// === impl Root ===

impl Root {
    pub(super) fn get(&self, key: &Key) -> Option<&StoredObject> {
        self.objects.get(text_hash(key.as_str()), |object| object.has_key(key.namespace(), key.name()))
    }

    /// What is stored under the key of `object`.
    pub(super) fn stored(&self, object: &StoredObject) -> Option<&StoredObject> {
        self.objects.get(object.key_hash(), |known| known.has_key_of(object))
    }

    /// Stores an object in the place of `old`, which is what is stored under its key.
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

    pub(super) fn index(&self, name: &str) -> Result<&Grouping, IndexError> {
        self.indexes
            .iter()
            .find(|known| &*known.index.name == name)
            .ok_or_else(|| IndexError::Unknown(name.into()))
    }

    pub(super) fn scope(&self, scope: Scope) -> Option<&ScopeVersion> {
        self.scopes.iter().find(|(known, _)| *known == scope).map(|(_, state)| state)
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
                // A repeated or unordered event does not take the scope back.
                if !version.is_empty() && !is_older(version, &state.resource_version) {
                    version.clone_into(&mut state.resource_version);
                }
            }
            Mark::Replaced { scope, resource_version, new_epoch } => {
                let state = self.scope_mut(scope);
                resource_version.clone_into(&mut state.resource_version);
                state.complete = true;
                state.epoch += u64::from(new_epoch);
            }
        }
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

    /// Whether this very state of an object is found under a value.
    pub(super) fn has(&self, value: &str, object: &StoredObject) -> bool {
        let group = self.group(value);
        group
            .is_some_and(|group| group.objects.get(object.key_hash(), |other| object.ptr_eq(other)).is_some())
    }

    /// Puts an object under a value, in the place of `old`, should that be there.
    pub(super) fn put(&mut self, value: &str, object: StoredObject, old: Option<&StoredObject>) {
        let hash = text_hash(value);
        match self.groups.get_mut(hash, |group| &*group.value == value) {
            Some(group) => {
                // An index function may give a value twice.
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

    /// Takes an object away from a value; the value goes with the last one.
    pub(super) fn take(&mut self, value: &str, object: &StoredObject) {
        let hash = text_hash(value);
        let Some(group) = self.groups.get_mut(hash, |group| &*group.value == value) else { return };
        group.objects.remove(object.key_hash(), |other| object.ptr_eq(other));
        if group.objects.is_empty() {
            self.groups.remove(hash, |group| &*group.value == value);
        }
    }
}

/// What is stored is compared by handle: nothing of it need be read.
fn is_handle(old: Option<&StoredObject>, other: &StoredObject) -> bool {
    old.is_some_and(|old| old.ptr_eq(other))
}

impl Hashed for Group {
    fn hash(&self) -> u64 {
        text_hash(&self.value)
    }
}

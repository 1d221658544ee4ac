//! Restricts which changes queue a key.

use std::fmt;
use std::sync::Arc;

use kube_informer::{Object, Origin};

/// Decides whether a change queues a key. Additions and deletions pass, except with [`created`](Self::created) and
/// [`deleted`](Self::deleted).
///
/// ```
/// use kube_informer_controller::Predicate;
/// # use k8s_openapi::api::apps::v1::Deployment;
///
/// let spec_or_labels = Predicate::<Deployment>::generation_changed().or(Predicate::labels_changed());
/// let ignore_unmodified = Predicate::<Deployment>::created(|deployment| deployment.generation() > 1);
/// ```
pub struct Predicate<K> {
    updated: Arc<UpdateTest<K>>,
    created: Arc<ObjectTest<K>>,
    deleted: Arc<ObjectTest<K>>,
}

type UpdateTest<K> = dyn Fn(&Update<'_, K>) -> bool + Send + Sync;
type ObjectTest<K> = dyn Fn(&Object<K>) -> bool + Send + Sync;

/// An update: two states of one object.
#[derive(Debug)]
#[non_exhaustive]
pub struct Update<'a, K> {
    /// The previous state.
    pub old: &'a Object<K>,
    /// The current state.
    pub new: &'a Object<K>,
    /// Where the change came from.
    pub origin: Origin,
}

impl<K> Predicate<K> {
    /// Passes the updates that a function accepts, and all additions and deletions.
    pub fn new(test: impl Fn(&Update<'_, K>) -> bool + Send + Sync + 'static) -> Self {
        Self {
            updated: Arc::new(test),
            created: Arc::new(|_: &Object<K>| true),
            deleted: Arc::new(|_: &Object<K>| true),
        }
    }

    /// Passes the additions that a function accepts, and all updates and deletions. Objects of the initial list are additions.
    pub fn created(test: impl Fn(&Object<K>) -> bool + Send + Sync + 'static) -> Self {
        Self { created: Arc::new(test), ..Self::new(|_| true) }
    }

    /// Passes the deletions that a function accepts, by the last state of the object, and all additions and updates.
    pub fn deleted(test: impl Fn(&Object<K>) -> bool + Send + Sync + 'static) -> Self {
        Self { deleted: Arc::new(test), ..Self::new(|_| true) }
    }

    /// Passes changes of the spec, the start of a deletion, resyncs, and every update of kinds without a generation (ConfigMaps,
    /// Secrets).
    pub fn generation_changed() -> Self {
        Self::new(|Update { old, new, origin }| {
            let unknown = old.generation() == 0 && new.generation() == 0;
            let changed = old.generation() != new.generation() || old.is_deleting() != new.is_deleting();
            unknown || changed || *origin == Origin::Resync
        })
    }

    /// Passes changes of labels, and resyncs.
    pub fn labels_changed() -> Self {
        Self::new(|Update { old, new, origin }| *origin == Origin::Resync || !old.labels().eq(new.labels()))
    }

    /// Passes changes of annotations, and resyncs.
    pub fn annotations_changed() -> Self {
        Self::new(|Update { old, new, origin }| {
            *origin == Origin::Resync || old.annotations() != new.annotations()
        })
    }

    /// Passes every update except resyncs, and all additions and deletions.
    pub fn resource_version_changed() -> Self {
        Self::new(|Update { old, new, .. }| old.resource_version() != new.resource_version())
    }

    /// Passes if one of the two passes.
    #[must_use]
    pub fn or(self, other: Self) -> Self
    where
        K: 'static,
    {
        self.combined(other, |one, other| one() || other())
    }

    /// Passes if both pass.
    #[must_use]
    pub fn and(self, other: Self) -> Self
    where
        K: 'static,
    {
        self.combined(other, |one, other| one() && other())
    }

    fn combined(self, other: Self, rule: Combine) -> Self
    where
        K: 'static,
    {
        let (updated, created, deleted) = (self.updated, self.created, self.deleted);
        Self {
            updated: Arc::new(move |update: &Update<'_, K>| {
                rule(&|| updated(update), &|| (other.updated)(update))
            }),
            created: Arc::new(move |object: &Object<K>| {
                rule(&|| created(object), &|| (other.created)(object))
            }),
            deleted: Arc::new(move |object: &Object<K>| {
                rule(&|| deleted(object), &|| (other.deleted)(object))
            }),
        }
    }

    pub(super) fn passes_update(&self, update: &Update<'_, K>) -> bool {
        (self.updated)(update)
    }

    pub(super) fn passes_created(&self, object: &Object<K>) -> bool {
        (self.created)(object)
    }

    pub(super) fn passes_deleted(&self, object: &Object<K>) -> bool {
        (self.deleted)(object)
    }
}

/// Combines two tests. The second is called only if the first does not decide.
type Combine = fn(&dyn Fn() -> bool, &dyn Fn() -> bool) -> bool;

impl<K> Clone for Predicate<K> {
    fn clone(&self) -> Self {
        Self { updated: self.updated.clone(), created: self.created.clone(), deleted: self.deleted.clone() }
    }
}

impl<K> fmt::Debug for Predicate<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Predicate")
    }
}

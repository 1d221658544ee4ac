//! Which changes are worth a reconcile.

use std::fmt;
use std::sync::Arc;

use kube_informer::{Object, Origin};

/// Says of an update whether it is worth a reconcile. Additions and deletions always are.
///
/// ```
/// use kube_informer_controller::Predicate;
/// # use k8s_openapi::api::apps::v1::Deployment;
///
/// let spec_or_labels = Predicate::<Deployment>::generation_changed().or(Predicate::labels_changed());
/// ```
pub struct Predicate<K>(Arc<Test<K>>);

type Test<K> = dyn Fn(&Update<'_, K>) -> bool + Send + Sync;

/// An update: two states of one object.
#[derive(Debug)]
#[non_exhaustive]
pub struct Update<'a, K> {
    /// The state that was heard of last.
    pub old: &'a Object<K>,
    /// The state now.
    pub new: &'a Object<K>,
    /// How it was learned.
    pub origin: Origin,
}

impl<K> Predicate<K> {
    /// One of your own.
    pub fn new(test: impl Fn(&Update<'_, K>) -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(test))
    }

    /// The specification has changed, or deletion has begun. Passes resyncs, which were asked for, and kinds that have no
    /// generation (config maps, secrets), of which it cannot tell.
    pub fn generation_changed() -> Self {
        Self::new(|Update { old, new, origin }| {
            let unknown = old.generation() == 0 && new.generation() == 0;
            let changed = old.generation() != new.generation() || old.is_deleting() != new.is_deleting();
            unknown || changed || *origin == Origin::Resync
        })
    }

    /// A label has changed. Passes resyncs, which were asked for.
    pub fn labels_changed() -> Self {
        Self::new(|Update { old, new, origin }| *origin == Origin::Resync || !old.labels().eq(new.labels()))
    }

    /// Something has changed: everything but resyncs.
    pub fn resource_version_changed() -> Self {
        Self::new(|Update { old, new, .. }| old.resource_version() != new.resource_version())
    }

    /// What passes one of both.
    #[must_use]
    pub fn or(self, other: Self) -> Self
    where
        K: 'static,
    {
        Self::new(move |update| self.passes(update) || other.passes(update))
    }

    /// What passes both.
    #[must_use]
    pub fn and(self, other: Self) -> Self
    where
        K: 'static,
    {
        Self::new(move |update| self.passes(update) && other.passes(update))
    }

    pub(super) fn passes(&self, update: &Update<'_, K>) -> bool {
        (self.0)(update)
    }
}

impl<K> Clone for Predicate<K> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<K> fmt::Debug for Predicate<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Predicate")
    }
}

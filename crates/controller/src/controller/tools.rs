//! The state that all reconciles of a controller share, one per cluster.

use std::sync::Arc;

use kube_client::Client;
use kube_core::{ApiResource, ObjectMeta};
use kube_informer::Key;
use tokio_util::sync::CancellationToken;

use super::expect::Named;
use super::intake::Intake;
use super::trigger::Watched;
use crate::shards::SlotTerm;

/// Shared by all reconciles of a controller in one cluster.
pub(crate) struct Tools {
    /// The controller's name.
    pub(crate) name: Arc<str>,
    pub(crate) intake: Arc<Intake>,
    /// The controller's informers, the main one first.
    pub(crate) watched: Vec<Box<dyn Watched>>,
    /// Whether the first informer is the main one. A context for tests may have none.
    pub(crate) has_main: bool,
    /// The main informer's number in the controller. The other informers have the numbers after it.
    pub(crate) first: usize,
    /// Applies the main trigger's filter to a key's cached object; `None` without a filter.
    pub(crate) admits: Option<Admits>,
    pub(crate) client: Option<Client>,
    /// The field manager of applied objects.
    pub(crate) field_manager: String,
    /// Cancelled when the cluster is removed. A write that is answered later records nothing: its key may belong to a new cluster
    /// of the same name.
    pub(crate) removed: CancellationToken,
}

/// Whether the cached object of a key passes the main trigger's filter. A key without a cached object passes.
pub(crate) type Admits = Box<dyn Fn(&Key) -> bool + Send + Sync>;

impl Tools {
    /// The main informer.
    pub(crate) fn main(&self) -> Option<&dyn Watched> {
        self.watched.first().filter(|_| self.has_main).map(|watched| &**watched)
    }

    /// The uid of a key's object in the main informer.
    pub(crate) fn owner_uid(&self, key: &Key) -> Option<String> {
        self.main()?.uid(&key.in_cluster(""))
    }

    /// The name under which a resource's writes are passed on to the next owner of a slot.
    pub(super) fn resource_name(resource: &ApiResource) -> String {
        match &*resource.group {
            "" => resource.plural.clone(),
            group => format!("{}.{group}", resource.plural),
        }
    }

    /// Records a write that informers have or will have: the next owner's caches must have it.
    pub(super) fn record_write(&self, slot: &SlotTerm, named: &Named, meta: &ObjectMeta) {
        let Some(watched) = self.watched.iter().find(|watched| named.is(watched.resource())) else { return };
        match &meta.resource_version {
            Some(version) => slot.wrote(&Self::resource_name(watched.resource()), version),
            None => slot.wrote_unknown(),
        }
    }

    /// The informer with this number.
    pub(super) fn informer(&self, number: usize) -> &dyn Watched {
        &*self.watched[number - self.first]
    }

    /// Whether an informer of this cluster has the number.
    pub(super) fn has_number(&self, number: usize) -> bool {
        (self.first..self.first + self.watched.len()).contains(&number)
    }
}

//! What all reconciles of a controller share, per cluster.

use std::sync::Arc;

use kube_client::Client;
use kube_informer::Key;

use super::intake::Intake;
use super::trigger::Watched;

/// Shared by all reconciles of a controller in one cluster.
pub(crate) struct Tools {
    /// The controller's name.
    pub(crate) name: Arc<str>,
    pub(crate) intake: Arc<Intake>,
    /// The controller's informers, the main one first.
    pub(crate) watched: Vec<Box<dyn Watched>>,
    /// Whether the first informer is the main one. A context for tests may have none.
    pub(crate) has_main: bool,
    /// The number of the main informer among all of the controller; the others follow.
    pub(crate) first: usize,
    /// Whether a key's object is of the controller's class; `None` if all are.
    pub(crate) admits: Option<Admits>,
    pub(crate) client: Option<Client>,
    /// The field manager of applied objects.
    pub(crate) field_manager: String,
}

/// Whether the cached object of a key passes the main trigger's filter. A key without a cached object passes.
pub(crate) type Admits = Box<dyn Fn(&Key) -> bool + Send + Sync>;

impl Tools {
    /// The main informer.
    pub(crate) fn main(&self) -> Option<&dyn Watched> {
        self.watched.first().filter(|_| self.has_main).map(|watched| &**watched)
    }

    /// The informer of a number.
    pub(super) fn informer(&self, number: usize) -> &dyn Watched {
        &*self.watched[number - self.first]
    }

    /// Whether an informer of this cluster has the number.
    pub(super) fn has_number(&self, number: usize) -> bool {
        (self.first..self.first + self.watched.len()).contains(&number)
    }
}

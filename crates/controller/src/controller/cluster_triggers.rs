//! The triggers of one cluster: the main informer, and informers of related objects.

use std::fmt;
use std::sync::Arc;

use kube_client::Client;
use kube_informer::{AssignedShard, Index, IndexError, Informer, Key, Object, Stopped};

use super::builder::OWNER_INDEX;
use super::filter::Filter;
use super::intake::Intake;
use super::tools::Admits;
use super::trigger::{Listening, Map, Trigger, Watched, itself, owners, related};
use crate::error::BuildError;

/// The triggers of one cluster of a controller, for [`Clusters::add`](crate::Clusters::add). `M` is the main kind, whose keys are
/// reconciled.
///
/// ```no_run
/// # use k8s_openapi::api::{apps::v1::Deployment, core::v1::Pod};
/// # use kube_informer::Informer;
/// # use kube_informer_controller::{ClusterTriggers, Clusters};
/// # fn example(clusters: Clusters, east: kube_client::Client) -> Result<(), Box<dyn std::error::Error>> {
/// let deployments = Informer::<Deployment>::builder(east.clone()).start()?;
/// let pods = Informer::<Pod>::builder(east).start()?;
/// clusters.add("east", ClusterTriggers::on(&deployments).owns(&pods))?;
/// # Ok(()) }
/// ```
#[must_use = "triggers do nothing until they are added to a controller"]
pub struct ClusterTriggers<M> {
    main: Informer<M>,
    plan: Plan,
}

/// The informers and listeners that a cluster adds to a controller, with their types erased.
pub(super) struct Plan {
    pub(super) attach: Vec<Attach>,
    pub(super) admits: Option<Admits>,
    /// The keys of the main informer.
    pub(super) keys: Box<dyn Fn() -> Vec<Key> + Send + Sync>,
    pub(super) client: Option<Client>,
    /// The shard of the main informer, if it has one.
    pub(super) shard: Option<AssignedShard>,
    /// The shards of the informers of owned kinds.
    pub(super) owned_shards: Vec<AssignedShard>,
}

/// Checks a trigger and adds its indexes, which can call the user's functions for every cached object. Returns what registers the
/// listener.
pub(super) type Attach = Box<dyn FnOnce() -> Result<Listen, AttachError>>;

/// Registers a listener on an informer; calls none of the user's functions. Its arguments are the informer's number and its cluster.
pub(super) type Listen = Box<
    dyn FnOnce(usize, &Option<Arc<str>>, &Arc<Intake>) -> Result<(Listening, Box<dyn Watched>), AttachError>,
>;

pub(super) enum AttachError {
    Filter(String, String),
    Index(String, IndexError),
    Stopped(String, Stopped),
}

// === impl ClusterTriggers ===

impl<M: Send + Sync + 'static> ClusterTriggers<M> {
    /// Reconciles the objects of this informer. Writes go through its client.
    pub fn on(main: impl Into<Trigger<M>>) -> Self {
        let main = main.into();
        let (informer, lister) = (main.informer.clone(), main.informer.lister());
        let plan = Plan {
            attach: Vec::new(),
            admits: main.filter.clone().map(|filter| admits(&informer, filter)),
            keys: Box::new(move || lister.view().iter().map(|object| object.key()).collect()),
            client: informer.client().cloned(),
            shard: informer.assigned_shard().cloned(),
            owned_shards: Vec::new(),
        };
        Self { main: informer, plan }.attach(main, |_| Ok(itself()))
    }

    /// As [`ControllerBuilder::owns`](crate::ControllerBuilder::owns).
    pub fn owns<K: Send + Sync + 'static>(self, children: impl Into<Trigger<K>>) -> Self {
        self.owned(children.into(), false)
    }

    /// As [`ControllerBuilder::controls`](crate::ControllerBuilder::controls).
    pub fn controls<K: Send + Sync + 'static>(self, children: impl Into<Trigger<K>>) -> Self {
        self.owned(children.into(), true)
    }

    fn owned<K: Send + Sync + 'static>(mut self, children: Trigger<K>, controllers_only: bool) -> Self {
        let main = self.main.clone();
        self.plan.owned_shards.extend(children.informer.assigned_shard().cloned());
        self.attach(children, move |children| {
            ensure_index(children, &Index::owner(OWNER_INDEX))?;
            Ok(owners(&main, controllers_only))
        })
    }

    /// As [`ControllerBuilder::watches`](crate::ControllerBuilder::watches). The function returns keys without a cluster name; they
    /// belong to this cluster.
    pub fn watches<K, Keys>(
        self,
        informer: impl Into<Trigger<K>>,
        keys: impl Fn(&Object<K>) -> Keys + Send + Sync + 'static,
    ) -> Self
    where
        K: Send + Sync + 'static,
        Keys: IntoIterator<Item = Key>,
    {
        self.attach(informer.into(), |_| {
            Ok(Box::new(move |object, add| keys(object).into_iter().for_each(add)))
        })
    }

    /// As [`ControllerBuilder::watches_related`](crate::ControllerBuilder::watches_related).
    pub fn watches_related<K, V>(
        self,
        informer: impl Into<Trigger<K>>,
        index: &Index,
        values: impl Fn(&Object<K>) -> V + Send + Sync + 'static,
    ) -> Self
    where
        K: Send + Sync + 'static,
        V: IntoIterator<Item = String>,
    {
        let (main, index) = (self.main.clone(), index.clone());
        self.attach(informer.into(), move |_| {
            ensure_index(&main, &index)?;
            Ok(related(&main, &index, values))
        })
    }

    /// As [`ControllerBuilder::watches_referenced`](crate::ControllerBuilder::watches_referenced).
    pub fn watches_referenced<K>(self, informer: impl Into<Trigger<K>>, path: &str) -> Self
    where
        K: Send + Sync + 'static,
    {
        let index = Index::field(&format!("reference:{path}"), path);
        self.watches_related(informer, &index, |object| [object.name().to_owned()])
    }

    /// Sets the client that [`Context::client`](crate::Context::client) uses. Default: the client of the main informer.
    pub fn client(mut self, client: impl Into<Client>) -> Self {
        self.plan.client = Some(client.into());
        self
    }

    fn attach<K: Send + Sync + 'static>(
        mut self,
        watch: Trigger<K>,
        map: impl FnOnce(&Informer<K>) -> Result<Map<K>, AttachError> + 'static,
    ) -> Self {
        let is_main = self.plan.attach.is_empty();
        self.plan.attach.push(Box::new(move || {
            let informer = watch.informer.clone();
            let check = watch.filter.as_ref().map_or(Ok(()), |filter: &Filter<K>| filter.check(&informer));
            check.map_err(|reason| AttachError::Filter(plural(&informer), reason))?;
            let map = map(&informer)?;
            Ok(Box::new(move |number, cluster, intake| {
                let listening = watch.listen(number, cluster.clone(), is_main, map, intake);
                let listening = listening.map_err(|error| AttachError::Stopped(plural(&informer), error))?;
                Ok((listening, Box::new(informer)))
            }))
        }));
        self
    }
}

impl<M> ClusterTriggers<M> {
    pub(super) fn into_plan(self) -> Plan {
        self.plan
    }
}

impl<M> fmt::Debug for ClusterTriggers<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (main, triggers) = (&self.main, self.plan.attach.len());
        f.debug_struct("ClusterTriggers").field("main", main).field("triggers", &triggers).finish()
    }
}

/// A function that reports whether the object of a key passes the main trigger's filter.
fn admits<M: Send + Sync + 'static>(main: &Informer<M>, filter: Filter<M>) -> Admits {
    let lister = main.lister();
    Box::new(move |key| lister.get(key).is_none_or(|object| filter.passes(&object)))
}

/// Adds an index to an informer; an error names that informer.
fn ensure_index<K: Send + Sync + 'static>(informer: &Informer<K>, index: &Index) -> Result<(), AttachError> {
    informer.ensure_index(index).map_err(|error| AttachError::Index(plural(informer), error))
}

fn plural<K: Send + Sync + 'static>(informer: &Informer<K>) -> String {
    informer.resource().plural.clone()
}

impl AttachError {
    pub(super) fn of(self, controller: &str) -> BuildError {
        let controller = controller.to_owned();
        match self {
            Self::Filter(informer, reason) => BuildError::Filter { controller, informer, reason },
            Self::Index(informer, source) => BuildError::Index { controller, informer, source },
            Self::Stopped(informer, source) => BuildError::Informer { controller, informer, source },
        }
    }
}

//! The context of a reconcile.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, OnceLock};

use kube_client::Client;
use kube_core::{ObjectMeta, Resource};
use kube_informer::{Informer, Key, Object};

use super::expect::Named;
use super::request::WriteTarget;
use super::tools::Tools;
use super::tracking::{SentWrites, tracked};
use crate::Stop;
use crate::leader::Term;
use crate::shards::SlotTerm;

/// The context of a reconcile: your data, a client that records writes, and access to its controller. Cheap to clone.
///
/// Write through [`apply`](Self::apply), [`patch_status`](Self::patch_status), [`delete`](Self::delete) or any
/// [`Api`](kube_client::Api) over [`client`](Self::client). The key is then not reconciled again before the cache has those writes.
pub struct Context<D = ()> {
    data: Arc<D>,
    pub(super) run: Arc<Run>,
}

/// The state of one reconcile.
pub(super) struct Run {
    pub(super) key: Key,
    /// The uid of the key's cached object when the reconcile began: the only object that may own its children.
    pub(super) owner: Option<String>,
    /// The cleanups of the key's object that had succeeded when the reconcile began. Their record ends when the object is gone, but
    /// the reconcile may have read the object before.
    pub(super) cleanups: Vec<(String, BTreeSet<String>)>,
    pub(super) id: u64,
    pub(super) failures: u32,
    pub(super) tools: Arc<Tools>,
    pub(super) stop: Stop,
    pub(super) term: Option<Term>,
    /// Present if several replicas share the work.
    pub(super) slot: Option<SlotTerm>,
    pub(super) sent: SentWrites,
    /// Created on first use.
    pub(super) client: OnceLock<Client>,
}

impl Run {
    /// Whether the object that the reconcile began with was deleted or re-created since.
    pub(super) fn is_superseded(&self) -> bool {
        self.owner.is_some() && self.tools.owner_uid(&self.key) != self.owner
    }
}

impl<D> Context<D> {
    pub(super) fn with_shared(data: Arc<D>, run: Run) -> Self {
        Self { data, run: Arc::new(run) }
    }

    /// The data passed to `build`.
    pub fn data(&self) -> &D {
        &self.data
    }

    /// The key to reconcile.
    pub fn key(&self) -> &Key {
        &self.run.key
    }

    /// The controller's informer of this kind, in the key's cluster; `None` if the controller does not have one. If there are several,
    /// the first one.
    pub fn informer<K: Send + Sync + 'static>(&self) -> Option<Informer<K>> {
        let mut watched = self.run.tools.watched.iter();
        watched.find_map(|watched| watched.as_any().downcast_ref::<Informer<K>>().cloned())
    }

    /// The object of the key in the cache; `None` if it was deleted, or if the controller has no informer of this kind. `K` is the
    /// controller's main kind.
    pub fn object<K: Send + Sync + 'static>(&self) -> Option<Object<K>> {
        self.informer::<K>()?.lister().get(&self.run.key.in_cluster(""))
    }

    /// The number of this reconcile, unique in its controller. The tracing span around it has the same number.
    pub fn reconcile_id(&self) -> u64 {
        self.run.id
    }

    /// Consecutive failures of this key before this call.
    pub fn failures(&self) -> u32 {
        self.run.failures
    }

    /// A client that records the writes of this reconcile: creations, updates, patches, deletions and deleted collections of every
    /// kind that the controller watches. Dry runs are not recorded.
    ///
    /// When this key is reconciled again, the cache has those writes; until then the key is deferred, and no worker waits. If
    /// the outcome of a write is unknown (a lost connection, a 5xx, a 409), the controller first reads the live object.
    ///
    /// With a leader election or a sharded lease, every request first checks that the [term](Self::term) is current; otherwise it fails
    /// and nothing is sent.
    ///
    /// Dropping a write does not cancel it: it continues for up to 60 s, and the key waits for its answer. When the controller stops
    /// or loses leadership, it is cancelled.
    ///
    /// The client is the one of the main informer, or of [`ControllerBuilder::client`](crate::ControllerBuilder::client). Without
    /// either, every request fails with an error that says so. Use it in this reconcile only: writes count for its key.
    ///
    /// ```no_run
    /// # use k8s_openapi::api::core::v1::ConfigMap;
    /// # use kube_client::{Api, api::DeleteParams};
    /// # use kube_informer_controller::{Context, Error};
    /// async fn clear(ctx: &Context) -> Result<(), Error> {
    ///     let maps = Api::<ConfigMap>::namespaced(ctx.client(), ctx.key().namespace());
    ///     maps.delete("settings", &DeleteParams::default()).await?; // deferred until the cache no longer has it
    ///     Ok(())
    /// }
    /// ```
    pub fn client(&self) -> Client {
        self.run.client.get_or_init(|| tracked(&self.run)).clone()
    }

    /// Reports a write that was made with another client: of the object itself, or of any object that the controller watches, as the
    /// server returned it. Returns whether an informer of this controller has, or will have, the object.
    ///
    /// If this key is queued, it is deferred until the informer has that write or a newer one. No worker waits meanwhile. After
    /// [a limit](crate::ControllerBuilder::write_wait_max) the key is reconciled anyway.
    ///
    /// A controller can have several informers of one kind, with different selectors or clusters. The key waits for every
    /// informer that already has this object (by its uid). If no informer has it, the key waits for the first one that will.
    ///
    /// If no informer can have the object, because its kind is not watched or its namespace or labels are not selected, the key is
    /// not deferred. The reason is logged at debug level.
    pub fn wrote<K>(&self, object: &K) -> bool
    where
        K: Resource,
        K::DynamicType: Default,
    {
        self.wrote_as(object, &K::DynamicType::default())
    }

    /// As [`wrote`](Self::wrote), for a dynamic type.
    pub fn wrote_as<K: Resource>(&self, object: &K, dynamic: &K::DynamicType) -> bool {
        self.expect(&Named::kind::<K>(dynamic), object.meta(), false)
    }

    /// Reports a deletion that was made with another client: if this key is queued, it is deferred until no informer has the object
    /// (by its uid). `object` is its last known state. Otherwise as [`wrote`](Self::wrote).
    ///
    /// An object with finalizers or a grace period still exists when the server answers: report that answer with `wrote`.
    ///
    /// ```no_run
    /// # use k8s_openapi::api::core::v1::ConfigMap;
    /// # use kube_client::{Api, api::DeleteParams};
    /// # use kube_informer_controller::{Context, Error};
    /// async fn delete(ctx: &Context, api: &Api<ConfigMap>, map: &ConfigMap) -> Result<(), Error> {
    ///     let name = map.metadata.name.as_deref().unwrap_or_default();
    ///     match api.delete(name, &DeleteParams::default()).await?.left() {
    ///         Some(deleting) => ctx.wrote(&deleting),
    ///         None => ctx.deleted(map),
    ///     };
    ///     Ok(())
    /// }
    /// ```
    pub fn deleted<K>(&self, object: &K) -> bool
    where
        K: Resource,
        K::DynamicType: Default,
    {
        self.deleted_as(object, &K::DynamicType::default())
    }

    /// As [`deleted`](Self::deleted), for a dynamic type.
    pub fn deleted_as<K: Resource>(&self, object: &K, dynamic: &K::DynamicType) -> bool {
        self.expect(&Named::kind::<K>(dynamic), object.meta(), true)
    }

    /// The term of leadership, or of the ownership of the key's slot; `None` without a leader election or a sharded lease. Store its
    /// token with writes to external systems to detect writes of an earlier leader or owner.
    pub fn term(&self) -> Option<&Term> {
        self.run.term.as_ref()
    }

    /// Waits until the controller is stopped, for long reconciles that can end early. A reconcile that does not use it has the
    /// grace period to finish; when leadership is lost, it is cancelled immediately.
    ///
    /// # Cancel safety
    /// Can be dropped at any point.
    pub async fn stopping(&self) {
        self.run.stop.stopping().await;
    }

    /// Whether the controller is stopping.
    pub fn is_stopping(&self) -> bool {
        self.run.stop.is_stopping()
    }

    fn expect(&self, named: &Named, meta: &ObjectMeta, gone: bool) -> bool {
        let is_shown = self.run.tools.expect(&self.run.key, named, meta, gone);
        if is_shown && let Some(slot) = &self.run.slot {
            self.run.tools.record_write(slot, named, meta);
        }
        is_shown
    }
}

/// Methods for finalizers. They identify the resource by the URL of its API, so dynamic objects need no type.
impl<D> Context<D> {
    /// Reports a write of an object in the collection of this URL path.
    pub(crate) fn wrote_at(&self, url: &str, meta: &ObjectMeta, gone: bool) {
        if let Some(named) = named(url) {
            self.expect(&named, meta, gone);
        }
    }

    /// Remembers that the cleanup for a finalizer succeeded, as long as an informer has the object.
    pub(crate) fn cleaned_up(&self, url: &str, meta: &ObjectMeta, finalizer: &str) {
        if let Some(named) = named(url) {
            self.run.tools.cleaned_up(&named, meta, finalizer);
        }
    }

    /// Forgets the cleanups of an object that is not being deleted. A server that was restored from a backup can bring an object back
    /// after its cleanup.
    pub(crate) fn forget_cleanups(&self, url: &str, meta: &ObjectMeta) {
        if let Some(named) = named(url) {
            self.run.tools.forget_cleanups(&named, meta);
        }
    }

    /// Whether the cleanup for a finalizer of this object succeeded before.
    pub(crate) fn is_cleaned_up(&self, url: &str, meta: &ObjectMeta, finalizer: &str) -> bool {
        let uid = meta.uid.as_deref().unwrap_or_default();
        self.run.cleanups.iter().any(|(of, finalizers)| of == uid && finalizers.contains(finalizer))
            || named(url).is_some_and(|named| self.run.tools.is_cleaned_up(&named, meta, finalizer))
    }
}

fn named(url: &str) -> Option<Named> {
    WriteTarget::of(url, None).map(|target| Named::of(&target))
}

impl<D> Clone for Context<D> {
    fn clone(&self) -> Self {
        Self { data: self.data.clone(), run: self.run.clone() }
    }
}

impl<D> fmt::Debug for Context<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context")
            .field("key", &self.run.key)
            .field("failures", &self.run.failures)
            .field("term", &self.run.term)
            .finish_non_exhaustive()
    }
}

//! The informer handle that users hold.

use std::sync::Arc;
use std::time::Duration;

use educe::Educe;
use kube_client::Client;
use kube_core::{ApiResource, DynamicObject, ObjectMeta, Resource as KubeResource};
use kube_wire::FieldPath;
use serde::de::DeserializeOwned;

use super::builder::InformerBuilder;
use super::core::{Core, InformerState, Owner};
use super::decoder::Decoder;
use super::handler::{EventHandler, HandlerHandle};
use super::listeners::ListenerConfig;
use super::{Object, ScopeStatus, Stopped, Subscription, SyncError, WaitError};
#[cfg(feature = "building-blocks")]
use crate::source::ListerWatcher;
use crate::source::Resource;
use crate::store::{Index, IndexError};
use crate::{Key, Lister, StoredObject};

/// A live, local mirror of the objects of one kind, and a source of change events.
///
/// Clones are cheap handles to the same informer. It runs while at least one handle is alive: an `Informer`, [`Lister`],
/// [`Subscription`] or [`HandlerHandle`]. Dropping the last one stops it.
///
/// ```
/// # use std::sync::Arc;
/// # use kube_informer::testing::ScriptedSource;
/// # use kube_informer::Informer;
/// # use k8s_openapi::api::core::v1::Pod;
/// # use serde_json::json;
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = ScriptedSource::new("v1", "Pod");
/// # server.put(json!({"metadata": {"namespace": "web", "name": "api"}, "spec": {"nodeName": "node-7", "containers": []}}));
/// // `Informer::<Pod>::builder(cluster)` with an API server.
/// let pods = Informer::<Pod>::from_source(Arc::new(server)).start()?;
/// pods.synced().await?;
///
/// let pod = pods.lister().get(&"web/api".parse()?).expect("the pod is cached");
/// assert_eq!(pod.decode()?.spec.as_ref().and_then(|spec| spec.node_name.as_deref()), Some("node-7"));
/// # Ok(()) }
/// ```
#[derive(Educe)]
#[educe(Clone, Debug)]
#[must_use = "an informer stops when its last handle is dropped"]
pub struct Informer<K> {
    owner: Arc<Owner>,
    #[educe(Debug(ignore))]
    decoder: Arc<Decoder<K>>,
    /// The default for listeners that do not set it.
    resync: Option<Duration>,
    #[educe(Debug(ignore))]
    client: Option<Client>,
}

// === impl Informer: over other sources, and dynamic ===

#[cfg(feature = "building-blocks")]
impl<K: DeserializeOwned + Send + Sync + 'static> Informer<K> {
    /// An informer over any other source, with the feature `building-blocks`. The source decides what is selected and kept.
    pub fn from_source(source: Arc<dyn ListerWatcher>) -> InformerBuilder<K> {
        InformerBuilder::over_sources(vec![(None, source)])
    }

    /// One informer over several sources, one per namespace.
    pub fn from_sources<N: Into<String>>(
        sources: impl IntoIterator<Item = (N, Arc<dyn ListerWatcher>)>,
    ) -> InformerBuilder<K> {
        let sources = sources.into_iter().map(|(namespace, source)| (Some(namespace.into()), source));
        InformerBuilder::over_sources(sources.collect())
    }
}

impl Informer<DynamicObject> {
    /// An informer for a resource known only at run time.
    ///
    /// ```no_run
    /// # use kube_informer::Informer;
    /// # use kube_core::{ApiResource, GroupVersionKind};
    /// # fn example(client: kube_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// let widgets = ApiResource::from_gvk(&GroupVersionKind::gvk("example.com", "v1", "Widget"));
    /// let widgets = Informer::dynamic(client, &widgets).namespaces(["web"]).start()?;
    /// # Ok(()) }
    /// ```
    pub fn dynamic(client: impl Into<Client>, resource: &ApiResource) -> InformerBuilder<DynamicObject> {
        InformerBuilder::over_client(client.into(), resource.into(), false)
    }
}

// === impl Informer ===

impl<K: Send + Sync + 'static> Informer<K> {
    /// An informer for a type with a static resource: from `k8s_openapi`, with `#[derive(CustomResource)]`, or
    /// `PartialObjectMeta` of one. Takes a [`Cluster`](crate::Cluster) or any `kube` client.
    pub fn builder(client: impl Into<Client>) -> InformerBuilder<K>
    where
        K: KubeResource<DynamicType = ()> + DeserializeOwned,
        K::Scope: 'static,
    {
        InformerBuilder::over_client(client.into(), Resource::of::<K>(), K::metadata_api())
    }

    pub(super) fn new(
        owner: Arc<Owner>,
        decoder: Arc<Decoder<K>>,
        resync: Option<Duration>,
        client: Option<Client>,
    ) -> Self {
        Self { owner, decoder, resync, client }
    }

    /// Waits until the initial list is in the store.
    ///
    /// # Errors
    /// Returns an error if the server [refuses](SyncError::Refused) the list, or its objects exceed the
    /// [memory budget](SyncError::OverBudget); the informer keeps trying, and this may be called again. Also if the informer is
    /// stopped.
    ///
    /// # Cancel safety
    /// May be dropped at any point.
    pub async fn synced(&self) -> Result<(), SyncError> {
        self.core().synced().await
    }

    /// Waits until the objects of the assigned [shard](InformerBuilder::shard) are in the store, and listeners were notified of
    /// them: at the start, and after each change of the assignment. Without a shard, as [`synced`](Self::synced).
    ///
    /// # Errors
    /// As [`synced`](Self::synced).
    ///
    /// # Cancel safety
    /// May be dropped at any point.
    #[cfg(feature = "shards")]
    pub async fn shard_synced(&self) -> Result<(), SyncError> {
        self.core().shard_synced().await
    }

    /// The shard of this informer, if it has one: a handle that can change it.
    #[cfg(feature = "shards")]
    pub fn assigned_shard(&self) -> Option<&crate::AssignedShard> {
        self.core().scopes.shard.as_ref()
    }

    /// Whether the initial list is in the store.
    pub fn is_synced(&self) -> bool {
        *self.core().listeners.synced().borrow()
    }

    /// The state of the informer.
    pub fn state(&self) -> InformerState {
        self.core().state()
    }

    /// The status of each scope: one per configured namespace, or one for all.
    pub fn status(&self) -> Vec<ScopeStatus> {
        self.core().status()
    }

    /// The read side of the store.
    pub fn lister(&self) -> Lister<K> {
        Lister::new(self.owner.clone(), self.decoder.clone(), self.resync)
    }

    /// The events as a stream: the current state first (as `Added`, `Initial`), then the changes.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use kube_informer::testing::ScriptedSource;
    /// # use kube_informer::{Event, Informer};
    /// # use k8s_openapi::api::core::v1::Pod;
    /// # use futures::StreamExt;
    /// # use serde_json::json;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = ScriptedSource::new("v1", "Pod");
    /// # server.put(json!({"metadata": {"namespace": "web", "name": "api"}}));
    /// # let pods = Informer::<Pod>::from_source(Arc::new(server)).start()?;
    /// let mut events = pods.subscribe();
    /// while let Some(event) = events.next().await {
    ///     match event {
    ///         Event::Added { object, .. } => assert_eq!(object.name(), "api"),
    ///         Event::Updated { new, .. } => println!("{} has changed", new.key()),
    ///         Event::Deleted { last, .. } => println!("{} is gone", last.key()),
    ///         Event::Synced => break, // the current state is complete
    ///     }
    /// }
    /// # Ok(()) }
    /// ```
    pub fn subscribe(&self) -> Subscription<K> {
        self.subscribe_with(ListenerConfig::default())
    }

    /// Like [`subscribe`](Self::subscribe), with settings. If the informer is stopped, the stream is empty.
    pub fn subscribe_with(&self, config: ListenerConfig) -> Subscription<K> {
        Subscription::new(self.owner.clone(), self.decoder.clone(), &self.with_defaults(config))
    }

    /// Calls a handler for every event: the current state first, then the changes, one call at a time. It ends when the
    /// last clone of the handle is dropped, unless it is [detached](HandlerHandle::detach), or when the informer stops.
    ///
    /// # Errors
    /// Returns an error if the informer is stopped.
    pub fn add_handler(&self, handler: impl EventHandler<K>) -> Result<HandlerHandle, Stopped> {
        self.add_handler_with(ListenerConfig::default(), handler)
    }

    /// Like [`add_handler`](Self::add_handler), with settings.
    ///
    /// # Errors
    /// Returns an error if the informer is stopped.
    pub fn add_handler_with(
        &self,
        config: ListenerConfig,
        handler: impl EventHandler<K>,
    ) -> Result<HandlerHandle, Stopped> {
        if self.core().is_stopped() {
            return Err(Stopped);
        }
        let backlog = self.core().listeners.join(&self.with_defaults(config));
        Ok(HandlerHandle::start(self.owner.clone(), self.decoder.clone(), backlog, handler))
    }

    /// Adds an index to the running informer. Stored objects are indexed before this returns.
    ///
    /// # Errors
    /// Returns an error if the name is taken, the path is invalid, or the projection drops the field.
    pub fn add_index(&self, index: &Index) -> Result<(), IndexError> {
        self.core().add_index(index)
    }

    /// Adds an index unless the same one exists: for parts of a program that share an informer.
    ///
    /// # Errors
    /// Returns an error if the name is taken by a different index, the path is invalid, or the projection drops the field.
    pub fn ensure_index(&self, index: &Index) -> Result<(), IndexError> {
        self.core().ensure_indexes(std::slice::from_ref(index))
    }

    /// The watched resource, as far as it is known: a custom source may not report it.
    pub fn resource(&self) -> &ApiResource {
        &self.core().resource
    }

    /// The client that this informer was built with; `None` for an informer over other sources.
    pub fn client(&self) -> Option<&Client> {
        self.client.as_ref()
    }

    /// Checks that the cached objects can have a field.
    ///
    /// # Errors
    /// Returns an error if the kind has no such field, or the projection drops it.
    #[doc(hidden)]
    pub fn check_field(&self, path: &FieldPath) -> Result<(), kube_wire::Error> {
        self.core().store.check_field(path)
    }

    /// How many decodes have failed.
    #[cfg_attr(not(feature = "building-blocks"), doc(hidden))]
    pub fn decode_errors(&self) -> u64 {
        self.decoder.errors()
    }

    /// Stops the informer and waits until all its tasks have ended. Handler calls in progress finish; pending events are
    /// dropped. Listers keep the last state.
    ///
    /// # Cancel safety
    /// May be dropped at any point; the informer stops anyway.
    pub async fn shutdown(&self) {
        self.core().stop();
        self.stopped().await;
    }

    /// Waits until the informer is stopped and all its tasks have ended.
    ///
    /// # Cancel safety
    /// May be dropped at any point.
    pub async fn stopped(&self) {
        self.core().tasks.wait().await;
    }

    fn with_defaults(&self, mut config: ListenerConfig) -> ListenerConfig {
        config.resync = config.resync.or(self.resync);
        config
    }

    pub(super) fn core(&self) -> &Arc<Core> {
        &self.owner.0
    }

    // === waiting ===

    /// Waits until a write that the server accepted is in the store. Returns the object as it is then; `None` if it is
    /// already deleted.
    ///
    /// ```no_run
    /// # use kube_informer::Informer;
    /// # use k8s_openapi::api::core::v1::Pod;
    /// # async fn example(pods: Informer<Pod>, written: Pod) -> Result<(), Box<dyn std::error::Error>> {
    /// // let written = api.patch(…).await?;
    /// pods.wait_for(&written).await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Fails immediately if this informer will never see the object, or if it has no resourceVersion. Fails later if the
    /// time limit passes, the server is reset to an earlier state, or the informer is stopped.
    ///
    /// # Cancel safety
    /// May be dropped at any point.
    pub async fn wait_for(&self, written: &impl KubeResource) -> Result<Option<Object<K>>, WaitError> {
        let key = self.key_in_scope(written.meta())?;
        let version = known(&key, "resourceVersion", written.meta().resource_version.as_deref())?;
        let found = self.core().wait_for(&key, version).await?;
        if found.is_none() {
            // It may have left with its slot.
            self.core().scopes.check_shard(&key, written.meta())?;
        }
        Ok(found.map(|object| Object::new(object, &self.decoder)))
    }

    /// Whether a write is in the store: the check of [`wait_for`](Self::wait_for), without waiting. Always `false` for a
    /// key out of scope.
    #[cfg_attr(not(feature = "building-blocks"), doc(hidden))]
    pub fn has_seen(&self, key: &Key, resource_version: &str) -> bool {
        self.core().has_seen(key, resource_version)
    }

    /// Why the store may lack changes up to a resourceVersion of the server, or has not published them to its listeners; `None` if
    /// neither. With [`namespaces_matching`](InformerBuilder::namespaces_matching), this includes changes of namespaces.
    #[doc(hidden)]
    pub fn behind(&self, resource_version: &str) -> Option<String> {
        self.core().behind(resource_version)
    }

    /// Whether this informer may have an object with this key: it watches the namespace, and no field selector excludes the name.
    #[doc(hidden)]
    pub fn is_in_scope(&self, key: &Key) -> bool {
        self.core().scopes.of(key).is_ok()
    }

    /// Whether this informer has a field selector for the key's namespace, or does not watch that namespace.
    #[doc(hidden)]
    pub fn selects_by_field(&self, key: &Key) -> bool {
        self.core().scopes.of(key).map_or(true, |watched| !watched.selection.fields.is_empty())
    }

    /// The key of an object that the server accepted, if this informer will show it.
    ///
    /// # Errors
    /// Returns an error if this informer will never see the object.
    #[doc(hidden)]
    pub fn key_in_scope(&self, meta: &ObjectMeta) -> Result<Key, WaitError> {
        let (namespace, name) = (meta.namespace.as_deref(), meta.name.as_deref());
        let key = Key::new(namespace.unwrap_or_default(), name.unwrap_or_default());
        let labels = meta.labels.iter().flatten().map(|(label, value)| (label.as_str(), value.as_str()));
        self.core().check_labels(&key, labels)?;
        self.core().scopes.check_shard(&key, meta)?;
        Ok(key)
    }

    /// Waits until an object is gone from the store: deleted, or replaced by another of the same name.
    ///
    /// Pass the object as the server returned it from creating, changing or deleting it. The wait never returns early, even
    /// while the store lags behind that state.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use kube_informer::testing::ScriptedSource;
    /// # use kube_informer::Informer;
    /// # use k8s_openapi::api::core::v1::Pod;
    /// # use serde_json::json;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = ScriptedSource::new("v1", "Pod");
    /// # let pods = Informer::<Pod>::from_source(Arc::new(server.clone())).start()?;
    /// # pods.synced().await?;
    /// # server.put(json!({"metadata": {"namespace": "web", "name": "job-1"}}));
    /// # let created: Pod = server.get(&"web/job-1".parse()?).expect("it was created").decode()?;
    /// // let created = api.create(…).await?;
    /// // api.delete("job-1", …).await?;
    /// # server.delete("web/job-1");
    /// pods.wait_deleted(&created).await?;
    /// assert!(pods.lister().get(&"web/job-1".parse()?).is_none());
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As [`wait_for`](Self::wait_for). Also fails immediately if the object has no uid.
    ///
    /// # Cancel safety
    /// May be dropped at any point.
    pub async fn wait_deleted(&self, object: &impl KubeResource) -> Result<(), WaitError> {
        let (meta, key) = (object.meta(), self.key_in_scope(object.meta())?);
        let uid = known(&key, "uid", meta.uid.as_deref())?;
        let version = known(&key, "resourceVersion", meta.resource_version.as_deref())?;
        self.core().wait_deleted(&key, uid, version).await?;
        // It may have left with its slot.
        self.core().scopes.check_shard(&key, meta)
    }

    /// Waits until the store has no object with this key and uid, for an object that this informer has shown. Returns
    /// immediately if the store has not received the creation yet; [`wait_deleted`](Self::wait_deleted) does not.
    ///
    /// # Errors
    /// Fails immediately if the key is out of scope. Fails later if the time limit passes or the informer is stopped.
    ///
    /// # Cancel safety
    /// May be dropped at any point.
    #[cfg_attr(not(feature = "building-blocks"), doc(hidden))]
    pub async fn wait_gone(&self, key: &Key, uid: &str) -> Result<(), WaitError> {
        self.core().wait_gone(key, uid).await
    }

    /// Waits, without a time limit, until an object meets a condition. Returns the object, or `None` if the condition is that it
    /// does not exist. The condition is checked once per state of the object. Absence (`None`) is a state once the initial list is in
    /// the store.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use kube_informer::testing::ScriptedSource;
    /// # use kube_informer::Informer;
    /// # use k8s_openapi::api::core::v1::Pod;
    /// # use serde_json::json;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = ScriptedSource::new("v1", "Pod");
    /// # server.put(json!({"metadata": {"namespace": "web", "name": "api"}, "spec": {"nodeName": "node-7"}}));
    /// # let pods = Informer::<Pod>::from_source(Arc::new(server.clone())).start()?;
    /// let is_scheduled = |pod: &Pod| pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some());
    /// pods.wait_until(&"web/api".parse()?, |pod| pod.is_some_and(is_scheduled)).await?;
    /// # server.delete("web/api");
    /// pods.wait_until(&"web/api".parse()?, |pod| pod.is_none()).await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Fails immediately if the key is out of scope. Fails later if the object cannot be decoded or the informer is
    /// stopped.
    ///
    /// # Cancel safety
    /// May be dropped at any point.
    pub async fn wait_until(
        &self,
        key: &Key,
        mut condition: impl FnMut(Option<&K>) -> bool,
    ) -> Result<Option<Object<K>>, WaitError> {
        let check = |stored: Option<&StoredObject>| {
            let Some(stored) = stored else { return condition(None).then_some(Ok(None)) };
            let object = Object::new(stored.clone(), &self.decoder);
            match object.decode() {
                Ok(value) => condition(Some(&value)).then_some(Ok(Some(object))),
                Err(error) => Some(Err(error.into())),
            }
        };
        let wait = |scope| self.core().once_listed(key, self.core().store.wait_until_in(scope, key, check));
        self.core().while_watched(key, wait).await?
    }
}

/// A metadata field that the server sets.
fn known<'a>(key: &Key, field: &'static str, value: Option<&'a str>) -> Result<&'a str, WaitError> {
    let value = value.filter(|value| !value.is_empty());
    value.ok_or_else(|| {
        let why = format!("no {field} in its metadata; pass the object as the server returned it");
        WaitError::Never { key: key.clone(), why }
    })
}

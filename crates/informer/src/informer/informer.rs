//! The informer as users hold it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use kube_client::Client;
use kube_core::{ApiResource, DynamicObject, ObjectMeta, Resource as KubeResource};
use serde::de::DeserializeOwned;

use super::builder::InformerBuilder;
use super::core::{Core, InformerState, Owner, ScopeStatus};
use super::decoder::Decoder;
use super::handler::{EventHandler, HandlerHandle};
use super::listeners::ListenerConfig;
use super::{Object, Stopped, Subscription, SyncError, WaitError};
use crate::source::{ListerWatcher, Resource};
use crate::store::{Index, IndexError};
use crate::{Key, Lister};

/// A live, local mirror of the objects of one kind, and a source of what happens to them.
///
/// Clones are handles to the same informer, and cheap. It runs as long as one is held, or a [`Lister`], a [`Subscription`] or a
/// [`HandlerHandle`] of it; when the last of them is dropped, it stops.
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
/// // `Informer::<Pod>::builder(cluster)` where there is an API server.
/// let pods = Informer::<Pod>::from_source(Arc::new(server)).start()?;
/// pods.synced().await?;
///
/// let pod = pods.lister().get(&"web/api".parse()?).expect("it is there");
/// assert_eq!(pod.decode()?.spec.as_ref().and_then(|spec| spec.node_name.as_deref()), Some("node-7"));
/// # Ok(()) }
/// ```
pub struct Informer<K> {
    owner: Arc<Owner>,
    decoder: Arc<Decoder<K>>,
    /// Of listeners that do not say otherwise.
    resync: Option<Duration>,
}

// === impl Informer: making one ===

impl<K: DeserializeOwned + Send + Sync + 'static> Informer<K> {
    /// An informer for a type that knows its resource: of `k8s_openapi`, with `#[derive(CustomResource)]`, or
    /// `PartialObjectMeta` of one. Over [`Cluster`](crate::Cluster), or any `kube` client.
    pub fn builder(client: impl Into<Client>) -> InformerBuilder<K>
    where
        K: KubeResource<DynamicType = ()>,
        K::Scope: 'static,
    {
        InformerBuilder::over_client(client.into(), Resource::of::<K>(), K::metadata_api())
    }

    /// An informer over any other source. What is selected and kept is the source's affair.
    pub fn from_source(source: Arc<dyn ListerWatcher>) -> InformerBuilder<K> {
        InformerBuilder::over_sources(vec![(None, source)])
    }

    /// One informer over several sources, one for each of these namespaces.
    pub fn from_sources<N: Into<String>>(
        sources: impl IntoIterator<Item = (N, Arc<dyn ListerWatcher>)>,
    ) -> InformerBuilder<K> {
        let sources = sources.into_iter().map(|(namespace, source)| (Some(namespace.into()), source));
        InformerBuilder::over_sources(sources.collect())
    }
}

impl Informer<DynamicObject> {
    /// An informer for a resource that is known at run time only.
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

// === impl Informer: using it ===

impl<K: Send + Sync + 'static> Informer<K> {
    pub(super) fn new(owner: Arc<Owner>, decoder: Arc<Decoder<K>>, resync: Option<Duration>) -> Self {
        Self { owner, decoder, resync }
    }

    /// Waits until the first full state is in the store.
    ///
    /// # Errors
    /// If the server refuses (401, 403, 404): the informer goes on trying, and this may be called again. If the informer
    /// is stopped.
    ///
    /// # Cancel safety
    /// May be dropped at any point.
    pub async fn synced(&self) -> Result<(), SyncError> {
        self.core().synced().await
    }

    /// Whether the first full state is in the store.
    pub fn is_synced(&self) -> bool {
        *self.core().listeners.synced().borrow()
    }

    /// How the informer is doing.
    pub fn state(&self) -> InformerState {
        self.core().state()
    }

    /// How each of its scopes is doing: one for each namespace that was named, or one for all.
    pub fn status(&self) -> Vec<ScopeStatus> {
        self.core().status()
    }

    /// Reads from the store.
    pub fn lister(&self) -> Lister<K> {
        Lister::new(self.owner.clone(), self.decoder.clone())
    }

    /// The events as a stream: the current state first (as added, initial), then what follows.
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
    ///         Event::Synced => break, // that was everything there is
    ///     }
    /// }
    /// # Ok(()) }
    /// ```
    pub fn subscribe(&self) -> Subscription<K> {
        self.subscribe_with(ListenerConfig::default())
    }

    /// As [`subscribe`](Self::subscribe), with settings. Of a stopped informer the stream has ended.
    pub fn subscribe_with(&self, config: ListenerConfig) -> Subscription<K> {
        let backlog = self.core().listeners.join(&self.with_defaults(config));
        Subscription::new(self.owner.clone(), self.decoder.clone(), backlog)
    }

    /// Calls a handler for every event: the current state first, then what follows, one call at a time. It ends when the
    /// last clone of the handle is dropped, unless it is [detached](HandlerHandle::detach), or when the informer stops.
    ///
    /// # Errors
    /// If the informer was stopped.
    pub fn add_handler(&self, handler: impl EventHandler<K>) -> Result<HandlerHandle, Stopped> {
        self.add_handler_with(ListenerConfig::default(), handler)
    }

    /// As [`add_handler`](Self::add_handler), with settings.
    ///
    /// # Errors
    /// If the informer was stopped.
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

    /// Adds an index while running; what is stored already is indexed before this returns.
    ///
    /// # Errors
    /// If an index of that name exists, its path is none, or what it reads is not kept.
    pub fn add_index(&self, index: &Index) -> Result<(), IndexError> {
        self.core().add_index(index)
    }

    /// Adds an index unless there is one of that name that reads the same: for parts of a program that share an informer.
    ///
    /// # Errors
    /// If an index of that name reads something else, its path is none, or what it reads is not kept.
    pub fn ensure_index(&self, index: &Index) -> Result<(), IndexError> {
        self.core().ensure_indexes(std::slice::from_ref(index))
    }

    /// What is watched, as far as it is known: a source of one's own may not say.
    pub fn resource(&self) -> &Resource {
        &self.core().resource
    }

    /// How many objects did not fit the type when somebody looked.
    pub fn decode_errors(&self) -> u64 {
        self.decoder.errors()
    }

    /// Stops, and waits until all tasks have ended: calls of handlers that are under way are finished, pending events
    /// are dropped. Listers keep what they have.
    ///
    /// # Cancel safety
    /// May be dropped at any point; the informer is stopped all the same.
    pub async fn shutdown(&self) {
        self.core().stop();
        self.stopped().await;
    }

    /// Waits until the informer was stopped and all its tasks have ended.
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
}

// === impl Informer: waiting ===

impl<K: Send + Sync + 'static> Informer<K> {
    /// Waits until a write that the server has accepted is in the store; gives the object as it is then. (It may be gone
    /// already.)
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
    /// Immediately, if this informer will never see the object, or if it has no resourceVersion; if the limit for waiting
    /// passes, the server is reset to an earlier state, or the informer is stopped.
    ///
    /// # Cancel safety
    /// May be dropped at any point.
    pub async fn wait_for(&self, written: &impl KubeResource) -> Result<Option<Object<K>>, WaitError> {
        let key = self.key_in_scope(written.meta())?;
        let version = known(&key, "resourceVersion", written.meta().resource_version.as_deref())?;
        let found = self.core().wait_for(&key, version).await?;
        Ok(found.map(|object| Object::new(object, &self.decoder)))
    }

    /// Whether a write is in the store: what [`wait_for`](Self::wait_for) waits for, without waiting. Of a key that is not
    /// in scope none ever is.
    pub fn has_seen(&self, key: &Key, resource_version: &str) -> bool {
        self.core().has_seen(key, resource_version)
    }

    /// The key under which an object that the server has accepted will be shown.
    ///
    /// # Errors
    /// If this informer will never see the object.
    pub fn key_in_scope(&self, meta: &ObjectMeta) -> Result<Key, WaitError> {
        let (namespace, name) = (meta.namespace.as_deref(), meta.name.as_deref());
        let key = Key::new(namespace.unwrap_or_default(), name.unwrap_or_default());
        let labels = meta.labels.iter().flatten().map(|(label, value)| (label.as_str(), value.as_str()));
        self.core().check_labels(&key, labels)?;
        self.core().scope_of(&key)?;
        Ok(key)
    }

    /// Waits until an object is gone from the store: deleted, or followed by another of the same name.
    ///
    /// It takes the object as the server returned it from creating, changing or deleting it, and never returns early: while
    /// the store lags behind that state, absence means nothing.
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
    /// As [`wait_for`](Self::wait_for); also immediately if the object has no uid.
    ///
    /// # Cancel safety
    /// May be dropped at any point.
    pub async fn wait_deleted(&self, object: &impl KubeResource) -> Result<(), WaitError> {
        let (meta, key) = (object.meta(), self.key_in_scope(object.meta())?);
        let uid = known(&key, "uid", meta.uid.as_deref())?;
        let version = known(&key, "resourceVersion", meta.resource_version.as_deref())?;
        self.core().wait_deleted(&key, uid, version).await
    }

    /// Waits until the store has no object with this key and uid: for an object that this informer has shown. It returns
    /// immediately if the store has yet to see the creation; [`wait_deleted`](Self::wait_deleted) does not.
    ///
    /// # Errors
    /// Immediately, if the key is not in scope; if the limit for waiting passes, or the informer is stopped.
    ///
    /// # Cancel safety
    /// May be dropped at any point.
    pub async fn wait_gone(&self, key: &Key, uid: &str) -> Result<(), WaitError> {
        self.core().wait_gone(key, uid).await
    }

    /// Waits until an object is there and meets a condition; gives it. It waits as long as that takes. The condition is
    /// checked once for each state of the object.
    ///
    /// # Errors
    /// At once, if the key is not in scope; if the object does not fit its type, or the informer is stopped.
    ///
    /// # Cancel safety
    /// May be dropped at any point.
    pub async fn wait_until(
        &self,
        key: &Key,
        mut condition: impl FnMut(&K) -> bool,
    ) -> Result<Object<K>, WaitError> {
        self.core().scope_of(key)?;
        let met = self.core().store.wait_until(key, |stored| {
            let object = Object::new(stored?.clone(), &self.decoder);
            match object.decode() {
                Ok(value) => condition(&value).then_some(Ok(object)),
                Err(error) => Some(Err(error.into())),
            }
        });
        self.core().unless_stopped(met).await?
    }
}

/// A field of the metadata that a server sets.
fn known<'a>(key: &Key, field: &'static str, value: Option<&'a str>) -> Result<&'a str, WaitError> {
    let value = value.filter(|value| !value.is_empty());
    value.ok_or_else(|| WaitError::Unidentified { key: key.clone(), missing: field })
}

impl<K> Clone for Informer<K> {
    fn clone(&self) -> Self {
        Self { owner: self.owner.clone(), decoder: self.decoder.clone(), resync: self.resync }
    }
}

impl<K> fmt::Debug for Informer<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Informer")
            .field("resource", &self.owner.0.describe())
            .field("state", &self.owner.0.state())
            .field("objects", &self.owner.0.store.len())
            .finish_non_exhaustive()
    }
}

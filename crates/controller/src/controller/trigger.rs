//! From an event of some informer to the keys that have to be reconciled for it.

use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use kube_core::ObjectMeta;
use kube_informer::source::Resource;
use kube_informer::store::{Index, IndexError};
use kube_informer::{
    Event, EventHandler, HandlerHandle, Informer, Key, ListenerConfig, Lister, Object, Stopped, SyncError,
    WaitError,
};

use super::intake::{Intake, priority_of};
use super::predicate::{Predicate, Update};

/// An informer, and which of its changes count: all, unless a predicate says otherwise. An `&Informer` is one.
///
/// ```no_run
/// # use k8s_openapi::api::apps::v1::Deployment;
/// # use kube_informer::Informer;
/// # fn example(deployments: Informer<Deployment>) {
/// use kube_informer_controller::{Predicate, Watch};
///
/// let deployments = Watch::on(&deployments).when(Predicate::generation_changed());
/// # }
/// ```
#[derive(Debug)]
#[must_use]
pub struct Watch<K> {
    pub(super) informer: Informer<K>,
    predicate: Option<Predicate<K>>,
}

/// Hands the keys that an object concerns to a function.
pub(super) type Map<K> = Box<dyn Fn(&Object<K>, &mut dyn FnMut(Key)) + Send + Sync>;

/// A watched informer without its type.
pub(crate) trait Watched: Send + Sync {
    /// What is watched.
    fn resource(&self) -> &Resource;
    /// Waits until the first full state is in the store.
    fn synced(&self) -> BoxFuture<'_, Result<(), SyncError>>;
    /// Whether it is.
    fn is_synced(&self) -> bool;
    /// Whether a write is in the store.
    fn has_seen(&self, key: &Key, version: &str) -> bool;
    /// The key under which a written object will be shown.
    fn key_in_scope(&self, meta: &ObjectMeta) -> Result<Key, WaitError>;
}

/// The events of one informer, on their way to the queue. Dropped, as all of a controller's are together, it listens no more
/// and shuts the queue down.
pub(crate) struct Listening {
    handle: HandlerHandle,
    intake: Arc<Intake>,
}

/// Listens to one informer.
struct Listener<K> {
    /// Its number among the controller's informers.
    number: usize,
    watch: Watch<K>,
    map: Map<K>,
    intake: Arc<Intake>,
    /// Keys of the event at hand; kept for its memory.
    keys: Vec<Key>,
}

// === impl Watch ===

impl<K> Watch<K> {
    /// All changes of an informer.
    pub fn on(informer: &Informer<K>) -> Self {
        Self { informer: informer.clone(), predicate: None }
    }

    /// Only updates that pass. Given twice, they have to pass both.
    pub fn when(mut self, predicate: Predicate<K>) -> Self
    where
        K: 'static,
    {
        self.predicate = Some(match self.predicate {
            Some(known) => known.and(predicate),
            None => predicate,
        });
        self
    }
}

impl<K> From<&Informer<K>> for Watch<K> {
    fn from(informer: &Informer<K>) -> Self {
        Self::on(informer)
    }
}

impl<K> Clone for Watch<K> {
    fn clone(&self) -> Self {
        Self { informer: self.informer.clone(), predicate: self.predicate.clone() }
    }
}

impl<K: Send + Sync + 'static> Watch<K> {
    /// Begins to listen.
    pub(super) fn listen(
        self,
        number: usize,
        map: Map<K>,
        intake: &Arc<Intake>,
    ) -> Result<Listening, Stopped> {
        let informer = self.informer.clone();
        let listener = Listener { number, watch: self, map, intake: intake.clone(), keys: Vec::new() };
        let handle = informer.add_handler_with(ListenerConfig::default(), listener)?;
        Ok(Listening { handle, intake: intake.clone() })
    }
}

impl<K: Send + Sync + 'static> Watched for Informer<K> {
    fn resource(&self) -> &Resource {
        self.resource()
    }

    fn synced(&self) -> BoxFuture<'_, Result<(), SyncError>> {
        self.synced().boxed()
    }

    fn is_synced(&self) -> bool {
        self.is_synced()
    }

    fn has_seen(&self, key: &Key, version: &str) -> bool {
        self.has_seen(key, version)
    }

    fn key_in_scope(&self, meta: &ObjectMeta) -> Result<Key, WaitError> {
        self.key_in_scope(meta)
    }
}

// === the ways from an object to keys ===

/// The object itself.
pub(super) fn itself<K: 'static>() -> Map<K> {
    Box::new(|object, add| add(object.key()))
}

/// Its owners of the main kind.
///
/// An owner is looked up where it may be: in the object's namespace or, cluster-scoped, in none. One that is nowhere is
/// told all the same, by the object's namespace: it may have been deleted and made anew under the same name, and want
/// the place that this object leaves.
pub(super) fn owners<K: 'static, M: Send + Sync + 'static>(main: &Informer<M>) -> Map<K> {
    let resource = main.resource().clone();
    let lister = main.lister();
    Box::new(move |object, add| {
        for owner in object.owners() {
            let group = owner.api_version.split_once('/').map_or("", |(group, _)| group);
            if owner.kind == resource.kind && group == resource.group {
                add(owner_key(&lister, object.namespace(), &owner.name));
            }
        }
    })
}

fn owner_key<M>(owners: &Lister<M>, namespace: &str, name: &str) -> Key {
    let (near, cluster_wide) = (Key::new(namespace, name), Key::new("", name));
    let is_cluster_wide = owners.get(&near).is_none() && owners.get(&cluster_wide).is_some();
    if is_cluster_wide { cluster_wide } else { near }
}

/// The main objects that have one of its values in an index.
pub(super) fn related<K: 'static, M: Send + Sync + 'static, V>(
    main: &Informer<M>,
    index: &Index,
    values: impl Fn(&Object<K>) -> V + Send + Sync + 'static,
) -> Result<Map<K>, IndexError>
where
    V: IntoIterator<Item = String>,
{
    main.ensure_index(index)?;
    let (lister, index) = (main.lister(), index.clone());
    Ok(Box::new(move |object, add| {
        for value in values(object) {
            // The index was added above, and indexes are never removed.
            let found = lister.by_index(&index, &value).unwrap_or_default();
            found.iter().for_each(|object| add(object.key()));
        }
    }))
}

// === impl Listener ===

impl<K: Send + Sync + 'static> EventHandler<K> for Listener<K> {
    async fn handle(&mut self, event: Event<K>) {
        let (Some(object), Some(origin)) = (event.object(), event.origin()) else { return };
        self.release(&object.key()).await;
        let mut keys = std::mem::take(&mut self.keys);
        // The queue holds a key once; this spares it the commonest repetition.
        let mut add = |key: Key| {
            if keys.last() != Some(&key) {
                keys.push(key);
            }
        };
        match &event {
            // Whoever was concerned before may be concerned by no longer being it.
            Event::Updated { old, new, origin } => {
                let update = Update { old, new, origin: *origin };
                if self.watch.predicate.as_ref().is_none_or(|predicate| predicate.passes(&update)) {
                    (self.map)(new, &mut add);
                    (self.map)(old, &mut add);
                }
            }
            _ => (self.map)(object, &mut add),
        }
        for key in keys.drain(..) {
            self.intake.add(key, priority_of(origin)).await;
        }
        self.keys = keys;
    }
}

impl<K: Send + Sync + 'static> Listener<K> {
    /// Queues those who waited for this object, whatever a predicate says of the change.
    async fn release(&self, key: &Key) {
        let informer = &self.watch.informer;
        let place = (self.number, key.clone());
        for (key, priority) in self.intake.writes.seen(&place, |version| informer.has_seen(key, version)) {
            self.intake.add(key, priority).await;
        }
    }
}

// === impl Listening ===

impl Listening {
    pub(crate) async fn synced(&self) -> Result<(), SyncError> {
        self.handle.synced().await
    }

    pub(crate) fn is_synced(&self) -> bool {
        self.handle.is_synced()
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.handle.remove();
        // A call that waits for room would wait for ever, and its informer could not be shut down: nobody works any more.
        self.intake.queue.shutdown();
    }
}

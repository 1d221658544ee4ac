//! Maps a change in an informer to the keys to reconcile.
//!
//! Every change is mapped before anything is coalesced, so an owner that only an intermediate state names is reconciled too. The
//! listener is therefore not coalesced, and must never wait: it adds keys to the queue, which holds each key once. It delays its
//! informer only if a mapping function is slower than the changes.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use kube_core::{ApiResource, ObjectMeta};
use kube_informer::building_blocks::{ReflectorError, ReflectorState, SourceError};
use kube_informer::internals::Filtered;
use kube_informer::internals::compare_resource_versions;
use kube_informer::{
    Event, EventHandler, HandlerHandle, Index, Informer, InformerState, Key, ListenerConfig, Lister, Object,
    Stopped, SyncError, WaitError,
};
use parking_lot::Mutex;

use super::expected::Expected;
use super::filter::Filter;
use super::intake::{Intake, priority_of};
use super::predicate::{Predicate, Update};
use crate::deliberate_bug::deliberate_bug;

/// An informer, and which of its changes queue keys: all, unless restricted. Converts from `&Informer`.
///
/// ```no_run
/// # use k8s_openapi::api::apps::v1::Deployment;
/// # use kube_informer::Informer;
/// # fn example(deployments: Informer<Deployment>) {
/// use kube_informer_controller::{Predicate, Trigger};
///
/// let deployments = Trigger::on(&deployments).when(Predicate::generation_changed());
/// # }
/// ```
#[derive(Debug)]
#[must_use]
pub struct Trigger<K> {
    pub(super) informer: Informer<K>,
    pub(super) filter: Option<Filter<K>>,
    predicate: Option<Predicate<K>>,
}

/// Calls a function with each key that an object maps to.
pub(super) type Map<K> = Box<dyn Fn(&Object<K>, &mut dyn FnMut(Key)) + Send + Sync>;

/// A watched informer with its kind erased.
pub(crate) trait Watched: Send + Sync {
    /// The watched resource.
    fn resource(&self) -> &ApiResource;
    /// The informer, to find it by its type.
    fn as_any(&self) -> &dyn Any;
    /// Waits until the initial list is in the store.
    fn synced(&self) -> BoxFuture<'_, Result<(), SyncError>>;
    /// Whether the initial list is in the store.
    fn is_synced(&self) -> bool;
    /// Waits until the objects of the assigned shard are in the store.
    fn shard_synced(&self) -> BoxFuture<'_, Result<(), SyncError>>;
    /// The error of a list or watch, while none works.
    fn failure(&self) -> Option<String>;
    /// Whether the informer fails to reach the server. A watch without events or bookmarks does not count: another request follows it
    /// immediately, and on a server that sends no bookmarks, the watch of a quiet kind is always silent.
    fn is_cut_off(&self) -> bool;
    /// Whether a list or watch is being requested, and none waits after an error.
    fn is_retrying(&self) -> bool;
    /// Whether the informer has stopped.
    fn is_stopped(&self) -> bool;
    /// Waits until the informer has stopped.
    fn stopped(&self) -> BoxFuture<'_, ()>;
    /// The namespaces that are watched; `None` for all.
    fn namespaces(&self) -> Vec<Option<String>>;
    /// Whether the store has this resourceVersion of the key, or a newer one.
    fn has_seen(&self, key: &Key, version: &str) -> bool;
    /// Whether the store has the object of this uid.
    fn shows(&self, key: &Key, uid: &str) -> bool;
    /// The uid of the object that the store has.
    fn uid(&self, key: &Key) -> Option<String>;
    /// Namespace, name, uid and resourceVersion of the objects that the store has, in one namespace or in all.
    fn cached(&self, namespace: Option<&str>) -> Vec<ObjectMeta>;
    /// Whether the store has everything up to this resourceVersion.
    fn has_reached(&self, revision: &str) -> bool;
    /// If the informer has not received and published all changes up to this resourceVersion, returns the reason. This includes
    /// changes of the namespaces that it follows.
    #[cfg(feature = "testing")]
    fn behind(&self, revision: &str) -> Option<String>;
    /// Whether the informer may have an object with this key. Its namespaces can change.
    fn is_in_scope(&self, key: &Key) -> bool;
    /// The resourceVersion of the object that the store has.
    fn version(&self, key: &Key) -> Option<String>;
    /// Whether the informer has a field selector for this key's namespace.
    fn selects_by_field(&self, key: &Key) -> bool;
    /// The key of a written object, if it is in the informer's scope.
    fn key_in_scope(&self, meta: &ObjectMeta) -> Result<Key, WaitError>;
}

/// The registration of a listener. Dropping it removes the listener.
pub(crate) struct Listening {
    handle: HandlerHandle,
}

/// Listens to one informer.
struct Listener<K> {
    /// The informer's number in the controller.
    number: usize,
    /// The informer's cluster, if it has a name.
    cluster: Option<Arc<str>>,
    /// Whether this is the main informer, whose keys are reconciled.
    is_main: bool,
    watch: Trigger<K>,
    /// Present if the trigger has a filter: turns events into those of the objects that pass.
    filtered: Option<Filtered<FilterTest<K>, ()>>,
    /// The panic of the filter in the current event.
    filter_panic: Arc<Mutex<Option<Panic>>>,
    map: Map<K>,
    intake: Arc<Intake>,
    /// Keys of the current event; reused to avoid allocations.
    keys: Vec<Key>,
}

/// The test of a filter. It does not panic.
type FilterTest<K> = Box<dyn FnMut(&Object<K>) -> bool + Send>;

// === impl Trigger ===

impl<K> Trigger<K> {
    /// All changes of an informer.
    pub fn on(informer: &Informer<K>) -> Self {
        Self { informer: informer.clone(), filter: None, predicate: None }
    }

    /// Restricts the trigger to the objects that pass the filter. An object that begins to pass counts as added, one that no
    /// longer passes as deleted. With several calls, all must pass.
    pub fn only(mut self, filter: Filter<K>) -> Self
    where
        K: 'static,
    {
        self.filter = Some(match self.filter {
            Some(known) => known.and(filter),
            None => filter,
        });
        self
    }

    /// Restricts changes to those that pass the predicate. With several calls, all must pass.
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

impl<K> From<&Informer<K>> for Trigger<K> {
    fn from(informer: &Informer<K>) -> Self {
        Self::on(informer)
    }
}

impl<K> Clone for Trigger<K> {
    fn clone(&self) -> Self {
        let (filter, predicate) = (self.filter.clone(), self.predicate.clone());
        Self { informer: self.informer.clone(), filter, predicate }
    }
}

impl<K: Send + Sync + 'static> Trigger<K> {
    /// Registers the listener.
    pub(super) fn listen(
        self,
        number: usize,
        cluster: Option<Arc<str>>,
        is_main: bool,
        map: Map<K>,
        intake: &Arc<Intake>,
    ) -> Result<Listening, Stopped> {
        let informer = self.informer.clone();
        let filter_panic = Arc::default();
        let filtered = self.filter.clone().map(|filter| Filtered::new(guarded(filter, &filter_panic), ()));
        let listener = Listener {
            number,
            cluster,
            is_main,
            watch: self,
            filtered,
            filter_panic,
            map,
            intake: intake.clone(),
            keys: Vec::new(),
        };
        let mut config = ListenerConfig::default();
        config.coalesce = false;
        let handle = informer.add_handler_with(config, listener)?;
        Ok(Listening { handle })
    }
}

/// Wraps a filter. If the filter panics, the panic is stored and the object passes, so no key is lost: before a worker reconciles a
/// key of the main kind, it calls the filter again.
fn guarded<K: 'static>(filter: Filter<K>, panicked: &Arc<Mutex<Option<Panic>>>) -> FilterTest<K> {
    let panicked = panicked.clone();
    Box::new(move |object| {
        // Unwind safe: a filter shares no mutable state with the controller.
        catch_unwind(AssertUnwindSafe(|| filter.passes(object))).unwrap_or_else(|panic| {
            *panicked.lock() = Some(panic);
            true
        })
    })
}

impl<K: Send + Sync + 'static> Watched for Informer<K> {
    fn resource(&self) -> &ApiResource {
        self.resource()
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn synced(&self) -> BoxFuture<'_, Result<(), SyncError>> {
        self.synced().boxed()
    }

    fn is_synced(&self) -> bool {
        self.is_synced()
    }

    fn shard_synced(&self) -> BoxFuture<'_, Result<(), SyncError>> {
        self.shard_synced().boxed()
    }

    fn failure(&self) -> Option<String> {
        match self.state() {
            InformerState::Degraded(error) => Some(error.to_string()),
            _ => None,
        }
    }

    fn is_cut_off(&self) -> bool {
        let InformerState::Degraded(error) = self.state() else { return false };
        let error = error.reflector_error();
        !matches!(error, ReflectorError::Silent(_) | ReflectorError::Watch(SourceError::Overdue { .. }))
    }

    fn is_retrying(&self) -> bool {
        use ReflectorState::{BackingOff, Degraded, Listing, Opening, Streaming};
        let status = self.status();
        let mut states = status.iter().map(|scope| &scope.reflector().state);
        let waits = states.clone().any(|state| matches!(state, BackingOff { .. } | Degraded { .. }));
        !waits && states.any(|state| matches!(state, Listing | Streaming | Opening))
    }

    fn is_stopped(&self) -> bool {
        matches!(self.state(), InformerState::Stopped)
    }

    fn stopped(&self) -> BoxFuture<'_, ()> {
        self.stopped().boxed()
    }

    fn namespaces(&self) -> Vec<Option<String>> {
        self.status().into_iter().map(|scope| scope.namespace).collect()
    }

    fn has_seen(&self, key: &Key, version: &str) -> bool {
        self.has_seen(key, version)
    }

    fn shows(&self, key: &Key, uid: &str) -> bool {
        self.lister().get(key).is_some_and(|object| object.uid() == uid)
    }

    fn uid(&self, key: &Key) -> Option<String> {
        self.lister().get(key).map(|object| object.uid().to_owned())
    }

    fn cached(&self, namespace: Option<&str>) -> Vec<ObjectMeta> {
        let lister = namespace.map_or_else(|| self.lister(), |namespace| self.lister().namespace(namespace));
        let meta = |object: Object<K>| ObjectMeta {
            name: Some(object.name().to_owned()),
            namespace: Some(object.namespace().to_owned()).filter(|namespace| !namespace.is_empty()),
            uid: Some(object.uid().to_owned()),
            resource_version: Some(object.resource_version().to_owned()),
            ..ObjectMeta::default()
        };
        lister.view().iter().map(meta).collect()
    }

    fn has_reached(&self, revision: &str) -> bool {
        let view = self.lister().view();
        let reached = |version: &str| {
            compare_resource_versions(version, revision).is_some_and(std::cmp::Ordering::is_ge)
        };
        self.status().iter().all(|scope| reached(view.resource_version(scope.scope)))
    }

    #[cfg(feature = "testing")]
    fn behind(&self, revision: &str) -> Option<String> {
        self.behind(revision)
    }

    fn is_in_scope(&self, key: &Key) -> bool {
        self.is_in_scope(key)
    }

    fn version(&self, key: &Key) -> Option<String> {
        self.lister().get(key).map(|object| object.resource_version().to_owned())
    }

    fn selects_by_field(&self, key: &Key) -> bool {
        self.selects_by_field(key)
    }

    fn key_in_scope(&self, meta: &ObjectMeta) -> Result<Key, WaitError> {
        self.key_in_scope(meta)
    }
}

/// Whether an informer has received the expected write. `changed_uid` is the uid of the current event's object, if there is one.
///
/// ResourceVersions of different clusters cannot be compared. If several informers may receive the write, the object's uid decides,
/// or [`Tools::progress`](super::tools::Tools::progress), which checks all of them.
pub(super) fn is_met(
    watched: &dyn Watched,
    key: &Key,
    changed_uid: Option<&str>,
    expected: &Expected,
) -> bool {
    if !is_current(watched, key, expected) {
        return false;
    }
    let is_only = expected.places.len() == 1;
    match expected.gone {
        true => is_only && !watched.shows(key, &expected.uid),
        false => is_only || changed_uid == Some(&*expected.uid) || watched.shows(key, &expected.uid),
    }
}

/// Whether an informer has reached the resourceVersion of the expected write, or will never receive it.
pub(super) fn is_current(watched: &dyn Watched, key: &Key, expected: &Expected) -> bool {
    // The response to a deletion may have no resourceVersion.
    expected.gone && expected.version.is_empty()
        || watched.has_seen(key, &expected.version)
        || !watched.is_in_scope(key) && watched.uid(key).is_none()
}

// === from an object to keys ===

/// Maps an object to its own key.
pub(super) fn itself<K: 'static>() -> Map<K> {
    Box::new(|object, add| add(object.key()))
}

/// Maps an object to its owners of the main kind.
///
/// An owner is in the object's namespace, or cluster-scoped. An owner that is not cached is queued too, in the object's namespace:
/// it may have been re-created under the same name, and may be waiting for this object's name to become free.
///
/// With `controllers_only`, maps only to the owner that is the managing controller.
pub(super) fn owners<K: 'static, M: Send + Sync + 'static>(
    main: &Informer<M>,
    controllers_only: bool,
) -> Map<K> {
    let resource = main.resource().clone();
    let lister = main.lister();
    Box::new(move |object, add| {
        for owner in object.owners().filter(|owner| owner.controller || !controllers_only) {
            let group = owner.api_version.split_once('/').map_or("", |(group, _)| group);
            let is_main = owner.kind == resource.kind && group == resource.group;
            if is_main && !deliberate_bug("owner-not-queued") {
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

/// Maps an object to the main objects that have one of its values in an index: those in its own namespace, and cluster-scoped ones.
/// A cluster-scoped object maps to main objects in every namespace.
pub(super) fn related<K: 'static, M: Send + Sync + 'static, V>(
    main: &Informer<M>,
    index: &Index,
    values: impl Fn(&Object<K>) -> V + Send + Sync + 'static,
) -> Map<K>
where
    V: IntoIterator<Item = String>,
{
    let (lister, index) = (main.lister(), index.clone());
    Box::new(move |object, add| {
        for value in values(object) {
            // The index was added before, and indexes are never removed.
            let found = lister.by_index(&index, &value).unwrap_or_default();
            let concerned = |main: &&Object<M>| {
                let namespaces = (object.namespace(), main.namespace());
                matches!(namespaces, ("", _) | (_, "")) || namespaces.0 == namespaces.1
            };
            found.iter().filter(concerned).for_each(|main| add(main.key()));
        }
    })
}

// === impl Listener ===

impl<K: Send + Sync + 'static> EventHandler<K> for Listener<K> {
    async fn handle(&mut self, event: Event<K>) {
        let Some(object) = event.object() else { return };
        self.release(object);
        let deleted = matches!(event, Event::Deleted { .. }).then(|| object.clone());
        let event = self.narrow(event);
        // The object left its class before, and its key was not reconciled since.
        if let (Some(last), true) = (&deleted, self.is_main)
            && self.intake.take_leaving(&in_cluster(self.cluster.as_deref(), last.key()))
        {
            self.remember(in_cluster(self.cluster.as_deref(), last.key()), deleted.as_ref());
        }
        let Some(event) = event else { return };
        let Some(origin) = event.origin() else { return };
        let filter_panic = self.filter_panic.lock().take();
        let panic = match self.passes(&event) {
            Ok(false) => None,
            Ok(true) => self.map_event(&event).err(),
            Err(panic) => Some(self.map_event(&event).err().unwrap_or(panic)),
        };
        let is_leaving = self.is_main && matches!(event, Event::Deleted { .. });
        let mut keys = std::mem::take(&mut self.keys);
        for key in keys.drain(..) {
            let key = in_cluster(self.cluster.as_deref(), key);
            if is_leaving {
                self.remember(key.clone(), deleted.as_ref());
            }
            self.intake.add(key, priority_of(origin));
        }
        self.keys = keys;
        if let Some(panic) = filter_panic.or(panic) {
            // The informer reports and counts the panic.
            resume_unwind(panic);
        }
    }
}

/// The key in its cluster.
fn in_cluster(cluster: Option<&str>, key: Key) -> Key {
    match cluster {
        Some(cluster) => key.in_cluster(cluster),
        None => key,
    }
}

/// The payload of a panic in a user's function.
type Panic = Box<dyn Any + Send>;

impl<K: Send + Sync + 'static> Listener<K> {
    /// Queues the keys that were deferred until this change, even if a predicate rejects the change.
    fn release(&self, object: &Object<K>) {
        let key = object.key();
        let place = (self.number, key.clone());
        let is_met = |expected: &Expected| is_met(&self.watch.informer, &key, Some(object.uid()), expected);
        for (key, priority) in self.intake.writes.seen(&place, is_met) {
            self.intake.add(key, priority);
        }
    }

    /// Remembers that the object of a key left its class, or was deleted, until the key is reconciled.
    ///
    /// By then, the cache may have no object from which a slot could be computed, or a new object that does not pass the filter.
    fn remember(&self, key: Key, deleted: Option<&Object<K>>) {
        match (&self.intake.slot_keys, deleted) {
            (Some(slot_keys), Some(last)) => slot_keys.object_left(key, last.namespace(), last.uid()),
            _ if self.filtered.is_some() => self.intake.leaves(key),
            _ => {}
        }
    }

    /// Converts the event to one of the filtered objects; `None` if its object does not pass and did not pass before.
    fn narrow(&mut self, event: Event<K>) -> Option<Event<K>> {
        match &mut self.filtered {
            Some(filtered) => filtered.filter(event),
            None => Some(event),
        }
    }

    fn passes(&self, event: &Event<K>) -> Result<bool, Panic> {
        let Some(predicate) = &self.watch.predicate else { return Ok(true) };
        // Unwind safe: a predicate shares no mutable state with the controller.
        catch_unwind(AssertUnwindSafe(|| match event {
            Event::Updated { old, new, origin } => {
                predicate.passes_update(&Update { old, new, origin: *origin })
            }
            Event::Added { object, .. } => predicate.passes_created(object),
            Event::Deleted { last, .. } => predicate.passes_deleted(last),
            Event::Synced => true,
        }))
    }

    fn map_event(&mut self, event: &Event<K>) -> Result<(), Panic> {
        match event {
            // The old state is mapped too: an object that no longer owns this one needs a reconcile.
            Event::Updated { old, new, .. } => {
                let (new, old) = (self.map(new), self.map(old));
                new.and(old)
            }
            Event::Deleted { .. } if deliberate_bug("deletion-not-mapped") => Ok(()),
            event => event.object().map_or(Ok(()), |object| self.map(object)),
        }
    }

    /// Collects the keys that a state maps to. If the function panics, the keys that it returned before are kept.
    fn map(&mut self, object: &Object<K>) -> Result<(), Panic> {
        let Self { map, keys, .. } = self;
        // The queue removes duplicates; this skips the most common ones.
        let mut add = |key: Key| {
            if keys.last() != Some(&key) {
                keys.push(key);
            }
        };
        catch_unwind(AssertUnwindSafe(|| map(object, &mut add)))
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

    /// Removes the listener.
    pub(crate) fn remove(&self) {
        self.handle.remove();
    }

    /// Whether all events have been handled.
    #[cfg(feature = "testing")]
    pub(crate) fn is_idle(&self) -> bool {
        self.handle.lag() == 0
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.remove();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use embedded_apiserver::Server;
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube_informer::testing::ScriptedSource;
    use kube_workqueue::WorkQueue;
    use serde_json::json;

    use super::super::slot_keys::SlotKeys;
    use super::super::writes::Writes;
    use super::*;
    use crate::ShardedLease;

    #[tokio::test(start_paused = true)]
    async fn deleted_objects_of_other_replicas_are_forgotten() {
        let server = Server::builder().without_socket().start().await.unwrap();
        let lease = ShardedLease::new(server.client().unwrap(), "default", "web");
        let slot_keys = SlotKeys::new(lease.local_slots().clone());
        let writes = Writes::new(Duration::from_secs(30));
        let intake = Arc::new(Intake::new(WorkQueue::new(), 10, writes, Some(slot_keys)));
        let source = ScriptedSource::new("v1", "ConfigMap");
        let put = |class: &str| {
            source.put(json!({"metadata": {"namespace": "web", "name": "a", "labels": {"class": class}}}));
        };
        // The informer has no shard, so it shows the objects of all replicas.
        let maps = Informer::<ConfigMap>::from_source(Arc::new(source.clone())).start().unwrap();
        let trigger = Trigger::on(&maps).only(Filter::labels("class=ours"));
        let _listening = trigger.listen(0, None, true, itself(), &intake).unwrap();
        let settled = || tokio::time::sleep(Duration::from_millis(1));
        put("ours");
        settled().await;
        put("other");
        settled().await;
        assert_eq!(intake.leaving(), 1, "this replica may get its slot");
        source.delete("web/a");
        settled().await;
        assert_eq!(intake.leaving(), 0);
    }
}

//! From a change in some informer to the keys that have to be reconciled for it.
//!
//! Every single change is mapped, before anything is coalesced: an owner that only an intermediate state names is reconciled
//! too. So the listener is one that is never coalesced, and for that it must never wait: keys go into the queue, which holds
//! each once. Only a mapping function that is slower than the changes holds its informer up.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use kube_core::ObjectMeta;
use kube_informer::building_blocks::Resource;
use kube_informer::{
    Event, EventHandler, HandlerHandle, Index, Informer, Key, ListenerConfig, Lister, Object, Stopped,
    SyncError, WaitError,
};

use super::intake::{Intake, priority_of};
use super::predicate::{Predicate, Update};
use super::writes::Expected;

/// An informer, and which of its changes count: all, unless a predicate says otherwise. An `&Informer` is one.
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
    /// Whether the store shows this object under this key.
    fn shows(&self, key: &Key, uid: &str) -> bool;
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
    watch: Trigger<K>,
    map: Map<K>,
    intake: Arc<Intake>,
    /// Keys of the event at hand; reused to avoid allocations.
    keys: Vec<Key>,
}

// === impl Trigger ===

impl<K> Trigger<K> {
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

impl<K> From<&Informer<K>> for Trigger<K> {
    fn from(informer: &Informer<K>) -> Self {
        Self::on(informer)
    }
}

impl<K> Clone for Trigger<K> {
    fn clone(&self) -> Self {
        Self { informer: self.informer.clone(), predicate: self.predicate.clone() }
    }
}

impl<K: Send + Sync + 'static> Trigger<K> {
    /// Begins to listen.
    pub(super) fn listen(
        self,
        number: usize,
        map: Map<K>,
        intake: &Arc<Intake>,
    ) -> Result<Listening, Stopped> {
        let informer = self.informer.clone();
        let listener = Listener { number, watch: self, map, intake: intake.clone(), keys: Vec::new() };
        let mut config = ListenerConfig::default();
        config.coalesce = false;
        let handle = informer.add_handler_with(config, listener)?;
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

    fn shows(&self, key: &Key, uid: &str) -> bool {
        self.lister().get(key).is_some_and(|object| object.uid() == uid)
    }

    fn key_in_scope(&self, meta: &ObjectMeta) -> Result<Key, WaitError> {
        self.key_in_scope(meta)
    }
}

/// Whether an informer shows what is expected, given the object that has just changed in it, if one has.
///
/// A resourceVersion means nothing in another cluster's informer. So where several informers may be the one that shows a
/// write, only the object's uid is trusted.
pub(super) fn is_met(
    watched: &dyn Watched,
    key: &Key,
    changed_uid: Option<&str>,
    expected: &Expected,
) -> bool {
    if !watched.has_seen(key, &expected.version) {
        return false;
    }
    match expected.gone {
        true => !watched.shows(key, &expected.uid),
        false => {
            expected.places.len() == 1
                || changed_uid == Some(&*expected.uid)
                || watched.shows(key, &expected.uid)
        }
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

/// The main objects that have one of its values in an index: those of its own namespace, and cluster-scoped ones. A
/// cluster-scoped object concerns main objects in every namespace.
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
            // The index is added before this is called, and indexes are never removed.
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
        let (Some(object), Some(origin)) = (event.object(), event.origin()) else { return };
        self.release(object);
        let panic = match &event {
            // An owner of the old state may be concerned because it is one no longer.
            Event::Updated { old, new, origin } => match self.passes(&Update { old, new, origin: *origin }) {
                Ok(false) => None,
                Ok(true) => self.map(new).err().or(self.map(old).err()),
                Err(panic) => Some(self.map(new).err().or(self.map(old).err()).unwrap_or(panic)),
            },
            _ => self.map(object).err(),
        };
        for key in self.keys.drain(..) {
            self.intake.add(key, priority_of(origin));
        }
        if let Some(panic) = panic {
            // The informer reports and counts it.
            resume_unwind(panic);
        }
    }
}

/// What a function of the user's panicked with.
type Panic = Box<dyn Any + Send>;

impl<K: Send + Sync + 'static> Listener<K> {
    /// Queues the keys that waited for this object, whatever a predicate says of the change.
    fn release(&self, object: &Object<K>) {
        let key = object.key();
        let place = (self.number, key.clone());
        let is_met = |expected: &Expected| is_met(&self.watch.informer, &key, Some(object.uid()), expected);
        for (key, priority) in self.intake.writes.seen(&place, is_met) {
            self.intake.add(key, priority);
        }
    }

    fn passes(&self, update: &Update<'_, K>) -> Result<bool, Panic> {
        let Some(predicate) = &self.watch.predicate else { return Ok(true) };
        // What state a panic leaves behind is the predicate's own.
        catch_unwind(AssertUnwindSafe(|| predicate.passes(update)))
    }

    /// Collects the keys that a state concerns; if the function panics, those that it had returned by then.
    fn map(&mut self, object: &Object<K>) -> Result<(), Panic> {
        let Self { map, keys, .. } = self;
        // The queue holds a key once; this spares it the commonest repetition.
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
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.handle.remove();
        self.intake.queue.shutdown();
    }
}

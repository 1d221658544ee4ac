//! Informers for programs that keep kube-runtime, with the feature `kube-runtime`.
//!
//! [`events`] has the shape of kube-runtime's `watcher`, and [`Reader`] that of its `Store`; [`trigger`] returns what a `Controller`
//! needs. So a program can begin to use an informer where it benefits (shared watches, reliable relists, memory), and keep its
//! `Controller` and reconcile functions.

use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use educe::Educe;
use futures::{Stream, StreamExt, stream};
use kube_client::Error as ClientError;
use kube_runtime::reflector::{self, Lookup, ObjectRef, Store};
use kube_runtime::{WatchStreamExt, reflector as reflect, watcher};

use crate::{DecodeError, Event, Informer, Key, LabelQuery, Lister, Object, Subscription, SyncError};

/// The events of an informer, as kube-runtime's `watcher` returns them: `Init`, an `InitApply` per object and `InitDone` once it is
/// synced, then `Apply` and `Delete`. It ends when the informer stops. Deletions while the watch was down are reported, too.
///
/// A refusal of the initial list is an error of the stream, once per second. An object that does not fit its type is an error, and the
/// stream continues.
///
/// ```no_run
/// # use futures::StreamExt;
/// # use k8s_openapi::api::core::v1::Pod;
/// # use kube_informer::Informer;
/// use kube_runtime::{WatchStreamExt, reflector};
///
/// # fn example(pods: Informer<Pod>) {
/// let (store, writer) = reflector::store();
/// // Before: reflector(writer, watcher(api, watcher::Config::default()))
/// let pods = reflector(writer, kube_informer::runtime::events(&pods)).touched_objects();
/// # }
/// ```
///
/// For a controller, [`trigger`] does both.
pub fn events<K>(
    informer: &Informer<K>,
) -> impl Stream<Item = watcher::Result<watcher::Event<K>>> + Send + 'static + use<K>
where
    K: Clone + Send + Sync + 'static,
{
    stream::unfold(StreamProgress::Waiting(informer.clone(), Duration::ZERO), next)
}

/// What kube-runtime's `Controller::for_stream` needs for its main kind: a stream of the objects that changed, and the store that they
/// are in. Other kinds need no store, only their [`events`]. The stream keeps the informer running.
///
/// ```no_run
/// # use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
/// # use kube_informer::{Informer, StartError};
/// use kube_informer::runtime::{events, trigger};
/// use kube_runtime::{Controller, WatchStreamExt};
///
/// # fn example(client: kube_client::Client) -> Result<(), StartError> {
/// // Before: Controller::new(Api::<Deployment>::all(client.clone()), watcher::Config::default())
/// let (changed, store) = trigger(&Informer::<Deployment>::builder(client.clone()).start()?);
/// let controller = Controller::for_stream(changed, store)
///     // Before: .owns(Api::<ReplicaSet>::all(client), watcher::Config::default())
///     .owns_stream(events(&Informer::<ReplicaSet>::builder(client).start()?).touched_objects());
/// # Ok(()) }
/// ```
pub fn trigger<K>(
    informer: &Informer<K>,
) -> (impl Stream<Item = watcher::Result<K>> + Send + 'static + use<K>, Store<K>)
where
    K: Lookup + Clone + Send + Sync + 'static,
    K::DynamicType: Clone + Default + Eq + Hash + Send + Sync,
{
    let (store, writer) = reflector::store();
    (reflect(writer, events(informer)).touched_objects(), store)
}

/// The stream's progress.
enum StreamProgress<K> {
    /// Waits until the informer is synced, after a pause. From then on, a subscription begins with a complete state.
    Waiting(Informer<K>, Duration),
    /// Reads events; the flag: whether the state at the beginning is complete.
    Reading(Subscription<K>, bool),
}

/// The pause after an error of the initial list.
const PAUSE: Duration = Duration::from_secs(1);

type Next<K> = (watcher::Result<watcher::Event<K>>, StreamProgress<K>);

async fn next<K: Clone + Send + Sync + 'static>(progress: StreamProgress<K>) -> Option<Next<K>> {
    let (mut events, complete) = match progress {
        StreamProgress::Reading(events, complete) => (events, complete),
        StreamProgress::Waiting(informer, pause) => {
            tokio::time::sleep(pause).await;
            return match informer.synced().await {
                Ok(()) => {
                    Some((Ok(watcher::Event::Init), StreamProgress::Reading(informer.subscribe(), false)))
                }
                Err(SyncError::Stopped(_)) => None,
                Err(error) => Some((
                    Err(watcher::Error::InitialListFailed(refused(error))),
                    StreamProgress::Waiting(informer, PAUSE),
                )),
            };
        }
    };
    let event = match events.next().await? {
        Event::Synced => return Some((Ok(watcher::Event::InitDone), StreamProgress::Reading(events, true))),
        Event::Added { object, .. } if !complete => value(&object).map(watcher::Event::InitApply),
        Event::Added { object, .. } | Event::Updated { new: object, .. } => {
            value(&object).map(watcher::Event::Apply)
        }
        Event::Deleted { last, .. } => value(&last).map(watcher::Event::Delete),
    };
    Some((event, StreamProgress::Reading(events, complete)))
}

fn value<K: Clone>(object: &Object<K>) -> watcher::Result<K> {
    let undecodable = |error: DecodeError| {
        let error = <serde_json::Error as serde::de::Error>::custom(error);
        watcher::Error::WatchFailed(ClientError::SerdeError(error))
    };
    object.decode().map(Arc::unwrap_or_clone).map_err(undecodable)
}

fn refused(error: SyncError) -> ClientError {
    match error {
        SyncError::Refused { status, .. } => {
            let refusal = kube_core::Status::failure(&status.message, &status.reason).with_code(status.code);
            ClientError::Api(refusal.boxed())
        }
        error => ClientError::Service(error.into()),
    }
}

/// Reads from an informer's store with the methods of kube-runtime's `Store`. Objects are stored packed and decoded when they are
/// read; values that are in use are shared. Objects that do not fit their type are left out.
///
/// ```no_run
/// # use k8s_openapi::api::core::v1::Pod;
/// # use kube_informer::Informer;
/// # use kube_runtime::reflector::ObjectRef;
/// use kube_informer::runtime::Reader;
///
/// # async fn example(informer: Informer<Pod>) -> Result<(), Box<dyn std::error::Error>> {
/// let pods = Reader::from(&informer);
/// pods.wait_until_ready().await?;
/// let pod = pods.get(&ObjectRef::new("api").within("web"));
/// # Ok(()) }
/// ```
#[derive(Educe)]
#[educe(Clone, Debug)]
pub struct Reader<K> {
    informer: Informer<K>,
    lister: Lister<K>,
}

impl<K: Lookup + Send + Sync + 'static> Reader<K> {
    /// Waits until the initial list is in the store.
    ///
    /// # Errors
    /// As [`Informer::synced`]: unlike kube-runtime's, it fails if the server refuses the list.
    pub async fn wait_until_ready(&self) -> Result<(), SyncError> {
        self.informer.synced().await
    }

    /// The object with this reference. The namespace in a reference to a cluster-scoped object is ignored.
    pub fn get(&self, object: &ObjectRef<K>) -> Option<Arc<K>> {
        let found = self.lister.get(&Key::from(object));
        found.or_else(|| self.lister.get(&Key::new("", &object.name)))?.decode().ok()
    }

    /// All objects. This decodes every one; [`Lister::view`] does not.
    pub fn state(&self) -> Vec<Arc<K>> {
        self.state_filter(|_| true)
    }

    /// The first object that a predicate accepts. This decodes objects until one is found; for a label, field or owner, use an
    /// [`Index`](crate::Index).
    pub fn find(&self, mut predicate: impl FnMut(&K) -> bool) -> Option<Arc<K>> {
        let view = self.lister.view();
        view.iter().filter_map(|object| object.decode().ok()).find(|value| predicate(value))
    }

    /// The objects that a predicate accepts. This decodes every one.
    pub fn state_filter(&self, mut predicate: impl FnMut(&K) -> bool) -> Vec<Arc<K>> {
        let view = self.lister.view();
        view.iter().filter_map(|object| object.decode().ok()).filter(|value| predicate(value)).collect()
    }

    /// The objects with these labels. This decodes only those.
    ///
    /// # Errors
    /// Returns an error if the selector is invalid.
    pub fn state_filter_selector(
        &self,
        selector: impl LabelQuery,
    ) -> Result<Vec<Arc<K>>, kube_wire::InvalidSelector> {
        Ok(Self { informer: self.informer.clone(), lister: self.lister.labels(selector)? }.state())
    }

    /// The number of objects.
    pub fn len(&self) -> usize {
        self.lister.count()
    }

    /// Whether there is no object.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<K: Send + Sync + 'static> From<&Informer<K>> for Reader<K> {
    fn from(informer: &Informer<K>) -> Self {
        Self { informer: informer.clone(), lister: informer.lister() }
    }
}

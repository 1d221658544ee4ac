//! Sends notes as Events of `events.k8s.io/v1`.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use kube_client::api::{Patch, PatchParams, PostParams};
use kube_client::{Api, Client};
use kube_core::{ObjectMeta, Resource};
use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use serde_json::json;
use tokio::sync::Notify;

use super::note::{About, EventNote};
use super::series::{Known, Step};
use crate::error::words;

/// Records Events about objects. Cheap to clone.
///
/// ```no_run
/// # use k8s_openapi::api::core::v1::ConfigMap;
/// # use kube_informer_controller::{EventRecorder, EventNote};
/// # use std::time::Duration;
/// # async fn example(client: kube_client::Client, map: ConfigMap) {
/// let recorder = EventRecorder::new(client, "example.com/website");
/// recorder.record(&map, EventNote::normal("Created", "Reconcile", "the deployment is there"));
/// tokio::select! {
///     () = recorder.run() => {} // sends Events until dropped
///     () = work() => {}
/// }
/// let unsent = recorder.flush(Duration::from_secs(5)).await; // sends the remaining ones at the end
/// # }
/// # async fn work() {}
/// ```
#[derive(Clone)]
pub struct EventRecorder(Arc<Recorder>);

struct Recorder {
    client: Client,
    controller: String,
    instance: String,
    clock: Box<dyn Fn() -> SystemTime + Send + Sync>,
    state: Mutex<RecorderState>,
    added: Notify,
    /// Locked by the task that sends.
    known: tokio::sync::Mutex<Known>,
}

struct RecorderState {
    /// Unsent notes. The first one stays until it is sent.
    waiting: VecDeque<About>,
    stats: RecorderStats,
    /// The error of the last note, if it failed.
    error: Option<String>,
    random: StdRng,
}

/// Counts of notes by outcome. Each note is counted once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecorderStats {
    /// Sent as a new Event.
    pub created: u64,
    /// Counted in an existing Event.
    pub counted: u64,
    /// Dropped because the queue was full.
    pub dropped: u64,
    /// Refused by the server, or not sent: see [`EventRecorder::last_error`].
    pub failed: u64,
    /// Not sent yet.
    pub waiting: u64,
}

/// Notes that can wait to be sent. Further notes are dropped: recording must not block the work.
const WAITING_MAX: usize = 1000;
/// Series to remember.
const SERIES_MAX: usize = 4096;
/// How long a repetition is counted instead of sent as a new Event, as in client-go.
const SERIES_LASTS: Duration = Duration::from_secs(6 * 60);
/// The server's limit for the name of an Event, in bytes.
const NAME_MAX: usize = 253;
/// The time limit of one request.
const REQUEST_MAX: Duration = Duration::from_secs(10);

impl EventRecorder {
    /// A recorder for a controller of this name, by convention `domain/name`. The instance is the environment variable
    /// `HOSTNAME`, in a pod the pod's name.
    pub fn new(client: impl Into<Client>, controller: &str) -> Self {
        let instance = std::env::var("HOSTNAME").unwrap_or_else(|_| "replica".to_owned());
        Self::with(client.into(), controller, &instance, SystemTime::now, rand::make_rng())
    }

    /// As [`new`](Self::new), with explicit inputs: the instance's name, a clock, and a seed for the names of Events.
    pub fn with_parts(
        client: impl Into<Client>,
        controller: &str,
        instance: &str,
        clock: impl Fn() -> SystemTime + Send + Sync + 'static,
        seed: u64,
    ) -> Self {
        Self::with(client.into(), controller, instance, clock, StdRng::seed_from_u64(seed))
    }

    fn with(
        client: Client,
        controller: &str,
        instance: &str,
        clock: impl Fn() -> SystemTime + Send + Sync + 'static,
        random: StdRng,
    ) -> Self {
        let state =
            RecorderState { waiting: VecDeque::new(), stats: RecorderStats::default(), error: None, random };
        Self(Arc::new(Recorder {
            client,
            controller: controller.to_owned(),
            instance: instance.to_owned(),
            clock: Box::new(clock),
            state: Mutex::new(state),
            added: Notify::new(),
            known: tokio::sync::Mutex::new(Known::new(SERIES_MAX, SERIES_LASTS)),
        }))
    }

    /// A recorder for tests: it sends nothing, and [`pending`](Self::pending) returns the notes.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    #[cfg(feature = "testing")]
    pub fn for_test() -> Self {
        let refuse = |_: http::Request<kube_client::client::Body>| {
            let error = "a recorder for tests sends nothing";
            std::future::ready(Err::<http::Response<kube_client::client::Body>, _>(
                kube_client::Error::Service(error.into()),
            ))
        };
        let client = Client::new(tower::service_fn(refuse), "default");
        Self::with_parts(client, "test", "test", || SystemTime::UNIX_EPOCH, 0)
    }

    /// The notes that were recorded and not sent yet, with the objects they are about.
    #[cfg(feature = "testing")]
    pub fn pending(&self) -> Vec<(ObjectReference, EventNote)> {
        let state = self.0.state.lock();
        state.waiting.iter().map(|about| (about.object.clone(), about.note.clone())).collect()
    }

    /// Records a note about an object. Returns immediately; `run` or `flush` sends it.
    pub fn record<K>(&self, object: &K, note: EventNote)
    where
        K: Resource,
        K::DynamicType: Default,
    {
        self.record_about(object.object_ref(&K::DynamicType::default()), note);
    }

    /// As [`record`](Self::record), for any object reference.
    pub fn record_about(&self, object: ObjectReference, note: EventNote) {
        let mut state = self.0.state.lock();
        if state.waiting.len() >= WAITING_MAX {
            state.stats.dropped += 1;
            return;
        }
        let suffix = state.random.random();
        state.waiting.push_back(About { note, object, suffix });
        drop(state);
        self.0.added.notify_one();
    }

    /// Counts of notes by outcome.
    pub fn stats(&self) -> RecorderStats {
        let state = self.0.state.lock();
        RecorderStats { waiting: state.waiting.len() as u64, ..state.stats }
    }

    /// Why the last note was not sent; a common cause is a missing role. `None` after a success. The first failure after a success
    /// is also logged as a warning.
    pub fn last_error(&self) -> Option<String> {
        self.0.state.lock().error.clone()
    }

    /// Sends recorded notes until dropped. At the end of the program, [`flush`](Self::flush) the remaining ones.
    ///
    /// # Cancel safety
    /// Can be dropped at any point; pending notes, the one in flight included, wait until `run` or `flush` sends them.
    pub async fn run(&self) {
        loop {
            self.send_all().await;
            self.0.added.notified().await;
        }
    }

    /// Sends recorded notes for at most this long; returns how many are left. Call it at the end, after the last note is
    /// recorded. It works whether [`run`](Self::run) was dropped or still runs.
    ///
    /// # Cancel safety
    /// As [`run`](Self::run).
    pub async fn flush(&self, limit: Duration) -> usize {
        // After the limit, the remaining notes stay queued.
        let _ = tokio::time::timeout(limit, self.send_all()).await;
        self.0.state.lock().waiting.len()
    }

    /// Sends all pending notes in order.
    async fn send_all(&self) {
        let mut known = self.0.known.lock().await;
        loop {
            let Some(about) = self.0.state.lock().waiting.front().cloned() else { return };
            self.send(&mut known, &about).await;
            // Removed only now: if this future is dropped earlier, the note is sent again as the same Event.
            self.0.state.lock().waiting.pop_front();
        }
    }

    async fn send(&self, known: &mut Known, about: &About) {
        let sent = match known.next(&about.series()) {
            Step::Count { name, count } => self.count(known, about, &name, count).await,
            Step::Create => self.create(known, about).await,
        };
        let mut state = self.0.state.lock();
        let Err(error) = sent else {
            state.error = None;
            return;
        };
        state.stats.failed += 1;
        let error = format!("cannot record events in namespace {}: {error}", namespace(&about.object));
        let (object, reason) = (&about.object.name, &about.note.reason);
        match state.error.replace(error.clone()) {
            None => tracing::warn!(object, reason, "{error}; further failures are logged at debug level"),
            Some(_) => tracing::debug!(object, reason, "{error}"),
        }
    }

    async fn create(&self, known: &mut Known, about: &About) -> Result<(), SendError> {
        let event = self.event(about);
        let name = event.metadata.name.clone().unwrap_or_default();
        match limited(self.api(about).create(&PostParams::default(), &event)).await {
            // An earlier attempt has created the Event, but its response was lost.
            Err(SendError::Refused(kube_client::Error::Api(status))) if status.code == 409 => {}
            created => drop(created?),
        }
        known.began(about.series(), name);
        self.0.state.lock().stats.created += 1;
        Ok(())
    }

    async fn count(&self, known: &mut Known, about: &About, name: &str, count: i32) -> Result<(), SendError> {
        let series = json!({"count": count, "lastObservedTime": self.now()});
        let patch = Patch::Merge(json!({"series": series}));
        match limited(self.api(about).patch(name, &PatchParams::default(), &patch)).await {
            Ok(_) => {
                known.counted(&about.series(), count);
                self.0.state.lock().stats.counted += 1;
                Ok(())
            }
            // The Event no longer exists: the server deletes Events after about an hour.
            Err(SendError::Refused(kube_client::Error::Api(status))) if status.code == 404 => {
                known.ended(&about.series());
                self.create(known, about).await
            }
            Err(error) => Err(error),
        }
    }

    fn event(&self, About { note, object, suffix }: &About) -> Event {
        let metadata = ObjectMeta {
            name: Some(event_name(object.name.as_deref().unwrap_or_default(), *suffix)),
            namespace: Some(namespace(object).to_owned()),
            ..ObjectMeta::default()
        };
        Event {
            metadata,
            action: Some(note.action.clone()),
            event_time: Some(self.now()),
            note: Some(note.text.clone()),
            reason: Some(note.reason.clone()),
            regarding: Some(object.clone()),
            reporting_controller: Some(self.0.controller.clone()),
            reporting_instance: Some(self.0.instance.clone()),
            type_: Some(note.kind.as_str().to_owned()),
            ..Event::default()
        }
    }

    fn api(&self, about: &About) -> Api<Event> {
        Api::namespaced(self.0.client.clone(), namespace(&about.object))
    }

    fn now(&self) -> MicroTime {
        MicroTime(Timestamp::try_from((self.0.clock)()).unwrap_or_default())
    }
}

/// The name of an Event: a valid form of the object's name, and a unique suffix. Names of Events are DNS names (RFC 1123),
/// names of some objects are not.
fn event_name(object: &str, suffix: u64) -> String {
    let suffix = format!(".{suffix:016x}");
    let allowed = |c: char| if c.is_ascii_alphanumeric() || c == '.' { c.to_ascii_lowercase() } else { '-' };
    let text = object.chars().map(allowed).take(NAME_MAX - suffix.len()).collect::<String>();
    let words = text.split('.').map(|word| word.trim_matches('-')).filter(|word| !word.is_empty());
    let mut name = words.collect::<Vec<_>>().join(".");
    if name.is_empty() {
        name.push_str("unnamed");
    }
    name + &suffix
}

/// The namespace of Events about an object: `default` for cluster-scoped objects.
fn namespace(object: &ObjectReference) -> &str {
    object.namespace.as_deref().filter(|namespace| !namespace.is_empty()).unwrap_or("default")
}

#[derive(Debug, thiserror::Error)]
enum SendError {
    #[error("{}", refusal(.0))]
    Refused(kube_client::Error),
    #[error("no answer within {REQUEST_MAX:?}")]
    TimedOut,
}

/// The server's answer, and what to do.
fn refusal(error: &kube_client::Error) -> String {
    match error {
        kube_client::Error::Api(status) => {
            let remedy = match status.code {
                403 => "; grant \"create\" and \"patch\" on events.events.k8s.io",
                _ => "",
            };
            words(status) + remedy
        }
        error => error.to_string(),
    }
}

async fn limited<T>(request: impl Future<Output = Result<T, kube_client::Error>>) -> Result<T, SendError> {
    match tokio::time::timeout(REQUEST_MAX, request).await {
        Ok(answer) => answer.map_err(SendError::Refused),
        Err(_) => Err(SendError::TimedOut),
    }
}

impl fmt::Debug for EventRecorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventRecorder")
            .field("controller", &self.0.controller)
            .field("stats", &self.stats())
            .finish_non_exhaustive()
    }
}

//! Events as calls.
//!
//! Each handler has a task and a backlog of its own, so one that is slow, hangs or panics harms no other.

use std::collections::HashSet;
use std::fmt;
use std::future::poll_fn;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use futures::FutureExt;
use tokio::sync::watch;

use super::backlog::Backlog;
use super::core::{Core, Owner};
use super::decoder::Decoder;
use super::{Event, Object, Stopped, SyncError};
use crate::Key;
use crate::panic::panic_text;
use crate::store::{Origin, StoredObject};

/// Receives every event of an informer. A closure from an event to a future is one.
///
/// Calls come one at a time, in order. One that panics is reported and counted, and the next event follows.
///
/// ```
/// use kube_informer::{Event, EventHandler};
///
/// struct Count(usize);
///
/// impl<K: Send + Sync + 'static> EventHandler<K> for Count {
///     async fn handle(&mut self, _event: Event<K>) {
///         self.0 += 1;
///     }
/// }
/// ```
pub trait EventHandler<K>: Send + 'static {
    /// Something happened; the store shows it already.
    fn handle(&mut self, event: Event<K>) -> impl Future<Output = ()> + Send;
}

impl<K, F, Done> EventHandler<K> for F
where
    F: FnMut(Event<K>) -> Done + Send + 'static,
    Done: Future<Output = ()> + Send,
{
    fn handle(&mut self, event: Event<K>) -> impl Future<Output = ()> + Send {
        self(event)
    }
}

/// A handler that receives only events of objects that pass a test, as if there were no others.
///
/// An object that begins to pass is reported as added, one that ceases to as deleted (with the state that was received last).
/// Objects that passed are remembered by key; so every disappearance is reported, whatever the test says of the last state.
///
/// ```
/// use kube_informer::{Event, Object};
/// use kube_informer::building_blocks::Filtered;
/// use k8s_openapi::api::core::v1::Pod;
///
/// let backend = Filtered::new(
///     |pod: &Object<Pod>| pod.labels().get("tier").as_deref() == Some("backend"),
///     async |event: Event<Pod>| println!("{event:?}"),
/// );
/// ```
pub struct Filtered<Test, Handler> {
    test: Test,
    handler: Handler,
    passed: HashSet<Key>,
}

/// A handler at work. Cloning gives another handle to the same handler.
///
/// Dropping the last one removes the handler, as dropping a [`Subscription`](super::Subscription) ends it;
/// [`detach`](Self::detach) lets it run until the informer stops. Holding one keeps the informer running, so a handler that
/// holds its own never ends by itself.
#[derive(Clone)]
#[must_use = "dropping the last handle removes the handler; `detach` lets it run"]
pub struct HandlerHandle {
    registration: Arc<Registration>,
    progress: watch::Receiver<Progress>,
    panics: Arc<AtomicU64>,
}

/// Keeps a handler registered, unless it is detached.
struct Registration {
    owner: Arc<Owner>,
    backlog: Arc<Backlog>,
    detached: AtomicBool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Progress {
    /// The calls for all of the initial list have returned.
    synced: bool,
    /// There will be no more calls.
    ended: bool,
}

// === impl Filtered ===

impl<Test, Handler> Filtered<Test, Handler> {
    /// Notifies a handler of the objects that pass a test.
    pub fn new(test: Test, handler: Handler) -> Self {
        Self { test, handler, passed: HashSet::new() }
    }

    fn filter<K>(&mut self, event: Event<K>) -> Option<Event<K>>
    where
        Test: FnMut(&Object<K>) -> bool,
    {
        let (key, passes) = match &event {
            Event::Synced => return Some(event),
            Event::Added { object, .. } => (object.key(), (self.test)(object)),
            Event::Updated { new, .. } => (new.key(), (self.test)(new)),
            Event::Deleted { last, .. } => (last.key(), false),
        };
        let passed = if passes { !self.passed.insert(key) } else { self.passed.remove(&key) };
        match (event, passed, passes) {
            (_, false, false) => None,
            (Event::Updated { new, origin, .. }, false, true) => {
                // It may have been there from the beginning; that it passes is news.
                let origin = if origin == Origin::Initial { Origin::Live } else { origin };
                Some(Event::Added { object: new, origin })
            }
            (Event::Updated { old, origin, .. }, true, false) => {
                Some(Event::Deleted { last: old, final_state_known: true, origin })
            }
            (event, ..) => Some(event),
        }
    }
}

impl<K, Test, Handler> EventHandler<K> for Filtered<Test, Handler>
where
    K: Send + Sync + 'static,
    Test: FnMut(&Object<K>) -> bool + Send + 'static,
    Handler: EventHandler<K>,
{
    async fn handle(&mut self, event: Event<K>) {
        if let Some(event) = self.filter(event) {
            self.handler.handle(event).await;
        }
    }
}

impl<Test, Handler> fmt::Debug for Filtered<Test, Handler> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Filtered").field("passed", &self.passed.len()).finish_non_exhaustive()
    }
}

// === impl HandlerHandle ===

impl HandlerHandle {
    pub(super) fn start<K: Send + Sync + 'static>(
        owner: Arc<Owner>,
        decoder: Arc<Decoder<K>>,
        backlog: Arc<Backlog>,
        handler: impl EventHandler<K>,
    ) -> Self {
        let (sender, progress) = watch::channel(Progress::default());
        let panics = Arc::<AtomicU64>::default();
        // The task does not hold the owner: a handler alone does not keep an informer running.
        let core: Arc<Core> = owner.0.clone();
        let task = run(core.clone(), handler, decoder, backlog.clone(), sender, panics.clone());
        core.tasks.spawn(task);
        let registration = Arc::new(Registration { owner, backlog, detached: AtomicBool::new(false) });
        Self { registration, progress, panics }
    }

    /// Waits until the informer is synced and the handler's calls for all of the initial state have returned.
    ///
    /// # Errors
    /// If the server refuses (401, 403, 404); if the informer is stopped or the handler removed before.
    ///
    /// # Cancel safety
    /// May be dropped at any point.
    pub async fn synced(&self) -> Result<(), SyncError> {
        let mut progress = self.progress.clone();
        let done =
            async { progress.wait_for(|progress| progress.synced || progress.ended).await.map(|p| *p) };
        match self.registration.owner.0.unless_refused(done).await? {
            Ok(Progress { synced: true, .. }) => Ok(()),
            _ => Err(Stopped.into()),
        }
    }

    /// Whether the calls for all of the initial state have returned.
    pub fn is_synced(&self) -> bool {
        self.progress.borrow().synced
    }

    /// Removes the handler: pending events are dropped, and no further call begins. Returns immediately, and may be called
    /// from inside the handler.
    pub fn remove(&self) {
        self.registration.remove();
    }

    /// Lets the handler run until the informer stops, as client-go does. It does not keep the informer running.
    pub fn detach(self) {
        self.registration.detached.store(true, Ordering::Relaxed);
    }

    /// Waits until the handler is removed (or the informer stopped) and its last call has returned. Inside the handler itself
    /// that never happens.
    ///
    /// # Cancel safety
    /// May be dropped at any point.
    pub async fn removed(&self) {
        // An error says that the task is gone.
        let _ = self.progress.clone().wait_for(|progress| progress.ended).await;
    }

    /// How many events are pending, at most.
    pub fn lag(&self) -> usize {
        self.registration.backlog.lag()
    }

    /// How often the handler was so far behind that its events were coalesced per key.
    pub fn coalesced_count(&self) -> u64 {
        self.registration.backlog.coalesced_count()
    }

    /// How often the handler has panicked.
    pub fn panics(&self) -> u64 {
        self.panics.load(Ordering::Relaxed)
    }
}

impl Registration {
    fn remove(&self) {
        self.owner.0.listeners.leave(&self.backlog);
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        if !*self.detached.get_mut() {
            self.remove();
        }
    }
}

impl fmt::Debug for HandlerHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HandlerHandle")
            .field("progress", &*self.progress.borrow())
            .field("lag", &self.lag())
            .field("panics", &self.panics())
            .finish_non_exhaustive()
    }
}

async fn run<K: Send + Sync + 'static>(
    core: Arc<Core>,
    mut handler: impl EventHandler<K>,
    decoder: Arc<Decoder<K>>,
    backlog: Arc<Backlog>,
    progress: watch::Sender<Progress>,
    panics: Arc<AtomicU64>,
) {
    while let Some(event) = poll_fn(|context| backlog.poll_next(context, &decoder)).await {
        let ends_initial_state = matches!(event, Event::Synced);
        let about = event.object().map(|object| StoredObject::clone(object));
        // A handler that has panicked is called again; what state it is in is its own affair.
        let call = AssertUnwindSafe(async { handler.handle(event).await }).catch_unwind();
        if let Err(panic) = call.await {
            panics.fetch_add(1, Ordering::Relaxed);
            core.counts.panics.fetch_add(1, Ordering::Relaxed);
            let resource = core.describe();
            let event = about.map_or("synced".to_owned(), |object| object.key().to_string());
            let why = panic_text(&*panic);
            tracing::error!(resource, event, why, "a handler panicked; the next event follows");
        }
        if ends_initial_state {
            progress.send_modify(|progress| progress.synced = true);
        }
    }
    progress.send_modify(|progress| progress.ended = true);
}

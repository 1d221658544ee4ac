//! Events as function calls.
//!
//! Each handler has its own task and backlog: one that is slow, hangs or panics does not affect the others.

use std::collections::HashSet;
use std::fmt;
use std::future::poll_fn;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use educe::Educe;
use futures::FutureExt;
use tokio::sync::watch;

use super::backlog::Backlog;
use super::core::{Core, Owner};
use super::decoder::Decoder;
use super::{Event, Object, Stopped, SyncError};
use crate::Key;
use crate::object::StoredObject;
use crate::panic::panic_text;
use crate::process::in_process;
use crate::store::Origin;

/// Receives every event of an informer. A closure from an event to a future implements it.
///
/// Calls come one at a time, in order. A panic is logged and counted, and the next event follows.
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
    /// Handles an event. The store already shows the change.
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

/// A handler that receives only events of objects that pass a test.
///
/// An object that begins to pass is reported as added; one that no longer passes is reported as deleted, with the state
/// received last. The keys of passing objects are remembered, so every deletion is reported, whatever the test returns for
/// the final state.
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
#[derive(Educe)]
#[educe(Debug)]
pub struct Filtered<Test, Handler> {
    #[educe(Debug(ignore))]
    pub(super) test: Test,
    #[educe(Debug(ignore))]
    handler: Handler,
    passed: HashSet<Key>,
}

/// A running handler. Clones refer to the same handler.
///
/// Dropping the last clone removes the handler, as dropping a [`Subscription`](super::Subscription) ends it;
/// [`detach`](Self::detach) lets it run until the informer stops. A handle keeps the informer running, so a handler that
/// holds its own handle never ends by itself.
#[derive(Clone, Debug)]
#[must_use = "dropping the last handle removes the handler; `detach` lets it run"]
pub struct HandlerHandle {
    registration: Arc<Registration>,
    progress: watch::Receiver<Progress>,
    panics: Arc<AtomicU64>,
}

/// Keeps a listener registered until it is dropped, unless it is detached.
pub(super) struct Registration {
    owner: Arc<Owner>,
    pub(super) backlog: Arc<Backlog>,
    detached: AtomicBool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Progress {
    /// Whether the calls for the whole initial list have returned.
    synced: bool,
    /// Whether the last call has returned.
    ended: bool,
}

// === impl Filtered ===

impl<Test, Handler> Filtered<Test, Handler> {
    /// Calls a handler for the objects that pass a test.
    pub fn new(test: Test, handler: Handler) -> Self {
        Self { test, handler, passed: HashSet::new() }
    }

    /// The event that the handler receives instead of this one; `None` if it receives nothing.
    pub fn filter<K>(&mut self, event: Event<K>) -> Option<Event<K>>
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
                // The object may be part of the initial list, but it starts to pass only now.
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

#[cfg_attr(not(feature = "building-blocks"), doc(hidden))]
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
        core.tasks.spawn(in_process(task));
        Self { registration: Arc::new(Registration::new(owner, backlog)), progress, panics }
    }

    /// Waits until the informer is synced and the handler's calls for the whole initial list have returned.
    ///
    /// # Errors
    /// Returns an error if the server [refuses](SyncError::Refused) the list, its objects exceed the
    /// [memory budget](SyncError::OverBudget), the informer is stopped, or the handler is removed.
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

    /// Whether the calls for the whole initial list have returned.
    pub fn is_synced(&self) -> bool {
        self.progress.borrow().synced
    }

    /// Removes the handler: drops pending events and starts no further call. Returns immediately, and may be called from
    /// inside the handler.
    pub fn remove(&self) {
        self.registration.remove();
    }

    /// Lets the handler run until the informer stops, as in client-go. It does not keep the informer running.
    pub fn detach(self) {
        self.registration.detached.store(true, Ordering::Relaxed);
    }

    /// Waits until the handler is removed (or the informer stopped) and its last call has returned. Never returns inside
    /// the handler itself.
    ///
    /// # Cancel safety
    /// May be dropped at any point.
    pub async fn removed(&self) {
        // An error means that the task has ended.
        let _ = self.progress.clone().wait_for(|progress| progress.ended).await;
    }

    /// The number of pending events, at most.
    pub fn lag(&self) -> usize {
        self.registration.backlog.lag()
    }

    /// How often the handler's events were coalesced per key because it fell behind.
    pub fn coalesced_count(&self) -> u64 {
        self.registration.backlog.coalesced_count()
    }

    /// How often the handler has panicked.
    pub fn panics(&self) -> u64 {
        self.panics.load(Ordering::Relaxed)
    }
}

impl Registration {
    pub(super) fn new(owner: Arc<Owner>, backlog: Arc<Backlog>) -> Self {
        Self { owner, backlog, detached: AtomicBool::new(false) }
    }

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

impl fmt::Debug for Registration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registration").field("lag", &self.backlog.lag()).finish_non_exhaustive()
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
        // A handler that panicked is called again. It must keep its own state consistent.
        let call = AssertUnwindSafe(async { handler.handle(event).await }).catch_unwind();
        if let Err(panic) = call.await {
            panics.fetch_add(1, Ordering::Relaxed);
            core.counts.panics.fetch_add(1, Ordering::Relaxed);
            let resource = core.describe();
            let event = about.map_or("synced".to_owned(), |object| object.key().to_string());
            let why = panic_text(&*panic);
            tracing::error!(resource, event, why, "handler panicked; continuing with the next event");
            if deliberate_bug!("panic-ends-handler") {
                return;
            }
        }
        if ends_initial_state {
            progress.send_modify(|progress| progress.synced = true);
        }
    }
    progress.send_modify(|progress| progress.ended = true);
}

//! Informers shared by all who want the same.
//!
//! A program of many parts asks for informers in many places. Whoever asks a factory for the same resource, namespaces,
//! selectors, fields and encoding gets a handle to the same informer. The factory itself keeps none of them running.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Weak};

use futures::future::join_all;
use kube_client::Client;
use kube_core::{ApiResource, DynamicObject, Resource as KubeResource};
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use tokio::sync::Semaphore;
use tokio_util::task::TaskTracker;

use super::builder::InformerBuilder;
use super::core::{Core, Owner};
use super::decoder::Decoder;
use super::settings::{InformerSource, Settings, Wanted};
use super::{Informer, InformerState, StartError, SyncError};
use crate::source::ServerIsNewer;

/// Starts informers and shares them.
///
/// ```no_run
/// # use kube_informer::InformerFactory;
/// # use k8s_openapi::api::core::v1::{Node, Pod};
/// # async fn example(client: kube_client::Client) -> Result<(), Box<dyn std::error::Error>> {
/// let factory = InformerFactory::new(client);
/// let pods = factory.informer::<Pod>().namespaces(["web"]).start()?;
/// let same = factory.informer::<Pod>().namespaces(["web"]).start()?;     // one watch for both
/// let nodes = factory.informer::<Node>().start()?;
/// factory.wait_for_sync().await?;                                        // or says which are missing, and why
/// factory.shutdown().await;
/// # Ok(()) }
/// ```
///
/// Of what two ask for differently, indexes are added to the shared informer (the same name for something else is an
/// error), resync is each handle's own, and for the rest the first decides. An informer that the last handle was dropped
/// of is stopped; asking again starts another.
#[derive(Clone)]
pub struct InformerFactory {
    client: Client,
    /// In the order in which they were started.
    shared: Arc<Mutex<Vec<SharedInformer>>>,
    starts: Arc<Semaphore>,
    pub(super) server_is_newer: ServerIsNewer,
}

/// An informer that somebody holds, or did.
struct SharedInformer {
    /// `None`: nobody else can want the same.
    wanted: Option<Wanted>,
    owner: Weak<Owner>,
    /// To be waited for even after the last handle is gone.
    tasks: TaskTracker,
    /// By the type that they make.
    decoders: HashMap<TypeId, Weak<dyn Any + Send + Sync>>,
}

/// Some informers are not synced, because the server refuses.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[error("{} not synced: {}", count(.missing.len()), .missing.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
pub struct NotSynced {
    /// Why, one for each.
    pub missing: Vec<SyncError>,
}

/// An informer that is not synced.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Unsynced {
    /// What it watches.
    pub resource: String,
    /// How it is doing.
    pub state: InformerState,
}

fn count(informers: usize) -> String {
    match informers {
        1 => "an informer is".to_owned(),
        informers => format!("{informers} informers are"),
    }
}

// === impl InformerFactory ===

impl InformerFactory {
    /// How many watches fetch their first list at the same time, unless [set otherwise](Self::starts_max).
    const STARTS_MAX: usize = 20;

    /// A factory over [`Cluster`](crate::Cluster), or any `kube` client.
    pub fn new(client: impl Into<Client>) -> Self {
        let starts = Arc::new(Semaphore::new(Self::STARTS_MAX));
        let (shared, server_is_newer) = Default::default();
        Self { client: client.into(), shared, starts, server_is_newer }
    }

    /// How many watches may fetch their first list at the same time, so that many do not storm the server. Default: 20. For
    /// informers that are started from now on.
    #[must_use]
    pub fn starts_max(mut self, watches: usize) -> Self {
        self.starts = Arc::new(Semaphore::new(watches.clamp(1, Semaphore::MAX_PERMITS)));
        self
    }

    /// An informer for a type that knows its resource; shared, once [started](InformerBuilder::start).
    pub fn informer<K>(&self) -> InformerBuilder<K>
    where
        K: KubeResource<DynamicType = ()> + DeserializeOwned + Send + Sync + 'static,
        K::Scope: 'static,
    {
        Informer::builder(self.client.clone()).shared_by(self)
    }

    /// An informer for a resource that is known at run time only; shared, once [started](InformerBuilder::start).
    pub fn dynamic(&self, resource: &ApiResource) -> InformerBuilder<DynamicObject> {
        Informer::dynamic(self.client.clone(), resource).shared_by(self)
    }

    /// Waits until every informer that was started and is held is synced, or refused by the server.
    ///
    /// # Errors
    /// If the server refuses some (401, 403, 404): which, and why. They go on trying.
    ///
    /// # Cancel safety
    /// May be dropped at any point; [`unsynced`](Self::unsynced) tells what is missing.
    pub async fn wait_for_sync(&self) -> Result<(), NotSynced> {
        let synced = join_all(self.cores().iter().map(|core| core.synced())).await;
        let refused =
            |result: Result<(), SyncError>| result.err().filter(|why| !matches!(why, SyncError::Stopped(_)));
        let missing = synced.into_iter().filter_map(refused).collect::<Vec<_>>();
        if missing.is_empty() { Ok(()) } else { Err(NotSynced { missing }) }
    }

    /// The informers that are held and not synced.
    pub fn unsynced(&self) -> Vec<Unsynced> {
        let cores = self.cores();
        let missing = cores.iter().filter(|core| !core.is_stopped() && !*core.listeners.synced().borrow());
        missing.map(|core| Unsynced { resource: core.describe(), state: core.state() }).collect()
    }

    /// Stops every informer, and waits until all their tasks have ended. Calls of handlers that are under way are
    /// finished.
    ///
    /// # Cancel safety
    /// May be dropped at any point; the informers are stopped all the same.
    pub async fn shutdown(&self) {
        self.cores().iter().for_each(|core| core.stop());
        let tasks = self.shared.lock().iter().map(|running| running.tasks.clone()).collect::<Vec<_>>();
        join_all(tasks.iter().map(TaskTracker::wait)).await;
    }

    /// The informer that is wanted: the one that runs, or a new one. Nothing said: a new one.
    pub(super) fn share<K: Send + Sync + 'static>(
        &self,
        wanted: Option<Wanted>,
        decoder: Decoder<K>,
        settings: Settings,
        source: InformerSource,
    ) -> Result<(Arc<Owner>, Arc<Decoder<K>>), StartError> {
        let mut shared = self.shared.lock();
        // What has ended need not be remembered.
        shared.retain(|running| running.owner.strong_count() > 0 || !running.tasks.is_empty());
        for running in shared.iter_mut().filter(|running| wanted.is_some() && running.wanted == wanted) {
            if let Some(owner) = running.owner.upgrade().filter(|owner| !owner.0.is_stopped()) {
                owner.0.ensure_indexes(&settings.indexes)?;
                return Ok((owner, running.decoder(decoder)));
            }
        }
        let owner = settings.start(source, self.starts.clone())?;
        let tasks = owner.0.tasks.clone();
        let mut running =
            SharedInformer { wanted, owner: Arc::downgrade(&owner), tasks, decoders: HashMap::new() };
        let decoder = running.decoder(decoder);
        shared.push(running);
        Ok((owner, decoder))
    }

    /// Those that somebody holds.
    fn cores(&self) -> Vec<Arc<Core>> {
        self.shared.lock().iter().filter_map(|running| Some(running.owner.upgrade()?.0.clone())).collect()
    }
}

impl SharedInformer {
    /// The decoder for a type: the one that is in use, or this.
    fn decoder<K: Send + Sync + 'static>(&mut self, new: Decoder<K>) -> Arc<Decoder<K>> {
        let known = self.decoders.get(&TypeId::of::<K>()).and_then(Weak::upgrade);
        if let Some(known) = known.and_then(|known| known.downcast().ok()) {
            return known;
        }
        let new = Arc::new(new);
        let erased: Arc<dyn Any + Send + Sync> = new.clone();
        self.decoders.insert(TypeId::of::<K>(), Arc::downgrade(&erased));
        new
    }
}

impl fmt::Debug for InformerFactory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InformerFactory")
            .field("informers", &self.shared.lock().len())
            .finish_non_exhaustive()
    }
}

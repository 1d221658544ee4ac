//! Follows the namespaces that match a label selector: each has a scope while it matches.
//!
//! An informer of namespaces, with the selector, reports which ones match. A [`Follower`] adds a scope when a namespace starts to
//! match, and removes it when it no longer does. A removed scope ends with an empty list, which deletes its objects as a relist
//! does. There is one watch per namespace instead of one for the cluster, so objects of other namespaces are never received.

use std::collections::HashMap;
use std::future::poll_fn;
use std::sync::Arc;

use futures::StreamExt;
use kube_client::Client;
use kube_core::metadata::PartialObjectMeta;
use kube_core::{ApiResource, DynamicObject, GroupVersionKind};
use tokio::task::JoinHandle;

use super::builder::InformerBuilder;
use super::core::{Core, Watching};
use super::scopes::ScopeParts;
use super::{Event, Informer, InformerFactory, StartError};
use crate::queue::{Replace, Sink};
use crate::scope::Scope;
use crate::source::ListerWatcher;

/// Which namespaces to follow, and how to watch each.
pub(super) struct Matching {
    pub(super) selector: String,
    /// A source that describes the objects. It never sends a request.
    pub(super) source: Arc<dyn ListerWatcher>,
    pub(super) namespaces: InformerBuilder<Namespace>,
    pub(super) parts: NamespaceParts,
}

/// Makes the scope of a namespace.
type NamespaceParts = Box<dyn Fn(&str) -> Result<ScopeParts, StartError> + Send + Sync>;

type Namespace = PartialObjectMeta<DynamicObject>;

/// Adds and removes scopes as namespaces start and stop matching.
pub(super) struct Follower<S> {
    core: Arc<Core>,
    watching: Watching<S>,
    parts: NamespaceParts,
    watched: HashMap<String, (Scope, JoinHandle<()>)>,
    /// The numbers of removed scopes, to use again.
    free: Vec<Scope>,
    next: u16,
}

/// An informer of the namespaces with these labels. A factory shares it.
pub(super) fn informer(
    client: &Client,
    factory: Option<&InformerFactory>,
    selector: &str,
) -> InformerBuilder<Namespace> {
    let resource =
        ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk("", "v1", "Namespace"), "namespaces");
    let builder = match factory {
        Some(factory) => factory.bare(&resource),
        None => Informer::dynamic(client.clone(), &resource),
    };
    builder.metadata_only().labels(selector)
}

/// A placeholder scope that is pending until the list of namespaces is complete, so that the informer is not synced earlier.
pub(super) const LIST_OF_NAMESPACES: Scope = Scope(u16::MAX);

impl<S: Sink> Follower<S> {
    /// `next`: the first number for its scopes.
    pub(super) fn new(core: Arc<Core>, watching: Watching<S>, parts: NamespaceParts, next: u16) -> Self {
        Self { core, watching, parts, watched: HashMap::new(), free: Vec::new(), next }
    }

    /// Follows the namespaces until the informer is stopped.
    pub(super) async fn run(mut self, namespaces: InformerBuilder<Namespace>) {
        let stop = self.core.stop.clone();
        match namespaces.start() {
            Ok(namespaces) => {
                stop.run_until_cancelled(self.follow(&namespaces)).await;
                let theirs = namespaces.core().clone();
                drop(namespaces);
                // The informer of namespaces is stopped now, unless a factory shares it with others.
                if theirs.is_stopped() {
                    theirs.tasks.wait().await;
                }
            }
            Err(error) => tracing::error!(%error, "cannot follow namespaces"),
        }
        // Without this task, objects of removed namespaces would stay in the store.
        self.core.stop();
    }

    async fn follow(&mut self, namespaces: &Informer<Namespace>) {
        let mut events = namespaces.subscribe();
        let followed = self.core.scopes.follow(namespaces.core(), events.backlog().clone());
        let mut next = async || {
            let event = poll_fn(|context| {
                followed.set_idle(false);
                let event = events.poll_next_unpin(context);
                followed.set_idle(event.is_pending());
                event
            });
            event.await
        };
        while let Some(event) = next().await {
            match event {
                Event::Added { object, .. } => {
                    if !self.enter(object.name()) {
                        return;
                    }
                }
                Event::Deleted { last, .. } => self.leave(last.name()).await,
                Event::Synced => self.empty(LIST_OF_NAMESPACES).await,
                Event::Updated { .. } => {}
            }
        }
    }

    /// Starts to watch a namespace. Returns `false` on failure.
    fn enter(&mut self, namespace: &str) -> bool {
        if self.core.scopes.has_namespace(namespace) {
            return true;
        }
        let parts = match (self.parts)(namespace) {
            Ok(parts) => parts,
            Err(error) => {
                tracing::error!(namespace, %error, "cannot watch namespace");
                return false;
            }
        };
        let scope = self.free.pop().unwrap_or(Scope(self.next));
        if scope == LIST_OF_NAMESPACES {
            tracing::error!("cannot watch more than 65,535 namespaces");
            return false;
        }
        self.next = self.next.max(scope.0 + 1);
        self.core.listeners.expect(scope);
        let reflector = self.core.watch(scope, parts, &self.watching);
        self.watched.insert(namespace.to_owned(), (scope, reflector));
        true
    }

    /// Stops watching a namespace. Its objects are reported as deleted.
    async fn leave(&mut self, namespace: &str) {
        let Some((scope, reflector)) = self.watched.remove(namespace) else { return };
        self.core.scopes.remove(scope);
        // Once the reflector has ended, it queues nothing more. (If it panicked, the informer stops anyway.)
        let _ = reflector.await;
        self.empty(scope).await;
        self.free.push(scope);
    }

    /// Replaces a scope with an empty list, and removes it from the store.
    async fn empty(&self, scope: Scope) {
        let emptied = async {
            self.watching.sink.begin_replace(scope).await?.commit("").await?;
            self.core.queue.processed(scope).await
        };
        // An error means that the informer was stopped.
        if emptied.await.is_ok() {
            self.core.store.forget_scope(scope);
        }
    }
}

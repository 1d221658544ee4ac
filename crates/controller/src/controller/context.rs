//! What a reconcile is given besides its key.

use std::fmt;
use std::sync::Arc;

use kube_core::Resource;
use kube_informer::Key;

use super::intake::Intake;
use super::trigger::Watched;
use crate::leader::Term;
use crate::{NotWatched, Stop};

/// What a reconcile is given besides its key: the user's data, and ties to the controller. Cheap to clone.
pub struct Context<D = ()> {
    data: Arc<D>,
    run: Arc<Run>,
}

/// What belongs to one reconcile.
struct Run {
    key: Key,
    failures: u32,
    tools: Arc<Tools>,
    stop: Stop,
    term: Option<Term>,
}

/// What all reconciles of a controller share.
pub(crate) struct Tools {
    pub(crate) intake: Arc<Intake>,
    pub(crate) watched: Vec<Box<dyn Watched>>,
}

impl<D> Context<D> {
    pub(super) fn new(
        data: Arc<D>,
        tools: Arc<Tools>,
        key: Key,
        failures: u32,
        stop: Stop,
        term: Option<Term>,
    ) -> Self {
        Self { data, run: Arc::new(Run { key, failures, tools, stop, term }) }
    }

    /// The data that the controller was given.
    pub fn data(&self) -> &D {
        &self.data
    }

    /// The key that is reconciled.
    pub fn key(&self) -> &Key {
        &self.run.key
    }

    /// How often this key has failed in a row before.
    pub fn failures(&self) -> u32 {
        self.run.failures
    }

    /// Says that something was written: the object itself or another of any kind that the controller watches, as the
    /// server gave it back.
    ///
    /// Should this key be queued, it is put off until the informer shows that write (or something newer), so that a
    /// reconcile never acts on a state from before its own. No worker waits meanwhile; if the write does not show up
    /// within [a limit](crate::ControllerBuilder::write_wait_max), the key is reconciled all the same.
    ///
    /// # Errors
    /// If no informer of this controller will ever show the object: its kind is not watched, or its namespace or labels
    /// are not selected.
    pub fn wrote<K>(&self, object: &K) -> Result<(), NotWatched>
    where
        K: Resource,
        K::DynamicType: Default,
    {
        self.wrote_as(object, &K::DynamicType::default())
    }

    /// As [`wrote`](Self::wrote), for a type that is known at run time only.
    ///
    /// # Errors
    /// As [`wrote`](Self::wrote).
    pub fn wrote_as<K: Resource>(&self, object: &K, dynamic: &K::DynamicType) -> Result<(), NotWatched> {
        let (kind, group) = (K::kind(dynamic), K::group(dynamic));
        let version = object.meta().resource_version.as_deref().unwrap_or_default();
        let mut shown = false;
        for (number, watched) in self.run.tools.watched.iter().enumerate() {
            let resource = watched.resource();
            if resource.kind != kind || resource.group != group {
                continue;
            }
            let Ok(key) = watched.key_in_scope(object.meta()) else { continue };
            shown = true;
            let has_seen = || watched.has_seen(&key, version);
            self.run.tools.intake.writes.wrote(&self.run.key, (number, key.clone()), version, has_seen);
        }
        let meta = object.meta();
        let key = || {
            let text = |text: &Option<String>| text.clone().unwrap_or_default();
            Key::new(&text(&meta.namespace), &text(&meta.name))
        };
        if shown { Ok(()) } else { Err(NotWatched { kind: kind.into_owned(), key: key() }) }
    }

    /// The term of leadership under which this runs; none without leader election. Its token can be written along with
    /// what is written elsewhere, so that a later leader's writes can be told from an earlier one's.
    pub fn term(&self) -> Option<&Term> {
        self.run.term.as_ref()
    }

    /// Waits until the controller is told to stop: for a reconcile that takes long and would rather come to an end. It
    /// need not heed it, and is given a grace period; if leadership is lost it is cut short without.
    ///
    /// # Cancel safety
    /// May be dropped at any point.
    pub async fn stopping(&self) {
        self.run.stop.stopping().await;
    }

    /// Whether the controller was told to stop.
    pub fn is_stopping(&self) -> bool {
        self.run.stop.is_stopping()
    }
}

impl<D> Clone for Context<D> {
    fn clone(&self) -> Self {
        Self { data: self.data.clone(), run: self.run.clone() }
    }
}

impl<D> fmt::Debug for Context<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context")
            .field("key", &self.run.key)
            .field("failures", &self.run.failures)
            .field("term", &self.run.term)
            .finish_non_exhaustive()
    }
}

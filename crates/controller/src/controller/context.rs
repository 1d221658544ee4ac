//! What a reconcile is given besides its key.

use std::fmt;
use std::sync::Arc;

use kube_core::{ObjectMeta, Resource};
use kube_informer::{Key, WaitError};

use super::intake::Intake;
use super::trigger::{Watched, is_met};
use super::writes::Expected;
use crate::Stop;
use crate::leader::Term;

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

    /// Reports a write to the controller: of the object itself, or of another of any kind that the controller watches, as
    /// the server returned it. Returns whether an informer of this controller shows it.
    ///
    /// If this key is queued, it is deferred until the informer shows that write (or something newer), so that a
    /// reconcile never acts on a state from before its own. No worker waits meanwhile; if the write does not show up
    /// within [a limit](crate::ControllerBuilder::write_wait_max), the key is reconciled all the same.
    ///
    /// Several informers may be of one kind: with other selectors, or of another cluster. The key waits for each of them
    /// that shows this object (by its uid) already; if none does yet, for the first that will.
    ///
    /// There is nothing to wait for, and no error, if no informer shows the object: its kind is not watched, or its namespace
    /// or labels are not selected. That is logged at debug level, with the reason.
    pub fn wrote<K>(&self, object: &K) -> bool
    where
        K: Resource,
        K::DynamicType: Default,
    {
        self.wrote_as(object, &K::DynamicType::default())
    }

    /// As [`wrote`](Self::wrote), for a type that is known at run time only.
    pub fn wrote_as<K: Resource>(&self, object: &K, dynamic: &K::DynamicType) -> bool {
        self.expect(object, dynamic, false)
    }

    /// Reports a deletion to the controller: if this key is queued, it is deferred until no informer shows the object (by its
    /// uid) any more. Otherwise as [`wrote`](Self::wrote); the object is its last known state.
    ///
    /// An object that has finalizers, or a grace period, is not gone when the server answers: report that answer by `wrote`.
    ///
    /// ```no_run
    /// # use k8s_openapi::api::core::v1::ConfigMap;
    /// # use kube_client::{Api, api::DeleteParams};
    /// # use kube_informer_controller::{Context, Error};
    /// async fn delete(ctx: &Context, api: &Api<ConfigMap>, map: &ConfigMap) -> Result<(), Error> {
    ///     let name = map.metadata.name.as_deref().unwrap_or_default();
    ///     match api.delete(name, &DeleteParams::default()).await?.left() {
    ///         Some(deleting) => ctx.wrote(&deleting),
    ///         None => ctx.deleted(map),
    ///     };
    ///     Ok(())
    /// }
    /// ```
    pub fn deleted<K>(&self, object: &K) -> bool
    where
        K: Resource,
        K::DynamicType: Default,
    {
        self.deleted_as(object, &K::DynamicType::default())
    }

    /// As [`deleted`](Self::deleted), for a type that is known at run time only.
    pub fn deleted_as<K: Resource>(&self, object: &K, dynamic: &K::DynamicType) -> bool {
        self.expect(object, dynamic, true)
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

// === what informers are expected to show ===

impl<D> Context<D> {
    fn expect<K: Resource>(&self, object: &K, dynamic: &K::DynamicType, gone: bool) -> bool {
        let Shown { now, later, excluded } = self.shown(object, dynamic);
        let key = key_of(object.meta());
        // An object that is gone, and was not shown, need not be waited for where it is not certain which informer is meant.
        let (each, any_of) = match (now.is_empty(), gone && later.len() > 1) {
            (true, true) => (Vec::new(), Vec::new()),
            (true, false) => (Vec::new(), later.clone()),
            (false, _) => (now.clone(), Vec::new()),
        };
        let groups = each.into_iter().map(|number| vec![number]).chain([any_of]);
        for numbers in groups.filter(|numbers| !numbers.is_empty()) {
            let expected = expected(object.meta(), &key, &numbers, gone);
            let met = |expected: &Expected| numbers.iter().any(|number| self.is_met(*number, &key, expected));
            self.run.tools.intake.writes.expect(&self.run.key, expected, met);
        }
        let is_shown = !now.is_empty() || !later.is_empty();
        if !is_shown {
            let why = excluded.map_or("its kind is not watched".to_owned(), |error| error.to_string());
            let kind = K::kind(dynamic);
            tracing::debug!(%kind, object = %key, why, "no informer of this controller shows what was written; not waiting for it");
        }
        is_shown
    }

    /// Remembers that the clean-up for a finalizer succeeded, as long as an informer shows the object.
    pub(crate) fn cleaned_up<K: Resource>(&self, object: &K, finalizer: &str)
    where
        K::DynamicType: Default,
    {
        let key = key_of(object.meta());
        for number in self.shown(object, &K::DynamicType::default()).now {
            let expected = expected(object.meta(), &key, &[number], true);
            let met = |expected: &Expected| self.is_met(number, &key, expected);
            self.run.tools.intake.writes.cleaned((number, key.clone()), expected, finalizer, met);
        }
    }

    /// Whether the clean-up for a finalizer of this object succeeded before.
    pub(crate) fn is_cleaned_up<K: Resource>(&self, object: &K, finalizer: &str) -> bool
    where
        K::DynamicType: Default,
    {
        let (key, uid) = (key_of(object.meta()), object.meta().uid.as_deref().unwrap_or_default());
        let shown = self.shown(object, &K::DynamicType::default()).now;
        let writes = &self.run.tools.intake.writes;
        shown.into_iter().any(|number| writes.is_cleaned(&(number, key.clone()), uid, finalizer))
    }

    /// Which informers show an object, or may.
    fn shown<K: Resource>(&self, object: &K, dynamic: &K::DynamicType) -> Shown {
        let (kind, group) = (K::kind(dynamic), K::group(dynamic));
        let meta = object.meta();
        let (key, uid) = (key_of(meta), meta.uid.as_deref().unwrap_or_default());
        let mut shown = Shown::default();
        for (number, watched) in self.run.tools.watched.iter().enumerate() {
            let resource = watched.resource();
            if resource.kind != kind || resource.group != group {
                continue;
            }
            match watched.key_in_scope(meta) {
                // Without a uid it is not certain which object is meant: each is waited for.
                Ok(_) if uid.is_empty() => shown.now.push(number),
                _ if watched.shows(&key, uid) => shown.now.push(number),
                Ok(_) => shown.later.push(number),
                Err(error) => shown.excluded = Some(error),
            }
        }
        shown
    }

    fn is_met(&self, number: usize, key: &Key, expected: &Expected) -> bool {
        is_met(&*self.run.tools.watched[number], key, None, expected)
    }
}

/// The informers, by number, of an object's kind.
#[derive(Default)]
struct Shown {
    /// They show the object.
    now: Vec<usize>,
    /// They do not, but it is in their scope.
    later: Vec<usize>,
    /// Why another never will.
    excluded: Option<WaitError>,
}

fn key_of(meta: &ObjectMeta) -> Key {
    Key::new(meta.namespace.as_deref().unwrap_or_default(), meta.name.as_deref().unwrap_or_default())
}

fn expected(meta: &ObjectMeta, key: &Key, numbers: &[usize], gone: bool) -> Expected {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    Expected {
        places: numbers.iter().map(|number| (*number, key.clone())).collect(),
        uid: text(&meta.uid),
        version: text(&meta.resource_version),
        gone,
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

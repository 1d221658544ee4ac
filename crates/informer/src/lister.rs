//! Typed reads.
//!
//! A [`Lister`] reads an informer's store and can be narrowed to a namespace, labels or a field. Every read of several
//! objects sees one moment of the store; a [`View`] holds such a moment.

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use educe::Educe;
use kube_wire::path::PathReader;
use kube_wire::{FieldPath, InvalidSelector, LabelSelector};

use crate::Key;
use crate::informer::{Decoder, LabelQuery, ListenerConfig, Object, Owner, Subscription};
use crate::object::StoredObject;
use crate::store::{IndexError, Snapshot};

/// Reads from an informer's store. Cheap to clone and to narrow; holding it keeps the informer running.
///
/// ```
/// # use std::sync::Arc;
/// # use kube_informer::testing::ScriptedSource;
/// # use kube_informer::{Index, Informer};
/// # use k8s_openapi::api::core::v1::Pod;
/// # use serde_json::json;
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = ScriptedSource::new("v1", "Pod");
/// # let labels = json!({"tier": "backend"});
/// # server.put(json!({"metadata": {"namespace": "web", "name": "api", "labels": labels}, "spec": {"nodeName": "node-7"}}));
/// # server.put(json!({"metadata": {"namespace": "web", "name": "page"}, "spec": {"nodeName": "node-8"}}));
/// let by_node = Index::field("node", "spec.nodeName");
/// let pods = Informer::<Pod>::from_source(Arc::new(server)).index(&by_node).start()?;
/// pods.synced().await?;
///
/// let pods = pods.lister();
/// assert_eq!(pods.namespace("web").list().len(), 2);
/// assert_eq!(pods.labels("tier in (backend, db)")?.list()[0].name(), "api");
/// assert_eq!(pods.field("spec.nodeName", "node-8")?.list()[0].name(), "page");
/// assert_eq!(pods.by_index(&by_node, "node-7")?[0].name(), "api");
/// # Ok(()) }
/// ```
#[derive(Educe)]
#[educe(Clone, Debug)]
pub struct Lister<K> {
    owner: Arc<Owner>,
    #[educe(Debug(ignore))]
    decoder: Arc<Decoder<K>>,
    narrow: Narrow,
    /// The default of its subscriptions.
    resync: Option<Duration>,
}

/// One moment of an informer's store: objects, indexes and resourceVersions that belong together.
///
/// While you hold it, objects that the store replaces or removes stay in memory.
#[derive(Educe)]
#[educe(Clone, Debug)]
pub struct View<K> {
    #[educe(Debug(method(count)))]
    snapshot: Snapshot,
    #[educe(Debug(ignore))]
    decoder: Arc<Decoder<K>>,
    narrow: Narrow,
}

/// Which objects a lister shows.
#[derive(Clone, Debug, Default)]
struct Narrow {
    namespace: Option<Arc<str>>,
    labels: Vec<Arc<LabelSelector>>,
    fields: Vec<(FieldPath, Arc<str>)>,
}

// === impl Lister ===

impl<K> Lister<K> {
    pub(crate) fn new(owner: Arc<Owner>, decoder: Arc<Decoder<K>>, resync: Option<Duration>) -> Self {
        Self { owner, decoder, narrow: Narrow::default(), resync }
    }

    /// Only objects of one namespace.
    #[must_use]
    pub fn namespace(&self, namespace: &str) -> Self {
        let mut narrowed = self.clone();
        narrowed.narrow.namespace = Some(namespace.into());
        narrowed
    }

    /// Only objects with these labels, in any form that [`labels`](crate::InformerBuilder::labels) takes.
    ///
    /// # Errors
    /// Returns an error if the selector is invalid.
    pub fn labels(&self, selector: impl LabelQuery) -> Result<Self, InvalidSelector> {
        let mut narrowed = self.clone();
        narrowed.narrow.labels.push(Arc::new(selector.into_text().parse()?));
        Ok(narrowed)
    }

    /// Only objects that have this value in a field, or among the values of a path with `[*]`. This scans every object; if
    /// that is too slow, [index](crate::store::Index::field) the field.
    ///
    /// # Errors
    /// Returns an error if the path is invalid, the kind has no such field (for a custom resource, if the informer has its
    /// [definition](crate::InformerBuilder::definition)), or the projection drops it.
    pub fn field(&self, path: &str, value: &str) -> Result<Self, kube_wire::Error> {
        let path = path.parse()?;
        self.owner.0.store.check_field(&path)?;
        let mut narrowed = self.clone();
        narrowed.narrow.fields.push((path, value.into()));
        Ok(narrowed)
    }

    /// The object with this key.
    pub fn get(&self, key: &Key) -> Option<Object<K>> {
        let found = self.owner.0.store.get(key)?;
        self.narrow.filter().shows(&found).then(|| Object::new(found, &self.decoder))
    }

    /// The objects, in no particular order.
    pub fn list(&self) -> Vec<Object<K>> {
        self.view().iter().collect()
    }

    /// The objects with a value in an index, in no particular order.
    ///
    /// # Errors
    /// Returns an error if there is no such index.
    pub fn by_index(&self, index: impl AsRef<str>, value: &str) -> Result<Vec<Object<K>>, IndexError> {
        self.view().by_index(index, value)
    }

    /// The number of objects.
    pub fn count(&self) -> usize {
        match self.narrow.is_everything() {
            true => self.owner.0.store.len(),
            false => self.view().stored().count(),
        }
    }

    /// The events of the objects that this lister shows. An object that begins to match is reported as added, one that no longer
    /// matches as deleted. The stream reports nothing about other objects.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use futures::StreamExt;
    /// # use kube_informer::testing::ScriptedSource;
    /// # use kube_informer::{Event, Informer};
    /// # use k8s_openapi::api::core::v1::Pod;
    /// # use serde_json::json;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = ScriptedSource::new("v1", "Pod");
    /// # let pod = |node: &str| json!({"metadata": {"namespace": "web", "name": "api"}, "spec": {"nodeName": node}});
    /// # server.put(pod(""));
    /// # let pods = Informer::<Pod>::from_source(Arc::new(server.clone())).start()?;
    /// # pods.synced().await?;
    /// let mut on_node = pods.lister().namespace("web").field("spec.nodeName", "node-7")?.subscribe();
    /// assert!(matches!(on_node.next().await, Some(Event::Synced)));   // none yet
    /// // The pod is scheduled.
    /// # server.put(pod("node-7"));
    /// assert!(matches!(on_node.next().await, Some(Event::Added { .. })));
    /// # Ok(()) }
    /// ```
    pub fn subscribe(&self) -> Subscription<K>
    where
        K: 'static,
    {
        let config = ListenerConfig { resync: self.resync, ..ListenerConfig::default() };
        let events = Subscription::new(self.owner.clone(), self.decoder.clone(), &config);
        if self.narrow.is_everything() {
            return events;
        }
        let mut filter = Filter::new(self.narrow.clone());
        events.only(move |object| filter.shows(object))
    }

    /// The current state of the store.
    pub fn view(&self) -> View<K> {
        let snapshot = self.owner.0.store.snapshot();
        View { snapshot, decoder: self.decoder.clone(), narrow: self.narrow.clone() }
    }
}

// === impl View ===

impl<K> View<K> {
    /// The object with this key.
    pub fn get(&self, key: &Key) -> Option<Object<K>> {
        let found = self.snapshot.get(key)?;
        self.narrow.filter().shows(found).then(|| Object::new(found.clone(), &self.decoder))
    }

    /// The objects, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = Object<K>> + '_ {
        self.stored().map(|object| Object::new(object.clone(), &self.decoder))
    }

    /// The objects with a value in an index, in no particular order.
    ///
    /// # Errors
    /// Returns an error if there is no such index.
    pub fn by_index(&self, index: impl AsRef<str>, value: &str) -> Result<Vec<Object<K>>, IndexError> {
        let mut filter = self.narrow.filter();
        let found = self.snapshot.by_index(index, value)?.filter(|object| filter.shows(object));
        Ok(found.map(|object| Object::new(object.clone(), &self.decoder)).collect())
    }

    /// The resourceVersion up to which the view has everything of a scope: all namespaces, or one of those that the informer was
    /// built with (see [`Informer::status`](crate::Informer::status)).
    #[cfg(feature = "building-blocks")]
    pub fn resource_version(&self, scope: crate::scope::Scope) -> &str {
        self.snapshot.resource_version(scope)
    }

    /// The same moment, without types.
    #[cfg(feature = "building-blocks")]
    pub fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// Decodes all objects on several threads. Returns the values in the order of [`iter`](Self::iter), and blocks the
    /// calling thread meanwhile. To decode only some of the objects, use [`iter`](Self::iter).
    #[cfg(feature = "building-blocks")]
    pub fn decode_parallel(&self, threads: usize) -> Vec<Result<Arc<K>, crate::DecodeError>>
    where
        K: Send + Sync,
    {
        let objects = self.iter().collect::<Vec<_>>();
        let part = objects.len().div_ceil(threads.max(1)).max(1);
        let decode = |part: &[Object<K>]| part.iter().map(Object::decode).collect::<Vec<_>>();
        std::thread::scope(|scope| {
            let mut parts = objects.chunks(part);
            let mine = parts.next();
            let others = parts.map(|part| scope.spawn(move || decode(part))).collect::<Vec<_>>();
            let mut values = mine.map(decode).unwrap_or_default();
            for other in others {
                match other.join() {
                    Ok(decoded) => values.extend(decoded),
                    // The type's own code panicked: pass the panic on, as decoding on this thread would.
                    Err(panic) => std::panic::resume_unwind(panic),
                }
            }
            values
        })
    }

    fn stored(&self) -> impl Iterator<Item = &StoredObject> {
        let namespace = self.narrow.namespace.as_deref();
        let in_namespace = namespace.into_iter().flat_map(|namespace| self.snapshot.namespace(namespace));
        let everywhere = namespace.is_none().then(|| self.snapshot.iter()).into_iter().flatten();
        let mut filter = self.narrow.filter();
        in_namespace.chain(everywhere).filter(move |object| filter.shows(object))
    }
}

// === impl Narrow ===

impl Narrow {
    fn is_everything(&self) -> bool {
        self.namespace.is_none() && self.labels.is_empty() && self.fields.is_empty()
    }

    fn filter(&self) -> Filter<&Self> {
        Filter::new(self)
    }
}

/// Applies a [`Narrow`]. Its paths are prepared for the type of the first object.
struct Filter<N> {
    narrow: N,
    readers: Vec<Option<PathReader>>,
}

impl<N: Borrow<Narrow>> Filter<N> {
    fn new(narrow: N) -> Self {
        let readers = vec![None; narrow.borrow().fields.len()];
        Self { narrow, readers }
    }

    fn shows(&mut self, object: &StoredObject) -> bool {
        let Narrow { namespace, labels, .. } = self.narrow.borrow();
        namespace.as_deref().is_none_or(|namespace| namespace == object.namespace())
            && labels.iter().all(|selector| selector.matches_by(|label| object.labels().get(label)))
            && (0..self.readers.len()).all(|at| self.has_field(at, object))
    }

    /// Returns `false` if the field cannot be read.
    fn has_field(&mut self, at: usize, object: &StoredObject) -> bool {
        let (path, value) = &self.narrow.borrow().fields[at];
        if self.readers[at].is_none() {
            self.readers[at] = PathReader::new(path, object.type_meta()).ok();
        }
        let Some(reader) = &self.readers[at] else { return false };
        let mut found = false;
        let read = object.for_each_field(reader, |field| found |= field.text().as_deref() == Some(&**value));
        read.is_ok() && found
    }
}

fn count(snapshot: &Snapshot, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(f, "{} objects", snapshot.len())
}

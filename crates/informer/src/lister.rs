//! Typed reads.
//!
//! A [`Lister`] is a view of an informer's store that can be narrowed: to a namespace, by labels, by a field. Everything
//! that reads several objects reads one moment; [`View`] is such a moment to be held.

use std::fmt;
use std::sync::Arc;

use kube_wire::FieldPath;
use kube_wire::path::PathReader;

use crate::informer::{Decoder, Object, Owner};
use crate::scope::Scope;
use crate::store::{IndexError, Snapshot, StoredObject};
use crate::{DecodeError, InvalidSelector, Key, LabelSelector};

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
pub struct Lister<K> {
    owner: Arc<Owner>,
    decoder: Arc<Decoder<K>>,
    narrow: Narrow,
}

/// One moment of an informer's store: what is read from it belongs together.
///
/// Holding it costs what changes meanwhile.
pub struct View<K> {
    snapshot: Snapshot,
    decoder: Arc<Decoder<K>>,
    narrow: Narrow,
}

/// Which objects are shown.
#[derive(Clone, Debug, Default)]
struct Narrow {
    namespace: Option<Arc<str>>,
    labels: Vec<Arc<LabelSelector>>,
    fields: Vec<(FieldPath, Arc<str>)>,
}

// === impl Lister ===

impl<K> Lister<K> {
    pub(crate) fn new(owner: Arc<Owner>, decoder: Arc<Decoder<K>>) -> Self {
        Self { owner, decoder, narrow: Narrow::default() }
    }

    /// Only objects of one namespace.
    #[must_use]
    pub fn namespace(&self, namespace: &str) -> Self {
        let mut narrowed = self.clone();
        narrowed.narrow.namespace = Some(namespace.into());
        narrowed
    }

    /// Only objects with these labels, as kubectl's `-l`.
    ///
    /// # Errors
    /// If the selector is none.
    pub fn labels(&self, selector: &str) -> Result<Self, InvalidSelector> {
        let mut narrowed = self.clone();
        narrowed.narrow.labels.push(Arc::new(selector.parse()?));
        Ok(narrowed)
    }

    /// Only objects that have this value in a field, or among the values of a path with `[*]`. Every object is looked at;
    /// where that matters, [index](crate::store::Index::field) the field.
    ///
    /// # Errors
    /// If the path is none.
    pub fn field(&self, path: &str, value: &str) -> Result<Self, kube_wire::Error> {
        let mut narrowed = self.clone();
        narrowed.narrow.fields.push((path.parse()?, value.into()));
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

    /// The objects that have a value in an index, in no particular order.
    ///
    /// # Errors
    /// If there is no such index.
    pub fn by_index(&self, index: impl AsRef<str>, value: &str) -> Result<Vec<Object<K>>, IndexError> {
        self.view().by_index(index, value)
    }

    /// How many objects there are.
    pub fn count(&self) -> usize {
        match self.narrow.is_everything() {
            true => self.owner.0.store.len(),
            false => self.view().stored().count(),
        }
    }

    /// The state at this moment.
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

    /// The objects that have a value in an index, in no particular order.
    ///
    /// # Errors
    /// If there is no such index.
    pub fn by_index(&self, index: impl AsRef<str>, value: &str) -> Result<Vec<Object<K>>, IndexError> {
        let mut filter = self.narrow.filter();
        let found = self.snapshot.by_index(index, value)?.filter(|object| filter.shows(object));
        Ok(found.map(|object| Object::new(object.clone(), &self.decoder)).collect())
    }

    /// Up to which resourceVersion everything of a scope is in: of the informer's only one, or of one of its namespaces
    /// (see [`Informer::status`](crate::Informer::status)).
    pub fn resource_version(&self, scope: Scope) -> &str {
        self.snapshot.resource_version(scope)
    }

    /// The moment without types.
    pub fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// The typed values of all objects, decoded by several threads at once; in the order of [`iter`](Self::iter). The
    /// calling thread waits for them. To decode only what is looked at, go through [`iter`](Self::iter).
    pub fn decode_parallel(&self, threads: usize) -> Vec<Result<Arc<K>, DecodeError>>
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
                    // A type's own code has panicked: as if it had been decoded here.
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

    fn filter(&self) -> Filter<'_> {
        Filter { narrow: self, readers: vec![None; self.fields.len()] }
    }
}

/// A [`Narrow`] at work: its paths are made ready for the type of the first object.
struct Filter<'a> {
    narrow: &'a Narrow,
    readers: Vec<Option<PathReader>>,
}

impl Filter<'_> {
    fn shows(&mut self, object: &StoredObject) -> bool {
        self.narrow.namespace.as_deref().is_none_or(|namespace| namespace == object.namespace())
            && self
                .narrow
                .labels
                .iter()
                .all(|selector| selector.matches_by(|label| object.labels().get(label)))
            && (0..self.readers.len()).all(|at| self.has_field(at, object))
    }

    /// An object in which the field cannot be read does not have it.
    fn has_field(&mut self, at: usize, object: &StoredObject) -> bool {
        let (path, value) = &self.narrow.fields[at];
        if self.readers[at].is_none() {
            self.readers[at] = PathReader::new(path, object.type_meta()).ok();
        }
        let Some(reader) = &self.readers[at] else { return false };
        let mut found = false;
        let read = object.for_each_field(reader, |field| found |= field.text().as_deref() == Some(&**value));
        read.is_ok() && found
    }
}

impl<K> Clone for Lister<K> {
    fn clone(&self) -> Self {
        Self { owner: self.owner.clone(), decoder: self.decoder.clone(), narrow: self.narrow.clone() }
    }
}

impl<K> Clone for View<K> {
    fn clone(&self) -> Self {
        Self { snapshot: self.snapshot.clone(), decoder: self.decoder.clone(), narrow: self.narrow.clone() }
    }
}

impl<K> fmt::Debug for Lister<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lister")
            .field("narrow", &self.narrow)
            .field("objects", &self.owner.0.store.len())
            .finish()
    }
}

impl<K> fmt::Debug for View<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("View").field("narrow", &self.narrow).field("objects", &self.snapshot.len()).finish()
    }
}

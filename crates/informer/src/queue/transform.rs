//! Changing objects before they are queued: the slow way to keep less, or something else, of an object.

use std::fmt;
use std::sync::Arc;

use kube_wire::{Encoding, Limits, ObjectReader, Projection, RawObject};

use super::{Committed, Newest, Replace, Scope, Sink, SinkError};
use crate::Key;
use crate::panic::guarded;

/// Makes the JSON text of what is kept of an object, or says why it cannot.
pub type Transform = Arc<dyn Fn(&RawObject) -> Result<Vec<u8>, String> + Send + Sync>;

/// A sink that changes each object, once, when it arrives; what is told again later (a resync, a vanished object) was
/// changed then.
///
/// An object that cannot be changed, or at which the function panics, is refused by itself: the reflector reports it and goes
/// on, and what is known of it stays. A deletion is never refused; should the change fail, the object is handed on as it came.
#[derive(Clone)]
pub struct Transformed<S> {
    sink: S,
    change: Option<Change>,
}

/// A full state on its way through a [`Transformed`].
pub struct TransformedReplace<R> {
    replace: R,
    change: Option<Change>,
}

#[derive(Clone)]
struct Change {
    transform: Transform,
    projection: Projection,
}

// === impl Transformed ===

impl<S> Transformed<S> {
    /// A sink that hands everything on as it is.
    pub fn unchanged(sink: S) -> Self {
        Self { sink, change: None }
    }

    /// A sink that changes each object. What the projection drops is dropped from the result, too.
    pub fn new(sink: S, transform: Transform, projection: Projection) -> Self {
        Self { sink, change: Some(Change { transform, projection }) }
    }
}

impl<S: Sink> Sink for Transformed<S> {
    type Replace = TransformedReplace<S::Replace>;

    async fn add(&self, scope: Scope, object: RawObject) -> Result<(), SinkError> {
        self.sink.add(scope, change(self.change.as_ref(), object)?).await
    }

    async fn update(&self, scope: Scope, object: RawObject) -> Result<(), SinkError> {
        self.sink.update(scope, change(self.change.as_ref(), object)?).await
    }

    async fn delete(&self, scope: Scope, object: RawObject) -> Result<(), SinkError> {
        let changed = change(self.change.as_ref(), object.clone()).unwrap_or(object);
        self.sink.delete(scope, changed).await
    }

    async fn bookmark(&self, scope: Scope, resource_version: &str) -> Result<(), SinkError> {
        self.sink.bookmark(scope, resource_version).await
    }

    async fn resync(&self, scope: Scope) -> Result<(), SinkError> {
        self.sink.resync(scope).await
    }

    async fn begin_replace(&self, scope: Scope) -> Result<Self::Replace, SinkError> {
        let replace = self.sink.begin_replace(scope).await?;
        Ok(TransformedReplace { replace, change: self.change.clone() })
    }

    async fn newest(&self, scope: Scope) -> Result<Newest, SinkError> {
        Ok(match self.sink.newest(scope).await? {
            Newest::Object { object, .. } if self.change.is_some() => {
                Newest::Object { object, as_received: false }
            }
            newest => newest,
        })
    }
}

impl<R: Replace> Replace for TransformedReplace<R> {
    fn put(&mut self, object: RawObject) -> Result<(), SinkError> {
        if self.change.is_none() {
            return self.replace.put(object);
        }
        let key = Key::of(&object.head());
        match change(self.change.as_ref(), object) {
            Ok(changed) => self.replace.put(changed),
            Err(error) => {
                // It is there, though not as it could be shown.
                self.replace.keep(&key);
                Err(error)
            }
        }
    }

    fn keep(&mut self, key: &Key) {
        self.replace.keep(key);
    }

    fn remove(&mut self, key: &Key) {
        self.replace.remove(key);
    }

    async fn commit(self, resource_version: &str) -> Result<Committed, SinkError> {
        self.replace.commit(resource_version).await
    }
}

impl<S: fmt::Debug> fmt::Debug for Transformed<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transformed")
            .field("sink", &self.sink)
            .field("changes", &self.change.is_some())
            .finish()
    }
}

impl<R: fmt::Debug> fmt::Debug for TransformedReplace<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TransformedReplace").field("replace", &self.replace).finish_non_exhaustive()
    }
}

fn change(change: Option<&Change>, object: RawObject) -> Result<RawObject, SinkError> {
    let Some(change) = change else { return Ok(object) };
    let changed = guarded(|| (change.transform)(&object)).flatten().and_then(|text| {
        // It was within its limits when it came.
        let limits = Limits::default().object_bytes_max(usize::MAX);
        let mut reader = ObjectReader::new(change.projection.clone(), limits);
        let changed = reader.read(&text, Encoding::Json, Some(object.type_meta()));
        changed.map_err(|error| format!("what the transform made of it is no object: {error}"))
    });
    let rejected = |why| SinkError::Rejected { key: Key::of(&object.head()).to_string(), why };
    let changed = changed.map_err(rejected)?;
    let identity = |object: &RawObject| {
        let head = object.head();
        let texts = [head.namespace(), head.name(), head.uid(), head.resource_version()].map(str::to_owned);
        (texts, object.type_meta().clone())
    };
    if identity(&changed) != identity(&object) {
        let why = "the transform made another object of it: type, name, uid and resourceVersion must stay";
        return Err(rejected(why.to_owned()));
    }
    Ok(changed)
}

//! Transforms objects before they are queued. This is expensive; a projection is cheaper.

use std::sync::Arc;

use kube_wire::{Encoding, Head, Limits, ObjectReader, Projection, RawObject};

use super::{Committed, Newest, Replace, Sink, SinkError};
use crate::Key;
use crate::panic::guarded;
use crate::scope::Scope;
use crate::shard::Shard;

/// Returns the JSON text to store for an object, or why it is rejected.
pub(crate) type Transform = Arc<dyn Fn(&RawObject) -> Result<Vec<u8>, String> + Send + Sync>;

/// A sink that transforms each object once, on arrival. Only informers with a transform use it.
///
/// If the function fails or panics, only that object is rejected: the reflector reports it and continues, and its cached
/// state stays. A deletion is never rejected; if its transform fails, the object is passed on as received.
#[derive(Clone)]
pub(crate) struct TransformSink<S> {
    sink: S,
    step: TransformStep,
}

/// A list in progress through a [`TransformSink`].
pub(crate) struct TransformReplace<R> {
    replace: R,
    step: TransformStep,
}

#[derive(Clone)]
struct TransformStep {
    transform: Transform,
    projection: Projection,
}

// === impl TransformSink ===

impl<S> TransformSink<S> {
    /// A sink that transforms each object. The projection applies to the result as well.
    pub(crate) fn new(sink: S, transform: Transform, projection: Projection) -> Self {
        Self { sink, step: TransformStep { transform, projection } }
    }
}

impl<S: Sink> Sink for TransformSink<S> {
    type Replace = TransformReplace<S::Replace>;

    async fn add(&self, scope: Scope, object: RawObject) -> Result<(), SinkError> {
        self.sink.add(scope, self.step.apply(&object)?).await
    }

    async fn update(&self, scope: Scope, object: RawObject) -> Result<(), SinkError> {
        self.sink.update(scope, self.step.apply(&object)?).await
    }

    async fn delete(&self, scope: Scope, object: RawObject) -> Result<(), SinkError> {
        let changed = self.step.apply(&object).unwrap_or(object);
        self.sink.delete(scope, changed).await
    }

    async fn delete_unread(&self, scope: Scope, key: &Key) -> Result<(), SinkError> {
        self.sink.delete_unread(scope, key).await
    }

    fn may_have(&self, scope: Scope, head: &Head<'_>) -> bool {
        self.sink.may_have(scope, head)
    }

    async fn leave(&self, scope: Scope, object: RawObject) -> Result<(), SinkError> {
        self.sink.leave(scope, object).await
    }

    async fn bookmark(&self, scope: Scope, resource_version: &str) -> Result<(), SinkError> {
        self.sink.bookmark(scope, resource_version).await
    }

    async fn resync(&self, scope: Scope) -> Result<(), SinkError> {
        self.sink.resync(scope).await
    }

    async fn reselect(&self, scope: Scope) -> Result<(), SinkError> {
        self.sink.reselect(scope).await
    }

    async fn begin_replace(&self, scope: Scope) -> Result<Self::Replace, SinkError> {
        let replace = self.sink.begin_replace(scope).await?;
        Ok(TransformReplace { replace, step: self.step.clone() })
    }

    async fn newest(&self, scope: Scope) -> Result<Newest, SinkError> {
        Ok(match self.sink.newest(scope).await? {
            Newest::Object { object, .. } => Newest::Object { object, as_received: false },
            newest => newest,
        })
    }
}

impl<R: Replace> Replace for TransformReplace<R> {
    fn put(&mut self, object: RawObject) -> Result<(), SinkError> {
        let key = Key::of_head(&object.head());
        match self.step.apply(&object) {
            Ok(changed) => self.replace.put(changed),
            Err(error) => {
                // It exists, but cannot be shown.
                self.replace.keep(&key);
                Err(error)
            }
        }
    }

    fn keep(&mut self, key: &Key) {
        self.replace.keep(key);
    }

    fn keep_unlisted(&mut self) {
        self.replace.keep_unlisted();
    }

    fn within(&mut self, shard: Shard) {
        self.replace.within(shard);
    }

    fn leave(&mut self, head: &Head<'_>) {
        self.replace.leave(head);
    }

    fn remove(&mut self, key: &Key) {
        self.replace.remove(key);
    }

    async fn commit(self, resource_version: &str) -> Result<Committed, SinkError> {
        self.replace.commit(resource_version).await
    }
}

// === impl TransformStep ===

impl TransformStep {
    fn apply(&self, object: &RawObject) -> Result<RawObject, SinkError> {
        let changed = guarded(|| (self.transform)(object)).flatten().and_then(|text| {
            // It was within its limits on arrival.
            let limits = Limits::default().object_bytes_max(usize::MAX);
            let mut reader = ObjectReader::new(self.projection.clone(), limits);
            let changed = reader.read(&text, Encoding::Json, Some(object.type_meta()));
            changed.map_err(|error| format!("the transform returned an invalid object: {error}"))
        });
        let rejected = |why| SinkError::Rejected { key: Key::of_head(&object.head()).to_string(), why };
        let changed = changed.map_err(rejected)?;
        let identity = |object: &RawObject| {
            let head = object.head();
            let texts =
                [head.namespace(), head.name(), head.uid(), head.resource_version()].map(str::to_owned);
            (texts, object.type_meta().clone())
        };
        if identity(&changed) != identity(object) {
            let why = "the transform changed type, name, uid or resourceVersion, which must stay the same";
            return Err(rejected(why.to_owned()));
        }
        Ok(changed)
    }
}

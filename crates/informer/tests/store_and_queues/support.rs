//! Objects to store, and changes as lines of text.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::FutureExt;
pub(crate) use kube_informer::Key;
use kube_informer::Scope;
use kube_informer::building_blocks::StoreSink;
use kube_informer::building_blocks::{Change, Packing, Snapshot, Store, StoreConfig};
use kube_informer::building_blocks::{Committed, Delta, Fifo, FifoConfig, Newest, Replace, Sink, SinkError};
use kube_informer::{Memory, Origin, StoredObject};
use kube_wire::internals::proto::Writer;
use kube_wire::{Encoding, Limits, ObjectReader, Projection, RawObject, TypeMeta};
use serde_json::{Value, json};

pub(crate) const A: Scope = Scope(0);
pub(crate) const B: Scope = Scope(1);

/// How stores hold their objects: plain here, packed when `packed.rs` runs the tests again, and in the fuzz target.
pub(crate) fn memory() -> Memory {
    match env!("CARGO_CRATE_NAME") {
        "packed" | "packed_store" => Packing::eager().into(),
        _ => Memory::Uncompressed,
    }
}

pub(crate) fn config() -> StoreConfig {
    StoreConfig::default().memory(memory())
}

pub(crate) fn new_store() -> Store {
    Store::new(config()).unwrap()
}

/// An object as a source would read it from a list.
pub(crate) fn raw(object: &Value) -> RawObject {
    raw_text(&object.to_string())
}

pub(crate) fn raw_text(text: &str) -> RawObject {
    ObjectReader::new(Projection::default(), Limits::default())
        .in_blocks()
        .expect(TypeMeta::new("v1", "Pod"))
        .read(text.as_bytes(), Encoding::Json, None)
        .unwrap()
}

/// The JSON of an object; its uid is that of its key.
pub(crate) fn pod_json(key: &str, version: u64) -> Value {
    let (namespace, name) = key.split_once('/').unwrap_or(("", key));
    json!({"metadata": {
        "namespace": namespace, "name": name, "uid": format!("uid-{key}"), "resourceVersion": version.to_string(),
    }})
}

pub(crate) fn pod(key: &str, version: u64) -> RawObject {
    raw(&pod_json(key, version))
}

/// With more members; `metadata` is merged.
pub(crate) fn pod_with(key: &str, version: u64, more: &Value) -> RawObject {
    let mut object = pod_json(key, version);
    for (name, value) in more.as_object().unwrap() {
        match (name.as_str(), value) {
            ("metadata", Value::Object(members)) => {
                object["metadata"].as_object_mut().unwrap().extend(members.clone());
            }
            _ => object[name] = value.clone(),
        }
    }
    raw(&object)
}

/// The same object as [`pod`], in protobuf.
pub(crate) fn pod_in_protobuf(key: &str, version: u64) -> RawObject {
    pod_in_protobuf_with(key, version, &format!("uid-{key}"), None)
}

pub(crate) fn pod_in_protobuf_with(
    key: &str,
    version: u64,
    uid: &str,
    label: Option<(&str, &str)>,
) -> RawObject {
    let (namespace, name) = key.split_once('/').unwrap_or(("", key));
    let version = version.to_string();
    let mut meta = Vec::new();
    for (number, text) in [(1, name), (3, namespace), (5, uid), (6, &version)] {
        Writer::new(&mut meta).bytes_field(number, text.as_bytes());
    }
    if let Some((label, value)) = label {
        let mut entry = Vec::new();
        Writer::new(&mut entry).bytes_field(1, label.as_bytes());
        Writer::new(&mut entry).bytes_field(2, value.as_bytes());
        Writer::new(&mut meta).bytes_field(11, &entry);
    }
    let mut body = Vec::new();
    Writer::new(&mut body).bytes_field(1, &meta);
    ObjectReader::new(Projection::default(), Limits::default())
        .read(&body, Encoding::Protobuf, Some(&TypeMeta::new("v1", "Pod")))
        .unwrap()
}

pub(crate) fn stored(object: RawObject) -> StoredObject {
    StoredObject::new(A, object).unwrap()
}

/// Applies deltas. Returns the changes.
pub(crate) fn apply(store: &Store, deltas: impl IntoIterator<Item = Delta>) -> Vec<Change> {
    store.apply(&deltas.into_iter().collect::<Vec<_>>()).changes().to_vec()
}

pub(crate) fn bookmark(scope: Scope, version: &str) -> Delta {
    Delta::Bookmark { scope, resource_version: version.to_owned() }
}

/// A `Fifo`, and its sink.
#[derive(Clone)]
pub(crate) struct Queue {
    fifo: Fifo,
    sink: StoreSink,
}

impl Queue {
    pub(crate) fn new(store: Arc<Store>, config: FifoConfig) -> Self {
        let fifo = Fifo::new(config);
        Self { sink: StoreSink::new(fifo.clone(), store), fifo }
    }
}

impl std::ops::Deref for Queue {
    type Target = Fifo;

    fn deref(&self) -> &Fifo {
        &self.fifo
    }
}

impl Sink for Queue {
    type Replace = <StoreSink as Sink>::Replace;

    async fn add(&self, scope: Scope, object: RawObject) -> Result<(), SinkError> {
        self.sink.add(scope, object).await
    }

    async fn update(&self, scope: Scope, object: RawObject) -> Result<(), SinkError> {
        self.sink.update(scope, object).await
    }

    async fn delete(&self, scope: Scope, object: RawObject) -> Result<(), SinkError> {
        self.sink.delete(scope, object).await
    }

    async fn delete_unread(&self, scope: Scope, key: &Key) -> Result<(), SinkError> {
        self.sink.delete_unread(scope, key).await
    }

    async fn bookmark(&self, scope: Scope, resource_version: &str) -> Result<(), SinkError> {
        self.sink.bookmark(scope, resource_version).await
    }

    async fn resync(&self, scope: Scope) -> Result<(), SinkError> {
        self.sink.resync(scope).await
    }

    async fn begin_replace(&self, scope: Scope) -> Result<Self::Replace, SinkError> {
        self.sink.begin_replace(scope).await
    }

    async fn newest(&self, scope: Scope) -> Result<Newest, SinkError> {
        self.sink.newest(scope).await
    }
}

/// Writes one object as a watch would.
pub(crate) fn put(store: &Store, object: RawObject) -> Vec<String> {
    lines(apply(store, [Delta::Updated(stored(object))]))
}

pub(crate) fn delete(store: &Store, object: RawObject) -> Vec<String> {
    lines(apply(store, [Delta::Deleted(stored(object))]))
}

/// Replaces a scope of a store with a list. Returns the changes.
pub(crate) fn replace(store: &Store, scope: Scope, objects: Vec<RawObject>, version: &str) -> Vec<String> {
    let mut replacement = store.begin_replace(scope);
    for object in objects {
        replacement.put(object).unwrap();
    }
    lines(apply(store, [Delta::ReplacedAll(Arc::new(replacement.finish(version)))]))
}

/// Changes, one line each: `live: updated web/api 7 -> 8`.
pub(crate) fn lines(changes: impl IntoIterator<Item = Change>) -> Vec<String> {
    changes.into_iter().map(|change| line(&change)).collect()
}

pub(crate) fn line(change: &Change) -> String {
    let origin = match change.origin() {
        Origin::Initial => "initial",
        Origin::Live => "live",
        Origin::Relist => "relist",
        Origin::Resync => "resync",
        Origin::LeftShard => "left shard",
        other => panic!("unexpected origin {other:?}"),
    };
    let key = change.object().key();
    match change {
        Change::Added { object, .. } => format!("{origin}: added {key} {}", object.resource_version()),
        Change::Updated { old, new, .. } => {
            format!("{origin}: updated {key} {} -> {}", old.resource_version(), new.resource_version())
        }
        Change::Deleted { last, final_state_known, .. } => {
            let how = if *final_state_known { "deleted" } else { "vanished" };
            format!("{origin}: {how} {key} {}", last.resource_version())
        }
    }
}

/// `key version` of objects, sorted.
pub(crate) fn content<'a>(objects: impl IntoIterator<Item = &'a StoredObject>) -> Vec<String> {
    let line = |object: &StoredObject| format!("{} {}", object.key(), object.resource_version());
    let mut lines = objects.into_iter().map(line).collect::<Vec<_>>();
    lines.sort();
    lines
}

pub(crate) fn keys<'a>(objects: impl IntoIterator<Item = &'a StoredObject>) -> Vec<String> {
    let mut keys = objects.into_iter().map(|object| object.key().to_string()).collect::<Vec<_>>();
    keys.sort();
    keys
}

pub(crate) fn snapshot_content(snapshot: &Snapshot) -> Vec<String> {
    content(snapshot.iter())
}

/// The output of a future that must be ready.
#[track_caller]
pub(crate) fn now<T>(future: impl Future<Output = T>) -> T {
    future.now_or_never().expect("it should not have to wait")
}

/// Commits a list to a sink, without waiting.
#[track_caller]
pub(crate) fn replace_in(
    sink: &impl Sink,
    scope: Scope,
    objects: Vec<RawObject>,
    version: &str,
) -> Committed {
    let mut replace = now(sink.begin_replace(scope)).unwrap();
    for object in objects {
        replace.put(object).unwrap();
    }
    now(replace.commit(version)).unwrap()
}

#[track_caller]
pub(crate) fn add(sink: &impl Sink, object: RawObject) -> Result<(), SinkError> {
    now(sink.add(A, object))
}

#[track_caller]
pub(crate) fn update(sink: &impl Sink, object: RawObject) -> Result<(), SinkError> {
    now(sink.update(A, object))
}

#[track_caller]
pub(crate) fn remove(sink: &impl Sink, object: RawObject) -> Result<(), SinkError> {
    now(sink.delete(A, object))
}

/// A future, and how often it was polled.
pub(crate) fn counted<F: Future>(future: F) -> (impl Future<Output = F::Output>, Arc<AtomicUsize>) {
    let polls = Arc::<AtomicUsize>::default();
    let (mut future, count) = (Box::pin(future), polls.clone());
    let counting = std::future::poll_fn(move |context| {
        count.fetch_add(1, Ordering::Relaxed);
        future.as_mut().poll(context)
    });
    (counting, polls)
}

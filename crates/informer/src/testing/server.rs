//! The state of the scripted server: objects, revisions, and the history that watches read.

use std::collections::BTreeMap;

use kube_wire::{Encoding, Limits, ObjectReader, Projection, RawObject, Status, TypeMeta, WatchEvent};
use serde_json::{Value, json};

use crate::Key;

/// Objects and their history.
#[derive(Clone)]
pub(super) struct Server {
    type_meta: TypeMeta,
    pub(super) revision: u64,
    pub(super) objects: BTreeMap<Key, Value>,
    /// The changes by revision, since `compacted`.
    history: Vec<(u64, ScriptedChange)>,
    compacted: u64,
    /// The objects at the beginning of the history.
    compacted_objects: BTreeMap<Key, Value>,
    uids: u64,
}

/// Omits the content, which may be that of a Secret.
impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server")
            .field("type_meta", &self.type_meta)
            .field("revision", &self.revision)
            .field("objects", &self.objects.keys())
            .finish_non_exhaustive()
    }
}

/// A state of a [`ScriptedSource`](super::ScriptedSource) to roll back to, as when etcd is restored from a backup.
#[derive(Clone, Debug)]
pub struct Checkpoint(pub(super) Server);

#[derive(Clone)]
enum ScriptedChange {
    Added(Value),
    Modified(Value),
    Deleted(Value),
}

impl Server {
    pub(super) fn new(api_version: &str, kind: &str) -> Self {
        Self {
            type_meta: TypeMeta::new(api_version, kind),
            revision: 100,
            objects: BTreeMap::new(),
            history: Vec::new(),
            compacted: 100,
            compacted_objects: BTreeMap::new(),
            uids: 0,
        }
    }

    pub(super) fn type_meta(&self) -> &TypeMeta {
        &self.type_meta
    }

    /// Creates or replaces an object. A new one gets a uid unless it has one.
    pub(super) fn put(&mut self, mut object: Value) -> WatchEvent {
        let key = key_of(&object);
        self.revision += 1;
        let known = self.objects.get(&key);
        let metadata = object["metadata"].as_object_mut().expect("`metadata` was read for the key");
        metadata.insert("resourceVersion".into(), json!(self.revision.to_string()));
        if !metadata.contains_key("uid") {
            let uid = known.map_or_else(
                || {
                    self.uids += 1;
                    json!(format!("uid-{}", self.uids))
                },
                |known| known["metadata"]["uid"].clone(),
            );
            metadata.insert("uid".into(), uid);
        }
        let change = if known.is_some() {
            ScriptedChange::Modified(object.clone())
        } else {
            ScriptedChange::Added(object.clone())
        };
        self.objects.insert(key, object);
        self.record(change)
    }

    /// Deletes an object.
    pub(super) fn delete(&mut self, key: &Key) -> Option<WatchEvent> {
        let mut object = self.objects.remove(key)?;
        self.revision += 1;
        object["metadata"]["resourceVersion"] = json!(self.revision.to_string());
        Some(self.record(ScriptedChange::Deleted(object)))
    }

    fn record(&mut self, change: ScriptedChange) -> WatchEvent {
        let event = self.event(&change);
        self.history.push((self.revision, change));
        event
    }

    /// Drops the history.
    pub(super) fn compact(&mut self) {
        self.compacted = self.revision;
        self.compacted_objects = self.objects.clone();
        self.history.clear();
    }

    /// Rolls back to an older state. Uids are never reused.
    pub(super) fn restore(&mut self, checkpoint: &Self) {
        let uids = self.uids;
        *self = checkpoint.clone();
        self.uids = uids;
    }

    /// The objects at an exact revision; an error if it was compacted.
    pub(super) fn objects_at(&self, revision: u64) -> Result<BTreeMap<Key, Value>, Status> {
        if revision < self.compacted {
            return Err(expired(revision, self.compacted));
        }
        let mut objects = self.compacted_objects.clone();
        for (_, change) in self.history.iter().take_while(|(at, _)| *at <= revision) {
            match change {
                ScriptedChange::Added(object) | ScriptedChange::Modified(object) => {
                    objects.insert(key_of(object), object.clone());
                }
                ScriptedChange::Deleted(object) => drop(objects.remove(&key_of(object))),
            }
        }
        Ok(objects)
    }

    /// The changes after `revision`; an error if it was compacted.
    pub(super) fn since(&self, revision: u64) -> Result<Vec<WatchEvent>, Status> {
        if revision < self.compacted {
            return Err(expired(revision, self.compacted));
        }
        let later = self.history.iter().filter(|(at, _)| *at > revision);
        Ok(later.map(|(_, change)| self.event(change)).collect())
    }

    /// A bookmark at the current revision.
    pub(super) fn bookmark(&self, ends_initial_events: bool) -> WatchEvent {
        let mut object = json!({"metadata": {"resourceVersion": self.revision.to_string()}});
        if ends_initial_events {
            object["metadata"]["annotations"] = json!({kube_wire::head::INITIAL_EVENTS_END: "true"});
        }
        WatchEvent::Bookmark(self.read(&object))
    }

    /// An object as it arrives over the wire.
    pub(super) fn read(&self, object: &Value) -> RawObject {
        let mut reader =
            ObjectReader::new(Projection::default(), Limits::default()).expect(self.type_meta.clone());
        reader
            .read(object.to_string().as_bytes(), Encoding::Json, None)
            .expect("a JSON object with metadata is readable")
    }

    fn event(&self, change: &ScriptedChange) -> WatchEvent {
        match change {
            ScriptedChange::Added(object) => WatchEvent::Added(self.read(object)),
            ScriptedChange::Modified(object) => WatchEvent::Modified(self.read(object)),
            ScriptedChange::Deleted(object) => WatchEvent::Deleted(self.read(object)),
        }
    }
}

/// A refusal in the API's words.
pub(super) fn refusal(code: u16, reason: &str, message: &str, cause: Option<&str>) -> Status {
    let mut body = json!({"kind": "Status", "code": code, "reason": reason, "message": message});
    if let Some(cause) = cause {
        body["details"] = json!({"causes": [{"reason": cause, "message": message}]});
    }
    Status::from_response(code, "application/json", None, body.to_string().as_bytes())
}

pub(super) fn expired(revision: u64, compacted: u64) -> Status {
    refusal(410, "Expired", &format!("too old resource version: {revision} ({compacted})"), None)
}

pub(super) fn key_of(object: &Value) -> Key {
    let text = |name: &str| object["metadata"][name].as_str().unwrap_or_default().to_owned();
    let name = text("name");
    assert!(!name.is_empty(), "a scripted object needs `metadata.name`: {object}");
    Key::new(&text("namespace"), &name)
}

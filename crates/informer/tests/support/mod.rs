//! Shared code of the reflector's tests: a sink that records its calls, and a rig around it.
#![allow(dead_code, clippy::unwrap_used, reason = "tests; each binary uses a part")]

pub mod bodies;
pub mod informers;
pub mod raw_http2;
pub mod raw_server;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use kube_informer::building_blocks::{
    Committed, LastVersion, ListOptions, Newest, Packing, Reflector, ReflectorConfig, ReflectorStatus,
    Replace, Sink, SinkError, WatchOptions,
};
use kube_informer::testing::{Request, ScriptedSource};
use kube_informer::{Key, Memory, Scope, StoredObject, WatchList};
use kube_wire::{RawObject, Status};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// How stores hold their objects: plain here, packed when `packed.rs` runs the tests again.
pub fn memory() -> Memory {
    match env!("CARGO_CRATE_NAME") {
        "packed" => Packing::eager().into(),
        _ => Memory::Uncompressed,
    }
}

/// Records every call, one line each.
#[derive(Debug, Default)]
pub struct Recorder {
    log: watch::Sender<Vec<String>>,
    pub objects: Mutex<BTreeMap<Key, RawObject>>,
    pub next_commit_is_a_new_epoch: AtomicBool,
    pub closed: AtomicBool,
}

pub struct Staged {
    sink: Arc<Recorder>,
    items: BTreeMap<Key, RawObject>,
}

/// Objects with this name are rejected, like objects without a valid key.
pub const REJECTED: &str = "rejected";

impl Recorder {
    pub fn log(&self) -> Vec<String> {
        self.log.borrow().clone()
    }

    pub async fn logged(&self, line: &str) {
        let mut log = self.log.subscribe();
        log.wait_for(|log| log.iter().any(|logged| logged == line)).await.unwrap();
    }

    fn write(&self, line: String) -> Result<(), SinkError> {
        if self.closed.load(Ordering::Relaxed) {
            return Err(SinkError::Closed);
        }
        self.log.send_modify(|log| log.push(line));
        Ok(())
    }

    fn take(&self, what: &str, object: RawObject) -> Result<(), SinkError> {
        let key = Key::of_head(&object.head());
        if key.name() == REJECTED {
            return Err(SinkError::Rejected { key: key.to_string(), why: "for a test".to_owned() });
        }
        self.write(format!("{what} {key} {}", object.head().resource_version()))?;
        match what {
            "delete" => drop(self.objects.lock().remove(&key)),
            _ => drop(self.objects.lock().insert(key, object)),
        }
        Ok(())
    }
}

#[derive(Debug, Default, Clone)]
pub struct RecorderSink(pub Arc<Recorder>);

impl Sink for RecorderSink {
    type Replace = Staged;

    async fn add(&self, _: Scope, object: RawObject) -> Result<(), SinkError> {
        self.0.take("add", object)
    }

    async fn update(&self, _: Scope, object: RawObject) -> Result<(), SinkError> {
        self.0.take("update", object)
    }

    async fn delete(&self, _: Scope, object: RawObject) -> Result<(), SinkError> {
        self.0.take("delete", object)
    }

    async fn delete_unread(&self, _: Scope, key: &Key) -> Result<(), SinkError> {
        self.0.objects.lock().remove(key);
        self.0.write(format!("delete {key} unread"))
    }

    async fn bookmark(&self, _: Scope, resource_version: &str) -> Result<(), SinkError> {
        self.0.write(format!("bookmark {resource_version}"))
    }

    async fn resync(&self, _: Scope) -> Result<(), SinkError> {
        self.0.write("resync".to_owned())
    }

    async fn begin_replace(&self, _: Scope) -> Result<Staged, SinkError> {
        Ok(Staged { sink: self.0.clone(), items: BTreeMap::new() })
    }

    async fn newest(&self, scope: Scope) -> Result<Newest, SinkError> {
        let objects = self.0.objects.lock();
        let version = |object: &&RawObject| object.head().resource_version().parse::<u64>().unwrap();
        Ok(objects.values().max_by_key(version).map_or(Newest::Empty, |object| Newest::Object {
            object: StoredObject::new(scope, object.clone()).unwrap(),
            as_received: true,
        }))
    }
}

impl Replace for Staged {
    fn put(&mut self, object: RawObject) -> Result<(), SinkError> {
        let key = Key::of_head(&object.head());
        if key.name().is_empty() {
            return Err(SinkError::Rejected { key: key.to_string(), why: "it has no name".to_owned() });
        }
        self.items.insert(key, object);
        Ok(())
    }

    fn keep(&mut self, key: &Key) {
        if let Some(known) = self.sink.objects.lock().get(key) {
            self.items.insert(key.clone(), known.clone());
        }
    }

    fn keep_unlisted(&mut self) {
        for (key, known) in &*self.sink.objects.lock() {
            self.items.entry(key.clone()).or_insert_with(|| known.clone());
        }
    }

    fn remove(&mut self, key: &Key) {
        self.items.remove(key);
    }

    async fn commit(self, resource_version: &str) -> Result<Committed, SinkError> {
        let keys = self.items.keys().map(Key::as_str).collect::<Vec<_>>().join(" ");
        *self.sink.objects.lock() = self.items;
        self.sink.write(format!("replace {resource_version} [{keys}]"))?;
        Ok(Committed::new(self.sink.next_commit_is_a_new_epoch.swap(false, Ordering::Relaxed)))
    }
}

/// A running reflector on a scripted source.
pub struct Rig {
    pub source: ScriptedSource,
    pub sink: Arc<Recorder>,
    pub status: watch::Receiver<ReflectorStatus>,
    pub last_version: LastVersion,
    pub errors: Arc<Mutex<Vec<String>>>,
    pub task: JoinHandle<()>,
}

/// A config with lists; tests of watch-list enable it.
pub fn listing() -> ReflectorConfig {
    let mut config = streaming();
    config.watch_list = WatchList::Off;
    config
}

pub fn streaming() -> ReflectorConfig {
    let mut config = ReflectorConfig::default();
    config.seed = Some(7);
    config
}

pub fn pods() -> ScriptedSource {
    ScriptedSource::new("v1", "Pod")
}

pub fn pod(name: &str) -> Value {
    json!({"metadata": {"namespace": "web", "name": name}})
}

impl Rig {
    pub fn start(source: &ScriptedSource, mut config: ReflectorConfig) -> Self {
        let errors = Arc::<Mutex<Vec<String>>>::default();
        let received = errors.clone();
        config.on_error = Some(Arc::new(move |report| received.lock().push(report.to_string())));
        let sink = RecorderSink::default();
        let reflector =
            Reflector::new(Arc::new(source.clone()), Arc::new(sink.clone()), Scope::default(), config);
        Self {
            source: source.clone(),
            sink: sink.0,
            status: reflector.status(),
            last_version: reflector.last_version(),
            errors,
            task: tokio::spawn(reflector.run()),
        }
    }

    /// Waits for a line in the sink's log.
    pub async fn logged(&self, line: &str) {
        self.sink.logged(line).await;
    }

    /// Waits until a watch is open.
    pub async fn watching(&mut self) {
        self.state("watching").await;
    }

    /// Waits for a state by the beginning of its text.
    pub async fn state(&mut self, begins_with: &str) {
        let begins = |status: &ReflectorStatus| status.state.to_string().starts_with(begins_with);
        self.status.wait_for(begins).await.unwrap();
    }

    /// The requests so far, one line each.
    pub fn requests(&self) -> Vec<String> {
        self.source.requests().iter().map(print).collect()
    }

    pub fn errors(&self) -> Vec<String> {
        self.errors.lock().clone()
    }

    /// Runs everything that is ready, without advancing time.
    pub async fn settle(&self) {
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
    }
}

/// A request on one line, without the timeout.
pub fn print(request: &Request) -> String {
    match request {
        Request::List(ListOptions { resource_version, limit, continue_token, .. }) => {
            let mut line = format!("list rv={resource_version:?}");
            if let Some(limit) = limit {
                line += &format!(" limit={limit}");
            }
            if !continue_token.is_empty() {
                line += &format!(" continue={continue_token}");
            }
            line
        }
        Request::Watch(WatchOptions { resource_version, send_initial_events, version_match, .. }) => {
            let initial = if *send_initial_events { " initial" } else { "" };
            let version_match = version_match.map_or(String::new(), |m| format!(" {}", m.as_str()));
            format!("watch rv={resource_version:?}{initial}{version_match}")
        }
    }
}

/// A refusal by the server.
pub fn status(code: u16, reason: &str) -> Status {
    let body = json!({"kind": "Status", "code": code, "reason": reason, "message": "for a test"});
    Status::from_response(code, "application/json", None, body.to_string().as_bytes())
}

//! The server of a run, and the recorder of its history.
//!
//! Writes and the recorder's watch bypass the simulated network, so they never fail. The server completes a write and
//! its consequences before it responds. The recorder's watch then has all events, and draining it brings the history
//! up to date.

use std::io;

use bytes::Bytes;
use embedded_apiserver::{ApiBody, Backup, Restart, Server};
use futures::FutureExt as _;
use http::{Method, Request};
use http_body_util::{BodyExt as _, Full};
use kube_informer_oracle::History;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tower::ServiceExt as _;

use crate::faults::ArmedFaults;
use crate::plan::{NAMESPACES, ObjectPlan, Plan, TEAMS};
use crate::trace::Trace;
use crate::wall_clock::WallClock;

const MAPS: &str = "/api/v1/configmaps";
const SECRETS: &str = "/api/v1/secrets";
/// Only the records of slots: most writes renew seats.
const SLOTS: &str = "/apis/coordination.k8s.io/v1/leases?fieldSelector=metadata.name%3Dshare-slots-0";

/// The server and its history.
pub(crate) struct World {
    pub(crate) server: Server,
    /// The server's clock.
    pub(crate) clock: WallClock,
    pub(crate) trace: Trace,
    pub(crate) faults: ArmedFaults,
    maps: Mutex<Recorder>,
    secrets: Mutex<Recorder>,
    /// The Lease with the records of slots, if replicas share the work.
    leases: Option<Mutex<Recorder>>,
    backup: Mutex<Backup>,
}

/// Records the history of one kind.
struct Recorder {
    path: &'static str,
    history: History,
    watch: ApiBody,
    /// The incomplete last line.
    rest: Vec<u8>,
}

impl World {
    /// Starts a server and records its history from the beginning.
    pub(crate) async fn start(plan: &Plan, trace: Trace) -> io::Result<Self> {
        let clock = WallClock::new(1.0);
        let server_clock = clock.clone();
        let server = Server::builder()
            .without_socket()
            .seed(plan.seed)
            .clock(embedded_apiserver::Clock::new(move || server_clock.now()))
            .history(plan.history_events)
            .sharded_list_and_watch(plan.sharing.as_ref().is_some_and(|sharing| sharing.server_splits))
            .start()
            .await
            .map_err(io::Error::other)?;
        for namespace in NAMESPACES {
            let object = json!({"metadata": {"name": namespace}});
            send(&server, Method::POST, "/api/v1/namespaces", Some(&object)).await?;
        }
        let maps = Mutex::new(Recorder::start(&server, MAPS).await?);
        let secrets = Mutex::new(Recorder::start(&server, SECRETS).await?);
        let leases = match plan.sharing {
            Some(_) => Some(Mutex::new(Recorder::start(&server, SLOTS).await?)),
            None => None,
        };
        let backup = Mutex::new(server.backup());
        let world =
            Self { server, clock, trace, faults: ArmedFaults::default(), maps, secrets, leases, backup };
        for object in &plan.initial {
            world.put(*object, 0).await?;
        }
        Ok(world)
    }

    /// Runs a check against the history of the ConfigMaps up to now.
    pub(crate) fn judge<T>(&self, check: impl FnOnce(&History) -> T) -> T {
        self.maps.lock().judge(check)
    }

    /// Runs a check against the history of the Secrets up to now.
    pub(crate) fn judge_secrets<T>(&self, check: impl FnOnce(&History) -> T) -> T {
        self.secrets.lock().judge(check)
    }

    /// Runs a check against the history of the records of slots up to now. It is empty unless replicas share the work.
    pub(crate) fn judge_leases<T>(&self, check: impl FnOnce(&History) -> T) -> T {
        match &self.leases {
            Some(leases) => leases.lock().judge(check),
            None => check(&History::default()),
        }
    }

    /// Writes an object, and returns the state that the server stored.
    pub(crate) async fn put(&self, object: ObjectPlan, value: u64) -> io::Result<Value> {
        let ObjectPlan { name, team, .. } = object;
        let namespace = NAMESPACES[usize::from(object.namespace)];
        let labels = json!({"team": TEAMS[usize::from(team)]});
        let object = json!({
            "metadata": {
                "name": format!("map-{name}"),
                "labels": labels,
                // No two writes are equal: a rolled-back server that repeats one could not be detected.
                "annotations": {"write": value.to_string()},
            },
            "data": {"value": value.to_string()},
        });
        let key = format!("{namespace}/map-{name}");
        let exists = |maps: &History| maps.states(&key).next_back().is_some_and(|(_, last)| last.is_some());
        let path = format!("/api/v1/namespaces/{namespace}/configmaps");
        let (_, written) = if self.judge(exists) {
            // A patch keeps the finalizers.
            let path = format!("{path}/map-{name}");
            send(&self.server, Method::PATCH, &path, Some(&object)).await?
        } else {
            send(&self.server, Method::POST, &path, Some(&object)).await?
        };
        self.trace
            .note(format_args!("server: put {namespace}/map-{name}, revision {}", self.server.revision()));
        Ok(written)
    }

    /// Deletes an object; returns its last state, if it was there.
    pub(crate) async fn delete(&self, object: ObjectPlan) -> io::Result<Option<Value>> {
        let (namespace, name) = (NAMESPACES[usize::from(object.namespace)], object.name);
        let path = format!("/api/v1/namespaces/{namespace}/configmaps/map-{name}");
        let (found, last) = send(&self.server, Method::GET, &path, None).await?;
        let (status, _) = send(&self.server, Method::DELETE, &path, None).await?;
        let revision = self.server.revision();
        self.trace.note(format_args!("server: delete {namespace}/map-{name}: {status}, revision {revision}"));
        Ok((found == 200).then_some(last))
    }

    /// Breaks a mirror: deletes it, or removes its annotations and data. Returns its key.
    pub(crate) async fn break_mirror(&self, object: ObjectPlan, deletes: bool) -> io::Result<String> {
        let key = format!("{}/map-{}", NAMESPACES[usize::from(object.namespace)], object.name);
        let (namespace, name) = key.split_once('/').unwrap_or_default();
        let path = format!("/api/v1/namespaces/{namespace}/secrets/{name}");
        let broken = json!({"metadata": {"name": name, "annotations": {}}});
        let (method, body) = if deletes { (Method::DELETE, None) } else { (Method::PUT, Some(&broken)) };
        let (status, _) = send(&self.server, method, &path, body).await?;
        self.trace.note(format_args!("server: break mirror {key}: {status}"));
        Ok(key)
    }

    /// All ConfigMaps.
    pub(crate) async fn maps(&self) -> io::Result<Vec<Value>> {
        Ok(list(&self.server, MAPS).await?.0)
    }

    /// All mirrors.
    pub(crate) async fn secrets(&self) -> io::Result<Vec<Value>> {
        Ok(list(&self.server, SECRETS).await?.0)
    }

    pub(crate) fn back_up(&self) {
        *self.backup.lock() = self.server.backup();
    }

    /// Closes all connections and keeps the history.
    pub(crate) async fn restart_keeping_history(&self) -> io::Result<()> {
        self.catch_up();
        self.server.disconnect_all();
        self.watch_anew().await
    }

    pub(crate) async fn restart_losing_history(&self) -> io::Result<()> {
        self.catch_up();
        self.server.restart(&Restart::HistoryLost);
        self.watch_anew().await
    }

    /// Rolls the server back to the last backup.
    pub(crate) async fn restore(&self) -> io::Result<()> {
        let backup = self.backup.lock().clone();
        self.catch_up();
        self.server.restart(&Restart::FromBackup(backup));
        for recorder in self.recorders() {
            let path = recorder.lock().path;
            let (objects, revision) = list(&self.server, path).await?;
            recorder.lock().history.begin_epoch(&objects, revision);
        }
        self.watch_anew().await?;
        self.trace.note(format_args!("server: rolled back to revision {}", self.server.revision()));
        Ok(())
    }

    /// Rolls the server back, and writes until it has passed its old revision, before any client reconnects.
    pub(crate) async fn restore_and_overtake(&self, value: u64) -> io::Result<()> {
        let before = self.server.revision();
        self.restore().await?;
        for write in 0.. {
            if self.server.revision() > before {
                break;
            }
            let object = ObjectPlan { namespace: (write % 3) as u8, name: (write % 5) as u8, team: 0 };
            self.put(object, value * 1000 + write).await?;
        }
        Ok(())
    }

    /// Records all pending events. A restart ends the watches.
    fn catch_up(&self) {
        self.recorders().for_each(|recorder| recorder.lock().catch_up());
    }

    fn recorders(&self) -> impl Iterator<Item = &Mutex<Recorder>> {
        [&self.maps, &self.secrets].into_iter().chain(&self.leases)
    }

    async fn watch_anew(&self) -> io::Result<()> {
        for recorder in self.recorders() {
            let path = recorder.lock().path;
            let watch = watch(&self.server, path, self.server.revision()).await?;
            let mut recorder = recorder.lock();
            recorder.watch = watch;
            recorder.rest.clear();
        }
        Ok(())
    }
}

impl Recorder {
    /// Records from the current state on.
    async fn start(server: &Server, path: &'static str) -> io::Result<Self> {
        let (objects, revision) = list(server, path).await?;
        let mut history = History::default();
        history.begin_epoch(&objects, revision);
        Ok(Self { path, history, watch: watch(server, path, revision).await?, rest: Vec::new() })
    }

    fn judge<T>(&mut self, check: impl FnOnce(&History) -> T) -> T {
        self.catch_up();
        check(&self.history)
    }

    /// Reads all pending events of the watch.
    fn catch_up(&mut self) {
        while let Some(Some(Ok(frame))) = self.watch.frame().now_or_never() {
            let Ok(bytes) = frame.into_data() else { continue };
            self.rest.extend_from_slice(&bytes);
            let mut read = 0;
            while let Some(length) = self.rest[read..].iter().position(|byte| *byte == b'\n') {
                let line = &self.rest[read..read + length];
                let mut event: Value = serde_json::from_slice(line).unwrap_or_default();
                read += length + 1;
                // No check reads them, and the history would copy them.
                if let Some(metadata) = event.pointer_mut("/object/metadata").and_then(Value::as_object_mut) {
                    metadata.remove("managedFields");
                }
                self.history.record(event["type"].as_str().unwrap_or_default(), &event["object"]);
            }
            self.rest.drain(..read);
        }
    }
}

async fn watch(server: &Server, path: &str, revision: u64) -> io::Result<ApiBody> {
    let separator = if path.contains('?') { '&' } else { '?' };
    let path = format!("{path}{separator}watch=true&timeoutSeconds=100000000&resourceVersion={revision}");
    Ok(answer(server, Method::GET, &path, None).await?.into_body())
}

async fn list(server: &Server, path: &str) -> io::Result<(Vec<Value>, u64)> {
    let (_, mut list) = send(server, Method::GET, path, None).await?;
    let revision = list["metadata"]["resourceVersion"].as_str().and_then(|text| text.parse().ok());
    let objects = list["items"].as_array_mut().map(std::mem::take).unwrap_or_default();
    Ok((objects, revision.unwrap_or_default()))
}

async fn send(
    server: &Server,
    method: Method,
    path: &str,
    object: Option<&Value>,
) -> io::Result<(u16, Value)> {
    let response = answer(server, method, path, object).await?;
    let status = response.status().as_u16();
    let bytes = response.into_body().collect().await?.to_bytes();
    Ok((status, serde_json::from_slice(&bytes).unwrap_or_default()))
}

async fn answer(
    server: &Server,
    method: Method,
    path: &str,
    object: Option<&Value>,
) -> io::Result<http::Response<ApiBody>> {
    let body = object.map(|object| Bytes::from(object.to_string())).unwrap_or_default();
    let content_type =
        if method == Method::PATCH { "application/merge-patch+json" } else { "application/json" };
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("accept", "application/json")
        .header("content-type", content_type)
        .header("user-agent", "oracle")
        .body(Full::new(body))
        .map_err(io::Error::other)?;
    server.service().oneshot(request).await
}

//! The server of a run, and the recorder of its history.
//!
//! Writes and the recorder's watch go to the server past the network, so they never fail. The server completes a write,
//! with everything that follows from it, before it answers; the recorder's watch then has all of it, and reading the
//! watch until it is empty brings the history up to date.

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

use crate::plan::{NAMESPACES, TEAMS};
use crate::trace::Trace;

const ALL: &str = "/api/v1/configmaps";

/// The server and its history.
pub(crate) struct World {
    pub(crate) server: Server,
    pub(crate) trace: Trace,
    recorder: Mutex<Recorder>,
    backup: Mutex<Option<Backup>>,
}

struct Recorder {
    history: History,
    watch: ApiBody,
    /// The beginning of a line.
    rest: Vec<u8>,
}

impl World {
    /// Starts a server, and records from the beginning.
    pub(crate) async fn start(seed: u64, history_events: usize, trace: Trace) -> io::Result<Self> {
        let clock = embedded_apiserver::Clock::starting_at(
            std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_800_000_000),
        );
        let server = Server::builder()
            .without_socket()
            .seed(seed)
            .clock(clock)
            .history(history_events)
            .start()
            .await
            .map_err(io::Error::other)?;
        for namespace in NAMESPACES {
            let object = json!({"metadata": {"name": namespace}});
            send(&server, Method::POST, "/api/v1/namespaces", Some(&object)).await?;
        }
        let (objects, revision) = list(&server).await?;
        let mut history = History::default();
        history.begin_epoch(&objects, revision);
        let recorder = Recorder { history, watch: watch(&server, revision).await?, rest: Vec::new() };
        Ok(Self { server, trace, recorder: Mutex::new(recorder), backup: Mutex::default() })
    }

    /// Runs a check against the history up to this moment.
    pub(crate) fn judge<T>(&self, check: impl FnOnce(&History) -> T) -> T {
        let mut recorder = self.recorder.lock();
        recorder.catch_up();
        check(&recorder.history)
    }

    pub(crate) async fn put(&self, namespace: u8, name: u8, team: u8, value: u64) -> io::Result<()> {
        let namespace = NAMESPACES[usize::from(namespace)];
        let labels = json!({"team": TEAMS[usize::from(team)]});
        let object = json!({
            "metadata": {"name": format!("map-{name}"), "labels": labels},
            "data": {"value": value.to_string()},
        });
        let path = format!("/api/v1/namespaces/{namespace}/configmaps");
        let (status, _) = send(&self.server, Method::POST, &path, Some(&object)).await?;
        if status == 409 {
            let path = format!("{path}/map-{name}");
            send(&self.server, Method::PUT, &path, Some(&object)).await?;
        }
        self.trace
            .note(format_args!("server: put {namespace}/map-{name}, revision {}", self.server.revision()));
        Ok(())
    }

    pub(crate) async fn delete(&self, namespace: u8, name: u8) -> io::Result<()> {
        let namespace = NAMESPACES[usize::from(namespace)];
        let path = format!("/api/v1/namespaces/{namespace}/configmaps/map-{name}");
        let (status, _) = send(&self.server, Method::DELETE, &path, None).await?;
        let revision = self.server.revision();
        self.trace.note(format_args!("server: delete {namespace}/map-{name}: {status}, revision {revision}"));
        Ok(())
    }

    pub(crate) fn back_up(&self) {
        *self.backup.lock() = Some(self.server.backup());
    }

    /// All connections close; the history stays.
    pub(crate) async fn restart_keeping_history(&self) -> io::Result<()> {
        self.judge(|_| ());
        self.server.disconnect_all();
        self.watch_anew().await
    }

    pub(crate) async fn restart_losing_history(&self) -> io::Result<()> {
        self.judge(|_| ());
        self.server.restart(&Restart::HistoryLost);
        self.watch_anew().await
    }

    /// Rolls the server back to the last backup, if there is one.
    pub(crate) async fn restore(&self) -> io::Result<bool> {
        let Some(backup) = self.backup.lock().clone() else { return Ok(false) };
        self.judge(|_| ());
        self.server.restart(&Restart::FromBackup(backup));
        let (objects, revision) = list(&self.server).await?;
        self.recorder.lock().history.begin_epoch(&objects, revision);
        self.watch_anew().await?;
        self.trace.note(format_args!("server: rolled back to revision {revision}"));
        Ok(true)
    }

    async fn watch_anew(&self) -> io::Result<()> {
        let watch = watch(&self.server, self.server.revision()).await?;
        let mut recorder = self.recorder.lock();
        recorder.watch = watch;
        recorder.rest.clear();
        Ok(())
    }
}

impl Recorder {
    /// Reads the watch until nothing more is there.
    fn catch_up(&mut self) {
        while let Some(Some(Ok(frame))) = self.watch.frame().now_or_never() {
            let Ok(bytes) = frame.into_data() else { continue };
            self.rest.extend_from_slice(&bytes);
            while let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
                let line = self.rest.drain(..=end).collect::<Vec<_>>();
                let event: Value = serde_json::from_slice(&line).unwrap_or_default();
                self.history.record(event["type"].as_str().unwrap_or_default(), &event["object"]);
            }
        }
    }
}

async fn watch(server: &Server, revision: u64) -> io::Result<ApiBody> {
    let path = format!("{ALL}?watch=true&timeoutSeconds=100000000&resourceVersion={revision}");
    Ok(answer(server, Method::GET, &path, None).await?.into_body())
}

async fn list(server: &Server) -> io::Result<(Vec<Value>, u64)> {
    let (_, mut list) = send(server, Method::GET, ALL, None).await?;
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
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("accept", "application/json")
        .header("content-type", "application/json")
        .header("user-agent", "oracle")
        .body(Full::new(body))
        .map_err(io::Error::other)?;
    server.service().oneshot(request).await
}

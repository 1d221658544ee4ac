//! What the tests share: scripted informers, and a log of what was reconciled.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube_informer::testing::ScriptedSource;
use kube_informer::{Informer, Key};
use kube_informer_controller::{Action, Context, Controller, ControllerBuilder, Error, RunError, Stop};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::sleep;
use tracing::subscriber::{DefaultGuard, NoSubscriber};
use tracing::{Metadata, Subscriber, span};
use tracing_subscriber::layer::{Context as Layers, Layer, SubscriberExt as _};
use tracing_subscriber::registry::{LookupSpan, Registry};

/// The end of most reconciles.
pub fn done() -> Result<Action, Error> {
    Ok(Action::Done)
}

/// Config maps are the main kind, pods what belongs to them.
pub struct World {
    pub maps: ScriptedSource,
    pub pods: ScriptedSource,
}

impl World {
    pub fn new() -> Self {
        Self { maps: ScriptedSource::new("v1", "ConfigMap"), pods: ScriptedSource::new("v1", "Pod") }
    }

    pub fn map_informer(&self) -> Informer<ConfigMap> {
        Informer::from_source(Arc::new(self.maps.clone())).start().unwrap()
    }

    pub fn pod_informer(&self) -> Informer<Pod> {
        Informer::from_source(Arc::new(self.pods.clone())).start().unwrap()
    }
}

pub fn named(name: &str) -> Value {
    json!({"metadata": {"namespace": "web", "name": name}})
}

/// A pod with these owners: config maps by name.
pub fn owned(name: &str, owners: &[&str]) -> Value {
    let reference = |owner: &&str| json!({"apiVersion": "v1", "kind": "ConfigMap", "name": owner, "uid": format!("uid-of-{owner}"), "controller": true});
    let owners = owners.iter().map(reference).collect::<Vec<_>>();
    json!({"metadata": {"namespace": "web", "name": name, "ownerReferences": owners}})
}

pub fn key(text: &str) -> Key {
    text.parse().unwrap()
}

/// Lets everything that can happen now happen. (Time is paused: nothing sleeps.)
pub async fn settle() {
    sleep(Duration::from_millis(1)).await;
}

/// What has happened, one line each.
#[derive(Clone, Default)]
pub struct Log(Arc<watch::Sender<Vec<String>>>);

impl Log {
    pub fn note(&self, line: impl std::fmt::Display) {
        self.0.send_modify(|lines| lines.push(line.to_string()));
    }

    /// What was noted since this was last called.
    pub fn take(&self) -> Vec<String> {
        self.0.send_replace(Vec::new())
    }

    /// Waits until so many lines are there; takes them.
    pub async fn next(&self, lines: usize) -> Vec<String> {
        self.0.subscribe().wait_for(|log| log.len() >= lines).await.unwrap();
        self.take()
    }
}

/// Collects this crate's log lines and spans of this thread at `DEBUG` and above, as `message field=value` and
/// `span name field=value`, until the guard is dropped.
pub fn capture_logs() -> (Log, DefaultGuard) {
    capture_logs_of("kube_informer_controller")
}

/// As `capture_logs`, of the crates whose names start with `prefix`.
pub fn capture_logs_of(prefix: &'static str) -> (Log, DefaultGuard) {
    capture(prefix, false)
}

/// As `capture_logs`. The line of an event in a span is `message field=value in span name field=value`.
pub fn capture_logs_in_spans() -> (Log, DefaultGuard) {
    capture("kube_informer_controller", true)
}

fn capture(prefix: &'static str, shows_spans: bool) -> (Log, DefaultGuard) {
    // While there is only one subscriber, tracing asks just the thread that first reaches a log statement whether it is
    // enabled, and applies the answer to all threads. A second subscriber avoids that.
    let _ = tracing::subscriber::set_global_default(NoSubscriber::default());
    let log = Log::default();
    let capture = Capture { log: log.clone(), prefix, shows_spans };
    let guard = tracing::subscriber::set_default(Registry::default().with(capture));
    (log, guard)
}

struct Capture {
    log: Log,
    prefix: &'static str,
    /// Whether the line of an event has its span.
    shows_spans: bool,
}

/// The line of a span.
struct SpanLine(String);

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Capture {
    fn enabled(&self, metadata: &Metadata<'_>, _: Layers<'_, S>) -> bool {
        *metadata.level() <= tracing::Level::DEBUG && metadata.target().starts_with(self.prefix)
    }

    fn on_new_span(&self, span: &span::Attributes<'_>, id: &span::Id, layers: Layers<'_, S>) {
        let mut line = Line::default();
        span.record(&mut line);
        let line = format!("span {}{}", span.metadata().name(), line.fields);
        self.log.note(&line);
        layers.span(id).unwrap().extensions_mut().insert(SpanLine(line));
    }

    fn on_event(&self, event: &tracing::Event<'_>, layers: Layers<'_, S>) {
        let mut line = Line::default();
        event.record(&mut line);
        let mut text = format!("{}{}", line.message, line.fields);
        if let Some(span) = layers.event_span(event).filter(|_| self.shows_spans) {
            let extensions = span.extensions();
            let SpanLine(span) = extensions.get().unwrap();
            text = format!("{text} in {span}");
        }
        self.log.note(text);
    }
}

#[derive(Default)]
struct Line {
    message: String,
    fields: String,
}

impl tracing::field::Visit for Line {
    fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn std::fmt::Debug) {
        match field.name() {
            "message" => self.message = format!("{value:?}"),
            name => self.fields.push_str(&format!(" {name}={value:?}")),
        }
    }
}

/// A controller at work.
pub struct Running {
    pub stop: Stop,
    pub task: JoinHandle<Result<(), RunError>>,
}

impl Running {
    pub fn start(controller: Controller) -> Self {
        let stop = Stop::new();
        let task = tokio::spawn({
            let stop = stop.clone();
            async move { controller.run(&stop).await }
        });
        Self { stop, task }
    }

    pub async fn ended(self) -> Result<(), RunError> {
        self.task.await.unwrap()
    }
}

/// Runs a controller whose reconcile notes each key and succeeds.
pub fn noting<M: Send + Sync + 'static>(builder: ControllerBuilder<M>) -> (Running, Log) {
    let log = Log::default();
    let reconcile = async |context: Context<Log>, key: Key| -> Result<Action, Error> {
        context.data().note(key);
        Ok(Action::Done)
    };
    (Running::start(builder.build(log.clone(), reconcile).unwrap()), log)
}

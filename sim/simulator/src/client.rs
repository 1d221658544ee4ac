//! The clients of a run: informers, their listeners and their readers, all checked by the oracle.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use kube_client::Client;
use kube_informer::EncodingPreference;
use kube_informer::Scope;
use kube_informer::WatchList;
use kube_informer::building_blocks::Packing;
use kube_informer::building_blocks::ReflectorConfig;
use kube_informer::{
    ErrorReport, Event, HandlerHandle, Index, Informer, ListenerConfig, Memory, Object, Origin,
};
use kube_informer_oracle::{
    History, Listener, Reader, Seen, Selection, Trust, check_current, check_index, check_state,
};
use parking_lot::Mutex;
use serde::Serialize;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::decision;
use crate::link::Link;
use crate::plan::{InformerPlan, ListenerKind, ListenerPlan, TEAMS};
use crate::served::Served;
use crate::trace::PLANNED_PANIC;
use crate::world::World;

/// The limit of a listener whose changes are never coalesced in a run.
pub(crate) const UNLIMITED: usize = 10_000;

/// The changes that a coalescing listener may have pending beyond its limit: the batch that it reads, and the coalesced
/// changes of each key. There are up to 20 keys, each with at most a deletion and an addition.
const LAG_MAX: usize = 40 + 40 + 1;

/// An informer and its listeners.
pub(crate) struct Subject {
    pub(crate) link: Link,
    name: String,
    world: Arc<World>,
    informer: Informer<ConfigMap>,
    selection: Selection,
    /// Epoch and revision at its start.
    started: (usize, u64),
    reader: Mutex<Reader>,
    trust: Arc<Mutex<Trust>>,
    listeners: Mutex<Vec<Listening>>,
    /// The number of listeners ever added.
    numbers: Mutex<u32>,
    /// Ends the handler calls that hang.
    release: watch::Sender<bool>,
}

struct Listening {
    name: String,
    kind: ListenerKind,
    plan: ListenerPlan,
    judged: Arc<Mutex<Listener>>,
    handle: Option<HandlerHandle>,
    reading: Option<JoinHandle<()>>,
}

impl Subject {
    pub(crate) fn start(
        world: &Arc<World>,
        number: usize,
        plan: &InformerPlan,
        seed: u64,
    ) -> io::Result<Self> {
        let name = format!("informer-{number}");
        let seed = seed.wrapping_mul(31).wrapping_add(number as u64);
        let link = Link::new(world.server.service(), name.clone(), seed, world.trace.clone());
        let mut config = ReflectorConfig::default();
        config.seed = Some(seed);
        config.page_size = plan.page_size;
        config.watch_list = if plan.watch_list { WatchList::Auto } else { WatchList::Off };
        let (trace, reporter) = (world.trace.clone(), name.clone());
        let report = move |report: &ErrorReport| {
            trace.note(format_args!("{reporter}: {}; {:?}", report.error, report.next()));
            match decision::cell_of(report) {
                Some(cell) => trace.count(decision::CELL, cell),
                None => trace.count("other error", variant(report)),
            }
        };
        let mut builder = Informer::<ConfigMap>::builder(Client::new(link.clone(), "default"))
            .reflector(config)
            .namespaces(plan.namespaces.iter().copied())
            .memory(if plan.packed { Memory::from(Packing::eager()) } else { Memory::Uncompressed })
            .index(&Index::label("team", "team"))
            .on_error(report);
        if plan.json {
            builder = builder.encoding(EncodingPreference::Json);
        }
        if let Some(team) = plan.team {
            builder = builder.labels(format!("team={team}"));
        }
        let mut fields = vec!["/metadata/labels".to_owned(), "/metadata/annotations".to_owned()];
        if plan.projected {
            builder = builder.drop_fields(["data"]);
        } else {
            fields.push("/data".to_owned());
        }
        let selection = Selection {
            namespaces: plan.namespaces.iter().map(|&name| name.to_owned()).collect(),
            label: plan.team.map(|team| ("team".to_owned(), team.to_owned())),
            fields,
        };
        let trust = Arc::<Mutex<Trust>>::default();
        link.observe(observer(world, &trust, &selection));
        let started = world.judge(History::now);
        let informer = builder.start().map_err(io::Error::other)?;
        let reader = Reader::new(selection.clone());
        let subject = Self {
            link,
            name,
            world: world.clone(),
            informer,
            selection,
            started,
            reader: Mutex::new(reader),
            trust,
            listeners: Mutex::default(),
            numbers: Mutex::default(),
            release: watch::Sender::default(),
        };
        for listener in &plan.listeners {
            subject.add_listener(*listener)?;
        }
        Ok(subject)
    }

    pub(crate) fn add_listener(&self, plan: ListenerPlan) -> io::Result<()> {
        let number = {
            let mut numbers = self.numbers.lock();
            *numbers += 1;
            *numbers
        };
        let name = format!("{} listener-{number} {:?}", self.name, plan.kind);
        let judged = Arc::new(Mutex::new(Listener::new(self.selection.clone(), self.started)));
        let mut config = ListenerConfig::default();
        config.changes_max = plan.changes_max;
        config.resync = plan.resync.then(|| Duration::from_secs(30));
        let ear = Ear {
            name: name.clone(),
            world: self.world.clone(),
            informer: self.informer.clone(),
            selection: self.selection.clone(),
            judged: judged.clone(),
            coalesces: plan.changes_max < UNLIMITED,
        };
        let (mut handle, mut reading) = (None, None);
        if let ListenerKind::Subscription(pause) = plan.kind {
            let mut events = self.informer.subscribe_with(config);
            reading = Some(tokio::spawn(async move {
                while let Some(event) = events.next().await {
                    ear.receive(&event);
                    pause_for(pause).await;
                }
            }));
        } else {
            let mut calls = 0;
            let released = self.release.subscribe();
            let ear = Arc::new(ear);
            let called = move |event: Event<ConfigMap>| {
                calls += 1;
                let (ear, call, mut released) = (ear.clone(), calls, released.clone());
                async move {
                    ear.receive(&event);
                    match plan.kind {
                        ListenerKind::Slow(pause) => pause_for(pause).await,
                        ListenerKind::Panicking => assert!(call % 3 != 0, "{PLANNED_PANIC}"),
                        ListenerKind::Hanging(at) if call >= u32::from(at) => {
                            let _ = released.wait_for(|released| *released).await;
                        }
                        _ => {}
                    }
                }
            };
            handle = Some(self.informer.add_handler_with(config, called).map_err(io::Error::other)?);
        }
        self.listeners.lock().push(Listening { name, kind: plan.kind, plan, judged, handle, reading });
        Ok(())
    }

    /// Removes the oldest listener.
    pub(crate) fn remove_listener(&self) {
        let mut listeners = self.listeners.lock();
        if listeners.is_empty() {
            return;
        }
        let leaving = listeners.remove(0);
        self.world.trace.note(format_args!("{}: removed", leaving.name));
        if let Some(handle) = leaving.handle {
            handle.remove();
        }
        if let Some(reading) = leaving.reading {
            reading.abort();
        }
    }

    /// Reads the store, and checks that objects, versions and indexes match each other and the server's history.
    pub(crate) fn look(&self) {
        let view = self.informer.lister().view();
        let objects = view.iter().filter_map(|object| self.value(&object)).collect::<Vec<_>>();
        let mut reader = self.reader.lock();
        let scopes = if self.selection.namespaces.is_empty() {
            vec![String::new()]
        } else {
            self.selection.namespaces.clone()
        };
        for (number, scope) in (0..).zip(&scopes) {
            let Ok(revision) = view.resource_version(Scope(number)).parse::<u64>() else { continue };
            let inside = |object: &&Value| scope.is_empty() || object["metadata"]["namespace"] == **scope;
            let inside = objects.iter().filter(inside).cloned().collect::<Vec<_>>();
            self.world.trace.note(format_args!(
                "{}: {scope:?} at {revision}: {} objects",
                self.name,
                inside.len()
            ));
            let at = (&**scope, revision);
            let judged = self.world.judge(|history| reader.view(at, &inside, &self.trust.lock(), history));
            self.judged(judged);
        }
        for team in TEAMS {
            let found = view.by_index("team", team).unwrap_or_default();
            let found = found.iter().filter_map(|object| self.value(object)).collect::<Vec<_>>();
            self.judged(check_index("team", team, &found, &objects));
        }
        for listening in &*self.listeners.lock() {
            let Some(handle) = &listening.handle else { continue };
            let bound = listening.plan.changes_max + LAG_MAX;
            if listening.plan.changes_max < UNLIMITED && handle.lag() > bound {
                self.world.trace.fail(&format!(
                    "promise 6 is broken: {} lags by {}",
                    listening.name,
                    handle.lag()
                ));
            }
        }
    }

    /// Waits for a write as a caller does, then checks what the caller reads.
    pub(crate) fn wait_for(&self, written: Value) {
        let Ok(object) = serde_json::from_value::<ConfigMap>(written.clone()) else { return };
        let (name, world) = (self.name.clone(), self.world.clone());
        let (informer, selection) = (self.informer.clone(), self.selection.clone());
        tokio::spawn(async move {
            // No promise applies after a timeout or a reset of the server, or to an object outside of the selection.
            let Ok(found) = informer.wait_for(&object).await else { return };
            world.trace.count("wait", "written");
            let found = found.map(|found| value(&found)).transpose().unwrap_or_default();
            let judged = world.judge(|history| match history.now() {
                (0, _) => check_current("11", (&written, found.as_ref()), &selection, history),
                // Until the rollback is detected, a rolled-back server seems to be past the write.
                _ => Ok(()),
            });
            if let Err(violation) = judged {
                world.trace.fail(&format!("{name}: after a wait for a write: {violation}"));
            }
        });
    }

    /// Waits for a deletion as a caller does, then checks that the object is gone.
    pub(crate) fn wait_deleted(&self, deleted: &Value) {
        let Ok(object) = serde_json::from_value::<ConfigMap>(deleted.clone()) else { return };
        let (name, world, informer) = (self.name.clone(), self.world.clone(), self.informer.clone());
        tokio::spawn(async move {
            if informer.wait_deleted(&object).await.is_err() {
                return;
            }
            world.trace.count("wait", "deleted");
            let Ok(key) = informer.key_in_scope(&object.metadata) else { return };
            let uid = object.metadata.uid.unwrap_or_default();
            if informer.lister().get(&key).is_some_and(|found| found.uid() == uid) {
                world
                    .trace
                    .fail(&format!("{name}: promise 11 is broken: {key} exists after waiting for deletion"));
            }
        });
    }

    fn value(&self, object: &Object<ConfigMap>) -> Option<Value> {
        match value(object) {
            Ok(value) => Some(value),
            Err(error) => {
                self.world.trace.fail(&format!("{} cannot decode {}: {error}", self.name, object.key()));
                None
            }
        }
    }

    fn judged(&self, judged: Result<(), String>) {
        if let Err(why) = judged {
            self.world.trace.fail(&format!("{}: {why}", self.name));
        }
    }

    /// Describes how the store or a listener differs from the server; `None` if neither does.
    pub(crate) fn differs(&self) -> Option<String> {
        let objects =
            self.informer.lister().list().iter().filter_map(|object| self.value(object)).collect::<Vec<_>>();
        let trust = self.trust.lock();
        let store = self.world.judge(|history| check_state(&objects, &self.selection, &trust, history));
        if let Err(why) = store {
            return Some(format!("{}: the store: {why}; state: {:?}", self.name, self.informer.state()));
        }
        self.listeners.lock().iter().find_map(|listening| {
            if matches!(listening.kind, ListenerKind::Hanging(_)) {
                return None;
            }
            let judged = listening.judged.lock();
            let view = self.world.judge(|history| judged.converged(&trust, history));
            view.err().map(|why| format!("{}: {why}", listening.name))
        })
    }

    /// Stops the listeners and the informer.
    pub(crate) async fn stop(self) {
        self.release.send_replace(true);
        for listening in self.listeners.lock().drain(..) {
            if let Some(reading) = listening.reading {
                reading.abort();
            }
        }
        self.informer.shutdown().await;
    }
}

/// Passes the answered lists and watches of an informer to the oracle.
fn observer(
    world: &Arc<World>,
    trust: &Arc<Mutex<Trust>>,
    selection: &Selection,
) -> impl Fn(&Served) + Send + Sync + use<> {
    let (world, trust, selection) = (world.clone(), trust.clone(), selection.clone());
    move |served: &Served| {
        let excused = world.judge(|history| served.record(&mut trust.lock(), &selection, history));
        world.trace.excused(&excused);
    }
}

async fn pause_for(milliseconds: u16) {
    tokio::time::sleep(Duration::from_millis(milliseconds.into())).await;
}

/// The name of the error's variant, without its values.
fn variant(report: &ErrorReport) -> String {
    let debug = format!("{:?}", report.error);
    debug.split(['(', '{', ' ']).next().unwrap_or_default().to_owned()
}

pub(crate) fn value<K: Serialize>(object: &Object<K>) -> Result<Value, String> {
    let decoded = object.decode().map_err(|error| error.to_string())?;
    serde_json::to_value(&*decoded).map_err(|error| error.to_string())
}

/// The fields that identify a state of an object. The oracle has already checked the other fields.
fn identity(object: &Object<ConfigMap>) -> Value {
    json!({"metadata": {
        "namespace": object.namespace(),
        "name": object.name(),
        "uid": object.uid(),
        "resourceVersion": object.resource_version(),
    }})
}

/// Receives the events of one listener, and passes them to the oracle.
struct Ear {
    name: String,
    world: Arc<World>,
    informer: Informer<ConfigMap>,
    selection: Selection,
    judged: Arc<Mutex<Listener>>,
    coalesces: bool,
}

impl Ear {
    fn receive(&self, event: &Event<ConfigMap>) {
        if self.world.trace.has_failed() {
            return;
        }
        self.world.trace.note(format_args!("{}: {event:?}", self.name));
        self.world.trace.count("event", shape(event));
        if let Err(why) = self.judge(event) {
            self.world.trace.fail(&format!("{}: {event:?}: {why}", self.name));
        }
    }

    fn judge(&self, event: &Event<ConfigMap>) -> Result<(), String> {
        let seen = seen(event)?;
        let stored = event.object().and_then(|object| self.informer.lister().get(&object.key()));
        let stored = stored.as_ref().map(identity);
        let follows = self.follows(event);
        self.world.judge(|history| {
            let mut listener = self.judged.lock();
            if let Seen::Added(new) | Seen::Updated(_, new) | Seen::Resynced(_, new) = &seen {
                check_current("4", (new, stored.as_ref()), &self.selection, history)?;
            }
            if let Seen::Added(state) | Seen::Updated(_, state) | Seen::Deleted(state) = &seen
                && follows
            {
                listener.follow(state, history)?;
            }
            listener.receive(&seen, history)
        })
    }

    /// Whether the event comes from a watch, and neither coalescing nor a relist has hidden a change from the listener.
    fn follows(&self, event: &Event<ConfigMap>) -> bool {
        !self.coalesces
            && event.origin() == Some(Origin::Live)
            && self.informer.status().iter().all(|scope| scope.reflector().complete_lists <= 1)
    }
}

fn seen(event: &Event<ConfigMap>) -> Result<Seen, String> {
    Ok(match event {
        Event::Added { object, .. } => Seen::Added(value(object)?),
        Event::Updated { old, new, origin: Origin::Resync } => Seen::Resynced(identity(old), value(new)?),
        Event::Updated { old, new, .. } => Seen::Updated(identity(old), value(new)?),
        Event::Deleted { last, final_state_known: true, .. } => Seen::Deleted(value(last)?),
        Event::Deleted { last, .. } => Seen::Vanished(value(last)?),
        Event::Synced => Seen::Synced,
    })
}

fn shape(event: &Event<ConfigMap>) -> &'static str {
    match event {
        Event::Added { origin: Origin::Initial, .. } => "added, initial",
        Event::Added { origin: Origin::Live, .. } => "added, live",
        Event::Added { .. } => "added, relist",
        Event::Updated { origin: Origin::Live, .. } => "updated, live",
        Event::Updated { origin: Origin::Resync, .. } => "updated, resync",
        Event::Updated { .. } => "updated, relist",
        Event::Deleted { final_state_known: true, .. } => "deleted",
        Event::Deleted { .. } => "deleted, final state unknown",
        Event::Synced => "synced",
    }
}

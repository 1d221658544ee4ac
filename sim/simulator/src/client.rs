//! The clients of a run: informers, their listeners and their readers, each judged by the oracle.

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
use kube_informer::building_blocks::{ErrorReport, NextStep, ReflectorConfig};
use kube_informer::{Event, HandlerHandle, Index, Informer, ListenerConfig, Lister, Memory, Object, Origin};
use kube_informer_oracle::{Listener, Reader, Seen, Selection, check_index};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::link::Link;
use crate::plan::{InformerPlan, ListenerKind, ListenerPlan, TEAMS};
use crate::world::World;

/// An informer and everybody who listens to it.
pub(crate) struct Subject {
    pub(crate) link: Link,
    name: String,
    world: Arc<World>,
    informer: Informer<ConfigMap>,
    selection: Selection,
    reader: Mutex<Reader>,
    listeners: Mutex<Vec<Listening>>,
    /// How many there ever were.
    numbers: Mutex<u32>,
    /// Ends the calls that hang.
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
            trace.note(format_args!("{reporter}: {}; {:?}", report.error, report.next));
            trace.count(&format!("error: {}", row(report)));
        };
        let mut builder = Informer::<ConfigMap>::builder(Client::new(link.clone(), "default"))
            .reflector(config)
            .namespaces(plan.namespaces.iter().copied())
            .memory(if plan.packed { Memory::from(Packing::eager()) } else { Memory::Plain })
            .index(&Index::label("team", "team"))
            .on_error(report);
        if plan.json {
            builder = builder.encoding(EncodingPreference::Json);
        }
        if let Some(team) = plan.team {
            builder = builder.labels(format!("team={team}"));
        }
        let mut fields = vec!["/metadata/labels".to_owned()];
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
        let informer = builder.start().map_err(io::Error::other)?;
        let reader = world.judge(|history| Reader::new(selection.clone(), history));
        let subject = Self {
            link,
            name,
            world: world.clone(),
            informer,
            selection,
            reader: Mutex::new(reader),
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
        let judged = Arc::new(Mutex::new(Listener::new(self.selection.clone())));
        let mut config = ListenerConfig::default();
        config.changes_max = plan.changes_max;
        config.resync = plan.resync.then(|| Duration::from_secs(30));
        let ear = Ear {
            name: name.clone(),
            world: self.world.clone(),
            lister: self.informer.lister(),
            selection: self.selection.clone(),
            judged: judged.clone(),
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
                        ListenerKind::Panicking => assert!(call % 3 != 0, "as planned"),
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

    /// The oldest listener leaves.
    pub(crate) fn remove_listener(&self) {
        let mut listeners = self.listeners.lock();
        if listeners.is_empty() {
            return;
        }
        let leaving = listeners.remove(0);
        self.world.trace.note(format_args!("{}: leaves", leaving.name));
        if let Some(handle) = leaving.handle {
            handle.remove();
        }
        if let Some(reading) = leaving.reading {
            reading.abort();
        }
    }

    /// Reads the store: objects, versions and indexes must fit together, and the server's history.
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
            let judged = self.world.judge(|history| reader.view(scope, revision, &inside, history));
            self.judged(judged.map_err(|violation| violation.to_string()));
        }
        for team in TEAMS {
            let found = view.by_index("team", team).unwrap_or_default();
            let found = found.iter().filter_map(|object| self.value(object)).collect::<Vec<_>>();
            let judged = check_index("team", team, &found, &objects);
            self.judged(judged.map_err(|violation| violation.to_string()));
        }
        for listening in &*self.listeners.lock() {
            let Some(handle) = &listening.handle else { continue };
            // Coalesced per key: nothing waits beyond the limit but one change of each key, and of each deleted one.
            let bound = listening.plan.changes_max + 2 * 5 * 3 * 4;
            if listening.plan.changes_max < 100 && handle.lag() > bound {
                self.world.trace.fail(&format!(
                    "promise 6 is broken: {} lags by {}",
                    listening.name,
                    handle.lag()
                ));
            }
        }
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

    /// Why the store or a listener differs from the server; `None` if they do not.
    pub(crate) fn differs(&self) -> Option<String> {
        let objects =
            self.informer.lister().list().iter().filter_map(|object| self.value(object)).collect::<Vec<_>>();
        let reader = self.reader.lock();
        let store = self.world.judge(|history| reader.converged(&objects, history));
        if let Err(why) = store {
            return Some(format!("{}: the store: {why}; state: {:?}", self.name, self.informer.state()));
        }
        self.listeners.lock().iter().find_map(|listening| {
            if matches!(listening.kind, ListenerKind::Hanging(_)) {
                return None;
            }
            let judged = listening.judged.lock();
            let view = self.world.judge(|history| judged.converged(history));
            view.err().map(|why| format!("{}: {why}", listening.name))
        })
    }

    /// Ends everything.
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

async fn pause_for(milliseconds: u16) {
    tokio::time::sleep(Duration::from_millis(milliseconds.into())).await;
}

/// What was reported, and what is done about it, without numbers and names.
fn row(report: &ErrorReport) -> String {
    let next = match report.next {
        NextStep::Resume(_) => "resume",
        NextStep::ListInstead(_) => "list instead",
        NextStep::Relist(_) => "relist",
        NextStep::ReadOn => "read on",
        NextStep::Wait => "wait",
        NextStep::AskForMostRecent => "ask for the most recent state",
        _ => "other",
    };
    let debug = format!("{:?}", report.error);
    let shape: Vec<&str> = debug.split(['(', '{', ' ']).filter(|part| !part.is_empty()).take(2).collect();
    let code = report.error.status().map(|status| format!(" {}", status.code)).unwrap_or_default();
    format!("{}{code}: {next}", shape.join("/"))
}

fn value(object: &Object<ConfigMap>) -> Result<Value, String> {
    let decoded = object.decode().map_err(|error| error.to_string())?;
    serde_json::to_value(&*decoded).map_err(|error| error.to_string())
}

/// Receives the events of one listener, and hands them to the oracle.
struct Ear {
    name: String,
    world: Arc<World>,
    lister: Lister<ConfigMap>,
    selection: Selection,
    judged: Arc<Mutex<Listener>>,
}

impl Ear {
    fn receive(&self, event: &Event<ConfigMap>) {
        if self.world.trace.has_failed() {
            return;
        }
        self.world.trace.note(format_args!("{}: {event:?}", self.name));
        self.world.trace.count(&format!("event: {}", shape(event)));
        if let Err(why) = self.judge(event) {
            self.world.trace.fail(&format!("{}: {event:?}: {why}", self.name));
        }
    }

    fn judge(&self, event: &Event<ConfigMap>) -> Result<(), String> {
        let seen = seen(event)?;
        let stored = event.object().and_then(|object| self.lister.get(&object.key()));
        let stored = stored.map(|stored| value(&stored)).transpose()?;
        self.world.judge(|history| {
            if let Seen::Added(new) | Seen::Updated { new, .. } = &seen {
                let reader = Reader::new(self.selection.clone(), history);
                reader.store_first(new, stored.as_ref(), history).map_err(|why| why.to_string())?;
            }
            self.judged.lock().receive(&seen, history).map_err(|why| why.to_string())
        })
    }
}

fn seen(event: &Event<ConfigMap>) -> Result<Seen, String> {
    Ok(match event {
        Event::Added { object, .. } => Seen::Added(value(object)?),
        Event::Updated { old, new, origin } => {
            Seen::Updated { old: value(old)?, new: value(new)?, resync: *origin == Origin::Resync }
        }
        Event::Deleted { last, final_state_known, .. } => {
            Seen::Deleted { last: value(last)?, final_state_known: *final_state_known }
        }
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

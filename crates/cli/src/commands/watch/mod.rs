//! `kube-informer watch`: changes of objects as they happen. `get --watch` is the same with other rows.

mod arguments;
mod printer;

pub(crate) use arguments::{Rows, WatchArguments};

use std::time::Duration;

use futures::future::join_all;
use futures::stream::{BoxStream, SelectAll, select_all};
use futures::{FutureExt, StreamExt};
use kube_informer::building_blocks::ReflectorError;
use kube_informer::{ErrorReport, Event, Object, Origin};
use serde_json::Value;
use tokio::task::unconstrained;
use tokio::time::{Instant, MissedTickBehavior};

use crate::changes;
use crate::cluster::Cluster;
use crate::condition::Tracker;
use crate::discovery::{Catalogue, Kind, Selected};
use crate::failure::Failure;
use crate::field_filter::{FieldFilter, FieldMatchers};
use crate::mirror::{self, Mirror, MirrorErrorSender, MirrorErrors, MirrorOptions};
use crate::observed::Gate;
use crate::output::EventType;
use crate::output::columns::DefinedColumns;
use crate::progress::Progress;
use crate::reads::Reads;
use crate::request;
use crate::signals;
use crate::terminal::{Screen, StatusOn, escape};
use printer::{Happened, Printer};

/// How often the program checks whether its reader has exited: after `| head`, there may be no event for a long time.
const READER_CHECK: Duration = Duration::from_millis(500);

/// Maximum number of events that are taken before other tasks run, signals first.
const BATCH_MAX: usize = 1000;

/// The verbs that a kind needs.
const VERBS: &[&str] = &["list", "watch"];

/// The delay between a change of definitions and the next discovery: several definitions often change together, and a new
/// kind is served shortly after its definition appears.
const REDISCOVERY_WAIT: Duration = Duration::from_secs(1);

/// How long the program waits, before it ends, for a received list to be applied.
const LAST_LIST_TIME_MAX: Duration = Duration::from_secs(5);

pub(crate) async fn run(arguments: WatchArguments) -> Result<(), Failure> {
    let mut signals = signals::listen()?;
    let mut screen = Screen::new(arguments.output.color, StatusOn::Stderr);
    tokio::select! {
        biased;
        // A signal is the normal end of a watch without a condition.
        signal = signals.next() => match arguments.condition {
            None => Ok(()),
            Some(_) => Err(Failure::Interrupted(signal)),
        },
        ended = watch(&arguments, &mut screen) => ended,
    }
}

async fn watch(arguments: &WatchArguments, screen: &mut Screen) -> Result<(), Failure> {
    let filters =
        arguments.field.iter().map(|field| FieldFilter::from_flag(field)).collect::<Result<Vec<_>, _>>()?;
    let cluster = Cluster::connect_as(&arguments.cluster, &arguments.credentials).await?;
    let catalogue = Catalogue::fetch(&cluster).await?;
    let mut selected = catalogue.select(&arguments.wanted, VERBS)?;
    selected.extend(catalogue.select_from_files(&arguments.filename).await?);
    arguments.check_masked_fields(&filters, &selected)?;
    if arguments.requires_named {
        for selected in &selected {
            check_exists(&cluster, arguments, selected).await?;
        }
    }
    let (sender, errors) = mirror::errors();
    let tracker = arguments.condition.clone().map(|condition| Tracker::new(condition, selected.len()));
    let mut watching = Watching {
        arguments,
        cluster: &cluster,
        mirrors: Vec::new(),
        gate: Gate::new(),
        filters,
        matchers: Vec::new(),
        tracker,
        printer: Printer::new(arguments),
        progress: Progress::none(),
        reported: Vec::new(),
        sender,
        errors,
        started: Instant::now(),
        rediscover_at: None,
    };
    let columns = join_all(selected.iter().map(|one| watching.defined_columns(&one.kind))).await;
    for (selected, columns) in selected.into_iter().zip(columns) {
        watching.start(selected, columns)?;
    }
    match arguments.timeout {
        None => watching.count_and_run(screen).await,
        Some(limit) => match tokio::time::timeout(limit, watching.count_and_run(screen)).await {
            Ok(ended) => ended,
            Err(_) => watching.timed_out(limit, screen).await,
        },
    }
}

/// A running watch of several kinds.
struct Watching<'a> {
    arguments: &'a WatchArguments,
    cluster: &'a Cluster,
    mirrors: Vec<Mirror>,
    /// Closed while output is written.
    gate: Gate,
    filters: Vec<FieldFilter>,
    /// The filters, compiled for each kind.
    matchers: Vec<FieldMatchers>,
    /// The objects that do not meet `--for` yet.
    tracker: Option<Tracker>,
    printer: Printer,
    progress: Progress,
    reported: Vec<Reported>,
    sender: MirrorErrorSender,
    errors: MirrorErrors,
    started: Instant,
    /// When the server is asked for new kinds, because a definition changed.
    rediscover_at: Option<Instant>,
}

/// The errors reported for a kind.
#[derive(Default)]
struct Reported {
    refused: bool,
    /// Lists are allowed and watches are not: nothing more will come.
    watch_refused: bool,
    /// The last error since the last event.
    last_error: String,
}

type KindEvents = BoxStream<'static, (usize, Event<Value>)>;

impl Watching<'_> {
    /// The columns that the definition of a custom resource adds, if they are shown; `None` if the user may not read it.
    async fn defined_columns(&self, kind: &Kind) -> Option<DefinedColumns> {
        if !self.printer.is_by_kind() || !kind.is_custom() {
            return None;
        }
        let path = kind.definition_path().ok()?;
        let definition = request::get(self.cluster, &path, "application/json").await.ok()?;
        DefinedColumns::read(&definition, &kind.resource.version)
    }

    /// Starts to mirror one more kind.
    fn start(&mut self, selected: Selected, columns: Option<DefinedColumns>) -> Result<(), Failure> {
        let options = MirrorOptions {
            reads: Reads::Everything { managed_fields: self.arguments.output.show_managed_fields },
            show_secrets: self.arguments.output.show_secrets,
            gate: Some(&self.gate),
            ..MirrorOptions::default()
        };
        let (number, sender) = (self.mirrors.len(), self.sender.clone());
        self.printer.add_kind(&selected.kind, columns);
        let matchers = FieldFilter::compile(&self.filters, &selected.kind.resource.type_meta())?;
        let mirror = Mirror::start(self.cluster, selected, &self.arguments.select, &options, number, sender)?;
        self.mirrors.push(mirror);
        self.matchers.push(matchers);
        self.reported.push(Reported::default());
        Ok(())
    }

    /// The events of a kind.
    fn events(&self, number: usize) -> KindEvents {
        self.mirrors[number].informer.subscribe().map(move |event| (number, event)).boxed()
    }

    /// Starts to mirror kinds that the server did not have before. If discovery fails, the next change of a definition tries again.
    async fn rediscover(&mut self) -> Result<Vec<KindEvents>, Failure> {
        self.rediscover_at = None;
        let Ok(catalogue) = Catalogue::fetch(self.cluster).await else { return Ok(Vec::new()) };
        let Ok(selected) = catalogue.select(&self.arguments.wanted, VERBS) else { return Ok(Vec::new()) };
        let known = |one: &Selected| {
            self.mirrors.iter().any(|mirror| mirror.selected.kind.qualified() == one.kind.qualified())
        };
        let new = selected.into_iter().filter(|one| !known(one)).collect::<Vec<_>>();
        let mut events = Vec::new();
        for selected in new {
            let columns = self.defined_columns(&selected.kind).await;
            self.start(selected, columns)?;
            events.push(self.events(self.mirrors.len() - 1));
        }
        Ok(events)
    }

    /// The end of `--timeout`: an error only if `--for` is not met.
    async fn timed_out(&mut self, limit: Duration, screen: &mut Screen) -> Result<(), Failure> {
        self.print(screen).await?;
        match &self.tracker {
            None => Ok(()),
            Some(tracker) => Err(Failure::TimedOut(format!(
                "timed out after {limit:?} waiting for {}",
                tracker.describe(&self.mirrors)
            ))),
        }
    }

    /// Requests the totals for the progress bar, then runs. The time limit includes these requests.
    async fn count_and_run(&mut self, screen: &mut Screen) -> Result<(), Failure> {
        self.progress = Progress::new(self.cluster, &self.arguments.select, &self.mirrors, screen).await;
        self.run(screen).await
    }

    async fn run(&mut self, screen: &mut Screen) -> Result<(), Failure> {
        let mut events = select_all((0..self.mirrors.len()).map(|number| self.events(number)));
        let mut tick = tokio::time::interval(Duration::from_millis(100));
        tick.set_missed_tick_behavior(MissedTickBehavior::Skip);
        let mut look = tokio::time::interval(READER_CHECK);
        look.set_missed_tick_behavior(MissedTickBehavior::Skip);
        let mut taken = 0;
        loop {
            if taken >= BATCH_MAX || self.printer.is_full() {
                self.print(screen).await?;
                taken = 0;
                // Signals are awaited outside of this future, so it has to yield.
                tokio::task::yield_now().await;
            }
            if self.tracker.as_ref().is_some_and(Tracker::is_done) {
                return self.print(screen).await;
            }
            tokio::select! {
                biased;
                Some((number, report)) = self.errors.recv() => {
                    if let Err(failure) = self.report(number, &report, screen).await {
                        self.print_rest(number, &mut events, screen).await?;
                        return Err(failure);
                    }
                }
                event = events.next() => match event {
                    Some((number, event)) => {
                        taken += 1;
                        self.event(number, &event, screen).await?;
                    }
                    None => return Ok(()),
                },
                () = std::future::ready(()), if taken > 0 => {
                    self.print(screen).await?;
                    taken = 0;
                }
                () = until(self.rediscover_at) => events.extend(self.rediscover().await?),
                _ = look.tick() => if screen.reader_has_gone() {
                    return Err(Failure::ReaderGone);
                },
                _ = tick.tick(), if !self.progress.is_over() => {
                    self.progress.show(&self.mirrors, screen);
                    screen.flush().await?;
                }
            }
        }
    }

    /// Prints what was received before the last kind was refused.
    async fn print_rest(
        &mut self,
        number: usize,
        events: &mut SelectAll<KindEvents>,
        screen: &mut Screen,
    ) -> Result<(), Failure> {
        if self.reported[number].watch_refused {
            // Its list was read; it may not have been applied yet.
            let applied = self.mirrors[number].informer.synced();
            let _ = tokio::time::timeout(LAST_LIST_TIME_MAX, applied).await;
        }
        while let Some(Some((number, event))) = unconstrained(events.next()).now_or_never() {
            self.event(number, &event, screen).await?;
            if self.printer.is_full() {
                self.print(screen).await?;
            }
        }
        self.print(screen).await
    }

    /// Prints everything that was taken. Until it is written nothing further is read from the server.
    async fn print(&mut self, screen: &mut Screen) -> Result<(), Failure> {
        self.gate.close();
        // These events may be the last ones.
        self.progress.show(&self.mirrors, screen);
        self.printer.print(screen).await?;
        screen.flush().await?;
        self.gate.open();
        Ok(())
    }

    async fn event(
        &mut self,
        number: usize,
        event: &Event<Value>,
        screen: &mut Screen,
    ) -> Result<(), Failure> {
        let (object, deleted) = match event {
            Event::Synced => return self.synced(number, screen).await,
            Event::Added { object, .. } | Event::Updated { new: object, .. } => (object, false),
            Event::Deleted { last, .. } => (last, true),
        };
        self.reported[number].last_error.clear();
        let defines_kinds = self.mirrors[number].selected.kind.defines_kinds();
        if defines_kinds && self.arguments.wanted.is_everything() {
            self.rediscover_at.get_or_insert(Instant::now() + REDISCOVERY_WAIT);
        }
        if let Some(tracker) = &mut self.tracker {
            tracker.changed(number, object, deleted, &self.matchers[number])?;
        }
        let is_existing = matches!(event, Event::Added { origin: Origin::Initial, .. });
        if is_existing && self.arguments.events_only {
            return Ok(());
        }
        let Some((event_type, object, change)) = self.shown(number, event)? else { return Ok(()) };
        let types = &self.arguments.types;
        if !types.is_empty() && !types.contains(&event_type) {
            return Ok(());
        }
        let object = mirror::value_of(object, self.arguments.output.show_secrets);
        self.printer.add(number, &Happened { event_type, object, change, at: self.started.elapsed() });
        Ok(())
    }

    /// The event as `--field` shows it: an object that starts to match is added, one that stops to match is deleted.
    fn shown<'e>(
        &self,
        number: usize,
        event: &'e Event<Value>,
    ) -> Result<Option<(EventType, &'e Object<Value>, Option<String>)>, Failure> {
        Ok(match event {
            Event::Synced => None,
            Event::Added { object, .. } => {
                self.matchers[number].match_all(object)?.then_some((EventType::Added, object, None))
            }
            Event::Updated { old, new, origin } => {
                match (self.matchers[number].match_all(old)?, self.matchers[number].match_all(new)?) {
                    (true, true) => {
                        let relisted = *origin == Origin::Relist;
                        let event_type = if relisted { EventType::Relisted } else { EventType::Modified };
                        Some((event_type, new, Some(change(old, new))))
                    }
                    (false, true) => Some((EventType::Added, new, Some(change(old, new)))),
                    (true, false) => {
                        Some((EventType::Deleted, new, Some("no longer matches --field".to_owned())))
                    }
                    (false, false) => None,
                }
            }
            Event::Deleted { last, final_state_known, .. } => {
                self.matchers[number].match_all(last)?.then(|| {
                    let change = if *final_state_known { "" } else { "deleted while the watch was down" };
                    (EventType::Deleted, last, Some(change.to_owned()))
                })
            }
        })
    }

    async fn synced(&mut self, number: usize, screen: &mut Screen) -> Result<(), Failure> {
        let mirror = &self.mirrors[number];
        self.reported[number].refused = false;
        if let Some(tracker) = &mut self.tracker {
            let (select, fields) = (&self.arguments.select, &self.matchers[number]);
            tracker.synced(number, mirror, self.cluster, select, fields)?;
        }
        if mirror.informer.lister().count() == 0 && self.mirrors.len() == 1 {
            self.printer.print(screen).await?;
            screen.remark(&format!("waiting for {}: no objects yet", mirror.objects)).await?;
        }
        Ok(())
    }

    /// One broken kind does not end the others; the last one that is refused does.
    async fn report(
        &mut self,
        number: usize,
        report: &ErrorReport,
        screen: &mut Screen,
    ) -> Result<(), Failure> {
        let mirror = &self.mirrors[number];
        if mirror::is_lack_of_watch_lists(report) {
            return Ok(());
        }
        if let Some(refusal) = mirror.refusal(report) {
            self.reported[number].watch_refused |=
                matches!(report.error.reflector_error(), ReflectorError::Open(_));
            let repeated = std::mem::replace(&mut self.reported[number].refused, true);
            let none_is_left = self.reported.iter().zip(&self.mirrors).all(|(reported, mirror)| {
                reported.refused && (reported.watch_refused || !mirror.informer.is_synced())
            });
            if none_is_left {
                return Err(refusal);
            }
            return if repeated { Ok(()) } else { screen.remark(&refusal.to_string()).await };
        }
        let error = report.error.to_string();
        let text = format!("{}: {}", mirror.selected.kind.qualified(), escape::one_line(&error));
        if self.reported[number].last_error != text {
            screen.remark(&format!("{text}; {}", report.next())).await?;
            self.reported[number].last_error = text;
        }
        Ok(())
    }
}

/// Fails if a named object does not exist, as `kubectl get --watch` does. The watch reports any other error.
async fn check_exists(
    cluster: &Cluster,
    arguments: &WatchArguments,
    selected: &Selected,
) -> Result<(), Failure> {
    let Some(name) = selected.name.as_deref() else { return Ok(()) };
    let mut missing = None;
    for namespace in arguments.select.namespaces_of(cluster, selected) {
        if selected.kind.namespaced && namespace.is_none() {
            // With -A, an object in any namespace can appear.
            return Ok(());
        }
        let path = selected.kind.path(namespace, Some(name))?;
        let cannot = format!("cannot read {}", arguments.select.describe(cluster, selected));
        let object = request::get_bytes(cluster, &path, "application/json").await;
        match object.map_err(|error| error.failure(&cannot)) {
            Err(failure @ Failure::NotFound(_)) => missing = missing.or(Some(failure)),
            Ok(_) | Err(_) => return Ok(()),
        }
    }
    missing.map_or(Ok(()), Err)
}

/// The changed fields in one line.
fn change(old: &Object<Value>, new: &Object<Value>) -> String {
    match (old.decode(), new.decode()) {
        (Ok(old), Ok(new)) => changes::in_one_line(&old, &new),
        _ => String::new(),
    }
}

/// Waits until a moment; without one, forever.
async fn until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

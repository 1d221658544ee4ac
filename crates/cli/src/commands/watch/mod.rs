//! `kube-informer watch`: what happens to objects, as it happens.

mod printer;
mod progress;

use std::time::Duration;

use futures::stream::{BoxStream, SelectAll, select_all};
use futures::{FutureExt, StreamExt};
use kube_informer::building_blocks::{ErrorReport, ReflectorError};
use kube_informer::{Event, Origin};
use serde_json::Value;
use tokio::task::unconstrained;
use tokio::time::{Instant, MissedTickBehavior};

use crate::changes;
use crate::cluster::{Cluster, ClusterFlags};
use crate::discovery::{Catalogue, Selected, Wanted};
use crate::failure::Failure;
use crate::flags::{OutputFlags, SelectFlags};
use crate::mirror::{self, Mirror, MirrorErrorSender, MirrorErrors, MirrorOptions};
use crate::observed::Gate;
use crate::output::EventType;
use crate::signals;
use crate::terminal::{Screen, StatusOn, escape};
use printer::{Happened, Printer};
use progress::Progress;

/// How often it is looked whether anybody still reads: nothing may happen for a long time after `| head` has gone.
const READER_CHECK: Duration = Duration::from_millis(500);

/// Events that are taken before it is the turn of others: signals first of all.
const BATCH_MAX: usize = 1000;

/// What a kind must allow to be watched.
const VERBS: &[&str] = &["list", "watch"];

/// How long after a change of definitions kinds are looked up again: several often change together, and a new kind is
/// served a moment after its definition shows.
const REDISCOVERY_WAIT: Duration = Duration::from_secs(1);

/// How long a list that was read may take to be applied before the program ends.
const LAST_LIST_TIME_MAX: Duration = Duration::from_secs(5);

/// What to watch.
#[derive(clap::Args)]
pub(crate) struct WatchArguments {
    #[command(flatten)]
    wanted: Wanted,
    /// Only what happens from now on, not what is there already.
    #[arg(long)]
    events_only: bool,
    /// When it happened, in seconds since the start, as the first column.
    #[arg(long)]
    since_start: bool,
    #[command(flatten)]
    select: SelectFlags,
    #[command(flatten)]
    output: OutputFlags,
    #[command(flatten)]
    cluster: ClusterFlags,
}

pub(crate) async fn run(arguments: WatchArguments) -> Result<(), Failure> {
    let mut signals = signals::listen()?;
    let mut screen = Screen::new(arguments.output.color, StatusOn::Stderr);
    tokio::select! {
        biased;
        _ = signals.next() => Ok(()),
        ended = watch(&arguments, &mut screen) => ended,
    }
}

async fn watch(arguments: &WatchArguments, screen: &mut Screen) -> Result<(), Failure> {
    let cluster = Cluster::connect(&arguments.cluster).await?;
    let catalogue = Catalogue::fetch(&cluster).await?;
    let selected = catalogue.select(&arguments.wanted, VERBS)?;
    let (sender, errors) = mirror::errors();
    let mut watching = Watching {
        arguments,
        cluster: &cluster,
        mirrors: Vec::new(),
        gate: Gate::new(),
        printer: Printer::new(&arguments.select, &arguments.output, arguments.since_start),
        progress: Progress::none(),
        reported: Vec::new(),
        sender,
        errors,
        started: Instant::now(),
        rediscover_at: None,
    };
    for selected in selected {
        watching.start(selected)?;
    }
    watching.progress = Progress::new(&cluster, &arguments.select, &watching.mirrors, screen).await;
    watching.run(screen).await
}

/// A running watch of several kinds.
struct Watching<'a> {
    arguments: &'a WatchArguments,
    cluster: &'a Cluster,
    mirrors: Vec<Mirror>,
    /// Closed while output is written.
    gate: Gate,
    printer: Printer,
    progress: Progress,
    reported: Vec<Reported>,
    sender: MirrorErrorSender,
    errors: MirrorErrors,
    started: Instant,
    /// When the server is asked for new kinds, because a definition changed.
    rediscover_at: Option<Instant>,
}

/// What was told of a kind besides its events.
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
    /// Starts to mirror one more kind.
    fn start(&mut self, selected: Selected) -> Result<(), Failure> {
        let options = MirrorOptions {
            managed_fields: self.arguments.output.show_managed_fields,
            show_secrets: self.arguments.output.show_secrets,
            gate: Some(&self.gate),
            ..MirrorOptions::default()
        };
        let (number, sender) = (self.mirrors.len(), self.sender.clone());
        self.printer.add_kind(&selected.kind);
        let mirror = Mirror::start(self.cluster, selected, &self.arguments.select, &options, number, sender)?;
        self.mirrors.push(mirror);
        self.reported.push(Reported::default());
        Ok(())
    }

    /// The events of a kind.
    fn events(&self, number: usize) -> KindEvents {
        self.mirrors[number].informer.subscribe().map(move |event| (number, event)).boxed()
    }

    /// Starts to mirror kinds that the server did not have before. One that cannot be asked is asked again when a
    /// definition changes the next time.
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
            self.start(selected)?;
            events.push(self.events(self.mirrors.len() - 1));
        }
        Ok(events)
    }

    async fn run(mut self, screen: &mut Screen) -> Result<(), Failure> {
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
                // The signals are waited for outside of this future: it must pause for them to be seen.
                tokio::task::yield_now().await;
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
        // What is about to be printed may be all of it.
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
        let show_secrets = self.arguments.output.show_secrets;
        let (event_type, object, change) = match event {
            Event::Synced => return self.synced(number, screen).await,
            Event::Added { object, origin } => {
                if *origin == Origin::Initial && self.arguments.events_only {
                    return Ok(());
                }
                (EventType::Added, object, None)
            }
            Event::Updated { old, new, origin } => {
                let event_type =
                    if *origin == Origin::Relist { EventType::Relisted } else { EventType::Modified };
                let change = match (old.decode(), new.decode()) {
                    (Ok(old), Ok(new)) => changes::in_one_line(&old, &new),
                    _ => String::new(),
                };
                (event_type, new, Some(change))
            }
            Event::Deleted { last, final_state_known, .. } => {
                let change = if *final_state_known { "" } else { "vanished while nobody watched" };
                (EventType::Deleted, last, Some(change.to_owned()))
            }
        };
        self.reported[number].last_error.clear();
        let defines_kinds = self.mirrors[number].selected.kind.defines_kinds();
        if defines_kinds && self.arguments.wanted.is_everything() {
            self.rediscover_at.get_or_insert(Instant::now() + REDISCOVERY_WAIT);
        }
        let object = mirror::value_of(object, show_secrets);
        self.printer.add(number, Happened { event_type, object, change, at: self.started.elapsed() })
    }

    async fn synced(&mut self, number: usize, screen: &mut Screen) -> Result<(), Failure> {
        let mirror = &self.mirrors[number];
        self.reported[number].refused = false;
        if mirror.informer.lister().count() == 0 && self.mirrors.len() == 1 {
            self.printer.print(screen).await?;
            screen.remark(&format!("{}: no objects yet", mirror.asked)).await?;
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
            self.reported[number].watch_refused |= matches!(*report.error, ReflectorError::Open(_));
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
            screen.remark(&format!("{text}; {}", report.next)).await?;
            self.reported[number].last_error = text;
        }
        Ok(())
    }
}

/// Waits until a moment, or endlessly without one.
async fn until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

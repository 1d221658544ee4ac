//! `kube-informer watch`: what happens to objects, as it happens.

mod printer;
mod progress;

use std::time::Duration;

use futures::StreamExt;
use futures::stream::{BoxStream, select_all};
use kube_informer::reflector::Trouble;
use kube_informer::{Event, Origin};
use serde_json::Value;
use tokio::time::{Instant, MissedTickBehavior};

use crate::changes;
use crate::cluster::{Cluster, ClusterFlags};
use crate::discovery::{Catalogue, Wanted};
use crate::failure::Failure;
use crate::flags::{OutputFlags, SelectFlags};
use crate::mirror::{self, Mirror, MirrorOptions, Troubles};
use crate::observed::Gate;
use crate::output::EventType;
use crate::signals::Signals;
use crate::terminal::{Screen, StatusOn, escape};
use printer::{Happened, Printer};
use progress::Progress;

/// How often it is looked whether anybody still reads: nothing may happen for a long time after `| head` has gone.
const READER_CHECK: Duration = Duration::from_millis(500);

/// Events that are taken before it is the turn of others: signals first of all.
const BATCH_MAX: usize = 1000;

/// What to watch.
#[derive(clap::Args)]
pub(crate) struct Arguments {
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

pub(crate) async fn run(arguments: Arguments) -> Result<(), Failure> {
    let mut signals = Signals::listen()?;
    let mut screen = Screen::new(arguments.output.color, StatusOn::Stderr);
    tokio::select! {
        biased;
        () = signals.next() => Ok(()),
        ended = watch(&arguments, &mut screen) => ended,
    }
}

async fn watch(arguments: &Arguments, screen: &mut Screen) -> Result<(), Failure> {
    let cluster = Cluster::connect(&arguments.cluster).await?;
    let catalogue = Catalogue::fetch(&cluster).await?;
    let selected = catalogue.select(&arguments.wanted, &["list", "watch"])?;
    let (sender, troubles) = mirror::troubles();
    let gate = Gate::new();
    let options = MirrorOptions {
        managed_fields: arguments.output.show_managed_fields,
        show_secrets: arguments.output.show_secrets,
        gate: Some(&gate),
        ..MirrorOptions::default()
    };
    let mut mirrors = Vec::new();
    for (number, selected) in selected.into_iter().enumerate() {
        let mirror = Mirror::start(&cluster, selected, &arguments.select, &options, number, sender.clone())?;
        mirrors.push(mirror);
    }
    let progress = Progress::new(&cluster, &arguments.select, &mirrors, screen).await;
    let printer = Printer::new(&mirrors, &arguments.select, &arguments.output, arguments.since_start);
    let told = mirrors.iter().map(|_| Told::default()).collect();
    let watching =
        Watching { arguments, mirrors, gate, printer, progress, told, troubles, started: Instant::now() };
    watching.run(screen).await
}

/// A running watch of several kinds.
struct Watching<'a> {
    arguments: &'a Arguments,
    mirrors: Vec<Mirror>,
    /// Closed while output is written.
    gate: Gate,
    printer: Printer,
    progress: Progress,
    told: Vec<Told>,
    troubles: Troubles,
    started: Instant,
}

/// What was told of a kind besides its events.
#[derive(Default)]
struct Told {
    refused: bool,
    /// The last trouble since the last event.
    trouble: String,
}

type Events = BoxStream<'static, (usize, Event<Value>)>;

impl Watching<'_> {
    async fn run(mut self, screen: &mut Screen) -> Result<(), Failure> {
        let streams = self.mirrors.iter().enumerate();
        let streams = streams.map(|(number, mirror)| -> Events {
            mirror.informer.subscribe().map(move |event| (number, event)).boxed()
        });
        let mut events = select_all(streams.collect::<Vec<_>>());
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
                Some((number, trouble)) = self.troubles.recv() => self.trouble(number, &trouble, screen).await?,
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
        self.told[number].trouble.clear();
        let object = mirror::value_of(object, show_secrets);
        self.printer.add(number, Happened { event_type, object, change, at: self.started.elapsed() })
    }

    async fn synced(&mut self, number: usize, screen: &mut Screen) -> Result<(), Failure> {
        let mirror = &self.mirrors[number];
        self.told[number].refused = false;
        if mirror.informer.lister().count() == 0 && self.mirrors.len() == 1 {
            self.printer.print(screen).await?;
            screen.remark(&format!("{}: no objects yet", mirror.asked)).await?;
        }
        Ok(())
    }

    /// One broken kind does not end the others; the last one that is refused does.
    async fn trouble(
        &mut self,
        number: usize,
        trouble: &Trouble,
        screen: &mut Screen,
    ) -> Result<(), Failure> {
        let mirror = &self.mirrors[number];
        if let Some(refusal) = mirror.refusal(trouble) {
            if std::mem::replace(&mut self.told[number].refused, true) {
                return Ok(());
            }
            let none_is_left = self
                .told
                .iter()
                .zip(&self.mirrors)
                .all(|(told, mirror)| told.refused && !mirror.informer.is_synced());
            if none_is_left {
                return Err(refusal);
            }
            return screen.remark(&refusal.to_string()).await;
        }
        let error = trouble.error.to_string();
        let text = format!("{}: {}", mirror.selected.kind.qualified(), escape::one_line(&error));
        if self.told[number].trouble != text {
            screen.remark(&format!("{text}; {}", trouble.next)).await?;
            self.told[number].trouble = text;
        }
        Ok(())
    }
}

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
use crate::output::EventType;
use crate::signals::Signals;
use crate::terminal::{Screen, StatusOn};
use printer::{Happened, Printer};
use progress::Progress;

/// How often it is looked whether anybody still reads: nothing may happen for a long time after `| head` has gone.
const READER_CHECK: Duration = Duration::from_millis(500);

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
    let options =
        MirrorOptions { managed_fields: arguments.output.show_managed_fields, ..MirrorOptions::default() };
    let mut mirrors = Vec::new();
    for (number, selected) in selected.into_iter().enumerate() {
        let mirror = Mirror::start(&cluster, selected, &arguments.select, &options, number, sender.clone())?;
        mirrors.push(mirror);
    }
    let progress = Progress::new(&cluster, &arguments.select, &mirrors, screen).await;
    let printer = Printer::new(&mirrors, &arguments.select, &arguments.output, arguments.since_start);
    let told = mirrors.iter().map(|_| Told::default()).collect();
    let watching =
        Watching { arguments, mirrors, printer, progress, told, troubles, started: Instant::now() };
    watching.run(screen).await
}

/// A running watch of several kinds.
struct Watching<'a> {
    arguments: &'a Arguments,
    mirrors: Vec<Mirror>,
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
        let mut printed = false;
        loop {
            tokio::select! {
                biased;
                Some((number, trouble)) = self.troubles.recv() => self.trouble(number, &trouble, screen)?,
                // However many events there are, Ctrl-C gets its turn.
                () = tokio::task::yield_now(), if self.printer.is_full() => self.printer.print(screen)?,
                event = events.next() => match event {
                    Some((number, event)) => {
                        printed = true;
                        self.event(number, &event, screen)?;
                    }
                    None => return Ok(()),
                },
                () = std::future::ready(()), if printed => {
                    // What is about to be printed may be all of it.
                    self.progress.show(&self.mirrors, screen);
                    self.printer.print(screen)?;
                    screen.flush()?;
                    printed = false;
                }
                _ = look.tick() => if screen.reader_has_gone() {
                    return Err(Failure::ReaderGone);
                },
                _ = tick.tick(), if !self.progress.is_over() => self.progress.show(&self.mirrors, screen),
            }
        }
    }

    fn event(&mut self, number: usize, event: &Event<Value>, screen: &mut Screen) -> Result<(), Failure> {
        let show_secrets = self.arguments.output.show_secrets;
        let (event_type, object, change) = match event {
            Event::Synced => return self.synced(number, screen),
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

    fn synced(&mut self, number: usize, screen: &mut Screen) -> Result<(), Failure> {
        let mirror = &self.mirrors[number];
        self.told[number].refused = false;
        if mirror.informer.lister().count() == 0 && self.mirrors.len() == 1 {
            self.printer.print(screen)?;
            screen.remark(&format!("{}: there are none yet", mirror.asked));
        }
        Ok(())
    }

    /// One broken kind does not end the others; the last one that is refused does.
    fn trouble(&mut self, number: usize, trouble: &Trouble, screen: &mut Screen) -> Result<(), Failure> {
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
            screen.remark(&refusal.to_string());
            return Ok(());
        }
        let text = format!("{}: {}", mirror.selected.kind.qualified(), trouble.error);
        if self.told[number].trouble != text {
            screen.remark(&format!("{text}; {}", trouble.next));
            self.told[number].trouble = text;
        }
        Ok(())
    }
}

//! What is measured: the scenarios, who takes part, and how one is run.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::figures::{self, Printed, Repeated};
use super::paper::{Better, Column, Form, Table};
use super::programs::Programs;
use super::servers::Server;
use super::subject::Subject::{self, ClientGo, ClientGoJson, Floor, KubeRs, KubeRsStreaming, Ours, OursJson};
use super::{Outcome, Section, Size, plot};
use crate::bench_queue;

/// Who takes longer is not asked again: the table shows one figure without a spread.
const ONCE_IS_ENOUGH: Duration = Duration::from_secs(20);

/// Something that all subjects do.
pub(super) struct Scenario {
    name: String,
    title: String,
    work: Work,
    repetitions: usize,
    subjects: &'static [Subject],
    columns: &'static [Column],
}

enum Work {
    /// The first state of so many pods, and what the options ask for besides.
    Pods { count: u64, options: Vec<String>, relist: bool },
    /// So many changes of pods, as fast as they are taken or so many a second.
    Changes { count: u64, changes: u64, rate: Option<u64> },
    /// An informer for each of so many namespaces.
    Start { count: u64, namespaces: u64 },
    /// The work queues, which have programs of their own.
    Queue,
}

const SYNC: &[Column] = &[
    Column::new("wall", "wall", Form::Seconds, Better::Less),
    Column::new("cpu", "client CPU", Form::Seconds, Better::Less),
    Column::new("peak", "peak memory", Form::Bytes, Better::Less),
    Column::new("steady", "memory afterwards", Form::Bytes, Better::Less),
];
const RELIST: &[Column] = &[
    SYNC[0],
    SYNC[1],
    SYNC[2],
    SYNC[3],
    Column::new("relist cpu", "relist, client CPU", Form::Seconds, Better::Less),
    Column::new("relist peak", "relist, peak memory", Form::Bytes, Better::Less),
];
const START: &[Column] = &[SYNC[0], SYNC[1], SYNC[2]];
const IDLE: &[Column] =
    &[Column::new("idle cpu", "CPU a minute", Form::Milliseconds, Better::Less), SYNC[1], SYNC[3]];
const READS: &[Column] = &[
    Column::new("get", "get", Form::Nanoseconds, Better::Less),
    Column::new("get, value, cold", "get and decode, first time", Form::Nanoseconds, Better::Less),
    Column::new("get, value, hot", "again", Form::Nanoseconds, Better::Less),
    Column::new("by index", "the pods of a node", Form::Nanoseconds, Better::Less),
    Column::new("list, an object", "list, a pod", Form::Nanoseconds, Better::Less),
    Column::new("list, value, an object", "list and decode, a pod", Form::Nanoseconds, Better::Less),
];
const CHANGES: &[Column] = &[
    Column::new("cpu a change", "client CPU a change", Form::Microseconds, Better::Less),
    Column::new("changes a second", "changes a second", Form::Rate, Better::More),
    SYNC[2],
];
const PACED: &[Column] = &[
    CHANGES[0],
    Column::new("late, median", "late, median", Form::Milliseconds, Better::Less),
    Column::new("late, 99 of 100", "99 of 100", Form::Milliseconds, Better::Less),
    Column::new("late, 999 of 1000", "999 of 1,000", Form::Milliseconds, Better::Less),
];

/// The scenarios of a run, in order.
pub(super) fn all(size: Size) -> Vec<Scenario> {
    const EVERYBODY: &[Subject] = &Subject::ALL;
    const THREE: &[Subject] = &[Ours, ClientGo, KubeRs];
    const FOLLOWING: &[Subject] = &[Ours, OursJson, ClientGo, ClientGoJson, KubeRsStreaming, Floor];
    let smoke = size == Size::Smoke;
    let sync = |count: u64, columns, subjects, repetitions| {
        let relist = columns == RELIST;
        let options = if relist { vec!["--relist".to_owned()] } else { Vec::new() };
        let title =
            format!("First state of {} pods{}", grouped(count), if relist { ", and a relist" } else { "" });
        let work = Work::Pods { count, options, relist };
        Scenario { name: format!("sync-{count}"), title, work, repetitions, subjects, columns }
    };
    let pods = |name: &str, title: String, count: u64, options: &[&str], columns, repetitions| {
        let options = options.iter().map(|&option| option.to_owned()).collect();
        let work = Work::Pods { count, options, relist: false };
        Scenario { name: name.to_owned(), title, work, repetitions, subjects: THREE, columns }
    };
    let changes = |count, changes, rate: Option<u64>, repetitions| Scenario {
        name: rate.map_or_else(|| "watch".to_owned(), |rate| format!("watch-{rate}")),
        title: match rate {
            None => {
                format!("{} changes of {} pods, as fast as they are taken", grouped(changes), grouped(count))
            }
            Some(rate) => format!("{} changes a second of {} pods", grouped(rate), grouped(count)),
        },
        work: Work::Changes { count, changes, rate },
        repetitions,
        subjects: FOLLOWING,
        columns: if rate.is_some() { PACED } else { CHANGES },
    };
    let start = |count, namespaces, repetitions| Scenario {
        name: "start".to_owned(),
        title: format!("{namespaces} informers at once, {} pods in all", grouped(count)),
        work: Work::Start { count, namespaces },
        repetitions,
        subjects: THREE,
        columns: START,
    };
    let queue = Scenario {
        name: "queue".to_owned(),
        title: "The work queue".to_owned(),
        work: Work::Queue,
        repetitions: 1,
        subjects: &[],
        columns: &[],
    };
    if smoke {
        return vec![
            sync(300, SYNC, EVERYBODY, 1),
            sync(301, RELIST, EVERYBODY, 1),
            pods("reads", "Reads, 500 pods".to_owned(), 500, &["--reads"], READS, 1),
            pods("idle", "Idle with 500 pods".to_owned(), 500, &["--idle", "1"], IDLE, 1),
            changes(100, 2_000, None, 1),
            changes(100, 500, Some(1_000), 1),
            start(200, 50, 1),
        ];
    }
    let mut scenarios = vec![
        sync(10_000, SYNC, EVERYBODY, 5),
        sync(50_000, RELIST, EVERYBODY, 2),
        pods("reads", "Reads, 10,000 pods, 20 a node".to_owned(), 10_000, &["--reads"], READS, 3),
        pods("idle", "Idle with 100,000 pods".to_owned(), 100_000, &["--idle", "20"], IDLE, 1),
        changes(10_000, 100_000, None, 3),
        changes(10_000, 10_000, Some(2_000), 3),
        start(10_000, 50, 3),
        queue,
    ];
    if size == Size::Long {
        const LARGE: &[Subject] = &[Ours, OursJson, ClientGo, KubeRsStreaming, Floor];
        scenarios.insert(2, sync(200_000, SYNC, LARGE, 2));
    }
    scenarios
}

impl Scenario {
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn title(&self) -> &str {
        &self.title
    }

    /// Whether it can be run on a real kube-apiserver: one that is not asked for what only ours can do.
    pub(super) fn works_on_real(&self) -> bool {
        matches!(self.work, Work::Pods { relist: false, .. } | Work::Start { .. })
    }

    /// Runs it: all subjects in turn, as often as it says, against one server.
    pub(super) fn run(&self, programs: &Programs) -> Outcome<Section> {
        let mut server = match self.work {
            Work::Pods { count, .. } | Work::Start { count, .. } => Server::of_pods(programs, count)?,
            Work::Changes { count, changes, rate } => Server::of_changes(programs, count, changes, rate)?,
            Work::Queue => {
                let table = bench_queue::run(None)?;
                let text = format!("### {}\n\n```text\n{table}```\n", self.title);
                return Ok(Section { name: self.name.clone(), text, plot: None });
            }
        };
        let mut results: Vec<(Subject, Repeated)> =
            self.subjects.iter().map(|&subject| (subject, Repeated::default())).collect();
        let mut slow = Vec::new();
        for _ in 0..self.repetitions {
            let mut state = None;
            for (subject, repeated) in &mut results {
                if slow.contains(subject) {
                    continue;
                }
                let began = Instant::now();
                let printed = self.measure(*subject, programs, &mut server)?;
                if began.elapsed() > ONCE_IS_ENOUGH {
                    slow.push(*subject);
                }
                self.compare(*subject, &printed, &mut state)?;
                repeated.add(&printed);
            }
        }
        let table = Table { columns: self.columns, results: &results };
        let text = format!("### {}\n\n{}", self.title, table.text());
        Ok(Section { name: self.name.clone(), text, plot: plot::bars(&self.title, &table) })
    }

    fn measure(&self, subject: Subject, programs: &Programs, server: &mut Server) -> Outcome<Printed> {
        let ask = |subcommand| subject.command(programs, subcommand, server.kubeconfig());
        match &self.work {
            Work::Pods { .. } if subject == Floor => figures::of(&mut ask("floor")),
            Work::Pods { relist: true, options, .. } => with_relist(ask("informer").args(options), server),
            Work::Pods { options, .. } => figures::of(ask("informer").args(options)),
            Work::Changes { count, changes, .. } if subject == Floor => {
                let numbers = [changes.to_string(), count.to_string()];
                figures::of(ask("floor").args(["--watch", &numbers[0], "--objects", &numbers[1]]))
            }
            Work::Changes { changes, .. } => {
                figures::of(ask("watch").args(["--changes", &changes.to_string()]))
            }
            Work::Start { namespaces, .. } => {
                figures::of(ask("start").args(["--namespaces", &namespaces.to_string()]))
            }
            Work::Queue => Ok(Printed::new()),
        }
    }

    /// Everybody holds the same objects: in versions, too, where all have seen the same.
    fn compare(&self, subject: Subject, printed: &Printed, first: &mut Option<Printed>) -> Outcome {
        if subject == Floor {
            return Ok(());
        }
        let Some(first) = first else {
            *first = Some(printed.clone());
            return Ok(());
        };
        // A replay numbers its changes anew for everybody, and after a relist the next one sees another state.
        let versions = matches!(self.work, Work::Pods { relist: false, .. });
        let number = |printed: &Printed| printed.get("objects").and_then(|value| value.parse::<f64>().ok());
        let same = number(first) == number(printed)
            && (!versions || first.get("checksum") == printed.get("checksum"));
        if same {
            Ok(())
        } else {
            Err(format!("{subject:?} holds other objects: {first:?} {printed:?}").into())
        }
    }
}

/// Runs a program that says when it waits for a relist.
fn with_relist(command: &mut Command, server: &mut Server) -> Outcome<Printed> {
    let mut child =
        command.stdout(Stdio::piped()).spawn().map_err(|error| format!("{command:?}: {error}"))?;
    let mut output = BufReader::new(child.stdout.take().ok_or("no output")?);
    let mut text = String::new();
    while output.read_line(&mut text)? > 0 {
        if text.lines().next_back().is_some_and(|line| line.starts_with("waiting\t")) {
            server.relist()?;
            output.read_to_string(&mut text)?;
        }
    }
    match child.wait()? {
        status if status.success() => figures::parse(&text),
        status => Err(format!("{command:?} failed ({status})").into()),
    }
}

/// A number with commas.
fn grouped(number: u64) -> String {
    match number {
        0..1_000 => number.to_string(),
        _ => format!("{},{:03}", grouped(number / 1_000), number % 1_000),
    }
}

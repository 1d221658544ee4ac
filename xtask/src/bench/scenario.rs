//! Runs a scenario: all subjects take turns against one server, for the scenario's number of repetitions. It also
//! writes the notes about subjects that did less work than the others.

use std::process::Command;
use std::time::{Duration, Instant};

use super::figures::{self, Printed, Repeated};
use super::load::Load;
use super::paper::{Column, Table};
use super::programs::Programs;
use super::servers::Server;
use super::subject::Subject::{self, ClientGoJson, Floor, Get, Kubectl, Ours};
use super::{Outcome, Section, grouped, machine, plot, process, shards};
use crate::bench_queue;

/// A subject that takes longer runs once: the table shows one figure without a spread.
const ONCE_IS_ENOUGH: Duration = Duration::from_secs(20);
/// A subject that takes ten times as long as the others gets this fraction of the changes at full speed.
const SLOW_PART: u64 = 4;
/// A subject that reaches less than this share of a rate falls behind; its lag grows with the length of the run.
const KEEPING_UP: f64 = 0.95;

/// `get` that needs no whole object takes at most this multiple of the CPU time and memory of the library's sync.
const PROGRAM_MAX: f64 = 1.5;
/// `get -o json` may take this much memory in addition: one decoded object, its text, and a page of the list in JSON.
const JSON_BYTES_EXTRA: f64 = 8e6;
/// Below this number of objects, starting the program dominates its figures.
const PROGRAM_OBJECTS_MIN: u64 = 10_000;

/// The rate of writes to a real server, as the writer reports it.
const WRITTEN: &str = "writes per second";

/// Something that all subjects do.
pub(super) struct Scenario {
    pub(super) name: String,
    pub(super) title: String,
    pub(super) work: Work,
    pub(super) repetitions: usize,
    pub(super) subjects: &'static [Subject],
    pub(super) columns: &'static [Column],
}

pub(super) enum Work {
    /// The initial list of `count` objects, and the additional work that the options request.
    FirstState { load: Load, count: u64, options: Vec<String>, relist: bool },
    /// Changes to pods from a replay, at full speed or at a rate per second.
    Changes { count: u64, changes: u64, rate: Option<u64> },
    /// The same, with a program that writes the pods of a real server.
    Written { count: u64, changes: u64, rate: u64 },
    /// One informer per namespace.
    Start { count: u64, namespaces: u64 },
    /// `kube-informer get` and `kubectl get` with these arguments, next to the library's sync of the same pods.
    Get { count: u64, arguments: &'static [&'static str], kubectl: &'static [&'static str] },
    /// The work queues, which have programs of their own.
    Queue,
    /// A controller of so many pods, with one replica and with several that share the work.
    Shards { count: u64 },
}

impl Scenario {
    /// Runs it.
    pub(super) fn run(&self, programs: &Programs) -> Outcome<Section> {
        let mut server = match self.work {
            Work::FirstState { load, count, .. } => Server::of(programs, load, count)?,
            Work::Start { count, .. } | Work::Written { count, .. } | Work::Get { count, .. } => {
                Server::of(programs, Load::Pods, count)?
            }
            Work::Changes { count, changes, rate } => Server::of_changes(programs, count, changes, rate)?,
            Work::Shards { count } => {
                let text = format!("### {}\n\n{}", self.title, shards::run(programs, count)?);
                return Ok(Section { name: self.name.clone(), text, plot: None });
            }
            Work::Queue => {
                let table = bench_queue::run(None)?;
                let text = format!("### {}\n\n```text\n{table}```\n", self.title);
                return Ok(Section { name: self.name.clone(), text, plot: None });
            }
        };
        let mut results: Vec<(Subject, Repeated)> = Vec::new();
        let mut notes = Vec::new();
        for &subject in self.subjects {
            if subject == Kubectl && programs.kubectl.is_none() {
                notes.push(
                    "kubectl get: skipped; `cargo xtask conformance --build-only` builds kubectl.".to_owned(),
                );
                continue;
            }
            match self.too_large(subject, machine::available()) {
                Some(why) => notes.push(why),
                None => results.push((subject, Repeated::default())),
            }
        }
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
        notes.extend(self.server_was_slow(&results));
        notes.extend(results.iter_mut().filter_map(|(subject, figures)| self.did_less(*subject, figures)));
        notes.extend(self.next_to_library(&results)?);
        notes.extend(self.selected_by_server(&results));
        let table = Table { columns: self.columns, results: &results };
        let mut text = format!("### {}\n\n{}", self.title, table.text());
        for note in notes {
            text += &format!("\n{note}\n");
        }
        Ok(Section { name: self.name.clone(), text, plot: plot::bars(&self.title, &table) })
    }

    /// Why a subject is skipped: its initial list would not fit into the available memory. The machine would swap, or
    /// kill a process, possibly an unrelated one.
    fn too_large(&self, subject: Subject, available: u64) -> Option<String> {
        let (Work::FirstState { count, .. } | Work::Start { count, .. } | Work::Get { count, .. }) =
            self.work
        else {
            return None;
        };
        let needed = count * subject.object_bytes_max();
        (needed > available).then(|| {
            let (needed, free) = (needed.div_ceil(1 << 30), available >> 30);
            format!(
                "{}: skipped, because it needs about {needed} GiB and {free} GiB were free.",
                subject.label()
            )
        })
    }

    /// Whether a subject relists: it then holds every object twice.
    fn relists(&self, subject: Subject, available: u64) -> bool {
        matches!(self.work, Work::FirstState { count, relist: true, .. } if 2 * count * subject.object_bytes_max() <= available)
    }

    /// The number of changes that a subject gets.
    fn changes_of(&self, subject: Subject, changes: u64) -> u64 {
        let slow = subject == ClientGoJson && matches!(self.work, Work::Changes { rate: None, .. });
        if slow { changes / SLOW_PART } else { changes }
    }

    /// The note about a subject that was not measured like the others. A lag that keeps growing is not reported.
    fn did_less(&self, subject: Subject, figures: &mut Repeated) -> Option<String> {
        match self.work {
            Work::FirstState { count, relist: true, .. }
                if subject != Floor && figures.median("relist cpu").is_none() =>
            {
                let needed = (2 * count * subject.object_bytes_max()).div_ceil(1 << 30);
                Some(format!("{}: no relist, because it would need about {needed} GiB.", subject.label()))
            }
            Work::Changes { changes, rate: None, .. } if self.changes_of(subject, changes) < changes => {
                let fewer = grouped(self.changes_of(subject, changes));
                Some(format!("{}: only {fewer} changes, because it is slow.", subject.label()))
            }
            Work::Changes { rate: Some(rate), .. } | Work::Written { rate, .. } => {
                let reached = figures.median("changes per second")?;
                let sent = figures.median(WRITTEN).unwrap_or(rate as f64);
                (reached < sent * KEEPING_UP).then(|| {
                    figures.forget("lag ");
                    let reached = grouped(reached as u64);
                    format!("{} does not keep up: {reached} changes per second.", subject.label())
                })
            }
            _ => None,
        }
    }

    /// The note about a real server that did not accept writes at the full rate.
    fn server_was_slow(&self, results: &[(Subject, Repeated)]) -> Option<String> {
        let Work::Written { rate, .. } = self.work else { return None };
        let written =
            results.iter().filter_map(|(_, figures)| figures.median(WRITTEN)).fold(f64::INFINITY, f64::min);
        (written < rate as f64 * KEEPING_UP).then(|| {
            format!("At times the server accepted only {} writes per second.", grouped(written as u64))
        })
    }

    /// The note that compares `get` with the library's sync of the same objects.
    ///
    /// # Errors
    /// Returns an error if a `get` that reads fields only takes more CPU time or memory than its limit, or if `-o json`
    /// takes more memory: it holds the packed list and one decoded object at a time, however long the list is.
    fn next_to_library(&self, results: &[(Subject, Repeated)]) -> Outcome<Option<String>> {
        let Work::Get { count, arguments, .. } = self.work else { return Ok(None) };
        let of = |wanted: Subject, figure| {
            results.iter().find(|(subject, _)| *subject == wanted).and_then(|(_, found)| found.median(figure))
        };
        let ratio = |figure| Some(of(Get, figure)? / of(Ours, figure)?);
        let (Some(cpu), Some(peak)) = (ratio("cpu"), ratio("peak")) else { return Ok(None) };
        let note = format!(
            "kube-informer get: {cpu:.2} times the CPU time and {peak:.2} times the peak memory of the library's initial list."
        );
        if count < PROGRAM_OBJECTS_MIN {
            return Ok(Some(note));
        }
        if arguments.contains(&"name") && cpu.max(peak) > PROGRAM_MAX {
            return Err(format!("{note} At most {PROGRAM_MAX} times are allowed.").into());
        }
        let json_peak_max = of(Ours, "peak").map(|peak| peak * PROGRAM_MAX + JSON_BYTES_EXTRA);
        if arguments.contains(&"json") && of(Get, "peak") > json_peak_max {
            let extra = JSON_BYTES_EXTRA / 1e6;
            return Err(format!(
                "{note} At most {PROGRAM_MAX} times the peak memory and {extra} MB are allowed."
            )
            .into());
        }
        Ok(Some(note))
    }

    /// The note about kubectl if it does less work, because the server selects the objects.
    fn selected_by_server(&self, results: &[(Subject, Repeated)]) -> Option<String> {
        let Work::Get { kubectl, .. } = self.work else { return None };
        let is_measured = results.iter().any(|(subject, _)| *subject == Kubectl);
        (is_measured && kubectl.contains(&"--field-selector")).then(|| {
            let arguments = kubectl.join(" ");
            format!(
                "kubectl: `get {arguments}`. The server selects, so kubectl receives the selected pods only."
            )
        })
    }

    fn measure(&self, subject: Subject, programs: &Programs, server: &mut Server) -> Outcome<Printed> {
        let ask = |subcommand| subject.command(programs, subcommand, server.kubeconfig());
        match &self.work {
            Work::FirstState { load, .. } if subject == Floor => {
                figures::of(ask("floor").args(load.options()))
            }
            Work::FirstState { load, options, .. } if self.relists(subject, machine::available()) => {
                let mut command = ask("informer");
                command.args(load.options()).args(options).arg("--relist");
                figures::of_waiting(&mut command, || server.relist())
            }
            Work::FirstState { load, options, .. } => {
                figures::of(ask("informer").args(load.options()).args(options))
            }
            Work::Changes { count, changes, .. } if subject == Floor => {
                let numbers = [changes.to_string(), count.to_string()];
                figures::of(ask("floor").args(["--watch", &numbers[0], "--objects", &numbers[1]]))
            }
            Work::Changes { changes, .. } => {
                let changes = self.changes_of(subject, *changes).to_string();
                figures::of(ask("watch").args(["--changes", &changes]))
            }
            Work::Written { changes, rate, .. } => {
                let numbers = [changes.to_string(), rate.to_string()];
                let mut writer = Command::new(&programs.client_go);
                writer.args(["change", "--changes", &numbers[0], "--rate", &numbers[1], "--kubeconfig"]);
                writer.arg(server.kubeconfig());
                let mut written = Printed::new();
                let write = || {
                    written = figures::of(&mut writer)?;
                    Ok(())
                };
                let mut watch = ask("watch");
                let mut printed =
                    figures::of_waiting(watch.args(["--label", "--changes", &numbers[0]]), write)?;
                printed.append(&mut written);
                Ok(printed)
            }
            Work::Get { arguments, kubectl, .. } => {
                let arguments = if subject == Kubectl { kubectl } else { arguments };
                match subject.get(programs, arguments, server.kubeconfig()) {
                    Some(mut command) => process::measured(&mut command),
                    None => figures::of(&mut ask("informer")),
                }
            }
            Work::Start { namespaces, .. } => {
                figures::of(ask("start").args(["--namespaces", &namespaces.to_string()]))
            }
            Work::Queue | Work::Shards { .. } => Ok(Printed::new()),
        }
    }

    /// Whether the subject's number of objects, or of lines, must equal that of the others.
    fn is_counted(&self, subject: Subject) -> bool {
        match self.work {
            // A selection prints fewer lines than the library holds objects. JSON has several lines per object.
            Work::Get { arguments, .. } if arguments.contains(&"name") => {
                subject.is_measured_outside() || !arguments.contains(&"--field")
            }
            Work::Get { .. } => false,
            _ => subject != Floor,
        }
    }

    /// Checks that all subjects hold or print the same number of objects, and hold the same versions where all received
    /// the same state.
    fn compare(&self, subject: Subject, printed: &Printed, first: &mut Option<Printed>) -> Outcome {
        if !self.is_counted(subject) {
            return Ok(());
        }
        let number = |printed: &Printed| {
            let objects = printed.get("objects").or_else(|| printed.get("lines"));
            objects.and_then(|value| value.parse::<f64>().ok())
        };
        if matches!(self.work, Work::Get { .. }) && number(printed).is_none_or(|number| number < 1.0) {
            return Err(format!("{subject:?} printed nothing: {printed:?}").into());
        }
        let Some(first) = first else {
            *first = Some(printed.clone());
            return Ok(());
        };
        // A replay assigns new numbers to its changes for each subject, and after a relist the next subject sees
        // another state.
        let versions = matches!(self.work, Work::FirstState { relist: false, .. });
        let same = number(first) == number(printed)
            && (!versions || first.get("checksum") == printed.get("checksum"));
        if same {
            Ok(())
        } else {
            Err(format!("{subject:?} holds different objects: {first:?} {printed:?}").into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Size, catalogue};
    use super::*;
    use crate::bench::figures::parse;
    use crate::bench::subject::Subject::{ClientGo, KubeRsStreaming};

    const GIB: u64 = 1 << 30;

    fn scenario(name: &str) -> Scenario {
        let all = catalogue::embedded(Size::Long).into_iter().chain(catalogue::real(Size::Long));
        all.into_iter().find(|scenario| scenario.name == name).unwrap()
    }

    fn reached(rate: f64) -> Repeated {
        let mut figures = Repeated::default();
        figures.add(&parse(&format!("changes per second\t{rate}\t1/s\nlag p50\t7\tms")).unwrap());
        figures
    }

    #[test]
    fn subjects_that_need_too_much_memory_are_skipped() {
        let large = scenario("sync-200000");
        assert!(large.relists(Ours, 20 * GIB) && large.relists(ClientGo, 20 * GIB));
        assert_eq!(large.too_large(KubeRsStreaming, 20 * GIB), None);
        assert!(!large.relists(KubeRsStreaming, 20 * GIB), "twice 13 GB");
        let note = large.did_less(KubeRsStreaming, &mut Repeated::default()).unwrap();
        assert!(note.contains("no relist"), "{note}");
        assert!(large.too_large(KubeRsStreaming, 10 * GIB).unwrap().contains("10 GiB were free"));
        assert!(!scenario("sync-10000").relists(Ours, 20 * GIB), "not asked for");
    }

    #[test]
    fn a_subject_that_falls_behind_is_noted_and_has_no_lag() {
        for name in ["watch-5000", "real-watch-500"] {
            let paced = scenario(name);
            let (mut well, mut behind) = (reached(4_990.0), reached(400.0));
            assert_eq!(paced.did_less(Ours, &mut well), None);
            assert_eq!(well.median("lag p50"), Some(7.0));
            let note = paced.did_less(ClientGoJson, &mut behind).unwrap();
            assert!(note.contains("does not keep up: 400 changes"), "{note}");
            assert_eq!(behind.median("lag p50"), None);
        }
    }

    #[test]
    fn a_program_heavier_than_its_limit_is_an_error() {
        let results = |cpu_times: f64, peak: f64| {
            let of = |cpu: f64, peak: f64| {
                let mut figures = Repeated::default();
                figures.add(&parse(&format!("cpu\t{cpu}\ts\npeak\t{peak}\tB")).unwrap());
                figures
            };
            [(Ours, of(2.0, 40e6)), (Get, of(2.0 * cpu_times, peak))]
        };
        let name = scenario("get-name");
        assert!(name.next_to_library(&results(1.4, 40e6)).unwrap().unwrap().contains("1.40 times the CPU"));
        for heavy in [results(1.6, 40e6), results(1.0, 61e6)] {
            assert!(name.next_to_library(&heavy).unwrap_err().to_string().contains("At most 1.5"));
        }
        for json in [scenario("get-json"), scenario("get-json-200000")] {
            assert!(json.next_to_library(&results(9.0, 67e6)).is_ok(), "it decodes and prints every object");
            let error = json.next_to_library(&results(9.0, 69e6)).unwrap_err().to_string();
            assert!(error.ends_with("At most 1.5 times the peak memory and 8 MB are allowed."), "{error}");
        }
        let small = catalogue::embedded(Size::Smoke).into_iter().find(|scenario| scenario.name == "get-json");
        assert!(
            small.unwrap().next_to_library(&results(9.0, 1e9)).is_ok(),
            "its start dominates its figures"
        );
    }

    #[test]
    fn programs_that_print_different_numbers_of_lines_are_an_error() {
        let of = |figure: &str, number: u64| parse(&format!("{figure}\t{number}\t1")).unwrap();
        let compared = |scenario: &Scenario, runs: &[(Subject, Printed)]| {
            let mut first = None;
            runs.iter().try_for_each(|(subject, printed)| scenario.compare(*subject, printed, &mut first))
        };
        let run = |ours: u64, get: u64, kubectl: u64| {
            [(Ours, of("objects", ours)), (Get, of("lines", get)), (Kubectl, of("lines", kubectl))]
        };
        let field = scenario("get-field");
        assert!(field.subjects.contains(&Kubectl));
        assert!(compared(&field, &run(50_000, 100, 100)).is_ok(), "the library does not select");
        assert!(compared(&field, &run(50_000, 100, 99)).is_err());
        assert!(compared(&field, &run(50_000, 0, 0)).unwrap_err().to_string().contains("printed nothing"));
        let name = scenario("get-name");
        assert!(compared(&name, &run(50_000, 50_000, 50_000)).is_ok());
        for wrong in [run(50_000, 50_000, 49_999), run(50_000, 49_999, 50_000), run(49_999, 50_000, 50_000)] {
            assert!(compared(&name, &wrong).is_err(), "{wrong:?}");
        }
        assert!(compared(&scenario("get-json"), &run(1, 2, 3)).is_ok(), "its layout is not compared");
    }

    #[test]
    fn kubectl_selects_by_a_field_selector_and_a_note_says_so() {
        let Work::Get { arguments, kubectl, .. } = scenario("get-field").work else { panic!("not a get") };
        assert!(arguments.contains(&"--field") && !kubectl.contains(&"--field"));
        let results = [(Get, Repeated::default()), (Kubectl, Repeated::default())];
        let note = scenario("get-field").selected_by_server(&results).unwrap();
        assert!(note.contains("--field-selector spec.nodeName=node-7 -o name"), "{note}");
        assert_eq!(scenario("get-field").selected_by_server(&results[..1]), None);
        assert_eq!(scenario("get-name").selected_by_server(&results), None);
    }

    #[test]
    fn the_slowest_subject_gets_fewer_changes_with_a_note() {
        let full = scenario("watch");
        assert_eq!(
            (full.changes_of(Ours, 200_000), full.changes_of(ClientGoJson, 200_000)),
            (200_000, 50_000)
        );
        assert_eq!(full.did_less(Ours, &mut reached(1.0)), None);
        assert!(full.did_less(ClientGoJson, &mut reached(1.0)).unwrap().contains("50,000 changes"));
        assert_eq!(scenario("watch-5000").changes_of(ClientGoJson, 25_000), 25_000);
    }
}

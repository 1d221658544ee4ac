//! The scenario `shards`: one replica of a controller reconciles all pods, then four replicas share them, each in its own process.
//! A reconcile that waits shows how much work replicas do at the same time. One that computes shows the cores of the machine.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use super::figures::{Printed, parse};
use super::load::Load;
use super::programs::Programs;
use super::servers::Server;
use super::{Outcome, grouped};

const SLOTS: u64 = 64;
const REPLICAS: usize = 4;
const WAIT_MICROS: u64 = 20_000;
const COMPUTE_MICROS: u64 = 200;
/// Several replicas reach at least this multiple of the throughput if reconciles wait.
const SPEED_UP_MIN: f64 = 3.5;
/// Each of several replicas takes at most this share of one replica's memory.
const MEMORY_MAX: f64 = 0.3;
/// Below this number of objects, starting the rounds and the programs themselves dominate the figures.
const OBJECTS_MIN: u64 = 50_000;

/// Runs both groups. Returns the table.
///
/// # Errors
/// Returns an error if the replicas reach less than the limits above, or if a program fails.
pub(super) fn run(programs: &Programs, count: u64) -> Outcome<String> {
    let server = Server::of(programs, Load::VariedPods, count)?;
    let one = measure(programs, &server, count, 1)?;
    let several = measure(programs, &server, count, REPLICAS)?;
    let speed_up = several.waiting / one.waiting;
    let memory = several.bytes / one.bytes;
    if count >= OBJECTS_MIN && (speed_up < SPEED_UP_MIN || memory > MEMORY_MAX) {
        return Err(format!(
            "{REPLICAS} replicas: {speed_up:.2} times the throughput and {memory:.2} times the memory per replica of one; \
             at least {SPEED_UP_MIN} and at most {MEMORY_MAX} are required"
        )
        .into());
    }
    let mut text = format!(
        "| replicas | reconciles that wait {} ms, per second | reconciles that compute {COMPUTE_MICROS} µs, per second | memory per replica |\n\
         |---|---|---|---|\n",
        WAIT_MICROS / 1000
    );
    for (replicas, group, ratio) in [(1, &one, false), (REPLICAS, &several, true)] {
        let factor = |figure: f64, of_one: f64| match ratio {
            true => format!(", **{:.2}×**", figure / of_one),
            false => String::new(),
        };
        text += &format!(
            "| {replicas} | {}{} | {}{} | {:.0} MB{} |\n",
            grouped(group.waiting as u64),
            factor(group.waiting, one.waiting),
            grouped(group.computing as u64),
            factor(group.computing, one.computing),
            group.bytes / 1e6,
            factor(group.bytes, one.bytes),
        );
    }
    Ok(text)
}

/// The figures of a group of replicas.
struct Group {
    /// Reconciles per second, of all replicas.
    waiting: f64,
    computing: f64,
    /// Memory of the largest replica.
    bytes: f64,
}

fn measure(programs: &Programs, server: &Server, count: u64, replicas: usize) -> Outcome<Group> {
    let lease = format!("bench-{replicas}");
    let start = |number: usize| Replica::start(programs, server, &lease, number);
    let mut replicas = (0..replicas).map(start).collect::<Outcome<Vec<_>>>()?;
    let bytes = ready(&mut replicas, count)?;
    let waiting = throughput(&mut replicas, count, &format!("wait {WAIT_MICROS}"))?;
    let computing = throughput(&mut replicas, count, &format!("compute {COMPUTE_MICROS}"))?;
    Ok(Group { waiting, computing, bytes })
}

/// Waits until the replicas have all slots and objects, and have reconciled them. Returns the memory of the largest one.
fn ready(replicas: &mut [Replica], count: u64) -> Outcome<f64> {
    let mut before = 0;
    loop {
        let mut total = [0, 0, 0];
        let mut bytes = 0;
        for replica in &mut *replicas {
            let status = replica.ask("status")?;
            for (sum, figure) in total.iter_mut().zip(["slots", "objects", "reconciled"]) {
                *sum += number(&status, figure)?;
            }
            bytes = bytes.max(number(&status, "steady")?);
        }
        let [slots, objects, reconciled] = total;
        if slots == SLOTS && objects == count && reconciled >= count && reconciled == before {
            return Ok(bytes as f64);
        }
        before = reconciled;
        std::thread::sleep(Duration::from_secs(1));
    }
}

/// Reconciles all pods once. Returns the reconciles per second, from the start of the first replica to the end of the last one.
fn throughput(replicas: &mut [Replica], count: u64, command: &str) -> Outcome<f64> {
    for replica in &mut *replicas {
        replica.send(command)?;
    }
    let (mut began, mut ended, mut reconciled) = (u64::MAX, 0, 0);
    for replica in replicas {
        let printed = replica.answer()?;
        began = began.min(number(&printed, "began")?);
        ended = ended.max(number(&printed, "ended")?);
        reconciled += number(&printed, "count")?;
    }
    if reconciled != count {
        return Err(format!("{reconciled} pods of {count} were reconciled").into());
    }
    Ok(count as f64 * 1e6 / (ended - began).max(1) as f64)
}

fn number(printed: &Printed, figure: &str) -> Outcome<u64> {
    Ok(printed.get(figure).ok_or_else(|| format!("no figure {figure:?}"))?.parse()?)
}

/// A replica. Dropping this value stops it.
struct Replica {
    process: Child,
    output: BufReader<ChildStdout>,
}

impl Replica {
    fn start(programs: &Programs, server: &Server, lease: &str, number: usize) -> Outcome<Self> {
        let mut command = Command::new(&programs.ours);
        command.arg("share").arg(server.kubeconfig()).args([
            "--lease",
            lease,
            "--name",
            &format!("r{number}"),
        ]);
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let output = BufReader::new(process.stdout.take().ok_or("no output")?);
        Ok(Self { process, output })
    }

    fn ask(&mut self, command: &str) -> Outcome<Printed> {
        self.send(command)?;
        self.answer()
    }

    fn send(&mut self, command: &str) -> Outcome {
        let input = self.process.stdin.as_mut().ok_or("no input")?;
        Ok(writeln!(input, "{command}")?)
    }

    /// What it prints until it is done.
    fn answer(&mut self) -> Outcome<Printed> {
        let mut text = String::new();
        loop {
            let start = text.len();
            if self.output.read_line(&mut text)? == 0 {
                return Err("a replica has ended".into());
            }
            if text[start..].starts_with("done\t") {
                return parse(&text);
            }
        }
    }
}

impl Drop for Replica {
    fn drop(&mut self) {
        drop(self.process.stdin.take());
        let _ = self.process.wait();
    }
}

//! The output of the demo: a line for each change and, on a terminal, a footer below them. In a pipe, a summary every two seconds.

use std::collections::VecDeque;
use std::time::Duration;

use jiff::Timestamp;
use kube_informer::{Event, InformerState, Origin};
use serde_json::Value;
use tokio::time::Instant;

use super::api::Written;
use crate::changes;
use crate::failure::Failure;
use crate::mirror::{self, Mirror};
use crate::output::EventType;
use crate::output::columns::Columns;
use crate::terminal::{Colour, Line, Screen};

/// Maximum number of lines per second on a terminal; further changes are only counted.
const LINES_PER_SECOND: u32 = 30;
/// Maximum number of writes whose events are awaited to measure the lag.
const WRITES_MAX: usize = 10_000;

/// The figures that the demo prints.
pub(super) struct View {
    quiet: bool,
    /// Changes that were received.
    changes: u64,
    /// The same at the last measurement.
    changes_before: u64,
    summed_up: Instant,
    rate: f64,
    /// Lines printed in the current second.
    lines: u32,
    second: Instant,
    left_out: u64,
    /// Writes that no informer has reported yet, oldest first.
    writes: VecDeque<(u64, Instant)>,
    /// The longest time from a write to its event, in the last full period.
    lag: Option<Duration>,
    /// The same in the current period.
    lag_so_far: Option<Duration>,
}

impl View {
    pub(super) fn new(quiet: bool) -> Self {
        let now = Instant::now();
        Self {
            quiet,
            changes: 0,
            changes_before: 0,
            summed_up: now,
            rate: 0.0,
            lines: 0,
            second: now,
            left_out: 0,
            writes: VecDeque::new(),
            lag: None,
            lag_so_far: None,
        }
    }

    /// Notes a write that was accepted, to measure when its event arrives.
    pub(super) fn written(&mut self, written: &Written) {
        if self.writes.len() == WRITES_MAX {
            self.writes.pop_front();
        }
        self.writes.push_back((written.resource_version, Instant::now()));
    }

    /// Prints one line for a change, and nothing for the initial state.
    pub(super) async fn show(
        &mut self,
        mirror: &Mirror,
        event: &Event<Value>,
        screen: &mut Screen,
    ) -> Result<(), Failure> {
        let Some(object) = event.object().filter(|_| event.origin() != Some(Origin::Initial)) else {
            return Ok(());
        };
        self.changes += 1;
        self.arrived(object.resource_version());
        if self.quiet || !self.may_print(screen) {
            return Ok(());
        }
        let relisted = event.origin() == Some(Origin::Relist);
        let (event_type, change) = match event {
            Event::Updated { old, new, .. } => {
                let change = match (old.decode(), new.decode()) {
                    (Ok(old), Ok(new)) => changes::in_one_masked_line(&old, &new),
                    _ => String::new(),
                };
                (if relisted { EventType::Relisted } else { EventType::Modified }, change)
            }
            Event::Deleted { final_state_known, .. } => {
                let change = if *final_state_known { "" } else { "deleted while the watch was down" };
                (EventType::Deleted, change.to_owned())
            }
            _ => {
                let columns = Columns::of(&mirror.selected.kind.resource);
                (EventType::Added, columns.summary(&mirror::value_of(object, false), Timestamp::now()))
            }
        };
        let name = format!("{} {}", mirror.selected.kind.singular, object.key());
        let colour = match event_type {
            EventType::Added => Colour::Good,
            EventType::Modified => Colour::Changed,
            EventType::Deleted => Colour::Bad,
            EventType::Relisted => Colour::Odd,
        };
        let line = Line::default()
            .with(&format!("{:<9}", event_type.name()), Some(colour))
            .with(format!(" {name:<48} {change}").trim_end(), None);
        screen.fitting_line(line).await
    }

    /// Prints a line about a fault.
    pub(super) async fn remark(&mut self, text: &str, screen: &mut Screen) -> Result<(), Failure> {
        screen.line(Line::default().with(&format!("!!! {text}"), Some(Colour::Odd))).await
    }

    /// Draws the footer on a terminal.
    pub(super) fn footer(&mut self, mirrors: &[Mirror], screen: &mut Screen) {
        self.measure();
        let lag = self.lag();
        let objects = mirrors.iter().map(|mirror| {
            format!("{} {}", mirror.informer.lister().count(), mirror.selected.kind.resource.plural)
        });
        let objects = objects.collect::<Vec<_>>();
        let mut figures = vec![format!("{} objects", count(mirrors))];
        figures.extend(memory(mirrors));
        figures.extend([format!("{:.1} events/s", self.rate), format!("lag {lag}"), state(mirrors)]);
        if self.left_out > 0 {
            figures.push(format!("({} lines left out)", self.left_out));
        }
        // A narrow terminal needs more lines.
        let width = screen.status_width();
        let mut lines = Line::fill(&objects, Some(Colour::Faint), width);
        lines.extend(Line::fill(&figures, None, width));
        screen.status(lines);
    }

    /// Prints the summary where there is no footer.
    pub(super) async fn summary(&mut self, mirrors: &[Mirror], screen: &mut Screen) -> Result<(), Failure> {
        self.measure();
        let lag = self.lag();
        let figures = format!(
            "--- {} objects, {}, {} changes, {:.1} events/s, lag {}, {}",
            count(mirrors),
            memory(mirrors).join(" "),
            self.changes,
            self.rate,
            lag,
            state(mirrors),
        );
        screen.line(figures).await?;
        screen.flush().await
    }

    /// Notes that the event of a write has arrived.
    fn arrived(&mut self, resource_version: &str) {
        let Ok(version) = resource_version.parse::<u64>() else { return };
        if let Ok(at) = self.writes.binary_search_by_key(&version, |(version, _)| *version)
            && let Some((_, written)) = self.writes.remove(at)
        {
            self.lag_so_far = self.lag_so_far.max(Some(written.elapsed()));
        }
    }

    fn lag(&mut self) -> String {
        // The event of a write may never arrive, because a later write to the same object superseded it.
        while self.writes.front().is_some_and(|(_, written)| written.elapsed() > Duration::from_secs(30)) {
            self.writes.pop_front();
        }
        self.lag.map_or("–".to_owned(), |lag| format!("{:.2} ms", lag.as_secs_f64() * 1000.0))
    }

    fn measure(&mut self) {
        let elapsed = self.summed_up.elapsed();
        if elapsed >= Duration::from_secs(1) {
            self.rate = (self.changes - self.changes_before) as f64 / elapsed.as_secs_f64();
            (self.changes_before, self.summed_up) = (self.changes, Instant::now());
            self.lag = self.lag_so_far.take();
        }
    }

    fn may_print(&mut self, screen: &Screen) -> bool {
        if !screen.has_status() {
            return true;
        }
        if self.second.elapsed() >= Duration::from_secs(1) {
            (self.second, self.lines) = (Instant::now(), 0);
        }
        self.lines += 1;
        let may_print = self.lines <= LINES_PER_SECOND;
        self.left_out += u64::from(!may_print);
        may_print
    }
}

fn count(mirrors: &[Mirror]) -> usize {
    mirrors.iter().map(|mirror| mirror.informer.lister().count()).sum()
}

/// The first state that is not `live`.
fn state(mirrors: &[Mirror]) -> String {
    let states = mirrors.iter().map(|mirror| mirror.informer.state());
    let degraded = states.filter(|state| !matches!(state, InformerState::Live)).collect::<Vec<_>>();
    match degraded.first() {
        None => "live".to_owned(),
        Some(state) => state.to_string(),
    }
}

/// The memory of the mirrors alone, and of the whole process, server included.
fn memory(mirrors: &[Mirror]) -> Vec<String> {
    let megabytes = |bytes: usize| format!("{:.1} MB", bytes as f64 / 1e6);
    let stored = mirrors.iter().map(|mirror| mirror.informer.lister().view().snapshot().stored_bytes()).sum();
    let resident = resident_bytes().map(|bytes| format!("({} resident, server included)", megabytes(bytes)));
    [format!("{} mirrored", megabytes(stored))].into_iter().chain(resident).collect()
}

/// The resident memory of the process, where there is a `/proc`.
fn resident_bytes() -> Option<usize> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: usize = line.split_whitespace().next()?.parse().ok()?;
    Some(kilobytes * 1024)
}

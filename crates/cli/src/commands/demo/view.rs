//! What the demo shows: a line for each change and, on a terminal, a footer below them; piped, a summary now and then.

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

/// Lines a second that somebody can follow on a terminal; the rest is counted.
const LINES_PER_SECOND: u32 = 30;
/// Writes whose arrival is waited for, at most.
const WRITES_MAX: usize = 10_000;

/// The informers, as they are shown.
pub(super) struct View {
    quiet: bool,
    /// Changes that were received.
    changes: u64,
    /// Of them, at the last summary.
    changes_before: u64,
    summed_up: Instant,
    rate: f64,
    /// Lines of this second.
    lines: u32,
    second: Instant,
    left_out: u64,
    /// Writes that no informer has reported yet, oldest first.
    writes: VecDeque<(u64, Instant)>,
    /// The longest time from a write to its being received, of the time that was measured last, and of this one.
    lag: Option<Duration>,
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

    /// A write was accepted: from now on its arrival is waited for.
    pub(super) fn written(&mut self, written: &Written) {
        if self.writes.len() == WRITES_MAX {
            self.writes.pop_front();
        }
        self.writes.push_back((written.resource_version, Instant::now()));
    }

    /// One line for a change; nothing for the initial state.
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
        if self.quiet || !self.has_room(screen) {
            return Ok(());
        }
        let relisted = event.origin() == Some(Origin::Relist);
        let (event_type, change) = match event {
            Event::Updated { old, new, .. } => {
                let change = match (old.decode(), new.decode()) {
                    (Ok(old), Ok(new)) => changes::in_one_line(&old, &new),
                    _ => String::new(),
                };
                (if relisted { EventType::Relisted } else { EventType::Modified }, change)
            }
            Event::Deleted { final_state_known, .. } => {
                let change = if *final_state_known { "" } else { "vanished while nobody watched" };
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

    /// Something that is not the mirror's doing.
    pub(super) async fn remark(&mut self, text: &str, screen: &mut Screen) -> Result<(), Failure> {
        screen.line(Line::default().with(&format!("!!! {text}"), Some(Colour::Odd))).await
    }

    /// The footer on a terminal.
    pub(super) fn footer(&mut self, mirrors: &[Mirror], screen: &mut Screen) {
        self.measure();
        let lag = self.lag();
        let objects = mirrors.iter().map(|mirror| {
            format!("{} {}", mirror.informer.lister().count(), mirror.selected.kind.resource.plural)
        });
        let objects = objects.collect::<Vec<_>>().join("  ");
        let left_out =
            if self.left_out > 0 { format!("  ({} lines left out)", self.left_out) } else { String::new() };
        let figures = format!(
            "{} objects  {}  {:.1} events/s  lag {}  {}",
            count(mirrors),
            memory(mirrors),
            self.rate,
            lag,
            state(mirrors),
        );
        let faint = Some(Colour::Faint);
        screen.status([Line::default().with(&objects, faint), Line::from(figures).with(&left_out, faint)]);
    }

    /// The summary where there is no footer.
    pub(super) async fn summary(&mut self, mirrors: &[Mirror], screen: &mut Screen) -> Result<(), Failure> {
        self.measure();
        let lag = self.lag();
        let figures = format!(
            "--- {} objects, {}, {} changes, {:.1} events/s, lag {}, {}",
            count(mirrors),
            memory(mirrors),
            self.changes,
            self.rate,
            lag,
            state(mirrors),
        );
        screen.line(figures).await?;
        screen.flush().await
    }

    /// A write was received.
    fn arrived(&mut self, resource_version: &str) {
        let Ok(version) = resource_version.parse::<u64>() else { return };
        if let Ok(at) = self.writes.binary_search_by_key(&version, |(version, _)| *version)
            && let Some((_, written)) = self.writes.remove(at)
        {
            self.lag_so_far = self.lag_so_far.max(Some(written.elapsed()));
        }
    }

    fn lag(&mut self) -> String {
        // A write that another one has overtaken is not told by itself; it is not waited for any longer than this.
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

    fn has_room(&mut self, screen: &Screen) -> bool {
        if !screen.has_status() {
            return true;
        }
        if self.second.elapsed() >= Duration::from_secs(1) {
            (self.second, self.lines) = (Instant::now(), 0);
        }
        self.lines += 1;
        let room = self.lines <= LINES_PER_SECOND;
        self.left_out += u64::from(!room);
        room
    }
}

fn count(mirrors: &[Mirror]) -> usize {
    mirrors.iter().map(|mirror| mirror.informer.lister().count()).sum()
}

/// Of the worst.
fn state(mirrors: &[Mirror]) -> String {
    let states = mirrors.iter().map(|mirror| mirror.informer.state());
    let troubled = states.filter(|state| !matches!(state, InformerState::Live)).collect::<Vec<_>>();
    match troubled.first() {
        None => "live".to_owned(),
        Some(state) => state.to_string(),
    }
}

/// Of this process, server and all, and of the mirrors alone.
fn memory(mirrors: &[Mirror]) -> String {
    let megabytes = |bytes: usize| format!("{:.1} MB", bytes as f64 / 1e6);
    let stored = mirrors.iter().map(|mirror| mirror.informer.lister().view().snapshot().stored_bytes()).sum();
    let mirrors = megabytes(stored);
    match resident_bytes() {
        Some(resident) => format!("{mirrors} mirrored ({} resident, server included)", megabytes(resident)),
        None => format!("{mirrors} mirrored"),
    }
}

/// Where the system says it.
fn resident_bytes() -> Option<usize> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: usize = line.split_whitespace().next()?.parse().ok()?;
    Some(kilobytes * 1024)
}

//! The mirrored kinds with their figures, sampled at each tick.

use std::sync::Arc;
use std::time::{Duration, Instant};

use kube_informer::{Event, HandlerHandle, InformerState};
use serde_json::Value;

use super::changes::Changes;
use crate::failure::Failure;
use crate::mirror::Mirror;
use crate::output::columns::{ColumnReader, Columns};

/// The period over which events per second are averaged.
const RATE_PERIOD: Duration = Duration::from_secs(2);

/// All kinds.
#[derive(Default)]
pub(super) struct Kinds {
    watched: Vec<Watched>,
}

struct Watched {
    mirror: Mirror,
    columns: Columns,
    reader: ColumnReader,
    handler: HandlerHandle,
    figures: Figures,
    last_error: Option<String>,
    /// When the rate was computed last, and the number of events then.
    measured: (Instant, u64),
}

/// The figures of a kind.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Figures {
    pub(super) kind: String,
    pub(super) objects: usize,
    pub(super) bytes: usize,
    pub(super) events_per_second: f64,
    /// Changes that were received but not handled yet.
    pub(super) lag: usize,
    pub(super) state: String,
    pub(super) is_live: bool,
    /// The kind has synced, or reported why it cannot.
    pub(super) is_settled: bool,
}

impl Kinds {
    /// Adds a kind whose changes are recorded.
    pub(super) fn add(&mut self, mirror: Mirror, changes: &Arc<Changes>) -> Result<(), Failure> {
        let (changes, singular) = (changes.clone(), mirror.selected.kind.name_prefix());
        let handler = mirror.informer.add_handler(move |event: Event<Value>| {
            changes.add(&singular, &event);
            std::future::ready(())
        });
        let handler = handler.map_err(|error| Failure::other("cannot start an informer", &error))?;
        let figures = Figures { kind: mirror.selected.kind.qualified(), ..Figures::default() };
        let columns = Columns::of(&mirror.selected.kind.resource);
        let reader = columns.reader(&mirror.selected.kind.resource.type_meta());
        let measured = (Instant::now(), 0);
        self.watched.push(Watched { mirror, columns, reader, handler, figures, last_error: None, measured });
        Ok(())
    }

    pub(super) fn mirrors(&self) -> impl Iterator<Item = &Mirror> {
        self.watched.iter().map(|watched| &watched.mirror)
    }

    pub(super) fn mirror(&self, number: usize) -> &Mirror {
        &self.watched[number].mirror
    }

    /// The columns of a kind, and the reader of their fields.
    pub(super) fn columns(&self, number: usize) -> (&Columns, &ColumnReader) {
        let Watched { columns, reader, .. } = &self.watched[number];
        (columns, reader)
    }

    pub(super) fn figures(&self) -> impl ExactSizeIterator<Item = &Figures> {
        self.watched.iter().map(|watched| &watched.figures)
    }

    /// Remembers an error until the kind is live again.
    pub(super) fn failed(&mut self, number: usize, error: String) {
        self.watched[number].last_error = Some(error);
    }

    /// Takes new figures.
    pub(super) fn sample(&mut self) {
        self.watched.iter_mut().for_each(Watched::sample);
    }
}

impl Watched {
    fn sample(&mut self) {
        let informer = &self.mirror.informer;
        let view = informer.lister().view();
        let state = informer.state();
        let figures = &mut self.figures;
        figures.objects = view.snapshot().len();
        figures.bytes = view.snapshot().stored_bytes();
        figures.lag = self.handler.lag();
        figures.is_live = matches!(state, InformerState::Live);
        if figures.is_live {
            self.last_error = None;
        }
        figures.is_settled = informer.is_synced() || self.last_error.is_some();
        figures.state = match (&state, &self.last_error) {
            (InformerState::Degraded(_), Some(error)) => format!("degraded: {error}"),
            (InformerState::Syncing, Some(error)) => format!("syncing: {error}"),
            (InformerState::Degraded(_), None) => "degraded".to_owned(),
            _ => state.to_string(),
        };
        let (since, before) = self.measured;
        let elapsed = since.elapsed();
        if elapsed >= RATE_PERIOD {
            let events = self.mirror.traffic.events();
            figures.events_per_second = (events - before) as f64 / elapsed.as_secs_f64();
            self.measured = (Instant::now(), events);
        }
    }
}

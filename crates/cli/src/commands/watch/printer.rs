//! Prints the events of a watch in each format.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use super::arguments::{Rows, WatchArguments};
use crate::discovery::Kind;
use crate::failure::Failure;
use crate::output::columns::{Columns, DefinedColumns, RowFields};
use crate::output::grid::Grid;
use crate::output::labels;
use crate::output::{self, EventType, Format};
use crate::terminal::{Colour, Screen, escape};

/// Maximum number of rows that are collected to align their columns.
const ROWS_MAX: usize = 1000;
/// Approximate maximum number of bytes of rows or text that are collected.
const BYTES_MAX: usize = 1 << 20;

/// A change of an object.
pub(super) struct Happened {
    pub(super) event_type: EventType,
    pub(super) object: Value,
    /// The changed fields; `None` for a new object.
    pub(super) change: Option<String>,
    /// Since the start.
    pub(super) at: Duration,
}

/// Collects events and prints them.
pub(super) struct Printer {
    kinds: Vec<ShownKind>,
    format: Format,
    shown: Rows,
    headers: bool,
    /// Show namespaces.
    namespaces: bool,
    time: Option<TimeColumn>,
    grid: Grid,
    rows: Vec<EventRow>,
    row_bytes: usize,
    text: String,
    /// The kind whose titles were printed last.
    titled: Option<usize>,
}

/// A kind and its columns.
struct ShownKind {
    kind: Kind,
    columns: Columns,
    /// The columns of a custom resource, which take the place of the program's own.
    defined: Option<DefinedColumns>,
}

/// The time that the first column shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TimeColumn {
    SinceStart,
    Absolute,
}

struct EventRow {
    /// The number of the kind.
    kind: usize,
    event_type: EventType,
    cells: Vec<String>,
}

impl Printer {
    pub(super) fn new(arguments: &WatchArguments) -> Self {
        let time = match (arguments.since_start, arguments.timestamps) {
            (true, _) => Some(TimeColumn::SinceStart),
            (false, true) => Some(TimeColumn::Absolute),
            (false, false) => None,
        };
        Self {
            kinds: Vec::new(),
            format: arguments.output.format(),
            shown: arguments.rows.clone(),
            headers: !arguments.output.no_headers,
            namespaces: arguments.select.shows_namespaces(),
            time,
            grid: Grid::default(),
            rows: Vec::new(),
            row_bytes: 0,
            text: String::new(),
            titled: None,
        }
    }

    /// Adds a kind. Kinds are numbered in this order.
    pub(super) fn add_kind(&mut self, kind: &Kind, defined: Option<DefinedColumns>) {
        self.kinds.push(ShownKind { kind: kind.clone(), columns: Columns::of(&kind.resource), defined });
    }

    pub(super) fn is_full(&self) -> bool {
        self.rows.len() >= ROWS_MAX || self.row_bytes + self.text.len() >= BYTES_MAX
    }

    /// Adds an event. The next [`print`](Self::print) prints it.
    pub(super) fn add(&mut self, number: usize, happened: &Happened) {
        match self.format {
            Format::Table { .. } | Format::CustomColumns(_) => {
                let mut cells = self.first_cells(happened);
                cells.extend(self.object_cells(number, happened));
                self.row_bytes += cells.iter().map(String::len).sum::<usize>();
                self.rows.push(EventRow { kind: number, event_type: happened.event_type, cells });
            }
            _ => {
                let text = self.text_of(number, happened);
                self.text.push_str(&text);
            }
        }
    }

    /// The text of an event in a format without columns.
    fn text_of(&self, number: usize, happened: &Happened) -> String {
        let Happened { event_type, object, .. } = happened;
        let time = (self.time == Some(TimeColumn::Absolute)).then(now);
        match &self.format {
            Format::Yaml if !self.shows_events() => format!("---\n{}\n", output::yaml(object)),
            Format::Yaml => format!("---\n{}\n", output::yaml_event(*event_type, time.as_deref(), object)),
            Format::Name => {
                escape::one_line(&output::name(&self.kinds[number].kind, object)).into_owned() + "\n"
            }
            Format::JsonPath(template) => {
                let text = template.print(object);
                // Each event begins on its own line, whether the template ends its line or not.
                if text.ends_with('\n') { text } else { text + "\n" }
            }
            _ if !self.shows_events() => output::json(object) + "\n",
            _ => output::json_event(*event_type, time.as_deref(), object) + "\n",
        }
    }

    /// Prints all events that were added.
    pub(super) async fn print(&mut self, screen: &mut Screen) -> Result<(), Failure> {
        if !self.text.is_empty() {
            screen.text(&std::mem::take(&mut self.text)).await?;
        }
        let rows = std::mem::take(&mut self.rows);
        self.row_bytes = 0;
        let by_kind = self.is_by_kind();
        let mut at = 0;
        while at < rows.len() {
            let other = |row: &EventRow| by_kind && !self.is_same_kind(row.kind, rows[at].kind);
            let end = rows[at..].iter().position(other).map_or(rows.len(), |count| at + count);
            self.print_rows(&rows[at..end], screen).await?;
            at = end;
        }
        Ok(())
    }

    async fn print_rows(&mut self, rows: &[EventRow], screen: &mut Screen) -> Result<(), Failure> {
        let number = rows[0].kind;
        let has_titles = match self.titled {
            None => false,
            Some(titled) => self.is_same_kind(titled, number) || !self.is_by_kind(),
        };
        if !has_titles {
            self.titled = Some(number);
            self.grid = Grid::default();
            let titles = self.titles(number);
            if self.shows_events() {
                // The longest type of event may come later.
                let mut widest = vec![String::new(); usize::from(self.time.is_some())];
                widest.push(EventType::Modified.name().to_owned());
                self.grid.fit(&widest);
            }
            if self.headers {
                self.grid.fit(&titles);
            }
            self.fit_rows(rows);
            if self.headers {
                screen.row(self.grid.row(&titles, |_| None)).await?;
            }
        }
        self.fit_rows(rows);
        let time = self.time.is_some().then_some(0);
        let event = self.shows_events().then_some(usize::from(time.is_some()));
        for EventRow { event_type, cells, .. } in rows {
            let row = self.grid.row(cells, |at| match at {
                at if Some(at) == event => Some(colour(*event_type)),
                at if Some(at) == time => Some(Colour::Faint),
                _ => None,
            });
            screen.row(row).await?;
        }
        Ok(())
    }

    /// The width of the last column does not matter.
    fn fit_rows(&mut self, rows: &[EventRow]) {
        for EventRow { cells, .. } in rows {
            self.grid.fit(&cells[..cells.len() - 1]);
        }
    }

    /// Whether the columns depend on the kind.
    pub(super) fn is_by_kind(&self) -> bool {
        match self.format {
            Format::Table { wide } => wide || self.shown != Rows::Changes,
            _ => false,
        }
    }

    fn is_same_kind(&self, a: usize, b: usize) -> bool {
        a == b || self.kinds[a].kind == self.kinds[b].kind
    }

    /// Whether there are several kinds, so that names show the kind.
    fn has_several_kinds(&self) -> bool {
        (1..self.kinds.len()).any(|number| !self.is_same_kind(0, number))
    }

    /// Whether the type of an event is shown.
    fn shows_events(&self) -> bool {
        !matches!(self.shown, Rows::Objects { events: false, .. })
    }

    fn titles(&self, number: usize) -> Vec<String> {
        let time = self.time.map(|time| match time {
            TimeColumn::SinceStart => "SINCE START",
            TimeColumn::Absolute => "TIME",
        });
        let event = self.shows_events().then_some("EVENT");
        let namespace = self.namespaces.then_some("NAMESPACE");
        let mut titles =
            [time, event, namespace].into_iter().flatten().map(str::to_owned).collect::<Vec<_>>();
        let shown = &self.kinds[number];
        match (&self.format, &self.shown) {
            (Format::CustomColumns(custom), _) => titles.extend(custom.titles().iter().cloned()),
            (Format::Table { wide }, Rows::Objects { labels, show_labels, .. }) => {
                titles.extend(shown.titles(*wide));
                titles.extend(labels::titles(labels, *show_labels));
            }
            (Format::Table { wide: true }, Rows::Changes) => {
                titles.extend(shown.titles(true));
                titles.push("CHANGE".to_owned());
            }
            _ => titles.extend(["NAME".to_owned(), "CHANGE".to_owned()]),
        }
        titles
    }

    /// Time, type of the event and namespace, as far as they are shown.
    fn first_cells(&self, happened: &Happened) -> Vec<String> {
        let mut cells = Vec::new();
        cells.extend(self.time.map(|time| match time {
            TimeColumn::SinceStart => format!("+{:.3}s", happened.at.as_secs_f64()),
            TimeColumn::Absolute => now(),
        }));
        if self.shows_events() {
            cells.push(happened.event_type.name().to_owned());
        }
        if self.namespaces {
            cells.push(happened.object["metadata"]["namespace"].as_str().unwrap_or_default().to_owned());
        }
        cells
    }

    /// The cells that show the object and its change.
    fn object_cells(&self, number: usize, happened: &Happened) -> Vec<String> {
        let Happened { object, change, .. } = happened;
        let (shown, now) = (&self.kinds[number], Timestamp::now());
        let own = |wide| {
            let mut cells = shown.cells(object, now, wide);
            if self.has_several_kinds()
                && let Some(at) = shown.titles(wide).iter().position(|title| title == "NAME")
            {
                cells[at] = output::name(&shown.kind, object);
            }
            cells
        };
        match (&self.format, &self.shown) {
            (Format::CustomColumns(custom), _) => custom.cells(object),
            (Format::Table { wide }, Rows::Objects { labels, show_labels, .. }) => {
                let mut cells = own(*wide);
                cells.extend(labels::cells(&object["metadata"]["labels"], labels, *show_labels));
                cells
            }
            (Format::Table { wide: true }, Rows::Changes) => {
                let mut cells = own(true);
                cells.push(change.clone().unwrap_or_default());
                cells
            }
            _ => {
                let several = self.has_several_kinds();
                let name = if several { output::name(&shown.kind, object) } else { name_of(object) };
                vec![name, change.clone().unwrap_or_else(|| shown.columns.summary(object, now))]
            }
        }
    }
}

impl ShownKind {
    fn titles(&self, wide: bool) -> Vec<String> {
        self.defined.as_ref().map_or_else(|| self.columns.titles(wide), |defined| defined.titles(wide))
    }

    fn cells(&self, object: &Value, now: Timestamp, wide: bool) -> Vec<String> {
        match &self.defined {
            Some(defined) => defined.cells(object, now, wide),
            None => self.columns.cells(&RowFields::Decoded(object), now, wide),
        }
    }
}

/// The current time in UTC, to the millisecond.
fn now() -> String {
    Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S.%3fZ").to_string()
}

fn name_of(object: &Value) -> String {
    object["metadata"]["name"].as_str().unwrap_or_default().to_owned()
}

fn colour(event_type: EventType) -> Colour {
    match event_type {
        EventType::Added => Colour::Good,
        EventType::Modified => Colour::Changed,
        EventType::Deleted => Colour::Bad,
        EventType::Relisted => Colour::Odd,
    }
}

//! What a watch prints of an event, in each format.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use crate::discovery::Kind;
use crate::failure::Failure;
use crate::flags::{OutputFlags, SelectFlags};
use crate::output::columns::Columns;
use crate::output::grid::Grid;
use crate::output::{self, EventType, Format};
use crate::terminal::{Colour, Screen, escape};

/// Rows that are held so that their columns fit each other, at most.
const ROWS_MAX: usize = 1000;
/// Bytes of rows or text that are held, about.
const BYTES_MAX: usize = 1 << 20;

/// Something that happened to an object.
pub(super) struct Happened {
    pub(super) event_type: EventType,
    pub(super) object: Value,
    /// What changed; none for a new object.
    pub(super) change: Option<String>,
    /// Since the start.
    pub(super) at: Duration,
}

/// Prints what happened.
pub(super) struct Printer {
    kinds: Vec<(Kind, Columns)>,
    format: Format,
    headers: bool,
    /// Whether namespaces are shown: they differ.
    namespaces: bool,
    since_start: bool,
    grid: Grid,
    /// Of the kind with this number.
    rows: Vec<(usize, EventType, Vec<String>)>,
    row_bytes: usize,
    text: String,
    /// Whose titles were printed last.
    titled: Option<usize>,
}

impl Printer {
    pub(super) fn new(select: &SelectFlags, output: &OutputFlags, since_start: bool) -> Self {
        Self {
            kinds: Vec::new(),
            format: output.format(),
            headers: !output.no_headers,
            namespaces: select.all_namespaces,
            since_start,
            grid: Grid::default(),
            rows: Vec::new(),
            row_bytes: 0,
            text: String::new(),
            titled: None,
        }
    }

    /// One more kind, whose number is that of those before.
    pub(super) fn add_kind(&mut self, kind: &Kind) {
        self.kinds.push((kind.clone(), Columns::of(&kind.resource)));
    }

    pub(super) fn is_full(&self) -> bool {
        self.rows.len() >= ROWS_MAX || self.row_bytes + self.text.len() >= BYTES_MAX
    }

    /// Takes what happened; it is printed by the next [`print`](Self::print).
    pub(super) fn add(&mut self, number: usize, happened: Happened) -> Result<(), Failure> {
        let (kind, columns) = &self.kinds[number];
        let Happened { event_type, object, change, at } = happened;
        let text = match &self.format {
            Format::Table { wide } => {
                let now = Timestamp::now();
                let mut row = self.first_cells(event_type, &object, at);
                let several = self.kinds.len() > 1;
                if *wide {
                    let mut cells = columns.cells(&object, now, true);
                    if several {
                        cells[0] = output::name(kind, &object);
                    }
                    row.extend(cells);
                    row.push(change.unwrap_or_default());
                } else {
                    row.push(if several { output::name(kind, &object) } else { name_of(&object) });
                    row.push(change.unwrap_or_else(|| columns.summary(&object, now)));
                }
                self.add_row(number, event_type, row);
                return Ok(());
            }
            Format::CustomColumns(custom) => {
                let mut row = self.first_cells(event_type, &object, at);
                row.extend(custom.cells(&object));
                self.add_row(number, event_type, row);
                return Ok(());
            }
            Format::Json => output::json_event(event_type, &object) + "\n",
            Format::Yaml => format!("---\n{}\n", output::yaml_event(event_type, &object)),
            Format::Name => escape::one_line(&output::name(kind, &object)).into_owned() + "\n",
            Format::JsonPath(template) => {
                let text = template.print(&object);
                // Each event begins on a line of its own, whether the template ends its line or not.
                if text.ends_with('\n') { text } else { text + "\n" }
            }
        };
        self.text.push_str(&text);
        Ok(())
    }

    fn add_row(&mut self, number: usize, event_type: EventType, row: Vec<String>) {
        self.row_bytes += row.iter().map(String::len).sum::<usize>();
        self.rows.push((number, event_type, row));
    }

    /// Prints all that was taken.
    pub(super) async fn print(&mut self, screen: &mut Screen) -> Result<(), Failure> {
        if !self.text.is_empty() {
            screen.text(&std::mem::take(&mut self.text)).await?;
        }
        let rows = std::mem::take(&mut self.rows);
        self.row_bytes = 0;
        let mut at = 0;
        while at < rows.len() {
            // Wide rows of another kind have other columns.
            let number = rows[at].0;
            let same = |row: &(usize, EventType, Vec<String>)| !self.is_by_kind() || row.0 == number;
            let end = at + rows[at..].iter().position(|row| !same(row)).unwrap_or(rows.len() - at);
            self.print_rows(number, &rows[at..end], screen).await?;
            at = end;
        }
        Ok(())
    }

    async fn print_rows(
        &mut self,
        number: usize,
        rows: &[(usize, EventType, Vec<String>)],
        screen: &mut Screen,
    ) -> Result<(), Failure> {
        let has_titles = match self.titled {
            None => false,
            Some(titled) => titled == number || !self.is_by_kind(),
        };
        if !has_titles {
            self.titled = Some(number);
            self.grid = Grid::default();
            let titles = self.titles(number);
            // The longest of the events may come later.
            let mut widest = vec![String::new(); usize::from(self.since_start)];
            widest.push(EventType::Modified.name().to_owned());
            self.grid.fit(&widest);
            if self.headers {
                self.grid.fit(&titles);
            }
            self.fit_rows(rows);
            if self.headers {
                screen.line(self.grid.row(&titles, |_| None)).await?;
            }
        }
        self.fit_rows(rows);
        let event_at = usize::from(self.since_start);
        for (_, event_type, cells) in rows {
            let row = self.grid.row(cells, |at| match at {
                at if at == event_at => Some(colour(*event_type)),
                0 => Some(Colour::Faint),
                _ => None,
            });
            screen.line(row).await?;
        }
        Ok(())
    }

    /// The last column holds what changed: its width does not matter.
    fn fit_rows(&mut self, rows: &[(usize, EventType, Vec<String>)]) {
        for (_, _, cells) in rows {
            self.grid.fit(&cells[..cells.len() - 1]);
        }
    }

    fn is_by_kind(&self) -> bool {
        self.format == Format::Table { wide: true }
    }

    fn titles(&self, number: usize) -> Vec<String> {
        let mut titles = Vec::new();
        if self.since_start {
            titles.push("SINCE START".to_owned());
        }
        titles.push("EVENT".to_owned());
        if self.namespaces {
            titles.push("NAMESPACE".to_owned());
        }
        match &self.format {
            Format::CustomColumns(custom) => titles.extend(custom.titles().iter().cloned()),
            Format::Table { wide: true } => {
                titles.extend(self.kinds[number].1.titles(true));
                titles.push("CHANGE".to_owned());
            }
            _ => titles.extend(["NAME".to_owned(), "CHANGE".to_owned()]),
        }
        titles
    }

    fn first_cells(&self, event_type: EventType, object: &Value, at: Duration) -> Vec<String> {
        let mut cells = Vec::new();
        if self.since_start {
            cells.push(format!("+{:.3}s", at.as_secs_f64()));
        }
        cells.push(event_type.name().to_owned());
        if self.namespaces {
            cells.push(object["metadata"]["namespace"].as_str().unwrap_or_default().to_owned());
        }
        cells
    }
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

//! Draws the view: a header, a page (kinds, objects or one object), the recent changes, and a line with the keys.

use jiff::Timestamp;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Borders, Clear, Paragraph, Row, Table};
use unicode_width::UnicodeWidthStr;

use super::kinds::{Figures, Kinds};
use super::model::{Model, Page, SortColumn};
use crate::output::EventType;
use crate::terminal::{self, escape};

/// Below this height, recent changes are not shown.
const HEIGHT_WITH_CHANGES_MIN: u16 = 14;

const HELP: &[(&str, &str)] = &[
    ("↑ ↓ j k", "select a row, scroll"),
    ("PgUp PgDn", "move by a page"),
    ("Home End g G", "move to the start, to the end"),
    ("Enter → l", "open the kind or the object"),
    ("Esc ← Backspace", "go back; clear the filter"),
    ("/", "filter by name; Enter keeps the filter, Esc clears it"),
    ("s", "sort by the next column"),
    ("r", "reverse the order"),
    ("Space", "pause or resume the changes"),
    ("? h", "show or hide this help"),
    ("q Ctrl-C Ctrl-D", "quit"),
];

pub(super) fn draw(frame: &mut Frame<'_>, model: &mut Model, kinds: &Kinds) {
    model.follow(kinds);
    let area = frame.area();
    let with_changes = area.height >= HEIGHT_WITH_CHANGES_MIN && !matches!(model.page, Page::Object(..));
    let changes_height = if with_changes { area.height / 3 } else { 0 };
    let [header, page, changes, footer] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Min(0),
        Constraint::Length(changes_height),
        Constraint::Length(1),
    ])
    .areas(area);
    let palette = Palette { colours: model.colours };
    frame.render_widget(Paragraph::new(title(model, kinds)).style(palette.title()), header);
    match model.page.clone() {
        Page::Kinds => draw_kinds(frame, page, model, kinds, palette),
        Page::Objects(number) => draw_objects(frame, page, model, kinds, number, palette),
        Page::Object(..) => draw_object(frame, page, model),
    }
    if with_changes {
        draw_changes(frame, changes, model, palette);
    }
    frame.render_widget(Paragraph::new(keys(model)).style(palette.faint()), footer);
    if model.help {
        draw_help(frame, area);
    }
}

/// Styles. Without colours only bold, faint and reversed text is used.
#[derive(Clone, Copy)]
struct Palette {
    colours: bool,
}

impl Palette {
    fn title(self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    fn faint(self) -> Style {
        Style::new().add_modifier(Modifier::DIM)
    }

    fn selected(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }

    fn colour(self, colour: Color) -> Style {
        if self.colours { Style::new().fg(colour) } else { Style::new() }
    }

    fn event(self, event_type: EventType) -> Style {
        self.colour(match event_type {
            EventType::Added => Color::Green,
            EventType::Modified => Color::Yellow,
            EventType::Deleted => Color::Red,
            EventType::Relisted => Color::Magenta,
        })
    }
}

fn title(model: &Model, kinds: &Kinds) -> String {
    let objects: usize = kinds.figures().map(|figures| figures.objects).sum();
    let bytes: usize = kinds.figures().map(|figures| figures.bytes).sum();
    let events: f64 = kinds.figures().map(|figures| figures.events_per_second).sum();
    let place = match &model.page {
        Page::Kinds => String::new(),
        Page::Objects(number) => format!("  {}", kinds.mirror(*number).selected.kind.qualified()),
        Page::Object(number, key) => format!("  {} {key}", kinds.mirror(*number).selected.kind.qualified()),
    };
    let filter = match (model.filter.as_str(), model.editing) {
        ("", false) => String::new(),
        (filter, false) => format!("  filter: {filter}"),
        (filter, true) => format!("  filter: {filter}_"),
    };
    let text = format!(
        "{}  {}  {}  {}  {events:.1} events/s{place}{filter}",
        model.url,
        counted(kinds.figures().len(), "kind"),
        counted(objects, "object"),
        memory(bytes)
    );
    escape::one_line(&text).into_owned()
}

fn keys(model: &Model) -> String {
    match (&model.page, model.editing) {
        (_, true) => "type a filter  Enter: keep  Esc: clear".to_owned(),
        (Page::Kinds, _) => "?: help  Enter: objects  s: sort  r: reverse  /: filter  q: quit".to_owned(),
        (Page::Objects(_), _) => {
            "?: help  Enter: object  Esc: back  s: sort  r: reverse  /: filter  q: quit".to_owned()
        }
        (Page::Object(..), _) => "?: help  ↑↓: scroll  Esc: back  q: quit".to_owned(),
    }
}

/// The widths of the columns of kinds, and the columns that a narrow terminal omits, the first of them first.
const KIND_WIDTHS: [u16; 6] = [17, 9, 10, 10, 6, 12];
const OMITTED: [usize; 3] = [3, 4, 2];

/// The columns of kinds that fit.
fn kind_columns(width: u16) -> Vec<usize> {
    let mut columns = (0..KIND_WIDTHS.len()).collect::<Vec<_>>();
    for omitted in OMITTED {
        let needed = columns.iter().map(|at| KIND_WIDTHS[*at] + 1).sum::<u16>();
        if needed > width + 1 {
            columns.retain(|at| *at != omitted);
        }
    }
    columns
}

fn draw_kinds(frame: &mut Frame<'_>, area: Rect, model: &mut Model, kinds: &Kinds, palette: Palette) {
    let rows = model.kinds(kinds);
    let columns = kind_columns(area.width);
    let window = window(model, area, rows.len());
    let row = |(at, (_, figures)): (usize, &(usize, &Figures))| {
        let state = if figures.is_live { palette.colour(Color::Green) } else { palette.colour(Color::Red) };
        let cells = [
            Span::raw(figures.kind.clone()),
            Span::raw(figures.objects.to_string()),
            Span::raw(memory(figures.bytes)),
            Span::raw(format!("{:.1}", figures.events_per_second)),
            Span::raw(figures.lag.to_string()),
            Span::styled(figures.state.clone(), state),
        ];
        let cells = columns.iter().map(|at| cells[*at].clone());
        highlighted(Row::new(cells), at, model.selected, palette)
    };
    let rows = rows.iter().enumerate().skip(window.0).take(window.1).map(row).collect::<Vec<_>>();
    let header = SortColumn::ALL.map(|(column, title)| {
        let ascending = matches!(column, SortColumn::Kind | SortColumn::State) != model.reversed;
        sort_title(title, (column == model.sort).then_some(ascending))
    });
    let header = columns.iter().map(|at| header[*at].clone());
    let widths = columns.iter().map(|at| match at {
        0 | 5 => Constraint::Min(KIND_WIDTHS[*at]),
        _ => Constraint::Length(KIND_WIDTHS[*at]),
    });
    frame.render_widget(Table::new(rows, widths).header(Row::new(header).style(palette.title())), area);
}

fn draw_objects(
    frame: &mut Frame<'_>,
    area: Rect,
    model: &mut Model,
    kinds: &Kinds,
    number: usize,
    palette: Palette,
) {
    let window = window(model, area, model.list.objects.len());
    let (columns, reader) = kinds.columns(number);
    let (namespaced, now) = (kinds.mirror(number).selected.kind.namespaced, Timestamp::now());
    let list = &model.list;
    let title =
        |(at, title): (usize, &String)| sort_title(title, (at == list.column).then_some(!list.reversed));
    let titles = list.titles.iter().enumerate().map(title).collect::<Vec<_>>();
    // Only visible objects are read.
    let row = |(at, object): (usize, &kube_informer::StoredObject)| {
        let mut cells = columns.cells(&reader.fields(object), now, false);
        if namespaced {
            cells.insert(0, object.namespace().to_owned());
        }
        let cells = cells.iter().map(|cell| escape::one_line(cell).into_owned()).collect::<Vec<_>>();
        (at, cells)
    };
    let rows = list.objects.iter().enumerate().skip(window.0).take(window.1).map(row).collect::<Vec<_>>();
    let width = |at: usize| {
        let cells = rows.iter().map(|(_, cells)| cells[at].as_str());
        Constraint::Length(widest(cells.chain([titles[at].as_str()])))
    };
    let widths = (0..titles.len()).map(width).collect::<Vec<_>>();
    let rows = rows.into_iter().map(|(at, cells)| highlighted(Row::new(cells), at, model.selected, palette));
    let table = Table::new(rows, widths).column_spacing(3).header(Row::new(titles).style(palette.title()));
    frame.render_widget(table, area);
}

fn draw_object(frame: &mut Frame<'_>, area: Rect, model: &mut Model) {
    model.height = usize::from(area.height);
    model.offset = model.offset.min(model.lines.len().saturating_sub(model.height));
    let lines = model.lines.iter().skip(model.offset).take(model.height);
    // A line that is cut must not look complete.
    let fitted = |line: &String| terminal::Line::from(line.as_str()).fit(area.width.into()).to_string();
    let lines = lines.map(|line| Line::raw(fitted(line))).collect::<Vec<_>>();
    frame.render_widget(Paragraph::new(lines), area);
}

/// The width of the widest cell. Some characters take two columns of a terminal, others take no column.
fn widest<'c>(cells: impl Iterator<Item = &'c str>) -> u16 {
    let width = cells.map(UnicodeWidthStr::width).max().unwrap_or(0);
    u16::try_from(width).unwrap_or(u16::MAX)
}

fn draw_changes(frame: &mut Frame<'_>, area: Rect, model: &Model, palette: Palette) {
    let mut remarks = Vec::new();
    if model.paused {
        remarks.push(format!("paused, {} new", model.waiting));
    }
    if model.omitted > 0 {
        remarks.push(format!("{} not shown", model.omitted));
    }
    let title = match remarks.as_slice() {
        [] => " changes ".to_owned(),
        remarks => format!(" changes ({}) ", remarks.join(", ")),
    };
    let block = Block::new().borders(Borders::TOP).title(title);
    let height = usize::from(area.height.saturating_sub(1));
    let skipped = model.changes.len().saturating_sub(height);
    let line = |change: &super::changes::ChangeLine| {
        Line::from(vec![
            Span::styled(format!("{} ", change.time), palette.faint()),
            Span::styled(format!("{:<9}", change.event_type.name()), palette.event(change.event_type)),
            Span::raw(format!("{}  {}", change.object, change.change)),
        ])
    };
    let lines = model.changes.iter().skip(skipped).map(line).collect::<Vec<_>>();
    frame.render_widget(Paragraph::new(lines).block(block), area);
}

fn draw_help(frame: &mut Frame<'_>, area: Rect) {
    let lines =
        HELP.iter().map(|(key, meaning)| Line::raw(format!(" {key:<15} {meaning}"))).collect::<Vec<_>>();
    let (width, height) = (area.width.min(72), area.height.min(lines.len() as u16 + 2));
    let place =
        Rect { x: area.x + (area.width - width) / 2, y: area.y + (area.height - height) / 2, width, height };
    frame.render_widget(Clear, place);
    frame.render_widget(Paragraph::new(lines).block(Block::bordered().title(" keys ")), place);
}

/// The first visible row and the number of visible rows, so that the selected row is visible. One row is the header.
fn window(model: &mut Model, area: Rect, rows: usize) -> (usize, usize) {
    let height = usize::from(area.height.saturating_sub(1));
    model.height = height;
    model.offset = model.offset.min(model.selected).min(rows.saturating_sub(height));
    if model.selected >= model.offset + height.max(1) {
        model.offset = model.selected + 1 - height.max(1);
    }
    (model.offset, height)
}

/// The title of a column; with an arrow if rows are sorted by it, in ascending order or not.
fn sort_title(title: &str, ascending: Option<bool>) -> String {
    match ascending {
        None => title.to_owned(),
        Some(true) => format!("{title}▲"),
        Some(false) => format!("{title}▼"),
    }
}

fn highlighted(row: Row<'_>, at: usize, selected: usize, palette: Palette) -> Row<'_> {
    if at == selected { row.style(palette.selected()) } else { row }
}

fn counted(count: usize, thing: &str) -> String {
    format!("{count} {thing}{}", if count == 1 { "" } else { "s" })
}

fn memory(bytes: usize) -> String {
    match bytes {
        0..1_000 => format!("{bytes} B"),
        1_000..1_000_000 => format!("{:.1} kB", bytes as f64 / 1e3),
        _ => format!("{:.1} MB", bytes as f64 / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use kube_informer::Key;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::*;

    #[test]
    fn a_cell_is_as_wide_as_the_terminal_shows_it() {
        assert_eq!(widest(["NAME", "abc"].into_iter()), 4);
        assert_eq!(widest(["NAME", "日本語"].into_iter()), 6);
        assert_eq!(widest(["NAME", "cafe\u{301}s"].into_iter()), 5);
        assert_eq!(widest(std::iter::empty()), 0);
    }

    #[test]
    fn a_line_of_an_object_that_is_cut_ends_with_an_ellipsis() {
        let mut model = Model::new(String::new(), false);
        model.page = Page::Object(0, Key::new("default", "a"));
        model.lines = ["text: 0123456789", "text: 日本語日本語", "a: \u{1b}[31m", "fits: 0123"]
            .map(str::to_owned)
            .into();
        let mut terminal = Terminal::new(TestBackend::new(10, 4)).unwrap();
        terminal.draw(|frame| draw_object(frame, frame.area(), &mut model)).unwrap();
        let buffer = terminal.backend().buffer();
        let row = |y: u16| (0..10).map(|x| buffer[(x, y)].symbol()).collect::<String>();
        assert_eq!([row(0), row(2), row(3)], ["text: 012…", "a: ^[[31m ", "fits: 0123"]);
        assert!(row(1).contains('…') && row(1).starts_with("text: 日"), "{}", row(1));
    }
}

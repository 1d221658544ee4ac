//! Columns: the server's where it returns a `Table`, otherwise the program's own.

use jiff::Timestamp;
use serde_json::Value;

use super::{Getting, Missing};
use crate::discovery::{Kind, Selected};
use crate::failure::Failure;
use crate::list_limit::ListAmount;
use crate::output::Format;
use crate::output::column::PathColumn;
use crate::output::columns::{Columns, RowFields};
use crate::output::grid::Grid;
use crate::output::labels;
use crate::output::server_table::{self, ServerRow, ServerTable};
use crate::output::sort_key::SortKey;
use crate::request::{self, RequestError};
use crate::terminal::{Line, Screen};

/// Objects on a page of the server's table.
const PAGE: u32 = 500;

/// After this many empty pages in a row, a table has no end. (Objects are limited by `--max-list-objects`.)
const EMPTY_PAGES_MAX: u32 = 100;

pub(super) async fn run(
    getting: &Getting<'_>,
    wide: bool,
    selected: &[Selected],
    screen: &mut Screen,
) -> Result<(), Failure> {
    let mut printed = false;
    let mut missing = Missing::new(getting.arguments);
    for same_kind in selected.chunk_by(|a, b| a.kind == b.kind) {
        let kind = &same_kind[0].kind;
        let mut table = ShownTable::default();
        for one in same_kind {
            let more = self::table(getting, one, wide, screen).await;
            if let Some(more) = missing.unless_found(more, screen).await? {
                table.titles = more.titles;
                table.rows.extend(more.rows);
            }
        }
        if table.rows.is_empty() {
            // With several kinds, many may have no objects.
            if !getting.several && missing.is_empty() && !getting.arguments.ignore_not_found {
                screen.remark(&getting.nothing_found(&same_kind[0])).await?;
            }
            continue;
        }
        if getting.sort_by.is_some() {
            check_sort_keys(getting, table.rows.iter().map(|row| &row.key))?;
            table.rows.sort_by(|a, b| a.key.cmp(&b.key));
        }
        if std::mem::replace(&mut printed, true) {
            screen.line("").await?;
        }
        print(getting, kind, table, screen).await?;
    }
    missing.end()
}

/// Rejects a `--sort-by` path that no object has: it is probably misspelled.
pub(super) fn check_sort_keys<'k>(
    getting: &Getting<'_>,
    keys: impl Iterator<Item = &'k SortKey>,
) -> Result<(), Failure> {
    let mut keys = keys.peekable();
    if keys.peek().is_some() && keys.all(|key| *key == SortKey::Missing) {
        let path = getting.arguments.sort_by.as_deref().unwrap_or_default();
        return Err(Failure::Usage(format!("--sort-by {path}: no selected object has this field")));
    }
    Ok(())
}

/// Prints the table of a kind.
async fn print(
    getting: &Getting<'_>,
    kind: &Kind,
    table: ShownTable,
    screen: &mut Screen,
) -> Result<(), Failure> {
    let ShownTable { mut titles, rows } = table;
    let with_namespaces = getting.arguments.select.shows_namespaces() && kind.namespaced;
    let prefix = getting.several.then(|| kind.name_prefix());
    let name_at = titles.iter().position(|title| title == "NAME");
    let row = |TableRow { namespace, mut cells, .. }: TableRow| {
        if let (Some(prefix), Some(at)) = (&prefix, name_at) {
            cells[at] = format!("{prefix}/{}", cells[at]);
        }
        if with_namespaces {
            cells.insert(0, namespace);
        }
        cells
    };
    let rows = rows.into_iter().map(row).collect::<Vec<_>>();
    if with_namespaces {
        titles.insert(0, "NAMESPACE".to_owned());
    }
    print_rows(&titles, &rows, getting.arguments.output.no_headers, screen).await
}

pub(super) async fn print_rows(
    titles: &[String],
    rows: &[Vec<String>],
    no_headers: bool,
    screen: &mut Screen,
) -> Result<(), Failure> {
    let mut grid = Grid::default();
    if !no_headers {
        grid.fit(titles);
    }
    rows.iter().for_each(|row| grid.fit(row));
    if !no_headers {
        screen.line(grid.row(titles, |_| None)).await?;
    }
    for row in rows {
        screen.line(grid.row(row, |_| None)).await?;
    }
    Ok(())
}

#[derive(Default)]
struct ShownTable {
    titles: Vec<String>,
    rows: Vec<TableRow>,
}

struct TableRow {
    key: SortKey,
    namespace: String,
    cells: Vec<String>,
}

async fn table(
    getting: &Getting<'_>,
    selected: &Selected,
    wide: bool,
    screen: &mut Screen,
) -> Result<ShownTable, Failure> {
    if getting.arguments.server_print && getting.fields.is_empty() {
        getting.check_namespace(selected)?;
        let (mut table, mut missing) = (None::<ShownTable>, None);
        for namespace in getting.arguments.select.namespaces_of(getting.cluster, selected) {
            match from_server(getting, selected, namespace, wide, screen).await {
                // The library checks the response.
                Ok(None) => return our_own(getting, selected, wide, screen).await,
                Ok(Some(more)) => match &mut table {
                    Some(table) => table.rows.extend(more.rows),
                    None => table = Some(more),
                },
                Err(failure @ Failure::NotFound(_)) => missing = missing.or(Some(failure)),
                Err(failure) => return Err(failure),
            }
        }
        return table.ok_or_else(|| {
            missing.unwrap_or_else(|| {
                Failure::Other(format!("cannot read {}: no namespace selected", selected.kind.qualified()))
            })
        });
    }
    our_own(getting, selected, wide, screen).await
}

/// The program's own columns, read from the bytes of the fields that the informer kept. Only Secrets with masked values are
/// decoded.
async fn our_own(
    getting: &Getting<'_>,
    selected: &Selected,
    wide: bool,
    screen: &mut Screen,
) -> Result<ShownTable, Failure> {
    let reads = getting.reads(&Format::Table { wide }, &selected.kind, false);
    let listing = getting.listing(selected, &reads, screen).await?;
    let (columns, now) = (Columns::of(&selected.kind.resource), Timestamp::now());
    let types = [selected.kind.resource.type_meta()];
    let reader = columns.reader(&types[0]);
    let sort_by = getting.sort_by.clone().map(|path| PathColumn::new(path, &types));
    let mut rows = Vec::with_capacity(listing.objects.len());
    for object in &listing.objects {
        let record = listing.record(object, getting);
        let texts = sort_by.as_ref().map(|path| path.texts(&record)).transpose()?.unwrap_or_default();
        let fields =
            if record.is_masked() { RowFields::Decoded(record.value()) } else { reader.fields(object) };
        let mut cells = columns.cells(&fields, now, wide);
        cells.extend(label_cells(getting, &fields.get("metadata.labels")));
        let key = SortKey::of(texts.first().map(String::as_str));
        rows.push(TableRow { key, namespace: object.namespace().to_owned(), cells });
    }
    let mut titles = columns.titles(wide);
    titles.extend(label_titles(getting));
    Ok(ShownTable { titles, rows })
}

fn label_titles(getting: &Getting<'_>) -> Vec<String> {
    labels::titles(&getting.arguments.label_columns, getting.arguments.show_labels)
}

fn label_cells(getting: &Getting<'_>, labels: &Value) -> Vec<String> {
    labels::cells(labels, &getting.arguments.label_columns, getting.arguments.show_labels)
}

/// The server's table; `None` if the server returns something else.
async fn from_server(
    getting: &Getting<'_>,
    selected: &Selected,
    namespace: Option<&str>,
    wide: bool,
    screen: &mut Screen,
) -> Result<Option<ShownTable>, Failure> {
    let (select, kind) = (&getting.arguments.select, &selected.kind);
    let by_path = selected.name.as_deref().filter(|_| select.fields.is_empty());
    let path = kind.path(namespace, by_path)?;
    let described = select.describe(getting.cluster, selected);
    let cannot = format!("cannot read {described}");
    let objects = getting.sort_by.as_ref().is_some_and(|path| !path.is_in_metadata());
    let mut query = PageQuery { limit: Some(PAGE), token: String::new(), objects };
    let mut table: Option<ShownTable> = None;
    let listed = ListAmount::default();
    let mut empty_pages = 0;
    let ended = loop {
        let query_text = match by_path {
            Some(_) => query.of_object(),
            None => query.of_list(&select.labels, &select.fields_of(selected)),
        };
        let answer =
            request::get(getting.cluster, &format!("{path}{query_text}"), server_table::ACCEPT).await;
        let mut answer = match answer {
            // The earlier pages belong to a state that the server has compacted. The whole list is read again, in one piece.
            Err(RequestError::Status(status)) if status.is_expired() && !query.token.is_empty() => {
                (table, query.token, query.limit) = (None, String::new(), None);
                listed.reset();
                continue;
            }
            answer => answer.map_err(|error| error.failure(&cannot))?,
        };
        let Some(page) = ServerTable::take(&mut answer) else {
            if table.is_none() {
                return Ok(None);
            }
            let kind = answer["kind"].as_str().unwrap_or("something without a kind");
            break Err(Failure::Other(format!(
                "{cannot}: expected the next page of a Table, received {kind}"
            )));
        };
        let table = table.get_or_insert_with(|| ShownTable {
            titles: [page.titles(wide), label_titles(getting)].concat(),
            rows: Vec::new(),
        });
        let rows = page.rows.iter().map(|row| server_row(getting, &page, row, wide)).collect::<Vec<_>>();
        let bytes = rows.iter().map(TableRow::bytes).sum();
        listed
            .add(rows.len(), bytes, getting.cluster.list_limit)
            .map_err(|error| Failure::other(&cannot, &error))?;
        table.rows.extend(rows);
        let next = answer["metadata"]["continue"].as_str().filter(|_| by_path.is_none()).unwrap_or_default();
        if next.is_empty() {
            break Ok(());
        }
        empty_pages = if page.rows.is_empty() { empty_pages + 1 } else { 0 };
        if empty_pages == EMPTY_PAGES_MAX {
            break Err(Failure::Other(format!(
                "{cannot}: the server returned {EMPTY_PAGES_MAX} empty pages in a row; the list would never end"
            )));
        }
        if next == query.token {
            break Err(Failure::Other(format!(
                "{cannot}: the server returned the same `continue` token again; the list would never end"
            )));
        }
        next.clone_into(&mut query.token);
        // On a narrow terminal, the number has a line of its own.
        let parts = [format!("reading {described}"), format!("{} objects", table.rows.len())];
        screen.status(Line::fill(&parts, None, screen.status_width()));
        screen.flush().await?;
    };
    screen.clear_status();
    ended.map(|()| table)
}

fn server_row(getting: &Getting<'_>, page: &ServerTable, row: &ServerRow, wide: bool) -> TableRow {
    let mut cells = page.cells(row, wide);
    cells.extend(label_cells(getting, &row.object["metadata"]["labels"]));
    let texts = getting.sort_by.as_ref().map(|path| path.texts(&row.object)).unwrap_or_default();
    TableRow {
        key: SortKey::of(texts.first().map(String::as_str)),
        namespace: row.object["metadata"]["namespace"].as_str().unwrap_or_default().to_owned(),
        cells,
    }
}

impl TableRow {
    fn bytes(&self) -> usize {
        self.namespace.len() + self.cells.iter().map(String::len).sum::<usize>()
    }
}

/// The query of one page.
struct PageQuery {
    limit: Option<u32>,
    token: String,
    /// Request complete objects, for a sort key outside of their metadata. By default rows have metadata only.
    objects: bool,
}

impl PageQuery {
    fn of_object(&self) -> String {
        if self.objects { "?includeObject=Object".to_owned() } else { String::new() }
    }

    fn of_list(&self, labels: &str, fields: &str) -> String {
        let mut query = form_urlencoded::Serializer::new(String::new());
        if let Some(limit) = self.limit {
            query.append_pair("limit", &limit.to_string());
        }
        let objects = if self.objects { "Object" } else { "" };
        for (name, value) in [
            ("labelSelector", labels),
            ("fieldSelector", fields),
            ("continue", &self.token),
            ("includeObject", objects),
        ] {
            if !value.is_empty() {
                query.append_pair(name, value);
            }
        }
        format!("?{}", query.finish())
    }
}

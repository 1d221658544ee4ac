//! Columns: the server's where it gives them, else our own.

use jiff::Timestamp;
use serde_json::Value;

use super::{Getting, Missing};
use crate::discovery::{Kind, Selected};
use crate::failure::Failure;
use crate::list_limit::ListAmount;
use crate::output::columns::Columns;
use crate::output::grid::Grid;
use crate::output::server_table::{self, ServerTable};
use crate::request::{self, RequestError};
use crate::terminal::Screen;

/// Objects on a page of the server's table.
const PAGE: u32 = 500;

pub(super) async fn run(
    getting: &Getting<'_>,
    wide: bool,
    selected: Vec<Selected>,
    screen: &mut Screen,
) -> Result<(), Failure> {
    let mut printed = false;
    let mut missing = Missing::default();
    for same_kind in selected.chunk_by(|a, b| a.kind == b.kind) {
        let kind = &same_kind[0].kind;
        let mut table = Table::default();
        for one in same_kind {
            if let Some(more) = missing.unless_found(self::table(getting, one, wide).await, screen).await? {
                table.titles = more.titles;
                table.rows.extend(more.rows);
            }
        }
        if table.rows.is_empty() {
            // Of many kinds most may have no objects.
            if !getting.several && missing.is_empty() {
                screen.remark(&getting.nothing_found(&same_kind[0])).await?;
            }
            continue;
        }
        if std::mem::replace(&mut printed, true) {
            screen.line("").await?;
        }
        print(getting, kind, table, screen).await?;
    }
    missing.end()
}

/// Prints the table of a kind.
async fn print(getting: &Getting<'_>, kind: &Kind, table: Table, screen: &mut Screen) -> Result<(), Failure> {
    let Table { mut titles, rows } = table;
    let with_namespaces = getting.arguments.select.all_namespaces && kind.namespaced;
    let prefix = getting.several.then(|| kind.name_prefix());
    let name_at = titles.iter().position(|title| title == "NAME");
    let row = |(namespace, mut cells): (String, Vec<String>)| {
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

/// Titles, and of each row the namespace and the cells.
#[derive(Default)]
struct Table {
    titles: Vec<String>,
    rows: Vec<(String, Vec<String>)>,
}

async fn table(getting: &Getting<'_>, selected: &Selected, wide: bool) -> Result<Table, Failure> {
    if getting.arguments.server_print
        && getting.fields.is_empty()
        && let Some(table) = from_server(getting, selected).await?
    {
        let rows = table.rows(wide).map(|(namespace, cells)| (namespace.to_owned(), cells)).collect();
        return Ok(Table { titles: table.titles(wide), rows });
    }
    Ok(our_own(selected, &getting.objects(selected).await?, wide))
}

fn our_own(selected: &Selected, objects: &[Value], wide: bool) -> Table {
    let (columns, now) = (Columns::of(&selected.kind.resource), Timestamp::now());
    let row = |object: &Value| {
        let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default().to_owned();
        (namespace, columns.cells(object, now, wide))
    };
    Table { titles: columns.titles(wide), rows: objects.iter().map(row).collect() }
}

/// The server's table; `None` if it answers with something else, which the library's way of listing judges.
async fn from_server(getting: &Getting<'_>, selected: &Selected) -> Result<Option<ServerTable>, Failure> {
    let (select, kind) = (&getting.arguments.select, &selected.kind);
    getting.check_namespace(selected)?;
    let by_path = selected.name.as_deref().filter(|_| select.fields.is_empty());
    let path = kind.path(select.namespace_of(getting.cluster, kind), by_path)?;
    let asked = format!("reading {}", select.describe(getting.cluster, kind));
    let (mut table, mut token, mut limit): (Option<ServerTable>, String, Option<u32>) =
        (None, String::new(), Some(PAGE));
    let listed = ListAmount::default();
    loop {
        let query = match by_path {
            Some(_) => String::new(),
            None => query(&select.labels, &select.fields_of(selected), limit, &token),
        };
        let answer = request::get(getting.cluster, &format!("{path}{query}"), server_table::ACCEPT).await;
        let answer = match answer {
            // The pages read so far belong to a state that the server has compacted: all of it once more, in one piece.
            Err(RequestError::Status(status)) if status.is_expired() && !token.is_empty() => {
                (table, token, limit) = (None, String::new(), None);
                listed.reset();
                continue;
            }
            answer => answer.map_err(|error| error.when(&asked))?,
        };
        let page = ServerTable::read(&answer);
        let (rows, bytes) = page.as_ref().map_or((0, 0), ServerTable::amount);
        listed
            .add(rows, bytes, getting.cluster.list_limit)
            .map_err(|error| Failure::other(&asked, &error))?;
        match (page, &mut table) {
            (Some(page), Some(table)) => table.append(page),
            (Some(page), None) => table = Some(page),
            (None, None) => return Ok(None),
            (None, Some(_)) => {
                let kind = answer["kind"].as_str().unwrap_or("something without a kind");
                return Err(Failure::Other(format!(
                    "{asked}: expected the next page of a Table, received {kind}"
                )));
            }
        }
        let next = answer["metadata"]["continue"].as_str().filter(|_| by_path.is_none()).unwrap_or_default();
        if next.is_empty() {
            return Ok(table);
        }
        if next == token {
            return Err(Failure::Other(format!(
                "{asked}: the server answers a `continue` token with the same token: the list would never end"
            )));
        }
        next.clone_into(&mut token);
    }
}

fn query(labels: &str, fields: &str, limit: Option<u32>, token: &str) -> String {
    let mut query = form_urlencoded::Serializer::new(String::new());
    if let Some(limit) = limit {
        query.append_pair("limit", &limit.to_string());
    }
    for (name, value) in [("labelSelector", labels), ("fieldSelector", fields), ("continue", token)] {
        if !value.is_empty() {
            query.append_pair(name, value);
        }
    }
    format!("?{}", query.finish())
}

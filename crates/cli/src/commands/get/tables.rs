//! Columns: the server's where it gives them, else our own.

use jiff::Timestamp;
use serde_json::Value;

use super::Getting;
use crate::discovery::Selected;
use crate::failure::Failure;
use crate::output::columns::Columns;
use crate::output::grid::Grid;
use crate::output::server_table::{self, ServerTable};
use crate::request;
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
    let count = selected.len();
    for selected in selected {
        let Table { titles, rows } = table(getting, &selected, wide).await?;
        if rows.is_empty() {
            // Of many kinds most may have none.
            if count == 1 {
                screen.remark(&getting.nothing_found(&selected));
            }
            continue;
        }
        if std::mem::replace(&mut printed, true) {
            screen.line("")?;
        }
        let with_namespaces = getting.arguments.select.all_namespaces && selected.kind.namespaced;
        let prefix = getting.several.then(|| selected.kind.name_prefix());
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
        let mut titles = titles;
        if with_namespaces {
            titles.insert(0, "NAMESPACE".to_owned());
        }
        print_rows(&titles, &rows, getting.arguments.output.no_headers, screen)?;
    }
    Ok(())
}

pub(super) fn print_rows(
    titles: &[String],
    rows: &[Vec<String>],
    no_headers: bool,
    screen: &mut Screen,
) -> Result<(), Failure> {
    let mut grid = Grid::default();
    let plain = |_: usize, cell: &str| cell.to_owned();
    if !no_headers {
        grid.fit(titles);
    }
    rows.iter().for_each(|row| grid.fit(row));
    if !no_headers {
        screen.line(&grid.row(titles, plain))?;
    }
    rows.iter().try_for_each(|row| screen.line(&grid.row(row, plain)))
}

/// Titles, and of each row the namespace and the cells.
struct Table {
    titles: Vec<String>,
    rows: Vec<(String, Vec<String>)>,
}

async fn table(getting: &Getting<'_>, selected: &Selected, wide: bool) -> Result<Table, Failure> {
    if getting.arguments.server_print && getting.fields.is_empty() {
        return match from_server(getting, selected).await? {
            Ok(table) => {
                let rows = table.rows(wide).map(|(namespace, cells)| (namespace.to_owned(), cells)).collect();
                Ok(Table { titles: table.titles(wide), rows })
            }
            Err(objects) => Ok(our_own(selected, &objects, wide)),
        };
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

/// The server's table, or the objects if it makes none.
async fn from_server(
    getting: &Getting<'_>,
    selected: &Selected,
) -> Result<Result<ServerTable, Vec<Value>>, Failure> {
    let (select, kind) = (&getting.arguments.select, &selected.kind);
    getting.check_namespace(selected)?;
    let by_path = selected.name.as_deref().filter(|_| select.fields.is_empty());
    let path = kind.path(select.namespace_of(getting.cluster, kind), by_path);
    let asked = format!("reading {}", select.describe(getting.cluster, kind));
    let (mut table, mut objects, mut token): (Option<ServerTable>, Vec<Value>, String) =
        (None, Vec::new(), String::new());
    loop {
        let query = match by_path {
            Some(_) => String::new(),
            None => query(&select.labels, &select.fields_of(selected), &token),
        };
        let answer = request::get(getting.cluster, &format!("{path}{query}"), server_table::ACCEPT).await;
        let mut answer = answer.map_err(|error| error.when(&asked))?;
        token = answer["metadata"]["continue"]
            .as_str()
            .filter(|_| by_path.is_none())
            .unwrap_or_default()
            .to_owned();
        match (ServerTable::read(&answer), &mut table) {
            (Some(page), Some(table)) => table.append(page),
            (Some(page), None) => table = Some(page),
            (None, _) => match answer["items"].take() {
                Value::Array(items) => objects.extend(items.into_iter().map(|item| getting.cleaned(item))),
                _ => objects.push(getting.cleaned(answer)),
            },
        }
        if token.is_empty() {
            return Ok(table.ok_or(objects));
        }
    }
}

fn query(labels: &str, fields: &str, token: &str) -> String {
    let mut query = form_urlencoded::Serializer::new(String::new());
    query.append_pair("limit", &PAGE.to_string());
    for (name, value) in [("labelSelector", labels), ("fieldSelector", fields), ("continue", token)] {
        if !value.is_empty() {
            query.append_pair(name, value);
        }
    }
    format!("?{}", query.finish())
}

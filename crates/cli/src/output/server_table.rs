//! The server's own columns: a `Table`, which every kube-apiserver returns for every kind, including custom resources.

use serde_json::Value;

/// The media types to accept so that the server returns a table, if it can.
pub(crate) const ACCEPT: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";

/// One page of a server's table.
#[derive(Debug)]
pub(crate) struct ServerTable {
    /// Title, and whether only `-o wide` shows the column.
    columns: Vec<(String, bool)>,
    pub(crate) rows: Vec<ServerRow>,
}

/// A row: all cells, and the metadata of the object or the complete object.
#[derive(Debug)]
pub(crate) struct ServerRow {
    cells: Vec<String>,
    pub(crate) object: Value,
}

impl ServerTable {
    /// Takes the table out of a response; `None` if the response is not a table.
    pub(crate) fn take(answer: &mut Value) -> Option<Self> {
        let api_version = answer["apiVersion"].as_str().unwrap_or_default();
        if answer["kind"] != "Table" || !matches!(api_version, "meta.k8s.io/v1" | "meta.k8s.io/v1beta1") {
            return None;
        }
        let column = |column: &Value| {
            let title = column["name"].as_str().unwrap_or_default().to_uppercase();
            (title, column["priority"].as_i64().unwrap_or(0) > 0)
        };
        let columns = answer["columnDefinitions"].as_array()?.iter().map(column).collect();
        let row = |row: &mut Value| ServerRow {
            cells: row["cells"].as_array().into_iter().flatten().map(cell).collect(),
            object: row.get_mut("object").map(Value::take).unwrap_or_default(),
        };
        let rows = answer.get_mut("rows").and_then(Value::as_array_mut);
        Some(Self { columns, rows: rows.into_iter().flatten().map(row).collect() })
    }

    pub(crate) fn titles(&self, wide: bool) -> Vec<String> {
        self.shown(wide).map(|at| self.columns[at].0.clone()).collect()
    }

    /// The cells of a row that are shown.
    pub(crate) fn cells(&self, row: &ServerRow, wide: bool) -> Vec<String> {
        self.shown(wide).map(|at| row.cells.get(at).cloned().unwrap_or_default()).collect()
    }

    fn shown(&self, wide: bool) -> impl Iterator<Item = usize> {
        self.columns.iter().enumerate().filter(move |(_, column)| wide || !column.1).map(|(at, _)| at)
    }
}

fn cell(cell: &Value) -> String {
    match cell {
        Value::Null => "<none>".to_owned(),
        // A cell is one line.
        Value::String(text) => text.replace('\n', "\\n"),
        other => other.to_string(),
    }
}

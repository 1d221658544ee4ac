//! The server's own columns: `Table`, which every kube-apiserver gives for every kind, custom ones too.

use serde_json::Value;

/// What to ask for so that the server answers with a table, if it can.
pub(crate) const ACCEPT: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";

/// A server's table.
#[derive(Debug)]
pub(crate) struct ServerTable {
    /// Title, and whether it is seldom wanted.
    columns: Vec<(String, bool)>,
    rows: Vec<Row>,
}

#[derive(Debug)]
struct Row {
    namespace: String,
    cells: Vec<String>,
}

impl ServerTable {
    /// Reads an answer; `None` if it is not a table.
    pub(crate) fn read(answer: &Value) -> Option<Self> {
        let api_version = answer["apiVersion"].as_str().unwrap_or_default();
        if answer["kind"] != "Table" || !matches!(api_version, "meta.k8s.io/v1" | "meta.k8s.io/v1beta1") {
            return None;
        }
        let column = |column: &Value| {
            let title = column["name"].as_str().unwrap_or_default().to_uppercase();
            (title, column["priority"].as_i64().unwrap_or(0) > 0)
        };
        let columns = answer["columnDefinitions"].as_array()?.iter().map(column).collect();
        let row = |row: &Value| Row {
            namespace: row["object"]["metadata"]["namespace"].as_str().unwrap_or_default().to_owned(),
            cells: row["cells"].as_array().into_iter().flatten().map(cell).collect(),
        };
        let rows = answer["rows"].as_array().into_iter().flatten().map(row).collect();
        Some(Self { columns, rows })
    }

    /// Rows, and the bytes of their cells.
    pub(crate) fn amount(&self) -> (usize, usize) {
        let bytes = |row: &Row| row.namespace.len() + row.cells.iter().map(String::len).sum::<usize>();
        (self.rows.len(), self.rows.iter().map(bytes).sum())
    }

    /// Adds the rows of the next page.
    pub(crate) fn append(&mut self, more: Self) {
        self.rows.extend(more.rows);
    }

    pub(crate) fn titles(&self, wide: bool) -> Vec<String> {
        self.shown(wide).map(|at| self.columns[at].0.clone()).collect()
    }

    /// Namespace and cells of each row.
    pub(crate) fn rows(&self, wide: bool) -> impl Iterator<Item = (&str, Vec<String>)> {
        self.rows.iter().map(move |row| {
            let cells = self.shown(wide).map(|at| row.cells.get(at).cloned().unwrap_or_default()).collect();
            (row.namespace.as_str(), cells)
        })
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

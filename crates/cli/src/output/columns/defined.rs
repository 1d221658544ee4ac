//! The columns of a custom resource, which its definition lists as `additionalPrinterColumns`.

use jiff::Timestamp;
use serde_json::Value;

use super::items;
use crate::output::age;
use crate::output::jsonpath::Path;

/// The columns that a definition adds to the name.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct DefinedColumns(Vec<DefinedColumn>);

#[derive(Clone, Debug, PartialEq)]
struct DefinedColumn {
    title: String,
    path: Path,
    /// The value is a time, and the cell is its age.
    is_date: bool,
    /// Only `-o wide` shows the column.
    is_wide: bool,
}

impl DefinedColumns {
    /// Reads the columns of one version of a CustomResourceDefinition. `None` if the version has none: its objects have a
    /// name and an age. A column whose path cannot be parsed is left out.
    pub(crate) fn read(definition: &Value, version: &str) -> Option<Self> {
        let version = items(&definition["spec"]["versions"]).iter().find(|one| one["name"] == version)?;
        let column = |column: &Value| {
            Some(DefinedColumn {
                title: column["name"].as_str()?.to_uppercase(),
                path: Path::parse(column["jsonPath"].as_str()?).ok()?,
                is_date: column["type"] == "date",
                is_wide: column["priority"].as_i64().unwrap_or(0) > 0,
            })
        };
        let columns = items(&version["additionalPrinterColumns"]).iter().filter_map(column);
        let columns = columns.collect::<Vec<_>>();
        (!columns.is_empty()).then_some(Self(columns))
    }

    pub(crate) fn titles(&self, wide: bool) -> Vec<String> {
        let titles = self.shown(wide).map(|column| column.title.clone());
        std::iter::once("NAME".to_owned()).chain(titles).collect()
    }

    /// The cells of a decoded object: the first value of each path, as a kube-apiserver shows it in a `Table`.
    pub(crate) fn cells(&self, object: &Value, now: Timestamp, wide: bool) -> Vec<String> {
        let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let cell = |column: &DefinedColumn| match column.path.texts(object).into_iter().next() {
            None => "<none>".to_owned(),
            Some(time) if column.is_date => time
                .parse()
                .map_or_else(|_| "<invalid>".to_owned(), |time: Timestamp| age::since(Some(time), now)),
            // A cell is one line.
            Some(text) => text.replace('\n', "\\n"),
        };
        std::iter::once(name).chain(self.shown(wide).map(cell)).collect()
    }

    fn shown(&self, wide: bool) -> impl Iterator<Item = &DefinedColumn> {
        self.0.iter().filter(move |column| wide || !column.is_wide)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn definition(columns: &Value) -> Value {
        json!({"spec": {"versions": [{"name": "v1"}, {"name": "v2", "additionalPrinterColumns": columns}]}})
    }

    #[test]
    fn columns_are_those_of_the_version() {
        let definition = definition(&json!([
            {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
            {"name": "Ready", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Ready\")].status"},
            {"name": "Note", "type": "string", "jsonPath": ".spec.note", "priority": 1},
            {"name": "Broken", "type": "string", "jsonPath": ".spec["},
            {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
        ]));
        assert_eq!(DefinedColumns::read(&definition, "v1"), None);
        assert_eq!(DefinedColumns::read(&definition, "v3"), None);
        let columns = DefinedColumns::read(&definition, "v2").unwrap();
        assert_eq!(columns.titles(false), ["NAME", "SIZE", "READY", "AGE"]);
        assert_eq!(columns.titles(true), ["NAME", "SIZE", "READY", "NOTE", "AGE"]);
        let object = json!({"metadata": {"name": "a", "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"size": 3, "note": "two\nlines"},
            "status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "Other", "status": "False"}]}});
        let now = "2026-01-01T00:01:00Z".parse().unwrap();
        assert_eq!(columns.cells(&object, now, true), ["a", "3", "True", "two\\nlines", "60s"]);
        let odd = json!({"metadata": {"name": "b", "creationTimestamp": "yesterday"}});
        assert_eq!(columns.cells(&odd, now, false), ["b", "<none>", "<none>", "<invalid>"]);
    }
}

//! The program's own columns, for servers without `Table` and for live views: kubectl's columns for the most common kinds,
//! name and age for all others. Cells are computed from [single fields](RowFields), so no object has to be decoded for them.

mod defined;
mod nodes;
mod others;
mod pods;
mod row_fields;
mod workloads;

use jiff::Timestamp;
use kube_informer::building_blocks::Resource;
use kube_wire::{LabelSelector, TypeMeta};
use serde_json::Value;

use super::age;

pub(crate) use defined::DefinedColumns;
pub(crate) use row_fields::{ColumnReader, RowFields};

/// The columns of a kind.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Columns {
    usual: &'static [&'static str],
    wide: &'static [&'static str],
    /// The fields that the cells are made of, in addition to the head.
    fields: &'static [&'static str],
    /// The field whose age is shown: the first one that is set.
    times: &'static [&'static str],
    /// All cells, including those of `-o wide`.
    cells: fn(&RowFields<'_>, Timestamp) -> Vec<String>,
}

/// The age of an object is that of its creation.
const CREATED: &[&str] = &["metadata.creationTimestamp"];

const GENERIC: Columns = Columns {
    usual: &["NAME", "AGE"],
    wide: &[],
    fields: &[],
    times: CREATED,
    cells: |object, now| vec![name(object), age_of(object, now)],
};

impl Columns {
    /// The columns of a kind.
    pub(crate) fn of(resource: &Resource) -> Self {
        match (resource.group.as_str(), resource.plural.as_str()) {
            ("", "pods") => pods::COLUMNS,
            ("", "nodes") => nodes::COLUMNS,
            ("", "namespaces") => others::NAMESPACES,
            ("", "configmaps") => others::CONFIG_MAPS,
            ("", "secrets") => others::SECRETS,
            ("", "services") => others::SERVICES,
            ("", "events") => others::EVENTS,
            ("apps", "deployments") => workloads::DEPLOYMENTS,
            ("apps", "replicasets") => workloads::REPLICA_SETS,
            _ => GENERIC,
        }
    }

    /// The fields that the cells are made of, in addition to the head.
    pub(crate) fn fields(&self) -> &'static [&'static str] {
        self.fields
    }

    pub(crate) fn titles(&self, wide: bool) -> Vec<String> {
        let wide = if wide { self.wide } else { &[] };
        self.usual.iter().chain(wide).map(|&title| title.to_owned()).collect()
    }

    /// Compiles the paths of the fields for objects of this type.
    pub(crate) fn reader(&self, type_meta: &TypeMeta) -> ColumnReader {
        ColumnReader::new(self.fields, type_meta)
    }

    /// The time whose age the column AGE or LAST SEEN shows.
    pub(crate) fn time(&self, object: &RowFields<'_>) -> Option<Timestamp> {
        time_of(object, self.times)
    }

    pub(crate) fn cells(&self, object: &RowFields<'_>, now: Timestamp, wide: bool) -> Vec<String> {
        let mut cells = (self.cells)(object, now);
        if !wide {
            cells.truncate(self.usual.len());
        }
        cells
    }

    /// A short summary of a decoded object: its cells without name and age.
    pub(crate) fn summary(&self, object: &Value, now: Timestamp) -> String {
        let cells = self.cells(&RowFields::Decoded(object), now, false);
        let cells = self.titles(false).into_iter().zip(cells);
        let said =
            cells.filter(|(title, _)| !matches!(title.as_str(), "NAME" | "AGE" | "LAST SEEN" | "RESTARTS"));
        said.map(|(_, cell)| cell).collect::<Vec<_>>().join(" ")
    }
}

// Shared by several kinds.

fn name(object: &RowFields<'_>) -> String {
    object.text("metadata.name")
}

fn age_of(object: &RowFields<'_>, now: Timestamp) -> String {
    age::since(time_of(object, CREATED), now)
}

/// The first of these times that is set.
fn time_of(object: &RowFields<'_>, paths: &[&'static str]) -> Option<Timestamp> {
    let time = paths.iter().map(|path| object.get(path)).find(|time| !time.is_null())?;
    time.as_str()?.parse().ok()
}

/// A text, or another one if it is missing or empty.
fn text_or(value: &Value, otherwise: &str) -> String {
    value.as_str().filter(|text| !text.is_empty()).unwrap_or(otherwise).to_owned()
}

fn items(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// A label selector in the syntax of `-l`.
fn selector(selector: &Value) -> String {
    let text = LabelSelector::text_of(selector);
    if text.is_empty() { "<none>".to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use kube_informer::{Scope, StoredObject};
    use kube_wire::schema::Schema;
    use kube_wire::{Encoding, Limits, ObjectReader, Projection};
    use serde_json::json;

    use super::*;

    #[test]
    fn columns_read_fields_that_their_kind_has() {
        for (group, version, plural, kind) in [
            ("", "v1", "pods", "Pod"),
            ("", "v1", "nodes", "Node"),
            ("", "v1", "namespaces", "Namespace"),
            ("", "v1", "configmaps", "ConfigMap"),
            ("", "v1", "secrets", "Secret"),
            ("", "v1", "services", "Service"),
            ("", "v1", "events", "Event"),
            ("apps", "v1", "deployments", "Deployment"),
            ("apps", "v1", "replicasets", "ReplicaSet"),
        ] {
            let resource = Resource::new(group, version, plural, kind);
            let columns = Columns::of(&resource);
            assert!(!columns.fields().is_empty(), "{plural}");
            let type_meta = resource.type_meta();
            let message = Schema::builtin().kind(type_meta.api_version(), kind).unwrap();
            let projection = Projection::keeping(columns.fields().iter().copied()).unwrap();
            projection.check(message).unwrap_or_else(|error| panic!("{plural}: {error}"));
            // In a debug build, reading a field that is not listed panics.
            let object =
                json!({"apiVersion": type_meta.api_version(), "kind": kind, "metadata": {"name": "a"}});
            let mut reader = ObjectReader::new(Projection::default(), Limits::default());
            let object = reader.read(object.to_string().as_bytes(), Encoding::Json, None).unwrap();
            let object = StoredObject::new(Scope::default(), object).unwrap();
            let cells =
                columns.cells(&columns.reader(&type_meta).fields(&object), Timestamp::UNIX_EPOCH, true);
            assert_eq!(cells.len(), columns.titles(true).len(), "{plural}");
            assert!(cells.contains(&"a".to_owned()), "{plural}: {cells:?}");
        }
    }
}

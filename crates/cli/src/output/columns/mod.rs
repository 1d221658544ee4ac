//! Our own columns, for servers that give no `Table` and for live views, where there is none: those of kubectl for the
//! kinds that are looked at most, name and age for all others.

mod nodes;
mod others;
mod pods;
mod workloads;

use jiff::Timestamp;
use kube_informer::building_blocks::Resource;
use serde_json::Value;

use super::age;

/// The columns of a kind.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Columns {
    usual: &'static [&'static str],
    wide: &'static [&'static str],
    /// All cells, wide ones too.
    cells: fn(&Value, Timestamp) -> Vec<String>,
}

const GENERIC: Columns = Columns {
    usual: &["NAME", "AGE"],
    wide: &[],
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

    pub(crate) fn titles(&self, wide: bool) -> Vec<String> {
        let wide = if wide { self.wide } else { &[] };
        self.usual.iter().chain(wide).map(|&title| title.to_owned()).collect()
    }

    pub(crate) fn cells(&self, object: &Value, now: Timestamp, wide: bool) -> Vec<String> {
        let mut cells = (self.cells)(object, now);
        if !wide {
            cells.truncate(self.usual.len());
        }
        cells
    }

    /// What is worth saying of an object in a few words: its cells without name and age.
    pub(crate) fn summary(&self, object: &Value, now: Timestamp) -> String {
        let cells = self.titles(false).into_iter().zip(self.cells(object, now, false));
        let said =
            cells.filter(|(title, _)| !matches!(title.as_str(), "NAME" | "AGE" | "LAST SEEN" | "RESTARTS"));
        said.map(|(_, cell)| cell).collect::<Vec<_>>().join(" ")
    }
}

// What several kinds have.

fn name(object: &Value) -> String {
    object["metadata"]["name"].as_str().unwrap_or_default().to_owned()
}

fn age_of(object: &Value, now: Timestamp) -> String {
    age::since(&object["metadata"]["creationTimestamp"], now)
}

/// A text, or what stands for none.
fn text_or(value: &Value, none: &str) -> String {
    value.as_str().filter(|text| !text.is_empty()).unwrap_or(none).to_owned()
}

fn items(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// A label selector as `-l` would have it.
fn selector(selector: &Value) -> String {
    let labels = selector["matchLabels"].as_object().into_iter().flatten();
    let mut parts =
        labels.map(|(label, value)| format!("{label}={}", text_or(value, ""))).collect::<Vec<_>>();
    for expression in items(&selector["matchExpressions"]) {
        let key = text_or(&expression["key"], "");
        let values =
            items(&expression["values"]).iter().filter_map(Value::as_str).collect::<Vec<_>>().join(",");
        parts.push(match expression["operator"].as_str().unwrap_or_default() {
            "In" => format!("{key} in ({values})"),
            "NotIn" => format!("{key} notin ({values})"),
            "DoesNotExist" => format!("!{key}"),
            _ => key,
        });
    }
    if parts.is_empty() { "<none>".to_owned() } else { parts.join(",") }
}

//! Output formats: kubectl's `-o`.

pub(crate) mod age;
pub(crate) mod column;
pub(crate) mod columns;
pub(crate) mod grid;
pub(crate) mod jsonpath;
pub(crate) mod labels;
pub(crate) mod list;
pub(crate) mod record;
pub(crate) mod server_table;
pub(crate) mod sort_key;
mod yaml;

use std::str::FromStr;

use serde_json::{Value, json};

use crate::discovery::Kind;
use crate::terminal::escape;
use jsonpath::{Path, Template};
use yaml::Quoted;

/// A format of `-o`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Format {
    /// Columns.
    Table {
        /// Includes the columns of `-o wide`.
        wide: bool,
    },
    Json,
    Yaml,
    Name,
    JsonPath(Template),
    CustomColumns(CustomColumns),
}

/// The columns of `-o custom-columns`: `NAME:.metadata.name,NODE:.spec.nodeName`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct CustomColumns {
    titles: Vec<String>,
    paths: Vec<Path>,
}

/// The type of an event in output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum EventType {
    Added,
    Modified,
    Deleted,
    /// A later list shows that the object changed while the watch was down.
    Relisted,
}

impl EventType {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Added => "ADDED",
            Self::Modified => "MODIFIED",
            Self::Deleted => "DELETED",
            Self::Relisted => "RELISTED",
        }
    }
}

impl FromStr for Format {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('=') {
            Some(("jsonpath", template)) => Template::parse(template)
                .map(Self::JsonPath)
                .map_err(|error| format!("invalid template: {error}")),
            Some(("custom-columns", columns)) => columns.parse().map(Self::CustomColumns),
            None if text == "wide" => Ok(Self::Table { wide: true }),
            None if text == "json" => Ok(Self::Json),
            None if text == "yaml" => Ok(Self::Yaml),
            None if text == "name" => Ok(Self::Name),
            _ => {
                Err("use json, yaml, name, wide, jsonpath=TEMPLATE or custom-columns=TITLE:PATH,…".to_owned())
            }
        }
    }
}

impl FromStr for CustomColumns {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (mut titles, mut paths) = (Vec::new(), Vec::new());
        for column in text.split(',') {
            let (title, path) =
                column.split_once(':').ok_or_else(|| format!("invalid column {column:?}: use TITLE:PATH"))?;
            titles.push(title.to_owned());
            paths.push(Path::parse(path).map_err(|error| format!("column {title}: {error}"))?);
        }
        Ok(Self { titles, paths })
    }
}

impl CustomColumns {
    pub(crate) fn titles(&self) -> &[String] {
        &self.titles
    }

    pub(crate) fn paths(&self) -> &[Path] {
        &self.paths
    }

    /// The cells of a decoded object.
    pub(crate) fn cells(&self, object: &Value) -> Vec<String> {
        let cell = |path: &Path| match path.texts(object) {
            texts if texts.is_empty() => "<none>".to_owned(),
            texts => texts.join(","),
        };
        self.paths.iter().map(cell).collect()
    }
}

/// `pod/api`.
pub(crate) fn name(kind: &Kind, object: &Value) -> String {
    format!("{}/{}", kind.name_prefix(), object["metadata"]["name"].as_str().unwrap_or_default())
}

/// JSON in the layout of `kubectl -o json`.
pub(crate) fn json(value: &Value) -> String {
    let mut text = Vec::new();
    let formatter = serde_json::ser::PrettyFormatter::with_indent(b"    ");
    let mut serializer = serde_json::Serializer::with_formatter(&mut text, formatter);
    // Serializing a value with string keys cannot fail.
    let written = serde::Serialize::serialize(value, &mut serializer);
    debug_assert!(written.is_ok(), "a JSON value is JSON");
    escape::json(&String::from_utf8_lossy(&text)).into_owned()
}

/// As YAML, without a line break at the end.
pub(crate) fn yaml(value: &Value) -> String {
    if yaml::has_odd_key(value) { json(value) } else { yaml::print(&Quoted(value)) }
}

/// An event with its object as YAML, without a line break at the end.
pub(crate) fn yaml_event(event_type: EventType, time: Option<&str>, object: &Value) -> String {
    if yaml::has_odd_key(object) {
        return json_event(event_type, time, object);
    }
    yaml::print(&EventOutput { event_type: event_type.name(), time, object: Quoted(object) })
}

/// An event with its object as one line of JSON.
pub(crate) fn json_event(event_type: EventType, time: Option<&str>, object: &Value) -> String {
    let event = EventOutput { event_type: event_type.name(), time, object };
    // Serializing a value with string keys cannot fail.
    escape::json(&serde_json::to_string(&event).unwrap_or_default()).into_owned()
}

/// A `List` of objects.
pub(crate) fn list(items: Vec<Value>) -> Value {
    let mut list = json!({"apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": ""}});
    list["items"] = items.into();
    list
}

/// An event with its object, as one value.
#[derive(serde::Serialize)]
struct EventOutput<'t, O> {
    #[serde(rename = "type")]
    event_type: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    time: Option<&'t str>,
    object: O,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_parsed_and_unknown_ones_are_rejected_with_the_list() {
        assert_eq!("wide".parse(), Ok(Format::Table { wide: true }));
        assert_eq!("json".parse(), Ok(Format::Json));
        assert!(matches!("jsonpath={.a}".parse(), Ok(Format::JsonPath(_))));
        assert!("jsonpath={.a".parse::<Format>().unwrap_err().contains("brace"));
        assert!("xml".parse::<Format>().unwrap_err().contains("custom-columns="));
        assert!("custom-columns=NAME".parse::<Format>().unwrap_err().contains("TITLE:PATH"));
    }

    #[test]
    fn custom_columns_show_none_for_missing_fields() {
        let columns: CustomColumns = "NAME:.metadata.name,NODE:{.spec.nodeName}".parse().unwrap();
        assert_eq!(columns.titles(), ["NAME", "NODE"]);
        assert_eq!(columns.cells(&json!({"metadata": {"name": "a"}})), ["a", "<none>"]);
    }

    #[test]
    fn yaml_looks_like_kubectls() {
        let value = json!({"metadata": {"name": "a", "labels": {"on": "yes", "n": "1"}}, "spec": {"list": [{"x": 1, "z": [2]}], "text": "a\nb\n",
            "long": "word ".repeat(40).trim_end()}});
        let text = yaml(&value);
        assert!(
            text.starts_with(
                "metadata:\n  labels:\n    \"n\": \"1\"\n    \"on\": \"yes\"\n  name: a\nspec:\n"
            ),
            "{text}"
        );
        assert!(text.contains("\n  list:\n  - x: 1\n    z:\n    - 2\n"), "{text}");
        assert!(text.contains("text: |\n    a\n    b"), "{text}");
        assert_eq!(serde_saphyr::from_str::<Value>(&text).unwrap(), value);
    }
}

//! A `List` as JSON or YAML, written object by object. The text is the same as that of the whole list.

use serde_json::Value;

use super::{json, yaml};

/// The language of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Document {
    Json,
    Yaml,
}

/// Writes a list in pieces.
pub(crate) struct ListWriter {
    document: Document,
    is_empty: bool,
}

impl Document {
    /// One object, with a line break at the end.
    pub(crate) fn object(self, object: &Value) -> String {
        match self {
            Self::Json => json(object) + "\n",
            Self::Yaml => yaml(object) + "\n",
        }
    }
}

impl ListWriter {
    pub(crate) fn new(document: Document) -> Self {
        Self { document, is_empty: true }
    }

    /// The text before the first object.
    pub(crate) fn begin(&self) -> &'static str {
        match self.document {
            Document::Json => "{\n    \"apiVersion\": \"v1\",\n    \"items\": [",
            Document::Yaml => "apiVersion: v1\nitems:",
        }
    }

    /// The text of the next object.
    pub(crate) fn object(&mut self, object: &Value) -> String {
        let first = std::mem::replace(&mut self.is_empty, false);
        match self.document {
            // Line breaks in strings are escaped, so every line of the text can be indented.
            Document::Json => {
                format!(
                    "{}\n        {}",
                    if first { "" } else { "," },
                    json(object).replace('\n', "\n        ")
                )
            }
            Document::Yaml => {
                let mut text = String::from("\n- ");
                for (at, line) in yaml(object).lines().enumerate() {
                    if at > 0 {
                        text.push('\n');
                        // An empty line of a block of text stays empty.
                        text.push_str(if line.is_empty() { "" } else { "  " });
                    }
                    text.push_str(line);
                }
                text
            }
        }
    }

    /// The text after the last object.
    pub(crate) fn end(&self) -> &'static str {
        match (self.document, self.is_empty) {
            (Document::Json, false) => {
                "\n    ],\n    \"kind\": \"List\",\n    \"metadata\": {\n        \"resourceVersion\": \"\"\n    }\n}\n"
            }
            (Document::Json, true) => {
                "],\n    \"kind\": \"List\",\n    \"metadata\": {\n        \"resourceVersion\": \"\"\n    }\n}\n"
            }
            (Document::Yaml, false) => "\nkind: List\nmetadata:\n  resourceVersion: \"\"\n",
            (Document::Yaml, true) => " []\nkind: List\nmetadata:\n  resourceVersion: \"\"\n",
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn written(document: Document, objects: &[Value]) -> String {
        let mut writer = ListWriter::new(document);
        let mut text = writer.begin().to_owned();
        objects.iter().for_each(|object| text += &writer.object(object));
        text + writer.end()
    }

    #[test]
    fn a_list_written_object_by_object_is_the_text_of_the_whole_list() {
        let object = json!({"kind": "ConfigMap", "metadata": {"name": "a", "labels": {}}, "list": [1, [2], {"x": []}],
            "data": {"text": "a\n\n  b\n", "end": "a\nb", "blank": "  a\nb\n", "empty": "", "tab": "a\tb", "odd": "\u{1b}x"}});
        let other = json!({"kind": "Pod", "metadata": null});
        for objects in [vec![], vec![object.clone()], vec![object, other]] {
            let whole = crate::output::list(objects.clone());
            assert_eq!(written(Document::Json, &objects), json(&whole) + "\n");
            assert_eq!(written(Document::Yaml, &objects), yaml(&whole) + "\n");
        }
    }

    #[test]
    fn an_object_with_control_characters_in_keys_is_valid_yaml_in_a_list() {
        let objects = [json!({"key \u{202e}": {"inner": [2]}}), json!({"a": 1})];
        let text = written(Document::Yaml, &objects);
        assert!(!text.contains('\u{202e}'), "{text:?}");
        let read = serde_saphyr::from_str::<Value>(&text).unwrap();
        assert_eq!(read["items"], json!(objects), "{text}");
    }
}

//! YAML as kubectl prints it, with terminal control characters written as escapes.
//!
//! Escapes exist in double-quoted scalars only. The serializer quotes and escapes C0, DEL and C1 controls by itself, but
//! treats bidirectional controls as ordinary letters. So scalars that contain one are quoted, and the controls are then escaped in
//! the finished text, where they occur in double quotes only.

use std::fmt::Write as _;

use serde::{Serialize, Serializer};
use serde_json::Value;
use serde_saphyr::DoubleQuoted;

use crate::terminal::escape;

/// A value as YAML, without a line break at the end.
pub(super) fn print(value: &impl Serialize) -> String {
    let mut options = serde_saphyr::SerializerOptions::default();
    // Folded lines are hard to search.
    options.folded_wrap_chars = usize::MAX;
    let text = serde_saphyr::to_string_with_options(value, options)
        .unwrap_or_else(|error| format!("# this object cannot be written as YAML: {error}"));
    let text = text.trim_end();
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            c if is_left(c) => {
                // All of them are in the basic plane: four digits each.
                let _ = write!(escaped, "\\u{:04X}", u32::from(c));
            }
            c => escaped.push(c),
        }
    }
    escaped
}

/// Whether the serializer does not escape a control character.
fn is_left(c: char) -> bool {
    escape::is_control(c) && !matches!(c, '\n' | '\t')
}

fn needs_quotes(text: &str) -> bool {
    text.contains(is_left)
}

/// Whether a key contains a control character. Keys cannot be quoted on demand, so such a document is printed as JSON, which is
/// also YAML.
pub(super) fn has_odd_key(value: &Value) -> bool {
    match value {
        Value::Array(items) => items.iter().any(has_odd_key),
        Value::Object(members) => {
            members.iter().any(|(name, value)| needs_quotes(name) || has_odd_key(value))
        }
        _ => false,
    }
}

/// A value whose scalars are quoted if they contain a control character.
pub(super) struct Quoted<'v>(pub(super) &'v Value);

impl Serialize for Quoted<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Value::String(text) if needs_quotes(text) => DoubleQuoted(text).serialize(serializer),
            Value::Array(items) => serializer.collect_seq(items.iter().map(Quoted)),
            Value::Object(members) => {
                serializer.collect_map(members.iter().map(|(name, value)| (name, Quoted(value))))
            }
            other => other.serialize(serializer),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn controls_are_escaped_and_the_document_means_the_same() {
        let hostile = "a\u{1b}]0;t\u{7}\r\u{9b}31m\u{202e}b\u{2066}\u{7f}";
        let value = json!({
            "one": hostile,
            "lines": format!("first\n{hostile}\n"),
            "backslash": format!("\\{hostile}\\u202e"),
            "bidi": "a\u{202e}b",
            "bidi lines": "a\u{202e}b\nc\n",
            "list": [hostile, {"x": "a\u{61c}"}],
        });
        assert!(!has_odd_key(&value));
        let text = print(&Quoted(&value));
        assert!(!text.contains(is_left), "{text:?}");
        assert_eq!(serde_saphyr::from_str::<Value>(&text).unwrap(), value, "{text}");
    }

    #[test]
    fn a_document_with_controls_in_keys_is_json() {
        let value = json!({"list": [{"key \u{202e}": {"inner": 2}}], "\u{9b}": 1});
        let text = crate::output::yaml(&value);
        assert!(!text.contains(is_left), "{text:?}");
        assert_eq!(serde_saphyr::from_str::<Value>(&text).unwrap(), value, "{text}");
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), value, "{text}");
    }
}

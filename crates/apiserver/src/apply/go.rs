//! Values formatted like Go's `%q` and `%v`, which a kube-apiserver uses in its messages.

use std::fmt::Write;

use serde_json::Value;

/// A string formatted with `%q`.
pub(crate) fn quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\x07' => out.push_str("\\a"),
            '\x08' => out.push_str("\\b"),
            '\x0b' => out.push_str("\\v"),
            '\x0c' => out.push_str("\\f"),
            c if c.is_ascii_control() => push(&mut out, format_args!("\\x{:02x}", u32::from(c))),
            c if c.is_control() => push(&mut out, format_args!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// A value formatted with `%v`: `map[a:1 b:[x y]]`.
pub(crate) fn plain(value: &Value) -> String {
    let mut out = String::new();
    plain_into(&mut out, value);
    out
}

fn plain_into(out: &mut String, value: &Value) {
    match value {
        Value::Null => out.push_str("<nil>"),
        Value::String(text) => out.push_str(text),
        Value::Bool(_) | Value::Number(_) => push(out, format_args!("{value}")),
        Value::Array(list) => {
            out.push('[');
            for (at, item) in list.iter().enumerate() {
                if at > 0 {
                    out.push(' ');
                }
                plain_into(out, item);
            }
            out.push(']');
        }
        Value::Object(object) => {
            let mut members: Vec<_> = object.iter().collect();
            members.sort_unstable_by_key(|&(name, _)| name);
            out.push_str("map[");
            for (at, (name, item)) in members.into_iter().enumerate() {
                if at > 0 {
                    out.push(' ');
                }
                out.push_str(name);
                out.push(':');
                plain_into(out, item);
            }
            out.push(']');
        }
    }
}

fn push(out: &mut String, text: std::fmt::Arguments<'_>) {
    // Writing to a String cannot fail.
    let _ = out.write_fmt(text);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_match_go_formatting() {
        assert_eq!(quote("a\"b\\\n\u{1}é"), "\"a\\\"b\\\\\\n\\x01é\"");
        assert_eq!(
            plain(&json!({"b": ["x", 1, null], "a": {"c": true}})),
            "map[a:map[c:true] b:[x 1 <nil>]]"
        );
    }
}

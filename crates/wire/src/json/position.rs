//! Finds the field at a position in JSON text: serde_json's errors contain only lines and columns.

use std::fmt::Write as _;

/// The container of a value: an object with a name, or an array with an index.
enum Container {
    Object(Option<String>),
    Array(usize),
}

/// The path of the value that ends at this offset, or of the object or array that starts or ends there; `None` for the
/// whole text.
pub(crate) fn path_at(text: &[u8], offset: usize) -> Option<String> {
    let text = &text[..offset.min(text.len())];
    let mut frames = Vec::new();
    let mut at = 0;
    while let Some(&byte) = text.get(at) {
        let begin = at;
        at += 1;
        match byte {
            b'{' => frames.push(Container::Object(None)),
            b'[' => frames.push(Container::Array(0)),
            b'}' | b']' => drop(frames.pop()),
            b',' => match frames.last_mut() {
                Some(Container::Object(name)) => *name = None,
                Some(Container::Array(index)) => *index += 1,
                None => {}
            },
            b'"' => {
                at = string_end(text, at)?;
                if let Some(Container::Object(name @ None)) = frames.last_mut() {
                    *name = serde_json::from_slice(&text[begin..at]).ok();
                }
            }
            _ => {}
        }
    }
    // The value that starts here does not match, not its first member.
    if matches!(text.last(), Some(b'{' | b'[')) {
        frames.pop();
    }
    let path = frames.iter().fold(String::new(), append);
    (!path.is_empty()).then_some(path)
}

/// The position after the closing quote; `None` if the text ends earlier.
fn string_end(text: &[u8], mut at: usize) -> Option<usize> {
    loop {
        match text.get(at)? {
            b'\\' => at += 2,
            b'"' => return Some(at + 1),
            _ => at += 1,
        }
    }
}

/// Appends in field path syntax: `spec.containers[0].env`, `data['a.b']`.
fn append(mut path: String, frame: &Container) -> String {
    // Writing to a string cannot fail.
    let _ = match frame {
        Container::Array(index) => write!(path, "[{index}]"),
        Container::Object(None) => Ok(()),
        Container::Object(Some(name))
            if name.chars().all(|c| c.is_alphanumeric() || c == '_' || c == '-') =>
        {
            let dot = if path.is_empty() { "" } else { "." };
            write!(path, "{dot}{name}")
        }
        Container::Object(Some(name)) => write!(path, "['{name}']"),
    };
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_field_at_a_position_is_found() {
        let cases = [
            (r#"{"data":{"x":7"#, Some("data.x")),
            (r#"{"data":{"x":"y","a.b/c":[1,{"z":true"#, Some("data['a.b/c'][1].z")),
            (r#"{"spec":{"containers":[{"name":"a"},{"image":"b"}"#, Some("spec.containers[1]")),
            (r#"{"a":"\"}\\","b":["#, Some("b")),
            (r#"{"a":{"b":1},"c":{"#, Some("c")),
            (r#"{"a":1}"#, None),
            (r#"{"a":"cut"#, None),
            ("", None),
        ];
        for (text, path) in cases {
            assert_eq!(path_at(text.as_bytes(), text.len()).as_deref(), path, "{text}");
        }
        assert_eq!(path_at(br#"{"a":1,"b":2}"#, 6).as_deref(), Some("a"));
    }
}

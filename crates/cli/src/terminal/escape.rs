//! Escapes text so that it cannot control a terminal.
//!
//! Names, messages, column titles and field values come from the server, and users who write objects choose them. A
//! terminal interprets some characters: ESC and the C1 controls begin commands (set the title, fill the clipboard, send input as
//! if typed), CR and BS overwrite earlier output, and bidirectional controls reorder it. Each of them is printed in a visible form,
//! that of kubectl and `cat -v` where they have one: `^[`, `^G`, `\r`, `\u{9b}`.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Text of one line: line breaks and tabs are shown as `\n` and `\t`.
pub(crate) fn one_line(text: &str) -> Cow<'_, str> {
    escape(text, is_control)
}

/// Text of several lines: line breaks and tabs stay.
pub(crate) fn lines(text: &str) -> Cow<'_, str> {
    escape(text, |c| is_control(c) && !matches!(c, '\n' | '\t'))
}

/// The text of a JSON document. Such characters occur in its strings only, where they can be written as escapes without a change
/// of meaning.
pub(crate) fn json(document: &str) -> Cow<'_, str> {
    let mut rest = document;
    let mut escaped = String::new();
    while let Some(at) = rest.find(|c| is_control(c) && c != '\n') {
        let mut chars = rest[at..].chars();
        let Some(control) = chars.next() else { break };
        escaped.push_str(&rest[..at]);
        // All of them are in the basic plane: one unit of UTF-16 each.
        let _ = write!(escaped, "\\u{:04x}", u32::from(control));
        rest = chars.as_str();
    }
    if escaped.is_empty() { Cow::Borrowed(document) } else { Cow::Owned(escaped + rest) }
}

/// Whether a terminal would interpret the character instead of showing it.
pub(crate) fn is_control(c: char) -> bool {
    // C0, DEL and C1; then bidirectional marks, embeddings, overrides and isolates; then line and paragraph separators.
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
        || matches!(c, '\u{2028}' | '\u{2029}')
}

fn escape(text: &str, is_escaped: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(&is_escaped) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            c if !is_escaped(c) => escaped.push(c),
            '\n' => escaped.push_str("\\n"),
            '\r' => escaped.push_str("\\r"),
            '\t' => escaped.push_str("\\t"),
            // ^@ to ^_ and ^?, as terminals themselves echo them.
            '\0'..='\u{1f}' | '\u{7f}' => {
                escaped.push('^');
                escaped.push(char::from(c as u8 ^ 0x40));
            }
            c => escaped.extend(c.escape_unicode()),
        }
    }
    Cow::Owned(escaped)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOSTILE: &str = "a\x1b]0;title\x07\r\u{9b}31m\u{202e}b\x7f\tc\nd";

    #[test]
    fn controls_are_shown_instead_of_sent() {
        assert_eq!(one_line(HOSTILE), r"a^[]0;title^G\r\u{9b}31m\u{202e}b^?\tc\nd");
        assert_eq!(lines(HOSTILE), "a^[]0;title^G\\r\\u{9b}31m\\u{202e}b^?\tc\nd");
        assert_eq!(one_line("äöü → ✓ 漢字"), "äöü → ✓ 漢字");
    }

    #[test]
    fn json_means_the_same_and_holds_no_controls() {
        let value = serde_json::json!({ HOSTILE: [HOSTILE, "plain"] });
        let document = serde_json::to_string_pretty(&value).unwrap();
        let escaped = json(&document);
        assert!(!escaped.contains(|c| is_control(c) && c != '\n'), "{escaped:?}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&escaped).unwrap(), value);
        assert!(matches!(json("{}"), Cow::Borrowed(_)));
    }
}

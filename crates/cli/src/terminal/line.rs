//! A line of output: text, and the colours of its parts.
//!
//! Colours are not part of the text, so a line can be measured, cut and escaped without knowing terminal commands, and
//! text cannot bring colours of its own.

use unicode_width::UnicodeWidthChar as _;

use super::Colour;
use super::escape;

/// One line, in parts that may have colours.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Line {
    parts: Vec<(String, Option<Colour>)>,
}

impl Line {
    /// Appends text, with controls escaped.
    pub(crate) fn push(&mut self, text: &str, colour: Option<Colour>) {
        if !text.is_empty() {
            self.parts.push((escape::one_line(text).into_owned(), colour));
        }
    }

    /// The line with another part at its end.
    #[must_use]
    pub(crate) fn with(mut self, text: &str, colour: Option<Colour>) -> Self {
        self.push(text, colour);
        self
    }

    /// The beginning of the line that fits into so many columns of a terminal.
    pub(crate) fn cut(&self, columns: usize) -> Self {
        let mut left = columns;
        let mut cut = Self::default();
        for (text, colour) in &self.parts {
            let does_not_fit = |c: char| match left.checked_sub(c.width().unwrap_or(0)) {
                Some(rest) => {
                    left = rest;
                    false
                }
                None => true,
            };
            let end = text.find(does_not_fit);
            cut.parts.push((text[..end.unwrap_or(text.len())].to_owned(), *colour));
            if end.is_some() {
                break;
            }
        }
        cut
    }

    /// The line's text, with terminal commands for its colours if they are wanted.
    pub(super) fn render(&self, colours: bool, out: &mut Vec<u8>) {
        for (text, colour) in &self.parts {
            match colour.filter(|_| colours) {
                Some(colour) => {
                    out.extend_from_slice(format!("\x1b[{}m{text}\x1b[0m", colour.code()).as_bytes());
                }
                None => out.extend_from_slice(text.as_bytes()),
            }
        }
    }
}

/// The text without colours.
impl std::fmt::Display for Line {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.parts.iter().try_for_each(|(text, _)| f.write_str(text))
    }
}

impl From<&str> for Line {
    fn from(text: &str) -> Self {
        Self::default().with(text, None)
    }
}

impl From<String> for Line {
    fn from(text: String) -> Self {
        Self::from(text.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rendered(line: &Line) -> String {
        let mut out = Vec::new();
        line.render(true, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_line_is_cut_without_counting_colours() {
        let line = Line::default().with("ab", Some(Colour::Good)).with("cdef", None);
        assert_eq!(rendered(&line.cut(80)), "\x1b[32mab\x1b[0mcdef");
        assert_eq!(rendered(&line.cut(3)), "\x1b[32mab\x1b[0mc");
        assert_eq!(rendered(&line.cut(2)), "\x1b[32mab\x1b[0m");
        assert_eq!(rendered(&Line::from("äöüß").cut(3)), "äöü");
        assert_eq!(rendered(&Line::from("日本語").cut(5)), "日本", "a character takes two columns");
        assert_eq!(rendered(&Line::from("e\u{301}e\u{301}e").cut(2)), "e\u{301}e\u{301}");
    }

    #[test]
    fn text_brings_no_colours_of_its_own() {
        assert_eq!(rendered(&Line::from("a\x1b[31mb\n")), "a^[[31mb\\n");
    }
}

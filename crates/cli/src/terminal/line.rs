//! A line of output: text, and the colours of its parts.
//!
//! Colours are separate from the text, so a line can be measured, cut and escaped without terminal commands in it, and text
//! cannot set colours.

use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use super::Colour;
use super::escape;

/// Between the parts of a filled line.
const GAP: &str = "  ";

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

    /// As many of these parts on each line as fit into this number of columns, with a gap between them.
    pub(crate) fn fill(parts: &[String], colour: Option<Colour>, columns: usize) -> Vec<Self> {
        let mut lines: Vec<String> = Vec::new();
        for part in parts.iter().filter(|part| !part.is_empty()) {
            match lines.last_mut() {
                Some(line) if line.width() + GAP.len() + part.width() <= columns => {
                    line.push_str(GAP);
                    line.push_str(part);
                }
                _ => lines.push(part.clone()),
            }
        }
        lines.iter().map(|line| Self::default().with(line, colour)).collect()
    }

    /// The line, shortened with `…` if it is wider than this number of columns.
    pub(crate) fn fit(self, columns: usize) -> Self {
        let width: usize = self.parts.iter().map(|(text, _)| text.width()).sum();
        if width <= columns { self } else { self.cut(columns.saturating_sub(1)).with("…", None) }
    }

    /// The beginning of the line that fits into this number of columns.
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
    fn a_line_that_is_too_wide_ends_with_an_ellipsis() {
        let line = Line::default().with("ab", Some(Colour::Good)).with("cdef", None);
        assert_eq!(line.clone().fit(6).to_string(), "abcdef");
        assert_eq!(rendered(&line.clone().fit(5)), "\x1b[32mab\x1b[0mcd…");
        assert_eq!(line.fit(0).to_string(), "…");
        assert_eq!(Line::from("日本語").fit(5).to_string(), "日本…");
    }

    #[test]
    fn lines_are_filled_with_as_many_parts_as_fit() {
        let parts = ["ab", "", "cd", "日本", "efghijkl"].map(str::to_owned);
        let filled =
            |columns| Line::fill(&parts, None, columns).iter().map(Line::to_string).collect::<Vec<_>>();
        assert_eq!(filled(22), ["ab  cd  日本  efghijkl"]);
        assert_eq!(filled(12), ["ab  cd  日本", "efghijkl"]);
        assert_eq!(filled(6), ["ab  cd", "日本", "efghijkl"], "a part that is too wide has its own line");
    }

    #[test]
    fn escape_sequences_in_text_are_made_visible() {
        assert_eq!(rendered(&Line::from("a\x1b[31mb\n")), "a^[[31mb\\n");
    }
}

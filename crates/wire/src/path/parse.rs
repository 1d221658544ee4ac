//! Parses a path. Errors contain the position and what was expected there.

use std::str::FromStr;

use super::{FieldPath, Filter, Segment};
use crate::error::Error;

/// Maximum number of segments. Far beyond any API's nesting; it bounds the recursion of everything that follows a
/// path.
const SEGMENTS_MAX: usize = 64;

impl FromStr for FieldPath {
    type Err = Error;

    /// # Errors
    /// [`Error::Path`], with the position and what was expected.
    fn from_str(text: &str) -> Result<Self, Error> {
        match Parser::new(text).path() {
            Ok(segments) => Ok(Self::new(segments)),
            Err(why) => Err(Error::Path { path: text.to_owned(), why }),
        }
    }
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    end: usize,
}

impl<'a> Parser<'a> {
    fn new(text: &'a str) -> Self {
        Self { text, at: 0, end: text.len() }
    }

    fn path(mut self) -> Result<Vec<Segment>, String> {
        if self.eat("{") {
            if !self.text.ends_with('}') {
                self.at = self.end;
                return Err(self.expected("`}`, because the path begins with `{`"));
            }
            self.end -= 1;
        }
        if self.rest().starts_with("$.") || self.rest().starts_with("$[") || self.rest() == "$" {
            self.at += 1;
        }
        let mut segments = Vec::new();
        while self.at < self.end {
            segments.push(self.segment(segments.is_empty())?);
            if segments.len() > SEGMENTS_MAX {
                return Err(format!("longer than {SEGMENTS_MAX} segments"));
            }
        }
        if segments.is_empty() { Err(self.expected("the name of a field")) } else { Ok(segments) }
    }

    fn segment(&mut self, first: bool) -> Result<Segment, String> {
        if self.eat("[") {
            let segment = self.bracket()?;
            return if self.eat("]") { Ok(segment) } else { Err(self.expected("`]`")) };
        }
        if !self.eat(".") && !first {
            return Err(self.expected("`.` or `[`"));
        }
        if self.rest().starts_with('*') {
            return Err(self.expected("a name (every element of a list is written `[*]`)"));
        }
        match self.word(true) {
            name if name.is_empty() => Err(self.expected("a name")),
            name => Ok(Segment::Member(name.into())),
        }
    }

    /// The content of `[` and `]`.
    fn bracket(&mut self) -> Result<Segment, String> {
        if self.eat("*") {
            return Ok(Segment::Each);
        }
        if self.eat("?") {
            return self.filter().map(Segment::Where);
        }
        if let Some(key) = self.quoted()? {
            return Ok(Segment::Member(key.into()));
        }
        let digits = self.rest().bytes().take_while(u8::is_ascii_digit).count();
        if digits == 0 {
            return Err(self.expected("`*`, an index from 0, a quoted key or `?key=text`"));
        }
        match self.rest()[..digits].parse() {
            Ok(index) => {
                self.at += digits;
                Ok(Segment::At(index))
            }
            Err(_) => Err(self.expected("an index below 4294967296")),
        }
    }

    /// `type=Ready`, `type='Ready'`, `(@.type=="Ready")`.
    fn filter(&mut self) -> Result<Filter, String> {
        let parenthesis = self.eat("(");
        self.spaces();
        self.eat("@.");
        let key = match self.quoted()? {
            Some(key) => key,
            None => self.word(false),
        };
        if key.is_empty() {
            return Err(self.expected("the name of the member to compare"));
        }
        self.spaces();
        if !self.eat("==") && !self.eat("=") {
            return Err(self.expected("`=`"));
        }
        self.spaces();
        let text = match self.quoted()? {
            Some(text) => text,
            None => match self.word(false) {
                word if word.is_empty() => return Err(self.expected("the text to compare with")),
                word => word,
            },
        };
        self.spaces();
        if parenthesis && !self.eat(")") {
            return Err(self.expected("`)`"));
        }
        Ok(Filter { key: key.into(), text: text.into() })
    }

    /// Characters that need no quotes; a backslash escapes the next one. A member's name ends at a dot, a filter's
    /// text does not.
    fn word(&mut self, ends_at_dot: bool) -> String {
        let mut word = String::new();
        let mut chars = self.rest().chars();
        while let Some(next) = chars.next() {
            let taken = match next {
                '\\' => chars.next(),
                '.' => (!ends_at_dot).then_some(next),
                '[' | ']' | '(' | ')' | '{' | '}' | '\'' | '"' | '*' | '?' | '=' | ',' | '@' | '|' => None,
                _ => (!next.is_whitespace() && !next.is_control()).then_some(next),
            };
            let Some(taken) = taken else { break };
            word.push(taken);
            self.at = self.end - chars.as_str().len();
        }
        word
    }

    /// A string in single or double quotes, in which a backslash escapes the next character.
    fn quoted(&mut self) -> Result<Option<String>, String> {
        let mut chars = self.rest().chars();
        let Some(quote @ ('\'' | '"')) = chars.next() else { return Ok(None) };
        let mut content = String::new();
        loop {
            let next = match chars.next() {
                Some(end) if end == quote => break,
                Some('\\') => chars.next(),
                other => other,
            };
            let Some(next) = next else {
                self.at = self.end;
                return Err(self.expected(&format!("the closing `{quote}`")));
            };
            content.push(next);
        }
        self.at = self.end - chars.as_str().len();
        Ok(Some(content))
    }

    fn spaces(&mut self) {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_start_matches(' ').len();
    }

    fn eat(&mut self, token: &str) -> bool {
        let found = self.rest().starts_with(token);
        if found {
            self.at += token.len();
        }
        found
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..self.end]
    }

    fn expected(&self, what: &str) -> String {
        match self.rest().chars().next() {
            Some(found) => format!("expected {what} at byte {}, found `{}`", self.at, found.escape_debug()),
            None => format!("expected {what} at byte {}, found the end", self.at),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn every_notation_prints_in_one_form() {
        for (text, canonical) in [
            ("spec.nodeName", "spec.nodeName"),
            (".spec.nodeName", "spec.nodeName"),
            ("$.spec.nodeName", "spec.nodeName"),
            ("{.spec.nodeName}", "spec.nodeName"),
            ("{$.spec['nodeName']}", "spec.nodeName"),
            ("$['spec']", "spec"),
            ("['spec'].x", "spec.x"),
            ("metadata.labels['app']", "metadata.labels.app"),
            ("metadata.labels[\"app\"]", "metadata.labels.app"),
            ("metadata.labels['app.kubernetes.io/name']", "metadata.labels['app.kubernetes.io/name']"),
            (r"metadata.labels.app\.kubernetes\.io/name", "metadata.labels['app.kubernetes.io/name']"),
            (
                "metadata.annotations['kubectl.kubernetes.io/last-applied-configuration']",
                "metadata.annotations['kubectl.kubernetes.io/last-applied-configuration']",
            ),
            ("spec.x-kubernetes_y", "spec.x-kubernetes_y"),
            ("schema.$ref", "schema['$ref']"),
            ("$ref", "['$ref']"),
            ("data['']", "data['']"),
            (r"data['it\'s']", r"data['it\'s']"),
            (r#"data["it's a \\ \" "]"#, r#"data['it\'s a \\ " ']"#),
            ("data['ключ']", "data['ключ']"),
            ("spec.containers[*].image", "spec.containers[*].image"),
            ("spec.containers[007].name", "spec.containers[7].name"),
            ("matrix[0][*]", "matrix[0][*]"),
            ("status.conditions[?type=Ready].status", "status.conditions[?type=Ready].status"),
            ("status.conditions[?type='Ready'].status", "status.conditions[?type=Ready].status"),
            ("{.status.conditions[?(@.type==\"Ready\")].status}", "status.conditions[?type=Ready].status"),
            (
                "{.status.conditions[?( @.type == \"Ready\" )].status}",
                "status.conditions[?type=Ready].status",
            ),
            ("x[?version=1.2.3]", "x[?version='1.2.3']"),
            ("x[?'a.b'='']", "x[?'a.b'='']"),
            ("x[?name='it\\'s'].y", "x[?name='it\\'s'].y"),
        ] {
            let path: FieldPath = text.parse().unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(path.to_string(), canonical, "{text}");
            assert_eq!(canonical.parse::<FieldPath>(), Ok(path), "{text}");
        }
    }

    #[test]
    fn errors_contain_position_and_expectation() {
        for (text, why) in [
            ("", "expected the name of a field at byte 0, found the end"),
            (".", "expected a name at byte 1, found the end"),
            ("$", "expected the name of a field at byte 1, found the end"),
            ("{}", "expected the name of a field at byte 1, found the end"),
            ("{.spec", "expected `}`, because the path begins with `{` at byte 6, found the end"),
            ("spec.", "expected a name at byte 5, found the end"),
            ("spec..x", "expected a name at byte 5, found `.`"),
            ("spec x", "expected `.` or `[` at byte 4, found ` `"),
            ("spec.*", "expected a name (every element of a list is written `[*]`) at byte 5, found `*`"),
            ("spec]", "expected `.` or `[` at byte 4, found `]`"),
            ("spec[", "expected `*`, an index from 0, a quoted key or `?key=text` at byte 5, found the end"),
            ("spec[-1]", "expected `*`, an index from 0, a quoted key or `?key=text` at byte 5, found `-`"),
            ("spec[app]", "expected `*`, an index from 0, a quoted key or `?key=text` at byte 5, found `a`"),
            ("spec[1:2]", "expected `]` at byte 6, found `:`"),
            ("spec[4294967296]", "expected an index below 4294967296 at byte 5, found `4`"),
            ("spec['app]", "expected the closing `'` at byte 10, found the end"),
            ("spec['app'", "expected `]` at byte 10, found the end"),
            ("spec[*]x", "expected `.` or `[` at byte 7, found `x`"),
            ("x[?=Ready]", "expected the name of the member to compare at byte 3, found `=`"),
            ("x[?type]", "expected `=` at byte 7, found `]`"),
            ("x[?type=]", "expected the text to compare with at byte 8, found `]`"),
            ("x[?type=Ready", "expected `]` at byte 13, found the end"),
            ("x[?(@.type=='Ready']", "expected `)` at byte 19, found `]`"),
            ("x[?a=b && c=d]", "expected `]` at byte 7, found `&`"),
        ] {
            let error = text.parse::<FieldPath>().expect_err(text);
            assert_eq!(error.to_string(), format!("invalid field path `{text}`: {why}"));
        }
    }

    #[test]
    fn path_length_is_limited() {
        assert!(vec!["x"; SEGMENTS_MAX].join(".").parse::<FieldPath>().is_ok());
        let error = vec!["x"; SEGMENTS_MAX + 1].join(".").parse::<FieldPath>().unwrap_err();
        assert!(error.to_string().ends_with("longer than 64 segments"), "{error}");
    }

    pub(crate) fn any_path() -> impl Strategy<Value = FieldPath> {
        let name = prop_oneof!["[a-zA-Z]{1,8}", r#"[a-z./ '"\\\[\]$é-]{0,8}"#];
        let key = prop_oneof!["[a-zA-Z]{1,8}", r#"[a-z./ '"\\\[\]$é-]{1,8}"#];
        let segment = prop_oneof![
            4 => name.clone().prop_map(|name| Segment::Member(name.into())),
            1 => Just(Segment::Each),
            1 => any::<u32>().prop_map(Segment::At),
            1 => (key, name).prop_map(|(key, text)| Segment::Where(Filter { key: key.into(), text: text.into() })),
        ];
        prop::collection::vec(segment, 1..10).prop_map(FieldPath::new)
    }

    proptest! {
        #[test]
        fn printing_and_parsing_gives_the_same_path(path in any_path()) {
            prop_assert_eq!(path.to_string().parse::<FieldPath>(), Ok(path));
        }

        #[test]
        fn any_text_is_a_path_or_an_error(text in r#"[a-c.$\[\]{}'"?*=\\0-9(@) é]{0,24}|\PC{0,24}"#) {
            if let Ok(path) = text.parse::<FieldPath>() {
                prop_assert_eq!(path.to_string().parse::<FieldPath>(), Ok(path));
            }
        }
    }
}

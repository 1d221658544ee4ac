//! The prose of a file: its comments and strings, or all of its text where it is not code. It has its own lexer,
//! because token streams drop comments. The lexer only finds where comments and strings begin and end, so it accepts
//! code that does not compile.

/// Text of one line, within one comment or string. Quotes and comment markers are not part of it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Prose {
    /// Counted from 1.
    pub(crate) line: usize,
    pub(crate) text: String,
}

/// The prose of a file, by its name; empty for other kinds of files.
pub(crate) fn of(path: &str, text: &str) -> Vec<Prose> {
    let name = path.rsplit('/').next().unwrap_or(path);
    match name.rsplit_once('.').map_or("", |(_, ending)| ending) {
        "rs" => lex(Language::Rust, text),
        "go" => lex(Language::Go, text),
        "js" => lex(Language::JavaScript, text),
        // Whole files: what is not prose in them has no words that a pattern could match.
        "md" | "html" | "sh" | "toml" | "yaml" | "yml" => all(text),
        _ if path == ".ci/run" => all(text),
        _ => Vec::new(),
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Language {
    Rust,
    Go,
    JavaScript,
}

fn all(text: &str) -> Vec<Prose> {
    (1..).zip(text.lines()).map(|(line, text)| Prose { line, text: text.to_owned() }).collect()
}

fn lex(language: Language, text: &str) -> Vec<Prose> {
    let mut lexer = Lexer { language, rest: text, line: 1, found: Vec::new() };
    while lexer.token() {}
    lexer.found
}

struct Lexer<'a> {
    language: Language,
    rest: &'a str,
    line: usize,
    found: Vec<Prose>,
}

impl<'a> Lexer<'a> {
    /// Skips one token, keeping it if it is prose. Returns false at the end.
    fn token(&mut self) -> bool {
        let Some(first) = self.rest.chars().next() else { return false };
        match first {
            '/' if self.rest.starts_with("//") => self.line_comment(),
            '/' if self.rest.starts_with("/*") => self.block_comment(),
            '"' => self.string('"'),
            '\'' => self.single_quote(),
            '`' if self.language == Language::Go => self.raw("`", "`"),
            '`' if self.language == Language::JavaScript => self.string('`'),
            _ if is_word(first) => self.word(),
            _ => {
                self.take(first.len_utf8());
            }
        }
        true
    }

    fn line_comment(&mut self) {
        let end = self.rest.find('\n').unwrap_or(self.rest.len());
        let comment = self.take(end);
        self.keep(comment.trim_start_matches(['/', '!']), self.line);
    }

    /// Rust's block comments nest.
    fn block_comment(&mut self) {
        let start = self.line;
        let (mut depth, mut end) = (1, "/*".len());
        while depth > 0 && end < self.rest.len() {
            let rest = &self.rest.as_bytes()[end..];
            if rest.starts_with(b"*/") {
                (depth, end) = (depth - 1, end + 2);
            } else if rest.starts_with(b"/*") && self.language == Language::Rust {
                (depth, end) = (depth + 1, end + 2);
            } else {
                end += 1;
            }
        }
        let comment = self.take(end);
        self.keep(comment.trim_start_matches(['/', '*', '!']).trim_end_matches("*/"), start);
    }

    /// A string with escapes. One that is not closed ends with the line in JavaScript, where a quote may be part of a
    /// regular expression.
    fn string(&mut self, quote: char) {
        let start = self.line;
        let mut escaped = false;
        let end = self.rest[1..].find(|char| {
            let ends = !escaped
                && (char == quote || (char == '\n' && self.language == Language::JavaScript && quote != '`'));
            escaped = !escaped && char == '\\';
            ends
        });
        let string = self.take(end.map_or(self.rest.len(), |end| 1 + end));
        if self.rest.starts_with(quote) {
            self.take(1);
        }
        self.keep(&without_escapes(&string[1..]), start);
    }

    /// A string without escapes. The opening is known to be there.
    fn raw(&mut self, opening: &str, closing: &str) {
        let start = self.line;
        let body = opening.len();
        let end = self.rest[body..].find(closing).map_or(self.rest.len(), |end| body + end);
        let string = self.take(end);
        self.take(closing.len().min(self.rest.len()));
        self.keep(&string[body..], start);
    }

    /// A character literal, a lifetime or label, or a string of JavaScript.
    fn single_quote(&mut self) {
        if self.language == Language::JavaScript {
            return self.string('\'');
        }
        let mut after = self.rest.char_indices().skip(1);
        let end = match (after.next(), after.next()) {
            // The character after the backslash may be a quote.
            (Some((_, '\\')), Some((at, escaped))) => {
                let body = at + escaped.len_utf8();
                self.rest[body..].find('\'').map(|end| body + end + 1)
            }
            (Some(_), Some((at, '\''))) => Some(at + 1),
            _ => None,
        };
        self.take(end.unwrap_or(1));
    }

    /// An identifier, keyword or number; with Rust, also the prefix of a string.
    fn word(&mut self) {
        let end = self.rest.find(|char| !is_word(char)).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        let hashes = rest.len() - rest.trim_start_matches('#').len();
        let is_raw = ["r", "br", "cr"].contains(&word) && rest[hashes..].starts_with('"');
        if self.language == Language::Rust && is_raw {
            let hashes = &rest[..hashes];
            return self.raw(&format!("{word}{hashes}\""), &format!("\"{hashes}"));
        }
        self.take(end);
    }

    fn take(&mut self, length: usize) -> &'a str {
        let (taken, rest) = self.rest.split_at(length);
        self.rest = rest;
        self.line += taken.matches('\n').count();
        taken
    }

    fn keep(&mut self, text: &str, start: usize) {
        let lines = (start..).zip(text.lines());
        self.found.extend(lines.map(|(line, text)| Prose { line, text: without_placeholders(text) }));
    }
}

fn is_word(char: char) -> bool {
    char.is_alphanumeric() || char == '_'
}

/// Escapes become spaces: the `n` of `\n` is not part of the word after it. A line's end stays.
fn without_escapes(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text.chars();
    while let Some(char) = rest.next() {
        match char {
            '\\' => match rest.next() {
                Some('\n') => plain.push_str(" \n"),
                _ => plain.push_str("  "),
            },
            _ => plain.push(char),
        }
    }
    plain
}

/// `{name}` and `{name:?}` become `{}`: the names of values that are formatted are code.
fn without_placeholders(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('{') {
        let (before, from) = rest.split_at(at + 1);
        plain.push_str(before);
        let name = from.find(|char| !is_word(char)).unwrap_or(from.len());
        let is_placeholder = from[name..].starts_with(['}', ':', '.', '$']) && !from.starts_with('{');
        rest = if is_placeholder { &from[name..] } else { from };
        // `{{name}}` is text.
        if let Some(literal) = from.strip_prefix('{') {
            plain.push('{');
            rest = literal;
        }
    }
    plain + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(path: &str, text: &str, expected: &[(usize, &str)]) {
        let found = of(path, text);
        let found: Vec<_> = found.iter().map(|prose| (prose.line, &*prose.text)).collect();
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn comments_are_prose_and_code_is_not() {
        check("a.rs", "//! top\nlet x = y; // why\n/// doc", &[(1, " top"), (2, " why"), (3, " doc")]);
        check("a.rs", "a /* b /* c */ d */ e // f", &[(1, " b /* c */ d "), (1, " f")]);
        check("a.rs", "/* one\n * two\n */ x", &[(1, " one"), (2, " * two"), (3, " ")]);
        check("a.rs", "a / b; /* open", &[(1, " open")]);
    }

    #[test]
    fn strings_are_prose_up_to_their_own_quote() {
        check("a.rs", r#"f("a \" b", b"c", c"d") // e"#, &[(1, "a    b"), (1, "c"), (1, "d"), (1, " e")]);
        check(
            "a.rs",
            "\"one\\\n two\n three\"; \"four\"",
            &[(1, "one "), (2, " two"), (3, " three"), (3, "four")],
        );
        check(
            "a.rs",
            r##"r"a\" + r#"b "c" // "#; br"d" "e""##,
            &[(1, "a\\"), (1, "b \"c\" // "), (1, "d"), (1, "e")],
        );
        check("a.rs", r#""\\"; x; "\n\tword""#, &[(1, "  "), (1, "    word")]);
        check("a.rs", "\"open", &[(1, "open")]);
    }

    #[test]
    fn characters_lifetimes_and_raw_identifiers_are_code() {
        check("a.rs", r#"'"' + '\'' + b'"' + '\u{22}' + 'é' + "a""#, &[(1, "a")]);
        check("a.rs", r#"fn f<'a>(x: &'a str) -> &'static str { 'l: loop {} } "b""#, &[(1, "b")]);
        check("a.rs", r##"let r#type = r#fn("a"); bar"b""##, &[(1, "a"), (1, "b")]);
    }

    #[test]
    fn names_in_placeholders_are_code() {
        check(
            "a.rs",
            r#""{name} {other:?} {0} {x:>width$} {} {{text}} {a b}""#,
            &[(1, "{} {:?} {} {:>width$} {} {{text}} {a b}")],
        );
        check("a.rs", r##"r#"{"key": {"n": 1}}"#"##, &[(1, r#"{"key": {"n": 1}}"#)]);
    }

    #[test]
    fn go_has_raw_strings_and_no_nested_comments() {
        check(
            "a.go",
            "x := `a\\`; y := '\"' /* b /* c */ \"d\" // e",
            &[(1, "a\\"), (1, " b /* c "), (1, "d"), (1, " e")],
        );
    }

    #[test]
    fn javascript_has_three_quotes_and_recovers_from_a_regular_expression() {
        check("a.js", "x('a', `b\nc`) // d", &[(1, "a"), (1, "b"), (2, "c"), (2, " d")]);
        check("a.js", "x.match(/'/)\ny('a')", &[(1, "/)"), (2, "a")]);
    }

    #[test]
    fn other_texts_are_prose_as_a_whole() {
        check("docs/a.md", "one\ntwo", &[(1, "one"), (2, "two")]);
        check(".ci/run", "echo one # two", &[(1, "echo one # two")]);
        check("api/a.txt", "one", &[]);
    }
}

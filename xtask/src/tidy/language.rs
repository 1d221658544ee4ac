//! Plain English: no prose matches a pattern of `xtask/language-patterns.txt`. Patterns match within a line, as grep
//! does. Identifiers are code and not checked. Recordings, captures and the listings in `api/` are not read at all.
//! Text quoted from a real kube-apiserver is prose like any other, and exempt only as an entry of [`LANGUAGE`].

use regex::{Regex, RegexBuilder};

use super::exceptions::{self, LANGUAGE};
use super::{Problem, Repository, prose};

const PATTERNS: &str = "xtask/language-patterns.txt";

pub(crate) fn check(repository: &Repository) -> Vec<Problem> {
    match read(include_str!("../../language-patterns.txt")) {
        Ok(patterns) => check_except(repository, &patterns, LANGUAGE),
        Err(problem) => vec![problem],
    }
}

/// A pattern that no prose may match.
struct Pattern {
    regex: Regex,
    /// What to write instead.
    instead: String,
}

/// Reads the file of patterns. A `##` line is a comment. A `#` line says what to write instead of the text that the patterns below it
/// match.
fn read(text: &str) -> Result<Vec<Pattern>, Problem> {
    let mut patterns = Vec::new();
    let mut instead = "";
    for (line, text) in (1..).zip(text.lines()) {
        if text.is_empty() || text.starts_with("##") {
            continue;
        }
        if let Some(hint) = text.strip_prefix("# ") {
            instead = hint;
            continue;
        }
        let regex = RegexBuilder::new(text).case_insensitive(true).build();
        let regex =
            regex.map_err(|error| Problem::new(PATTERNS, line, format!("invalid pattern: {error}")))?;
        patterns.push(Pattern { regex, instead: instead.to_owned() });
    }
    Ok(patterns)
}

fn check_except(
    repository: &Repository,
    patterns: &[Pattern],
    excepted: &[exceptions::Quotation],
) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut used = vec![false; excepted.len()];
    for (path, text) in repository.ending_with("") {
        let prose = prose::of(path, text);
        // Most files match no pattern: one search per pattern is quicker than one per line.
        let all = prose.iter().map(|prose| &*prose.text).collect::<Vec<_>>().join("\n");
        for pattern in patterns.iter().filter(|pattern| pattern.regex.is_match(&all)) {
            for prose in &prose {
                let Some(found) = pattern.regex.find(&prose.text) else { continue };
                let exception =
                    excepted.iter().position(|entry| entry.path == path && prose.text.contains(entry.text));
                match exception {
                    Some(exception) => used[exception] = true,
                    None => problems.push(Problem::new(path, prose.line, pattern.message(found.as_str()))),
                }
            }
        }
    }
    let stale = excepted.iter().zip(used).filter(|(_, used)| !used);
    problems.extend(stale.map(|(entry, _)| {
        let exceptions::Quotation { path, text, reason } = entry;
        exceptions::stale(
            &format!("no line of {path} with `{text}` matches a pattern ({reason})"),
            "LANGUAGE",
        )
    }));
    problems
}

impl Pattern {
    fn message(&self, found: &str) -> String {
        format!("\"{found}\" matches `{}`; write {}", self.regex, self.instead)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRUIT: &str = "## Fruit.\n# \"pear\"\n\\bapples?\\b\n# \"plum\"\nbanana";

    fn found(repository: &Repository, excepted: &[exceptions::Quotation]) -> Vec<String> {
        let patterns = read(FRUIT).unwrap();
        check_except(repository, &patterns, excepted).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_match_is_reported_with_its_line_its_pattern_and_what_to_write() {
        let repository =
            Repository::of([("a.rs", "//! Doc.\nfn f() { g(\"one Apple\") }"), ("b.md", "bananas")]);
        let expected = [
            "a.rs:2: \"Apple\" matches `\\bapples?\\b`; write \"pear\"",
            "b.md:1: \"banana\" matches `banana`; write \"plum\"",
        ];
        assert_eq!(found(&repository, &[]), expected);
    }

    #[test]
    fn identifiers_placeholders_and_other_words_are_not_reported() {
        let code = "fn apple(apples: &'apple str) { println!(\"{apple} pineapple {apples:?}\") }";
        let repository = Repository::of([("a.rs", code), ("api/a.txt", "apple")]);
        assert_eq!(found(&repository, &[]), [""; 0]);
    }

    #[test]
    fn quoted_text_is_exempt_only_where_it_is_listed_and_a_stale_entry_is_reported() {
        let repository = Repository::of([("a.rs", "// apple pie\n// apple"), ("b.rs", "// apple pie")]);
        let entry = |path, text| exceptions::Quotation { path, text, reason: "quoted" };
        let problems = found(&repository, &[entry("a.rs", "apple pie"), entry("a.rs", "apple cake")]);
        assert_eq!(problems.len(), 3, "{problems:?}");
        assert!(problems[0].starts_with("a.rs:2: "), "{problems:?}");
        assert!(problems[1].starts_with("b.rs:1: "), "{problems:?}");
        assert!(
            problems[2].contains("no line of a.rs with `apple cake` matches a pattern (quoted); remove it"),
            "{problems:?}"
        );
    }

    #[test]
    fn every_pattern_of_the_repository_is_valid_and_says_what_to_write() {
        let patterns = read(include_str!("../../language-patterns.txt")).unwrap();
        assert!(patterns.iter().all(|pattern| !pattern.instead.is_empty()));
        // With an escape each, so that this file does not match.
        for line in
            ["the path is n\x6fne", "n\x6fbody waits", "it H\x65ard", "99\x74h of 100", "is no `x` p\x61th"]
        {
            let matches = patterns.iter().filter(|pattern| pattern.regex.is_match(line));
            assert_eq!(matches.count(), 1, "{line}");
        }
        assert!(
            read("## Comment.\n(").err().unwrap().to_string().starts_with("xtask/language-patterns.txt:2: ")
        );
    }

    #[test]
    fn at_most_ten_exceptions_each_with_a_reason() {
        assert!(LANGUAGE.len() <= 10);
        assert!(LANGUAGE.iter().all(|entry| !entry.reason.is_empty() && !entry.text.is_empty()));
    }
}

//! The tests and examples that the contract and the parity pages name exist; `name_…` matches any test with this
//! prefix. The names of the contract's tests start with the numbers of their clauses: `promise_6_…` for clause 6,
//! `promises_1_6_and_7_…` for several, `c3_…` for C3, `c3_c10_…` for C3 and C10. A test with a number is listed in the
//! contract, under that clause. The regression tests that docs/reliability.md names exist, too.

use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::{TokenStream, TokenTree};

use super::rust::{ident, is_punct, lex};
use super::{Problem, Repository};

const CONTRACT: &str = "docs/contract.md";
const RELIABILITY: &str = "docs/reliability.md";
/// The heading in [`RELIABILITY`] under which tables name tests.
const FOUND: &str = "What was found";

pub(crate) fn check(repository: &Repository) -> Vec<Problem> {
    let tests = match tests(repository) {
        Ok(tests) => tests,
        Err(problem) => return vec![problem],
    };
    let exists = |name: &str| match name.strip_suffix('…') {
        Some(begin) => {
            tests.range(begin.to_owned()..).next().is_some_and(|(found, _)| found.starts_with(begin))
        }
        None => {
            tests.contains_key(name)
                || repository.ending_with(&format!("/examples/{name}.rs")).next().is_some()
        }
    };
    let mut problems = Vec::new();
    let mut promised = BTreeSet::new();
    for (page, text) in repository.ending_with(".md").filter(|(page, _)| names_tests(page)) {
        let (mut clause, mut names_tests) = (None, page != RELIABILITY);
        for (line, text) in (1..).zip(text.lines()) {
            if let Some(heading) = text.strip_prefix('#') {
                let heading = heading.trim_start_matches('#').trim();
                clause = clause_of(heading);
                names_tests = page != RELIABILITY || heading == FOUND;
            }
            for name in named_in(text).into_iter().filter(|_| names_tests) {
                if !exists(name) {
                    let message = format!("there is no test `{name}`; name an existing test, or write it");
                    problems.push(Problem::new(page, line, message));
                }
                if page == CONTRACT
                    && let Some(clause) = clause
                {
                    if !clauses(name).contains(&clause.to_lowercase()) {
                        let message =
                            format!("`{name}` does not carry the number of clause {clause}; rename the test");
                        problems.push(Problem::new(page, line, message));
                    }
                    promised.insert((name, clause.to_lowercase()));
                }
            }
        }
    }
    for (name, (file, line)) in &tests {
        for clause in clauses(name) {
            if !promised.contains(&(&**name, clause.clone())) {
                let message = format!(
                    "`{name}` is not in {CONTRACT} under clause {clause}; add it there, or rename it"
                );
                problems.push(Problem::new(file, *line, message));
            }
        }
    }
    problems
}

fn names_tests(page: &str) -> bool {
    page == CONTRACT || page == RELIABILITY || page.starts_with("docs/parity")
}

/// `6` for "6. Bounded", `C3` for "C3. Sync before work".
fn clause_of(heading: &str) -> Option<&str> {
    let (clause, _) = heading.split_once(". ")?;
    let digits = clause.strip_prefix(['C', 'G']).unwrap_or(clause);
    (!digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())).then_some(clause)
}

/// The clauses whose numbers a test's name carries, in lower case.
fn clauses(name: &str) -> Vec<String> {
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let plain = name.strip_prefix("promise_").or_else(|| name.strip_prefix("promises_"));
    match plain {
        Some(rest) => rest
            .split('_')
            .take_while(|part| *part == "and" || is_number(part))
            .filter(|part| *part != "and")
            .map(str::to_owned)
            .collect(),
        None => name
            .split('_')
            .take_while(|part| part.strip_prefix(['c', 'g']).is_some_and(is_number))
            .map(str::to_owned)
            .collect(),
    }
}

/// Test names in the second column of a table. Words with an underscore and without capitals are names.
fn named_in(line: &str) -> Vec<&str> {
    let Some(cell) = line.strip_prefix('|').and_then(|row| row.split('|').nth(1)) else { return Vec::new() };
    let is_part = |char: char| char.is_ascii_alphanumeric() || "_:./-…".contains(char);
    cell.split(|char| !is_part(char))
        .map(|word| word.trim_end_matches(['.', ':']))
        .filter(|word| word.contains('_') && !word.contains(['.', ':', '/', '-']))
        .filter(|word| !word.contains(|char: char| char.is_ascii_uppercase()))
        .collect()
}

/// Every test function of the repository, with its place.
fn tests(repository: &Repository) -> Result<BTreeMap<String, (String, usize)>, Problem> {
    let mut tests = BTreeMap::new();
    for (file, text) in repository.ending_with(".rs").filter(|(_, text)| text.contains("test")) {
        collect(file, lex(file, text)?, &mut tests);
    }
    Ok(tests)
}

/// Functions after an attribute such as `#[test]` or `#[tokio::test(…)]`, within macros too.
fn collect(file: &str, tokens: TokenStream, tests: &mut BTreeMap<String, (String, usize)>) {
    let mut marked = false;
    let mut rest = tokens.into_iter();
    while let Some(token) = rest.next() {
        match token {
            TokenTree::Punct(ref punct) if punct.as_char() == '#' => {
                if let Some(TokenTree::Group(attribute)) = rest.next() {
                    marked |= marks_test(attribute.stream());
                }
            }
            TokenTree::Group(group) => {
                collect(file, group.stream(), tests);
                marked = false;
            }
            TokenTree::Ident(word) if word == "fn" && marked => {
                if let Some((name, line)) = rest.next().as_ref().and_then(ident) {
                    tests.insert(name, (file.to_owned(), line));
                }
                marked = false;
            }
            _ => {}
        }
    }
}

/// `test`, `tokio::test`, `tokio::test(…)`.
fn marks_test(attribute: TokenStream) -> bool {
    let path = attribute.into_iter().take_while(|token| ident(token).is_some() || is_punct(token, ':'));
    path.last().as_ref().and_then(ident).is_some_and(|(word, _)| word == "test")
}

#[cfg(test)]
mod unit_tests {
    use super::*;

    #[test]
    fn clauses_are_read_from_names_and_headings() {
        for (name, expected) in [
            ("promise_6_is_bounded", vec!["6"]),
            ("promises_1_6_and_7_hold", vec!["1", "6", "7"]),
            ("c3_c10_a_refusal", vec!["c3", "c10"]),
            ("g1_nothing_leaks", vec!["g1"]),
            ("c_is_a_letter", vec![]),
            ("a_test", vec![]),
        ] {
            assert_eq!(clauses(name), expected, "{name}");
        }
        for (heading, expected) in [
            ("6. Bounded", Some("6")),
            ("C3. Warm", Some("C3")),
            ("Controllers", None),
            ("The 6. time", None),
        ] {
            assert_eq!(clause_of(heading), expected, "{heading}");
        }
    }

    #[test]
    fn names_are_found_in_the_second_column() {
        let line = "| L | W `a_test`, `other.rs` `in_file` (see `WatchList::Off`, x_y::tests), | no_name |";
        assert_eq!(named_in(line), ["a_test", "in_file"]);
        assert_eq!(named_in("text `a_test`"), [""; 0]);
    }

    #[test]
    fn missing_misnumbered_and_unlisted_tests_are_reported() {
        let repository = Repository::of([
            (
                CONTRACT,
                "## C1. First\n| where | test |\n| W | `c1_there`, `c1_gone`, `unnumbered` |\n| W | `un_numbered` |",
            ),
            (
                "a.rs",
                "#[tokio::test(flavor = \"x\")]\nasync fn c1_there() {}\nm! { #[test]\n#[cfg(x)] fn un_numbered() {} }\n\
                 #[test]\nfn c1_unlisted() {}\n#[attest]\nfn c2_no_test() {}",
            ),
            (
                RELIABILITY,
                "## Other\n| a | `no_test` |\n## What was found\n| a | `un_numbered`, `gone_too` |",
            ),
        ]);
        let problems: Vec<String> = check(&repository).iter().map(ToString::to_string).collect();
        let expected = [
            "docs/contract.md:3: there is no test `c1_gone`",
            "docs/contract.md:4: `un_numbered` does not carry the number of clause C1",
            "docs/reliability.md:4: there is no test `gone_too`",
            "a.rs:6: `c1_unlisted` is not in docs/contract.md",
        ];
        assert_eq!(problems.len(), expected.len(), "{problems:?}");
        for (problem, expected) in problems.iter().zip(expected) {
            assert!(problem.starts_with(expected), "{problem}");
        }
    }
}

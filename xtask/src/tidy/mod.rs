//! `cargo xtask tidy`: the rules of the repository that no compiler checks. One file per rule; each takes the
//! repository and returns what breaks the rule. A test runs all of them, so `cargo test --workspace` does too. To add a
//! rule, add its file and its line in [`RULES`].

mod api_size;
mod crates;
mod doc_code;
mod exceptions;
mod file_names;
mod graph;
mod headers;
mod language;
mod modules;
mod named_tests;
mod oracle_size;
mod pictures;
mod problem;
mod prose;
mod repository;
mod rust;
mod test_programs;
mod types;
mod walks;

use std::fmt::Write as _;

use crate::go::root;
use problem::Problem;
use repository::Repository;

const USAGE: &str = "\
usage: cargo xtask tidy [--print-graph]

Checks the rules of the repository. --print-graph: prints the dependency graphs for ARCHITECTURE.md instead.";

type Rule = fn(&Repository) -> Vec<Problem>;

const RULES: &[Rule] = &[
    crates::check,
    modules::check,
    named_tests::check,
    oracle_size::check,
    test_programs::check,
    headers::check,
    doc_code::check,
    types::check,
    file_names::check,
    api_size::check,
    language::check,
    pictures::check,
    walks::check,
];

/// Runs the task.
pub(crate) fn run(args: &[&str]) -> Result<String, String> {
    let repository =
        Repository::load(&root()).map_err(|error| format!("cannot read the repository: {error}"))?;
    match args {
        [] => match problems(&repository) {
            problems if problems.is_empty() => Ok(format!("{} rules hold", RULES.len())),
            problems => Err(report(&problems)),
        },
        ["--print-graph"] => print_graphs(&repository).map_err(|problem| problem.to_string()),
        _ => Err(USAGE.to_owned()),
    }
}

/// Notes that the pictures in the documentation show the current page.
pub(crate) fn note_pictures() -> Result<(), String> {
    let root = root();
    let repository =
        Repository::load(&root).map_err(|error| format!("cannot read the repository: {error}"))?;
    let place = root.join(pictures::CHECKSUM);
    std::fs::write(&place, format!("{}\n", pictures::checksum(&repository)))
        .map_err(|error| format!("cannot write {}: {error}", place.display()))
}

fn problems(repository: &Repository) -> Vec<Problem> {
    let mut problems: Vec<_> = RULES.iter().flat_map(|rule| rule(repository)).collect();
    problems.sort();
    problems
}

fn report(problems: &[Problem]) -> String {
    let mut report = String::new();
    for problem in problems {
        let _ = writeln!(report, "{problem}");
    }
    report + &format!("cargo xtask tidy: {} problems", problems.len())
}

fn print_graphs(repository: &Repository) -> Result<String, Problem> {
    Ok([crates::graph(repository), modules::graph(repository)?].map(|graph| graph.to_string()).join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_repository_is_tidy() {
        let problems = problems(&Repository::load(&root()).unwrap());
        assert!(problems.is_empty(), "\n{}", report(&problems));
    }
}

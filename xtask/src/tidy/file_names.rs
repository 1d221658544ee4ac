//! Rejects vague file names. A file is named after what it does, so that readers find a behaviour quickly.

use super::exceptions::FILE_NAMES;
use super::{Problem, Repository, exceptions};

const VAGUE: [&str; 7] = ["told", "live", "held", "values", "calls", "graves", "forms"];

pub(crate) fn check(repository: &Repository) -> Vec<Problem> {
    check_except(repository, FILE_NAMES)
}

fn check_except(repository: &Repository, excepted: &[&str]) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (path, _) in repository.ending_with(".rs") {
        if let Some(name) = vague_name(path)
            && !excepted.contains(&path)
        {
            let message = format!("`{name}` is vague; name the file after what it does");
            problems.push(Problem::new(path, 1, message));
        }
    }
    let stale = excepted.iter().filter(|path| repository.text(path).is_none());
    problems.extend(stale.map(|path| exceptions::stale(&format!("`{path}` is gone"), "FILE_NAMES")));
    problems
}

/// The vague part of the path of a crate's source: a file's or a folder's name.
fn vague_name(path: &str) -> Option<&str> {
    let (_, below) = path.strip_prefix("crates/")?.split_once("/src/")?;
    below.split('/').map(|part| part.trim_end_matches(".rs")).find(|part| VAGUE.contains(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vague_names_and_stale_exceptions_are_reported() {
        let repository = Repository::of([
            ("crates/a/src/told.rs", ""),
            ("crates/a/src/forms/path.rs", ""),
            ("crates/a/src/path.rs", ""),
            ("crates/a/tests/live.rs", ""),
        ]);
        let found = |excepted: &[&str]| -> Vec<String> {
            check_except(&repository, excepted).iter().map(ToString::to_string).collect()
        };
        assert_eq!(found(&["crates/a/src/told.rs", "crates/a/src/forms/path.rs"]), [""; 0]);
        let problems = found(&["crates/a/src/told.rs", "crates/a/src/held.rs"]);
        assert_eq!(problems.len(), 2, "{problems:?}");
        assert!(problems[0].starts_with("crates/a/src/forms/path.rs:1: `forms`"), "{problems:?}");
        assert!(problems[1].contains("held.rs` is gone"), "{problems:?}");
    }
}

//! No test file is left out. A crate with `autotests = false` lists its test programs in Cargo.toml; every other file
//! in its `tests` folder must be a module of one of them, or its tests would silently not run.

use super::{Problem, Repository};

pub(crate) fn check(repository: &Repository) -> Vec<Problem> {
    let manifests =
        repository.ending_with("Cargo.toml").filter(|(_, text)| text.contains("autotests = false"));
    manifests
        .flat_map(|(path, text)| left_out(repository, path.trim_end_matches("Cargo.toml"), text))
        .collect()
}

/// The test files of a crate that belong to no program. `folder` is empty or ends with `/`.
fn left_out(repository: &Repository, folder: &str, manifest: &str) -> Vec<Problem> {
    let tests = format!("{folder}tests/");
    let is_program = |name: &str| manifest.contains(&format!("[[test]]\nname = \"{name}\"\n"));
    let files = || {
        let files = repository.ending_with(".rs");
        files.filter_map(|(path, text)| {
            let name = path.strip_prefix(&tests)?.strip_suffix(".rs")?;
            (!name.contains('/')).then_some((path, name, text))
        })
    };
    let programs: Vec<_> = files().filter(|(_, name, _)| is_program(name)).map(|(.., text)| text).collect();
    let is_module = |name: &str| {
        let line = format!("mod {name};");
        programs.iter().any(|program| program.lines().any(|found| found == line))
    };
    files()
        .filter(|(_, name, _)| !is_program(name) && !is_module(name))
        .map(|(path, name, _)| {
            Problem::new(path, 1, format!("its tests do not run; add `mod {name};` to a test program"))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_a_program_is_reported() {
        let manifest = "autotests = false\n\n[[test]]\nname = \"suite\"\n";
        let repository = Repository::of([
            ("a/Cargo.toml", manifest),
            ("a/tests/suite.rs", "mod one;\nmod support;\n"),
            ("a/tests/one.rs", ""),
            ("a/tests/two.rs", ""),
            ("a/tests/support/more.rs", ""),
            ("b/Cargo.toml", ""),
            ("b/tests/three.rs", ""),
        ]);
        let problems: Vec<_> = check(&repository).iter().map(Problem::to_string).collect();
        assert_eq!(problems, ["a/tests/two.rs:1: its tests do not run; add `mod two;` to a test program"]);
    }
}

//! No two types of one crate share a name: one name, one meaning. Alternatives in one module, of which a `cfg` compiles
//! one, count as one type; what only tests compile does not count.

use std::collections::BTreeMap;

use super::exceptions::{self, SHARED_TYPE_NAMES};
use super::rust::{self, Item};
use super::{Problem, Repository};

pub(crate) fn check(repository: &Repository) -> Vec<Problem> {
    check_except(repository, SHARED_TYPE_NAMES)
}

/// A declaration: its module, file and line.
type Place = (String, String, usize);

fn check_except(repository: &Repository, excepted: &[(&str, &str)]) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut shared = Vec::new();
    for (root, _) in repository.ending_with(".rs").filter(|(path, _)| is_root(path)) {
        let folder = root.trim_start_matches("crates/").split("/src/").next().unwrap_or_default();
        match declarations(repository, root) {
            Ok(types) => {
                for (name, places) in types.into_iter().filter(|(_, places)| places.len() > 1) {
                    if !excepted.contains(&(folder, &*name)) {
                        problems.extend(report(&name, &places));
                    }
                    shared.push((folder, name));
                }
            }
            Err(problem) => problems.push(problem),
        }
    }
    for (folder, name) in excepted {
        if !shared.iter().any(|(found, shared)| found == folder && shared == name) {
            problems.push(exceptions::stale(&format!("`{name}` is unique in {folder}"), "SHARED_TYPE_NAMES"));
        }
    }
    problems
}

/// The main file of a library or program.
fn is_root(path: &str) -> bool {
    path.ends_with("/src/lib.rs") || path.ends_with("/src/main.rs") || path.contains("/src/bin/")
}

/// Where each type of a crate is declared, once per module.
fn declarations(repository: &Repository, root: &str) -> Result<BTreeMap<String, Vec<Place>>, Problem> {
    let mut types = BTreeMap::<String, Vec<Place>>::new();
    for module in rust::modules(repository, root)? {
        let path = module.path.join("::");
        for (name, line) in module.items.iter().filter_map(Item::declared_type) {
            let places = types.entry(name).or_default();
            if !places.iter().any(|(seen, ..)| *seen == path) {
                places.push((path.clone(), module.file.clone(), line));
            }
        }
    }
    Ok(types)
}

/// One problem per further declaration, which names the first.
fn report(name: &str, places: &[Place]) -> Vec<Problem> {
    let [(_, first, first_line), others @ ..] = places else { return Vec::new() };
    let message = format!("a second type `{name}`, after {first}:{first_line}; rename or merge them");
    others.iter().map(|(_, file, line)| Problem::new(file, *line, &*message)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_names_and_stale_exceptions_are_reported() {
        let repository = Repository::of([
            (
                "crates/a/src/lib.rs",
                "mod b;\nmod c;\n#[cfg(loom)]\nstruct Lock;\n#[cfg(not(loom))]\nstruct Lock;",
            ),
            ("crates/a/src/b.rs", "struct State;\nimpl Trait for State { type Item = u8; }"),
            ("crates/a/src/c.rs", "\nenum State {}\nimpl Trait for State { type Item = u8; }"),
            ("crates/d/src/lib.rs", "struct State;"),
        ]);
        let found = |excepted: &[(&str, &str)]| -> Vec<String> {
            check_except(&repository, excepted).iter().map(ToString::to_string).collect()
        };
        assert_eq!(found(&[("a", "State")]), [""; 0]);
        let [problem] = &found(&[])[..] else { panic!("{:?}", found(&[])) };
        let expected = "crates/a/src/c.rs:2: a second type `State`, after crates/a/src/b.rs:1";
        assert!(problem.starts_with(expected), "{problem}");
        let stale = found(&[("a", "State"), ("d", "State")]);
        assert_eq!(stale.len(), 1);
        assert!(stale[0].contains("`State` is unique in d"), "{stale:?}");
    }
}

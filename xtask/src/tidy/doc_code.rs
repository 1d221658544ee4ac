//! Rust code on our pages compiles. A page with Rust code must be included as documentation, so that `cargo test`
//! compiles it, and no block may be marked `ignore`. The files of the tutorial are built by `cargo xtask tutorial`.

use std::collections::BTreeSet;

use super::{Problem, Repository};

pub(crate) fn check(repository: &Repository) -> Vec<Problem> {
    let included = included_pages(repository);
    let mut problems = Vec::new();
    for (page, text) in repository.ending_with(".md") {
        for (line, tags) in rust_blocks(text) {
            if page == crate::tutorial::PAGE && tags.contains(&"file") {
                // `cargo xtask tutorial` builds it.
                continue;
            }
            if tags.contains(&"ignore") {
                let message = "this code is not compiled; make it compile, with `no_run` if it cannot run";
                problems.push(Problem::new(page, line, message));
            }
            if !included.contains(page) {
                let message =
                    "no documentation includes this page, so its code is not compiled; add it to docs/lib.rs";
                problems.push(Problem::new(page, line, message));
                break;
            }
        }
    }
    problems
}

/// The lines and tags of code blocks in Rust.
fn rust_blocks(text: &str) -> Vec<(usize, Vec<&str>)> {
    let mut blocks = Vec::new();
    let mut inside = false;
    for (line, text) in (1..).zip(text.lines()) {
        let Some(info) = text.trim_start().strip_prefix("```") else { continue };
        let tags: Vec<&str> = info.split(',').map(str::trim).collect();
        if !inside && tags[0] == "rust" {
            blocks.push((line, tags));
        }
        inside = !inside;
    }
    blocks
}

/// Pages that some `include_str!` names.
fn included_pages(repository: &Repository) -> BTreeSet<String> {
    let mut pages = BTreeSet::new();
    for (file, text) in repository.ending_with(".rs") {
        for included in text.split("include_str!(\"").skip(1).filter_map(|rest| rest.split('"').next()) {
            pages.insert(resolve(file, included));
        }
    }
    pages
}

/// A path relative to a file, from the repository's root.
fn resolve(file: &str, relative: &str) -> String {
    let mut parts: Vec<&str> = file.split('/').collect();
    parts.pop();
    for part in relative.split('/') {
        if part == ".." {
            parts.pop();
        } else {
            parts.push(part);
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_that_are_not_included_and_blocks_that_are_ignored_are_reported() {
        let repository = Repository::of([
            ("docs/lib.rs", "#[doc = include_str!(\"../README.md\")]\n#[doc = include_str!(\"a.md\")]"),
            ("README.md", "```sh\n```rust\n```\n```rust,no_run\n```"),
            ("docs/a.md", "text\n```rust,ignore\n```"),
            ("docs/b.md", "```rust\n```\n```rust\n```"),
            ("docs/c.md", "```text\n```"),
        ]);
        let problems: Vec<String> = check(&repository).iter().map(ToString::to_string).collect();
        assert_eq!(problems.len(), 2, "{problems:?}");
        assert!(problems[0].starts_with("docs/a.md:2: this code is not compiled"), "{problems:?}");
        assert!(problems[1].starts_with("docs/b.md:1: no documentation includes"), "{problems:?}");
    }
}

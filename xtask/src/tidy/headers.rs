//! Every Rust file opens with `//!`, which says what the file is for and why it is the way it is.

use super::{Problem, Repository};

pub(crate) fn check(repository: &Repository) -> Vec<Problem> {
    let bare = repository.ending_with(".rs").filter(|(_, text)| !text.starts_with("//!"));
    bare.map(|(path, _)| Problem::new(path, 1, "no `//!` on the first line; say there what the file is for"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_a_header_is_reported() {
        let repository = Repository::of([("a.rs", "//! Doc."), ("b.rs", "use std::fmt;"), ("c.md", "text")]);
        let problems = check(&repository);
        assert_eq!(problems.len(), 1);
        assert!(problems[0].to_string().starts_with("b.rs:1: no `//!`"), "{}", problems[0]);
    }
}

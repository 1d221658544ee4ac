//! The simulator's oracle is small enough to be read in one sitting: its reports are only as good as its own code.

use super::{Problem, Repository};

/// The code of the oracle.
const ORACLE: &str = "sim/oracle/src/";
/// The number of lines that it may have, without empty lines and comments.
const LINES_MAX: usize = 600;

pub(crate) fn check(repository: &Repository) -> Vec<Problem> {
    let files = repository.ending_with(".rs").filter(|(path, _)| path.starts_with(ORACLE));
    let lines = files.map(|(_, text)| lines_of_code(text)).sum::<usize>();
    if lines <= LINES_MAX {
        return Vec::new();
    }
    let message = format!("the oracle has {lines} lines of code; at most {LINES_MAX} are allowed");
    vec![Problem::new(&format!("{ORACLE}lib.rs"), 1, message)]
}

fn lines_of_code(text: &str) -> usize {
    let is_code = |line: &&str| !line.is_empty() && !line.starts_with("//");
    text.lines().map(str::trim).filter(is_code).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_larger_oracle_is_reported() {
        let code = "//! Doc.\n\nfn check() {}\n    // Note.\n";
        assert_eq!(lines_of_code(code), 1);
        let (fits, exceeds) = (code.repeat(LINES_MAX), code.repeat(LINES_MAX + 1));
        assert_eq!(check(&Repository::of([("sim/oracle/src/lib.rs", &fits), ("src/lib.rs", &fits)])), []);
        let problems = check(&Repository::of([("sim/oracle/src/lib.rs", &exceeds)]));
        assert_eq!(problems.len(), 1);
        assert!(problems[0].to_string().contains("601 lines"), "{}", problems[0]);
    }
}

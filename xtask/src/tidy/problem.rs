//! One violation of a rule, printed as compilers print errors so that editors can jump to it.

use std::fmt;

/// A violation: where it is, what is wrong, and what to do.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Problem {
    /// Relative to the repository's root.
    pub(crate) path: String,
    /// Counted from 1.
    pub(crate) line: usize,
    pub(crate) message: String,
}

impl Problem {
    pub(crate) fn new(path: &str, line: usize, message: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, message: message.into() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.message)
    }
}

//! Violations that are known and not yet removed. A list may only shrink: an entry that no longer applies is reported.

use super::Problem;

/// Types of one crate that share a name: the crate's folder and the name.
pub(crate) const SHARED_TYPE_NAMES: &[(&str, &str)] = &[];

/// Files of crates with vague names.
pub(crate) const FILE_NAMES: &[&str] = &[];

/// Prose that matches a pattern of `xtask/language-patterns.txt`: quotations of others. At most ten entries.
pub(crate) const LANGUAGE: &[Quotation] = &[];

/// Text that is exempt from the rule on language.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Quotation {
    /// The file, relative to the root.
    pub(crate) path: &'static str,
    /// Part of the line.
    pub(crate) text: &'static str,
    /// The source of the quotation.
    pub(crate) reason: &'static str,
}

/// The problem of an entry that no longer applies.
pub(crate) fn stale(why: &str, list: &str) -> Problem {
    Problem::new("xtask/src/tidy/exceptions.rs", 1, format!("{why}; remove it from {list}"))
}

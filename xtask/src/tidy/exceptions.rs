//! Violations that are known and not yet removed. A list may only shrink: an entry that no longer applies is a problem itself.

use super::Problem;

/// Types of one crate that share a name: the crate's folder and the name.
pub(crate) const SHARED_TYPE_NAMES: &[(&str, &str)] = &[
    ("apiserver", "BoxError"),
    ("apiserver", "Change"),
    ("apiserver", "Head"),
    ("apiserver", "Inner"),
    ("apiserver", "Node"),
    ("apiserver", "Operation"),
    ("apiserver", "Owned"),
    ("apiserver", "Paths"),
    ("apiserver", "State"),
    ("apiserver", "Wire"),
    ("apiserver", "Write"),
    ("cli", "Arguments"),
    ("cli", "Comparison"),
    ("cli", "Events"),
    ("cli", "Step"),
    ("controller", "Outcome"),
    ("controller", "Shared"),
    ("controller", "State"),
    ("informer", "Change"),
    ("informer", "Indexer"),
    ("informer", "Inner"),
    ("informer", "Parts"),
    ("informer", "Place"),
    ("informer", "Running"),
    ("informer", "ScopeState"),
    ("informer", "Seen"),
    ("informer", "Shared"),
    ("informer", "Source"),
    ("informer", "State"),
    ("informer", "Step"),
    ("informer", "Topic"),
    ("informer", "View"),
    ("informer", "WaitError"),
    ("wire", "Elements"),
    ("wire", "Entries"),
    ("wire", "Entry"),
    ("wire", "Frame"),
    ("wire", "Inner"),
    ("wire", "Items"),
    ("wire", "Key"),
    ("wire", "Kind"),
    ("wire", "Level"),
    ("wire", "Members"),
    ("wire", "Piece"),
    ("wire", "Place"),
    ("wire", "Tag"),
    ("wire", "TypeMeta"),
    ("wire", "Value"),
];

/// Files of crates with vague names.
pub(crate) const FILE_NAMES: &[&str] = &[
    "crates/apiserver/src/crd/values.rs",
    "crates/apiserver/src/objects/graves.rs",
    "crates/informer/src/calls.rs",
    "crates/informer/src/source/held.rs",
    "crates/informer/src/store/live.rs",
    "crates/informer/src/store/told.rs",
    "crates/informer/src/store/values.rs",
    "crates/wire/src/forms/duration.rs",
    "crates/wire/src/forms/mod.rs",
    "crates/wire/src/forms/quantity.rs",
    "crates/wire/src/forms/time.rs",
];

/// The problem of an entry that no longer applies.
pub(crate) fn stale(why: &str, list: &str) -> Problem {
    Problem::new("xtask/src/tidy/exceptions.rs", 1, format!("{why}; remove it from {list}"))
}

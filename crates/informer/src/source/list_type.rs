//! Checks that a response is a list of the requested kind.
//!
//! A gateway may answer a list request with 200 and something else: `{}`, a login status, a discovery document. Read as a
//! list, that would be a complete, empty state, and every cached object would be reported as deleted.

use kube_wire::schema::Schema;
use kube_wire::{ListHead, TypeMeta};

use super::SourceError;

/// Checks that a list's head belongs to a list of `expected` objects.
///
/// The apiVersion is that of the objects, and the kind of a built-in list is `<Kind>List`. A CustomResourceDefinition
/// chooses its list kind, so for other kinds any name that ends in `List` is accepted.
///
/// # Errors
/// Returns an error that describes the response if it is anything else.
pub(crate) fn check(head: &ListHead, expected: Option<&TypeMeta>) -> Result<(), SourceError> {
    let is_list = match expected {
        None => head.kind.ends_with("List"),
        Some(expected) => head.api_version == expected.api_version() && is_list_kind(&head.kind, expected),
    };
    if is_list || deliberate_bug!("garbage-taken-for-a-list") {
        return Ok(());
    }
    let wanted = expected.map_or("a list".to_owned(), |expected| format!("a list of {expected}"));
    Err(SourceError::UnexpectedKind { expected: wanted, found: describe(head, expected) })
}

fn is_list_kind(kind: &str, expected: &TypeMeta) -> bool {
    let built_in = Schema::builtin().kind(expected.api_version(), expected.kind()).is_some();
    match kind.strip_suffix("List") {
        Some(item_kind) => item_kind == expected.kind() || !built_in,
        None => false,
    }
}

/// Describes the response.
fn describe(head: &ListHead, expected: Option<&TypeMeta>) -> String {
    let mut found = match (head.kind.as_str(), head.api_version.as_str()) {
        ("", _) => "an object without a kind".to_owned(),
        (kind, "") => format!("{kind} without an apiVersion"),
        (kind, version) if expected.is_none_or(|expected| expected.api_version() == version) => {
            kind.to_owned()
        }
        (kind, version) => format!("{kind} of {version}"),
    };
    if !head.other_members.is_empty() {
        let other = if head.kind.is_empty() && head.api_version.is_empty() { "" } else { "other " };
        found += &format!(" (its {other}members: {})", head.other_members.join(", "));
    }
    found
}

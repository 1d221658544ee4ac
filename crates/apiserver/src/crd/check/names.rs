//! Validation of a definition's names.

use kube_wire::internals::names::dns_1035_label;

use super::{FieldError, label};
use crate::crd::Names;

/// Checks the names in a definition's spec.
pub(super) fn names(names: &Names, errors: &mut Vec<FieldError>) {
    let Names { plural, singular, kind, list_kind, short_names, categories } = names;
    for (field, name) in [("plural", plural), ("singular", singular), ("kind", kind), ("listKind", list_kind)]
    {
        if name.is_empty() {
            errors.push(FieldError::required(format!("spec.names.{field}"), ""));
        }
    }
    for (field, name) in [("plural", plural), ("singular", singular)] {
        if !name.is_empty() {
            label(format!("spec.names.{field}"), name, errors);
        }
    }
    for (field, name) in [("kind", kind), ("listKind", list_kind)] {
        if let Some(what) = dns_1035_label(&name.to_lowercase()).filter(|_| !name.is_empty()) {
            let what = format!("may have mixed case, but should otherwise match: {what}");
            errors.push(FieldError::invalid(format!("spec.names.{field}"), name.as_str(), what));
        }
    }
    for (field, list) in [("shortNames", short_names), ("categories", categories)] {
        for (at, name) in list.iter().enumerate() {
            label(format!("spec.names.{field}[{at}]"), name, errors);
        }
    }
    if !kind.is_empty() && kind == list_kind {
        let what = "kind and listKind may not be the same";
        errors.push(FieldError::invalid("spec.names.listKind", list_kind.as_str(), what));
    }
}

//! Names: what DNS allows, and which a definition must have.

use super::{FieldError, label};
use crate::crd::Names;

/// What is wrong with a DNS label (RFC 1035), if anything.
pub(super) fn dns_label(text: &str) -> Option<String> {
    if text.len() > 63 {
        return Some("must be no more than 63 bytes".to_owned());
    }
    let fits = part(text) && text.starts_with(|c: char| c.is_ascii_lowercase());
    (!fits).then(|| {
        "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic \
         character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for \
         validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
            .to_owned()
    })
}

/// What is wrong with a DNS subdomain (RFC 1123), if anything.
pub(super) fn dns_subdomain(text: &str) -> Option<String> {
    if text.len() > 253 {
        return Some("must be no more than 253 bytes".to_owned());
    }
    (!text.split('.').all(part)).then(|| {
        "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must \
         start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
         '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
            .to_owned()
    })
}

/// Checks the names that a definition asks for.
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
        if let Some(what) = dns_label(&name.to_lowercase()).filter(|_| !name.is_empty()) {
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

/// Lower-case letters, digits and dashes, without a dash at either end.
fn part(text: &str) -> bool {
    let edge = |b: Option<u8>| b.is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    edge(text.bytes().next())
        && edge(text.bytes().last())
        && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
}

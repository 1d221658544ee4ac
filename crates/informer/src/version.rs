//! Compares resourceVersions.
//!
//! A resourceVersion is a decimal number without leading zeros, of any length: the longer is larger, and of equal lengths
//! the lexically larger. `""`, `"0"` and malformed versions are not comparable; that is never an error.

use std::cmp::Ordering;

/// Orders two resourceVersions; `None` if one of them is not comparable.
///
/// ```
/// use kube_informer::building_blocks::compare_resource_versions as compare;
/// use std::cmp::Ordering::*;
/// assert_eq!(compare("9", "10"), Some(Less));
/// assert_eq!(compare("10", "10"), Some(Equal));
/// assert_eq!(compare("", "10"), None);
/// assert_eq!(compare("10", "abc"), None);
/// ```
pub fn compare_resource_versions(a: &str, b: &str) -> Option<Ordering> {
    (is_comparable(a) && is_comparable(b)).then(|| a.len().cmp(&b.len()).then_with(|| a.cmp(b)))
}

/// Whether `a` is older than `b`; `false` if they are not comparable.
pub(crate) fn is_older(a: &str, b: &str) -> bool {
    compare_resource_versions(a, b) == Some(Ordering::Less)
}

fn is_comparable(version: &str) -> bool {
    let bytes = version.as_bytes();
    matches!(bytes.first(), Some(b'1'..=b'9')) && bytes.iter().all(u8::is_ascii_digit)
}

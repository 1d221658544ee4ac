//! The order of `--sort-by`: numbers and quantities by size, everything else in natural order, missing values first.

use std::cmp::Ordering;

use crate::field_filter::parse_quantity;

/// The value that an object is sorted by.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum SortKey {
    Missing,
    Number(f64),
    Text(Box<str>),
}

impl SortKey {
    /// The key for the first value of a path.
    pub(crate) fn of(text: Option<&str>) -> Self {
        match text {
            None => Self::Missing,
            Some(text) => parse_quantity(text).map_or_else(|| Self::Text(text.into()), Self::Number),
        }
    }
}

impl Eq for SortKey {}

impl PartialOrd for SortKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for SortKey {
    fn cmp(&self, other: &Self) -> Ordering {
        let rank = |key: &Self| match key {
            Self::Missing => 0,
            Self::Number(_) => 1,
            Self::Text(_) => 2,
        };
        match (self, other) {
            (Self::Number(a), Self::Number(b)) => a.total_cmp(b),
            (Self::Text(a), Self::Text(b)) => natural(a, b),
            (a, b) => rank(a).cmp(&rank(b)),
        }
    }
}

/// Compares texts with the numbers in them by size: `node-9` comes before `node-10`.
fn natural(a: &str, b: &str) -> Ordering {
    let (mut left, mut right) = (a, b);
    loop {
        let (Some(x), Some(y)) = (left.chars().next(), right.chars().next()) else {
            return left.len().cmp(&right.len()).then_with(|| a.cmp(b));
        };
        if x.is_ascii_digit() && y.is_ascii_digit() {
            let ((m, after_m), (n, after_n)) = (number(left), number(right));
            match m.len().cmp(&n.len()).then_with(|| m.cmp(n)) {
                Ordering::Equal => (left, right) = (after_m, after_n),
                unequal => return unequal,
            }
        } else if x == y {
            (left, right) = (&left[x.len_utf8()..], &right[y.len_utf8()..]);
        } else {
            return x.cmp(&y);
        }
    }
}

/// The digits at the beginning without leading zeros, and the rest.
fn number(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    (text[..end].trim_start_matches('0'), &text[end..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_quantities_and_names_are_in_the_order_that_people_expect() {
        for sorted in [
            &["9", "10", "1k"][..],
            &["500m", "1", "1Gi"],
            &["node-1", "node-2", "node-10", "node-10a"],
            &["a", "a01", "a1", "b"],
            &["2026-01-02T03:04:05Z", "2026-11-02T03:04:05Z"],
            &["12", "x"],
        ] {
            let mut keys = sorted.iter().rev().map(|text| SortKey::of(Some(text))).collect::<Vec<_>>();
            keys.sort();
            let expected = sorted.iter().map(|text| SortKey::of(Some(text))).collect::<Vec<_>>();
            assert_eq!(keys, expected);
        }
        assert!(SortKey::of(None) < SortKey::of(Some("-1")));
    }
}

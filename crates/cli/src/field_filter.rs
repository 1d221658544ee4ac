//! `--field`: selects objects by the value of any field, read from the bytes.
//!
//! | filter | selects objects in which |
//! |---|---|
//! | `PATH=VALUE`, `PATH==VALUE` | a value at the path equals VALUE |
//! | `PATH!=VALUE` | no value at the path equals VALUE; a missing field matches |
//! | `PATH in (A,B)` | a value at the path is one of these |
//! | `PATH notin (A,B)` | no value at the path is one of these; a missing field matches |
//! | `PATH>VALUE`, `>=`, `<`, `<=` | a value at the path compares so: numbers, quantities (`500m`, `1Gi`) and times |
//! | `PATH` | the field is present |
//! | `!PATH` | the field is absent |
//!
//! `!=` and `notin` follow label selectors: they are the exact opposite of `=` and `in`.

use std::cmp::Ordering;
use std::str::FromStr;

use jiff::Timestamp;
use kube_informer::StoredObject;
use kube_wire::path::PathReader;
use kube_wire::{FieldPath, TypeMeta};

use crate::failure::Failure;

/// One condition on one field.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct FieldFilter {
    path: FieldPath,
    test: Test,
}

#[derive(Clone, Debug, PartialEq)]
enum Test {
    In(Vec<String>),
    NotIn(Vec<String>),
    Compare(Order, Magnitude),
    Exists,
    Missing,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// A value with an order.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Magnitude {
    Number(f64),
    Time(Timestamp),
}

/// A [`FieldFilter`] compiled for objects of one type.
pub(crate) struct FieldMatcher {
    test: Test,
    reader: PathReader,
}

/// Operators in the order in which they are tried: a longer one before its prefix.
const OPERATORS: [(&str, Operator); 7] = [
    ("==", Operator::Equal),
    ("!=", Operator::NotEqual),
    (">=", Operator::Compare(Order::GreaterOrEqual)),
    ("<=", Operator::Compare(Order::LessOrEqual)),
    ("=", Operator::Equal),
    (">", Operator::Compare(Order::Greater)),
    ("<", Operator::Compare(Order::Less)),
];

const HELP: &str =
    "write PATH=VALUE, PATH!=VALUE, PATH>VALUE, 'PATH in (A,B)', 'PATH notin (A,B)', PATH or !PATH";

#[derive(Clone, Copy)]
enum Operator {
    Equal,
    NotEqual,
    Compare(Order),
}

impl FieldFilter {
    /// Parses the value of a `--field` flag.
    ///
    /// # Errors
    /// If the filter is invalid.
    pub(crate) fn from_flag(text: &str) -> Result<Self, Failure> {
        text.parse().map_err(|error| Failure::Usage(format!("--field {text:?}: {error}")))
    }

    /// Compiles the filters of all `--field` flags for objects of this type.
    ///
    /// # Errors
    /// If the type is built in and lacks a field.
    pub(crate) fn compile(filters: &[Self], type_meta: &TypeMeta) -> Result<FieldMatchers, Failure> {
        let matchers = filters.iter().map(|filter| filter.matcher(type_meta)).collect::<Result<_, _>>();
        matchers.map(FieldMatchers).map_err(|error| Failure::Usage(format!("--field: {error}")))
    }

    /// The path of the field.
    pub(crate) fn path(&self) -> &FieldPath {
        &self.path
    }

    /// Compiles the filter for objects of this type.
    ///
    /// # Errors
    /// If the type is built in and has no such field.
    pub(crate) fn matcher(&self, type_meta: &TypeMeta) -> Result<FieldMatcher, kube_wire::Error> {
        Ok(FieldMatcher { test: self.test.clone(), reader: PathReader::new(&self.path, type_meta)? })
    }
}

impl FromStr for FieldFilter {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        if let Some(path) = text.strip_prefix('!') {
            return Ok(Self { path: parse_path(path)?, test: Test::Missing });
        }
        if let Some((path, word, set)) = split_set(text) {
            let values = parse_set(set)?;
            let test = if word == "in" { Test::In(values) } else { Test::NotIn(values) };
            return Ok(Self { path: parse_path(path)?, test });
        }
        let Some((path, operator, value)) = split_operator(text) else {
            // Otherwise a misspelled operator would become part of a field name.
            if outside_brackets(text).any(|at| text[at..].starts_with([' ', '\t', '~', '!', '(', ')', ','])) {
                return Err(HELP.to_owned());
            }
            return Ok(Self { path: parse_path(text)?, test: Test::Exists });
        };
        let (path, value) = (parse_path(path)?, value.trim());
        let test = match operator {
            Operator::Equal => Test::In(vec![value.to_owned()]),
            Operator::NotEqual => Test::NotIn(vec![value.to_owned()]),
            Operator::Compare(comparison) => {
                let magnitude = Magnitude::parse(value).ok_or_else(|| {
                    format!("{value:?} cannot be compared: give a number, a quantity (500m, 1Gi) or a time (2026-01-02T03:04:05Z)")
                })?;
                Test::Compare(comparison, magnitude)
            }
        };
        Ok(Self { path, test })
    }
}

impl FieldMatcher {
    /// Whether an object matches.
    ///
    /// # Errors
    /// If the object's bytes are malformed.
    pub(crate) fn matches(&self, object: &StoredObject) -> Result<bool, kube_wire::Error> {
        let (mut exists, mut found) = (false, false);
        object.for_each_field(&self.reader, |value| {
            exists = true;
            let text = value.text();
            found |= text.is_some_and(|text| match &self.test {
                Test::In(values) | Test::NotIn(values) => values.iter().any(|value| *value == *text),
                Test::Compare(comparison, limit) => Magnitude::parse(&text)
                    .and_then(|value| value.partial_cmp(limit))
                    .is_some_and(|ordering| comparison.holds(ordering)),
                Test::Exists | Test::Missing => false,
            });
        })?;
        Ok(match self.test {
            Test::In(_) | Test::Compare(..) => found,
            Test::NotIn(_) => !found,
            Test::Exists => exists,
            Test::Missing => !exists,
        })
    }
}

/// The filters of all `--field` flags, compiled for objects of one type. The default matches every object.
#[derive(Default)]
pub(crate) struct FieldMatchers(Vec<FieldMatcher>);

impl FieldMatchers {
    /// Whether there are no filters.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether an object matches all filters.
    ///
    /// # Errors
    /// If the object's bytes are malformed.
    pub(crate) fn match_all(&self, object: &StoredObject) -> Result<bool, Failure> {
        for matcher in &self.0 {
            let matches = matcher.matches(object);
            if !matches.map_err(|error| Failure::Other(format!("cannot read {}: {error}", object.key())))? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

impl Order {
    fn holds(self, ordering: Ordering) -> bool {
        match self {
            Self::Less => ordering.is_lt(),
            Self::LessOrEqual => ordering.is_le(),
            Self::Greater => ordering.is_gt(),
            Self::GreaterOrEqual => ordering.is_ge(),
        }
    }
}

impl Magnitude {
    fn parse(text: &str) -> Option<Self> {
        parse_quantity(text).map(Self::Number).or_else(|| text.parse().ok().map(Self::Time))
    }
}

impl PartialOrd for Magnitude {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        match (self, other) {
            (Self::Number(a), Self::Number(b)) => a.partial_cmp(b),
            (Self::Time(a), Self::Time(b)) => Some(a.cmp(b)),
            _ => None,
        }
    }
}

/// Parses a number or a Kubernetes quantity.
pub(crate) fn parse_quantity(text: &str) -> Option<f64> {
    const SUFFIXES: [(&str, f64); 15] = [
        ("Ki", 1024.0),
        ("Mi", 1_048_576.0),
        ("Gi", 1_073_741_824.0),
        ("Ti", 1_099_511_627_776.0),
        ("Pi", 1_125_899_906_842_624.0),
        ("Ei", 1_152_921_504_606_846_976.0),
        ("n", 1e-9),
        ("u", 1e-6),
        ("m", 1e-3),
        ("k", 1e3),
        ("M", 1e6),
        ("G", 1e9),
        ("T", 1e12),
        ("P", 1e15),
        ("E", 1e18),
    ];
    // Rust also parses `inf` and `nan`.
    if !text.starts_with(|c: char| c.is_ascii_digit() || "+-.".contains(c)) {
        return None;
    }
    if let Ok(number) = text.parse::<f64>() {
        return number.is_finite().then_some(number);
    }
    let (suffix, factor) = SUFFIXES.iter().find(|(suffix, _)| text.ends_with(suffix))?;
    let number = text[..text.len() - suffix.len()].parse::<f64>().ok()?;
    number.is_finite().then(|| number * factor)
}

fn parse_path(text: &str) -> Result<FieldPath, String> {
    let text = text.trim();
    if text.is_empty() {
        return Err(format!("missing field path: {HELP}"));
    }
    text.parse().map_err(|error: kube_wire::Error| format!("{error}; {HELP}"))
}

/// Splits `PATH in (…)` and `PATH notin (…)` into path, word and set.
fn split_set(text: &str) -> Option<(&str, &str, &str)> {
    outside_brackets(text).find_map(|at| {
        let (path, rest) = text.split_at(at);
        let rest = rest.strip_prefix(char::is_whitespace)?.trim_start();
        let word = ["notin", "in"].into_iter().find(|word| rest.starts_with(word))?;
        let set = &rest[word.len()..];
        set.starts_with(|c: char| c.is_whitespace() || c == '(').then(|| (path, word, set.trim()))
    })
}

fn parse_set(text: &str) -> Result<Vec<String>, String> {
    let inner = text.strip_prefix('(').and_then(|text| text.strip_suffix(')'));
    let inner = inner.ok_or_else(|| format!("{text:?} is not a set of values such as (a,b)"))?;
    Ok(inner.split(',').map(|value| value.trim().to_owned()).collect())
}

fn split_operator(text: &str) -> Option<(&str, Operator, &str)> {
    outside_brackets(text).find_map(|at| {
        let (path, rest) = text.split_at(at);
        let (sign, operator) = OPERATORS.iter().find(|(sign, _)| rest.starts_with(sign))?;
        Some((path, *operator, &rest[sign.len()..]))
    })
}

/// The positions of characters outside brackets: a path may contain `[?type=Ready]`.
fn outside_brackets(text: &str) -> impl Iterator<Item = usize> {
    let mut depth = 0_usize;
    text.char_indices().filter_map(move |(at, c)| {
        match c {
            '[' => depth += 1,
            ']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        (depth == 0).then_some(at)
    })
}

#[cfg(test)]
mod tests {
    use kube_informer::Scope;
    use kube_wire::{Encoding, Limits, ObjectReader, Projection};

    use super::*;

    fn matches(filter: &str, object: &str) -> bool {
        let mut reader = ObjectReader::new(Projection::default(), Limits::default());
        let object = reader.read(object.as_bytes(), Encoding::Json, None).unwrap();
        let object = StoredObject::new(Scope::default(), object).unwrap();
        let filter: FieldFilter = filter.parse().unwrap();
        filter.matcher(object.type_meta()).unwrap().matches(&object).unwrap()
    }

    #[test]
    fn every_operator_selects_the_documented_objects() {
        let widget = r#"{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"w"},
            "spec":{"size":3,"cpu":"1500m","on":true,"tags":["a","b"],"at":"2026-01-02T03:04:05Z","empty":{}}}"#;
        for (filter, kept) in [
            ("spec.size=3", true),
            ("spec.size==3", true),
            ("spec.size=4", false),
            ("spec.size!=3", false),
            ("spec.size!=4", true),
            ("spec.missing!=4", true),
            ("spec.missing=4", false),
            ("spec.tags[*]=b", true),
            ("spec.tags[*]!=b", false),
            ("spec.tags[*]!=c", true),
            ("spec.size in (1, 3)", true),
            ("spec.size in(1)", false),
            ("spec.size notin (1)", true),
            ("spec.missing notin (1)", true),
            ("spec.tags[*] notin (x,a)", false),
            ("spec.size>2", true),
            ("spec.size>3", false),
            ("spec.size>=3", true),
            ("spec.size<3", false),
            ("spec.size<=3", true),
            ("spec.size < 1k", true),
            ("spec.cpu>1", true),
            ("spec.cpu>1.6", false),
            ("spec.at>2026-01-01T00:00:00Z", true),
            ("spec.at<2026-01-01T00:00:00+02:00", false),
            ("spec.at>5", false),
            ("spec.missing>0", false),
            ("spec.size", true),
            ("spec.empty", true),
            ("spec.missing", false),
            ("!spec.missing", true),
            ("!spec.size", false),
            ("spec.on=true", true),
            ("metadata.name=w", true),
        ] {
            assert_eq!(matches(filter, widget), kept, "{filter}");
        }
    }

    #[test]
    fn operators_inside_brackets_belong_to_the_path() {
        for (text, path) in [
            ("status.conditions[?type=Ready].status=True", "status.conditions[?type=Ready].status"),
            ("status.conditions[?(@.type==\"Ready\")].status!=True", "status.conditions[?type=Ready].status"),
            ("{.spec.nodeName}=node-7", "spec.nodeName"),
        ] {
            assert_eq!(text.parse::<FieldFilter>().unwrap().path().to_string(), path, "{text}");
        }
    }

    #[test]
    fn invalid_filters_are_rejected_with_the_syntax() {
        for (text, words) in [
            ("=x", "missing field path"),
            ("", "missing field path"),
            ("spec..x=1", "spec..x"),
            ("spec.size>big", "cannot be compared"),
            ("spec.size>nan", "cannot be compared"),
            ("spec.size in 1,2", "not a set of values"),
            ("spec.size~3", "PATH notin (A,B)"),
        ] {
            let error = text.parse::<FieldFilter>().unwrap_err();
            assert!(error.contains(words), "{text}: {error}");
        }
    }
}

//! Elements of a path into an object, as server-side apply identifies them: a member by its name, a list element by
//! its keys, its value or its index. Field sets are written and conflicts are reported in their order.

use std::{cmp::Ordering, fmt};

use serde_json::{Map, Number, Value};

use super::go;

/// One element of a path.
#[derive(Debug, Clone)]
pub enum PathElement {
    /// A member of an object or map: `f:name`.
    Field(String),
    /// An element of a list of objects, identified by its key values, sorted by name: `k:{"name":"x"}`.
    Key(Vec<(String, Value)>),
    /// An element of a set, identified by its value: `v:"x"`.
    Value(Value),
    /// An element identified by its index: `i:3`.
    Index(i64),
}

/// A malformed path element.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid path element {text:?} in a field set: {reason}")]
pub struct BadPathElement {
    /// The text.
    pub text: String,
    /// Why it is malformed.
    pub reason: String,
}

impl PathElement {
    /// The path element of a member.
    pub fn field(name: impl Into<String>) -> Self {
        Self::Field(name.into())
    }

    /// Parses a path element in FieldsV1 form. Returns `None` for unknown kinds of element; skip those.
    ///
    /// # Errors
    ///
    /// If an element of a known kind is malformed.
    pub fn parse(text: &str) -> Result<Option<Self>, BadPathElement> {
        let bad = |reason: String| BadPathElement { text: text.to_owned(), reason };
        if text.len() < 2 || text.as_bytes()[1] != b':' {
            return Err(bad("want a letter and a colon".to_owned()));
        }
        let rest = &text[2..];
        let step = match text.as_bytes()[0] {
            b'f' => Self::Field(rest.to_owned()),
            b'v' => Self::Value(serde_json::from_str(rest).map_err(|error| bad(error.to_string()))?),
            b'i' => Self::Index(rest.parse().map_err(|_| bad("want a number".to_owned()))?),
            b'k' => {
                let keys: Map<String, Value> =
                    serde_json::from_str(rest).map_err(|error| bad(error.to_string()))?;
                Self::key(keys.into_iter().collect())
            }
            _ => return Ok(None),
        };
        Ok(Some(step))
    }

    /// The path element of a list element with these keys, in any order.
    pub fn key(mut keys: Vec<(String, Value)>) -> Self {
        keys.sort_by(|(a, _), (b, _)| a.cmp(b));
        Self::Key(keys)
    }

    /// The FieldsV1 form.
    pub fn encode(&self) -> String {
        match self {
            Self::Field(name) => format!("f:{name}"),
            Self::Value(value) => format!("v:{value}"),
            Self::Index(at) => format!("i:{at}"),
            Self::Key(keys) => {
                let keys: Vec<_> = keys
                    .iter()
                    .map(|(name, value)| format!("{}:{value}", Value::from(name.as_str())))
                    .collect();
                format!("k:{{{}}}", keys.join(","))
            }
        }
    }
}

/// The form shown in conflicts: `.name`, `[name="x"]`, `[="x"]`, `[3]`.
impl fmt::Display for PathElement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(name) => write!(f, ".{name}"),
            Self::Value(value) => write!(f, "[={}]", readable(value)),
            Self::Index(at) => write!(f, "[{at}]"),
            Self::Key(keys) => {
                let keys: Vec<_> =
                    keys.iter().map(|(name, value)| format!("{name}={}", readable(value))).collect();
                write!(f, "[{}]", keys.join(","))
            }
        }
    }
}

impl Ord for PathElement {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Field(a), Self::Field(b)) => a.cmp(b),
            (Self::Key(a), Self::Key(b)) => compare_keys(a, b),
            (Self::Value(a), Self::Value(b)) => compare_values(a, b),
            (Self::Index(a), Self::Index(b)) => a.cmp(b),
            _ => self.rank().cmp(&other.rank()),
        }
    }
}

impl PartialOrd for PathElement {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for PathElement {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for PathElement {}

impl PathElement {
    fn rank(&self) -> u8 {
        match self {
            Self::Field(_) => 0,
            Self::Key(_) => 1,
            Self::Value(_) => 2,
            Self::Index(_) => 3,
        }
    }
}

/// A total order of values: numbers (by value, integer or not), strings, booleans, lists, maps, null.
pub(crate) fn compare_values(a: &Value, b: &Value) -> Ordering {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => compare_numbers(a, b),
        (Value::String(a), Value::String(b)) => a.cmp(b),
        (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
        (Value::Array(a), Value::Array(b)) => {
            compare_all(a.iter().zip(b), |(a, b)| compare_values(a, b)).then_with(|| a.len().cmp(&b.len()))
        }
        (Value::Object(a), Value::Object(b)) => {
            let (a, b) = (sorted(a), sorted(b));
            compare_all(a.iter().zip(&b), |(a, b)| a.0.cmp(b.0).then_with(|| compare_values(a.1, b.1)))
                .then_with(|| a.len().cmp(&b.len()))
        }
        _ => rank(a).cmp(&rank(b)),
    }
}

/// Whether two values are equal, treating `1` and `1.0` as equal.
pub(crate) fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => compare_numbers(a, b) == Ordering::Equal,
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(name, a)| b.get(name).is_some_and(|b| same(a, b)))
        }
        _ => a == b,
    }
}

fn compare_keys(a: &[(String, Value)], b: &[(String, Value)]) -> Ordering {
    compare_all(a.iter().zip(b), |(a, b)| a.0.cmp(&b.0).then_with(|| compare_values(&a.1, &b.1)))
        .then_with(|| a.len().cmp(&b.len()))
}

fn compare_all<T>(items: impl Iterator<Item = T>, compare: impl FnMut(T) -> Ordering) -> Ordering {
    items.map(compare).find(|&order| order != Ordering::Equal).unwrap_or(Ordering::Equal)
}

fn compare_numbers(a: &Number, b: &Number) -> Ordering {
    let whole = |n: &Number| n.as_i64().map(i128::from).or_else(|| n.as_u64().map(i128::from));
    match (whole(a), whole(b)) {
        (Some(a), Some(b)) => a.cmp(&b),
        // A JSON number is always finite, so the comparison is total.
        _ => a.as_f64().unwrap_or_default().total_cmp(&b.as_f64().unwrap_or_default()),
    }
}

fn sorted(object: &Map<String, Value>) -> Vec<(&String, &Value)> {
    let mut members: Vec<_> = object.iter().collect();
    members.sort_unstable_by_key(|&(name, _)| name);
    members
}

fn rank(value: &Value) -> u8 {
    match value {
        Value::Number(_) => 0,
        Value::String(_) => 1,
        Value::Bool(_) => 2,
        Value::Array(_) => 3,
        Value::Object(_) => 4,
        Value::Null => 5,
    }
}

fn readable(value: &Value) -> String {
    match value {
        Value::String(text) => go::quote(text),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn path_elements_round_trip_through_fields_v1() {
        let cases = [
            (r#"f:spec"#, ".spec"),
            (r#"f:"#, "."),
            (r#"f:a.b/c"#, ".a.b/c"),
            (r#"k:{"name":"x"}"#, r#"[name="x"]"#),
            (r#"k:{"port":80,"protocol":"TCP"}"#, r#"[port=80,protocol="TCP"]"#),
            (r#"v:"a"#, ""),
            (r#"v:"a""#, r#"[="a"]"#),
            (r#"v:1"#, "[=1]"),
            (r#"v:true"#, "[=true]"),
            (r#"i:3"#, "[3]"),
            (r#"i:x"#, ""),
            (r#"k:[]"#, ""),
            ("x", ""),
            ("fspec", ""),
        ];
        for (text, shown) in cases {
            match PathElement::parse(text) {
                Ok(Some(step)) => {
                    assert_eq!(step.to_string(), shown, "{text}");
                    assert_eq!(step.encode(), text);
                }
                other => assert!(shown.is_empty() && other.is_err(), "{text}: {other:?}"),
            }
        }
        assert_eq!(PathElement::parse("q:future"), Ok(None));
    }

    #[test]
    fn path_elements_have_a_total_order() {
        let ordered = [
            PathElement::field("a"),
            PathElement::field("b"),
            PathElement::key(vec![("name".into(), json!("a"))]),
            PathElement::key(vec![("port".into(), json!(80))]),
            PathElement::key(vec![("port".into(), json!(80)), ("protocol".into(), json!("TCP"))]),
            PathElement::key(vec![("port".into(), json!(443))]),
            PathElement::Value(json!(1)),
            PathElement::Value(json!(1.5)),
            PathElement::Value(json!(2)),
            PathElement::Value(json!("a")),
            PathElement::Value(json!(false)),
            PathElement::Index(1),
        ];
        for (at, a) in ordered.iter().enumerate() {
            for (bt, b) in ordered.iter().enumerate() {
                assert_eq!(a.cmp(b), at.cmp(&bt), "{a} and {b}");
            }
        }
        assert_eq!(PathElement::Value(json!(1)), PathElement::Value(json!(1.0)));
    }
}

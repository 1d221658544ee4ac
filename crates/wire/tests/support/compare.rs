//! Reports the differences between two values, which are hard to see in two complete pods.

use serde_json::Value;

/// The paths at which two values differ, and how.
pub(crate) fn difference(path: &str, found: &Value, expected: &Value) -> Vec<String> {
    match (found, expected) {
        (Value::Object(a), Value::Object(b)) => {
            let names = a.keys().chain(b.keys().filter(|name| !a.contains_key(*name)));
            let members = names.map(|name| (format!("{path}.{name}"), a.get(name), b.get(name)));
            members
                .flat_map(|(path, a, b)| match (a, b) {
                    (Some(a), Some(b)) => difference(&path, a, b),
                    (a, b) => vec![format!("{path}: {a:?}, expected {b:?}")],
                })
                .collect()
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            let elements = a.iter().zip(b).enumerate();
            elements.flat_map(|(at, (a, b))| difference(&format!("{path}[{at}]"), a, b)).collect()
        }
        _ if found == expected => Vec::new(),
        _ => vec![format!("{path}: {found}, expected {expected}")],
    }
}

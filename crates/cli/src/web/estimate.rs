//! Estimates from a sample how much memory the objects of a mirror would take as decoded values.
//!
//! The sample is decoded to `serde_json::Value`, whose heap use is added up: strings by their length, lists and maps by their
//! elements. Allocator overhead is left out, so the estimate is low rather than high.

use kube_informer::building_blocks::Snapshot;
use serde_json::Value;

/// Objects that are decoded for one estimate.
const SAMPLE_OBJECTS: usize = 32;
/// Nodes of a B-tree are about two thirds full.
const MAP_SLACK: f64 = 1.5;

/// The estimated bytes of all objects as decoded values.
pub(super) fn decoded_bytes(snapshot: &Snapshot) -> u64 {
    let step = (snapshot.len() / SAMPLE_OBJECTS).max(1);
    let sample: Vec<u64> = snapshot
        .iter()
        .step_by(step)
        .take(SAMPLE_OBJECTS)
        .filter_map(|object| object.decode::<Value>().ok())
        .map(|value| size_of::<Value>() as u64 + heap_bytes(&value))
        .collect();
    match sample.len() as u64 {
        0 => 0,
        count => sample.iter().sum::<u64>() * snapshot.len() as u64 / count,
    }
}

fn heap_bytes(value: &Value) -> u64 {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        Value::String(text) => text.len() as u64,
        Value::Array(items) => items.iter().map(|item| size_of::<Value>() as u64 + heap_bytes(item)).sum(),
        Value::Object(members) => {
            let slots = members.len() * (size_of::<String>() + size_of::<Value>());
            let content = members.iter().map(|(name, value)| name.len() as u64 + heap_bytes(value));
            (slots as f64 * MAP_SLACK) as u64 + content.sum::<u64>()
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn larger_values_are_estimated_larger() {
        assert_eq!(heap_bytes(&json!("12345")), 5);
        let one = heap_bytes(&json!({"name": "x"}));
        assert!(one > 5 && heap_bytes(&json!([{"name": "x"}, {"name": "x"}])) > 2 * one);
    }
}

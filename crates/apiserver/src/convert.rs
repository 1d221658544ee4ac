//! Conversion between core events and `events.k8s.io/v1` events, which have different field names. Both share one
//! collection, stored as core events.

use serde_json::Value;

/// `(core, events.k8s.io)`.
const NAMES: &[(&str, &str)] = &[
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("reportingComponent", "reportingController"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
];

/// Converts a core event to an `events.k8s.io` one.
pub(crate) fn events_from_core(core: &Value) -> Value {
    rename(core, |name| NAMES.iter().find(|(core, _)| *core == name).map(|(_, other)| *other))
}

/// Converts an `events.k8s.io` event to a core one.
pub(crate) fn events_to_core(event: &Value) -> Value {
    rename(event, |name| NAMES.iter().find(|(_, other)| *other == name).map(|(core, _)| *core))
}

fn rename(value: &Value, new_name: impl Fn(&str) -> Option<&'static str>) -> Value {
    let members = value.as_object().into_iter().flatten();
    let renamed = members.map(|(name, value)| (new_name(name).unwrap_or(name).to_owned(), value.clone()));
    Value::Object(renamed.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn conversion_goes_both_ways() {
        let core =
            json!({"metadata": {"name": "e"}, "involvedObject": {"kind": "Pod"}, "message": "m", "count": 2});
        let event = events_from_core(&core);
        assert_eq!(
            event,
            json!({"metadata": {"name": "e"}, "regarding": {"kind": "Pod"}, "note": "m", "deprecatedCount": 2})
        );
        assert_eq!(events_to_core(&event), core);
    }
}

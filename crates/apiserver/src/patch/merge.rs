//! JSON merge patch (RFC 7386): members replace members, `null` removes, lists and scalars are replaced as a whole.

use serde_json::{Map, Value};

/// Applies a JSON merge patch to `target`.
///
/// ```
/// # use embedded_apiserver::internals::patch::merge_patch;
/// # use serde_json::json;
/// let mut object = json!({"data": {"k": "1", "l": "2"}});
/// merge_patch(&mut object, &json!({"data": {"k": null, "m": "3"}}));
/// assert_eq!(object, json!({"data": {"l": "2", "m": "3"}}));
/// ```
pub fn merge_patch(target: &mut Value, patch: &Value) {
    let Value::Object(members) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Value::Object(object) = target else { return };
    for (name, value) in members {
        if value.is_null() {
            object.remove(name);
        } else {
            merge_patch(object.entry(name.as_str()).or_insert(Value::Null), value);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::patch::testing::json_value;

    #[test]
    fn rfc_examples_hold() {
        let cases = [
            (json!({"a": "b"}), json!({"a": "c"}), json!({"a": "c"})),
            (json!({"a": "b"}), json!({"b": "c"}), json!({"a": "b", "b": "c"})),
            (json!({"a": "b"}), json!({"a": null}), json!({})),
            (json!({"a": "b", "b": "c"}), json!({"a": null}), json!({"b": "c"})),
            (json!({"a": ["b"]}), json!({"a": "c"}), json!({"a": "c"})),
            (json!({"a": "c"}), json!({"a": ["b"]}), json!({"a": ["b"]})),
            (json!({"a": {"b": "c"}}), json!({"a": {"b": "d", "c": null}}), json!({"a": {"b": "d"}})),
            (json!({"a": [{"b": "c"}]}), json!({"a": [1]}), json!({"a": [1]})),
            (json!(["a", "b"]), json!(["c", "d"]), json!(["c", "d"])),
            (json!({"a": "b"}), json!(["c"]), json!(["c"])),
            (json!({"a": "foo"}), json!(null), json!(null)),
            (json!({"a": "foo"}), json!("bar"), json!("bar")),
            (json!({"e": null}), json!({"a": 1}), json!({"e": null, "a": 1})),
            (json!([1, 2]), json!({"a": "b", "c": null}), json!({"a": "b"})),
            (json!({}), json!({"a": {"bb": {"ccc": null}}}), json!({"a": {"bb": {}}})),
        ];
        for (target, patch, expected) in cases {
            let mut patched = target.clone();
            merge_patch(&mut patched, &patch);
            assert_eq!(patched, expected, "{patch} on {target}");
        }
    }

    /// The patch that turns `from` into `to`. Neither may contain null members, which a merge patch cannot express.
    fn diff(from: &Value, to: &Value) -> Value {
        let (Value::Object(from), Value::Object(to)) = (from, to) else { return to.clone() };
        let mut patch = Map::new();
        for name in from.keys().filter(|name| !to.contains_key(*name)) {
            patch.insert(name.clone(), Value::Null);
        }
        for (name, new) in to {
            match from.get(name) {
                Some(old) if old == new => {}
                Some(old) => drop(patch.insert(name.clone(), diff(old, new))),
                None => drop(patch.insert(name.clone(), new.clone())),
            }
        }
        Value::Object(patch)
    }

    proptest! {
        #[test]
        fn merging_a_diff_gives_the_target(from in json_value(), to in json_value()) {
            let mut patched = from.clone();
            merge_patch(&mut patched, &diff(&from, &to));
            prop_assert_eq!(patched, to);
        }

        #[test]
        fn merging_is_idempotent(target in json_value(), patch in json_value()) {
            let mut once = target;
            merge_patch(&mut once, &patch);
            let mut twice = once.clone();
            merge_patch(&mut twice, &patch);
            prop_assert_eq!(once, twice);
        }
    }
}

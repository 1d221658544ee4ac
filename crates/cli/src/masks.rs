//! Secrets stay secret unless they are asked for: the values of a Secret are masked before anything else sees the object.

use serde_json::Value;

/// What is shown instead of a value.
const MASK: &str = "***";

/// Where kubectl keeps a copy of the whole object, values and all.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Masks the values of an object if it is a Secret. That a value changed can still be told: see [`crate::changes`].
pub(crate) fn mask(object: &mut Value) {
    if !is_secret(object) {
        return;
    }
    for part in ["data", "stringData"] {
        if let Some(Value::Object(values)) = object.get_mut(part) {
            values.values_mut().for_each(|value| *value = MASK.into());
        }
    }
    if let Some(copy) = object.pointer_mut("/metadata/annotations").and_then(|all| all.get_mut(LAST_APPLIED))
    {
        *copy = MASK.into();
    }
}

/// Whether an object is a Secret.
pub(crate) fn is_secret(object: &Value) -> bool {
    object["kind"] == "Secret" && object["apiVersion"] == "v1"
}

/// Whether what stands at a path of a Secret must not be shown.
pub(crate) fn hides(path: &str) -> bool {
    path.starts_with("data.") || path.starts_with("stringData.") || path.contains(LAST_APPLIED)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn no_value_of_a_secret_is_left_and_other_kinds_are_as_they_were() {
        let secret = |kind: &str| {
            json!({"apiVersion": "v1", "kind": kind, "type": "Opaque", "data": {"password": "aHVudGVyMg=="},
                "stringData": {"user": "hunter2"},
                "metadata": {"name": "s", "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "hunter2"}}})
        };
        let mut masked = secret("Secret");
        mask(&mut masked);
        let text = masked.to_string();
        assert!(
            !text.contains("hunter2") && !text.contains("aHVudGVyMg") && text.contains("Opaque"),
            "{text}"
        );
        assert_eq!(masked["data"], json!({"password": "***"}));
        let mut map = secret("ConfigMap");
        mask(&mut map);
        assert_eq!(map, secret("ConfigMap"));
    }
}

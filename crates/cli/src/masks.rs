//! Masks the values of Secrets unless `--show-secrets` is given, before any field is read.
//!
//! An informer of Secrets stores a fingerprint instead of each value, so no index, field filter, column or diff can see a
//! value. Equal values have equal fingerprints, so changes are still detected. The key of the fingerprints is random and
//! stays in the process, so a fingerprint reveals nothing about its value. The output shows `***`.

use std::hash::{BuildHasher, RandomState};

use kube_informer::building_blocks::Resource;
use kube_wire::FieldPath;
use serde_json::Value;

/// Shown instead of a value.
pub(crate) const MASK: &str = "***";

/// The annotation in which kubectl stores a copy of the whole object.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Replaces values of Secrets by fingerprints.
#[derive(Clone, Default)]
pub(crate) struct Concealer {
    key: RandomState,
}

impl Concealer {
    /// Replaces the values of a Secret.
    pub(crate) fn conceal(&self, secret: &mut Value) {
        let fingerprint = |value: &Value| format!("{MASK}{:016x}", self.key.hash_one(value.to_string()));
        replace_values(secret, |value| fingerprint(value).into());
    }
}

/// Masks the values of an object if it is a Secret. [`crate::changes`] still reports that a value changed.
pub(crate) fn mask(object: &mut Value) {
    if is_secret(object) {
        mask_secret(object);
    }
}

/// Masks the values of a Secret, whatever kind the object claims to be.
pub(crate) fn mask_secret(secret: &mut Value) {
    replace_values(secret, |_| MASK.into());
}

/// Masks kubectl's copy of an object, whatever the object's kind: the copy may repeat values that are masked elsewhere.
pub(crate) fn mask_last_applied(object: &mut Value) {
    if let Some(copy) = last_applied(object) {
        *copy = MASK.into();
    }
}

fn last_applied(object: &mut Value) -> Option<&mut Value> {
    object.pointer_mut("/metadata/annotations")?.get_mut(LAST_APPLIED)
}

/// Whether a path, of a diff or of a field, leads to kubectl's copy of an object.
pub(crate) fn is_last_applied(path: &str) -> bool {
    let written_otherwise =
        || path.parse::<FieldPath>().is_ok_and(|path| path.to_string().contains(LAST_APPLIED));
    path.contains(LAST_APPLIED) || written_otherwise()
}

fn replace_values(secret: &mut Value, replacement: impl Fn(&Value) -> Value) {
    for part in ["data", "stringData"] {
        match secret.get_mut(part) {
            Some(Value::Object(values)) => {
                values.values_mut().for_each(|value| *value = replacement(value));
            }
            None | Some(Value::Null) => {}
            Some(unexpected) => *unexpected = replacement(unexpected),
        }
    }
    if let Some(copy) = last_applied(secret) {
        *copy = replacement(copy);
    }
}

/// Whether an object is a Secret.
pub(crate) fn is_secret(object: &Value) -> bool {
    object["kind"] == "Secret" && object["apiVersion"] == "v1"
}

/// Whether the objects of a resource are Secrets.
pub(crate) fn are_secrets(resource: &Resource) -> bool {
    resource.group.is_empty() && resource.plural == "secrets"
}

/// Whether a path of a Secret, as printed by a diff, leads to a masked value.
pub(crate) fn hides(path: &str) -> bool {
    path.starts_with("data.") || path.starts_with("stringData.") || path.contains(LAST_APPLIED)
}

/// Whether a field path of a Secret leads to a masked value. An invalid path does not.
pub(crate) fn hides_field(path: &str) -> bool {
    // Paths have one canonical form, in which they are printed.
    let Ok(path) = path.parse::<FieldPath>().map(|path| path.to_string()) else { return false };
    let root = path.split(['.', '[']).next().unwrap_or_default();
    matches!(root, "data" | "stringData") || path.contains(LAST_APPLIED)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn secret(kind: &str) -> Value {
        json!({"apiVersion": "v1", "kind": kind, "type": "Opaque", "data": {"password": "aHVudGVyMg=="},
            "stringData": {"user": "hunter2"},
            "metadata": {"name": "s", "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "hunter2"}}})
    }

    #[test]
    fn all_values_of_secrets_are_masked_and_other_kinds_are_unchanged() {
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
        mask_last_applied(&mut map);
        let copy = &map["metadata"]["annotations"]["kubectl.kubernetes.io/last-applied-configuration"];
        assert_eq!((copy, &map["data"]), (&json!("***"), &secret("ConfigMap")["data"]));
    }

    #[test]
    fn fingerprints_show_changes_but_no_values() {
        let concealer = Concealer::default();
        let concealed = |value: &str| {
            let mut secret = json!({"data": {"password": value}});
            concealer.conceal(&mut secret);
            secret["data"]["password"].as_str().unwrap().to_owned()
        };
        assert_eq!(concealed("b2xk"), concealed("b2xk"));
        assert_ne!(concealed("b2xk"), concealed("bmV3"));
        assert!(!concealed("b2xk").contains("b2xk"));
        let mut other = json!({"data": {"password": "b2xk"}});
        Concealer::default().conceal(&mut other);
        assert_ne!(other["data"]["password"], concealed("b2xk").as_str(), "each process has its own key");
    }

    #[test]
    fn field_paths_to_values_are_recognized_in_every_spelling() {
        for path in [
            "data.pw",
            "{.data.pw}",
            "$.data.pw",
            "['data'].pw",
            "data['tls.key']",
            "stringData.pw",
            "metadata.annotations['kubectl.kubernetes.io/last-applied-configuration']",
            r"metadata.annotations.kubectl\.kubernetes\.io/last-applied-configuration",
        ] {
            assert!(hides_field(path), "{path}");
        }
        for path in ["type", "metadata.name", "metadata.labels.data", "database.x", "spec..x"] {
            assert!(!hides_field(path), "{path}");
        }
    }
}

//! Migration between client-side and server-side apply, for the field manager `kubectl` only. Fields recorded in the
//! annotation of `kubectl apply` count as kubectl's own, so switching to `--server-side` causes no conflict. The
//! annotation stays up to date, so switching back works too.

use serde_json::{Value, json};

use super::{FieldWrite, compare::compare, conflict::Conflict, extent::field_set};

/// The field manager that the migration applies to.
pub(crate) const KUBECTL: &str = "kubectl";
const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// Maximum total size of an object's annotations, in bytes.
const ANNOTATIONS_BYTES_MAX: usize = 256 * 1024;

/// The conflicts without those on fields that kubectl itself applied client-side.
pub(crate) fn without_own(conflicts: Vec<Conflict>, live: &Value, write: &FieldWrite<'_>) -> Vec<Conflict> {
    let last = annotation(live).and_then(|text| serde_json::from_str::<Value>(text).ok());
    let Some(last) =
        last.filter(|last| last.get("apiVersion").and_then(Value::as_str) == Some(write.api_version))
    else {
        return conflicts;
    };
    let difference = compare(write.types, &last, live);
    let own = field_set(write.types, &last).difference(&difference.changed()).difference(&difference.removed);
    conflicts.into_iter().filter(|conflict| !own.contains(conflict.path())).collect()
}

/// Writes the applied configuration to the annotation, if the object has the annotation.
pub(crate) fn renew(object: &mut Value, applied: &Value) {
    if annotation(object).is_none_or(str::is_empty) {
        return;
    }
    let mut applied = applied.clone();
    if let Some(annotations) = applied.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) {
        annotations.remove(ANNOTATION);
    }
    let text = format!("{applied}\n");
    let Some(annotations) = object.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) else {
        return;
    };
    annotations.insert(ANNOTATION.to_owned(), json!(text));
    let size = |(name, value): (&String, &Value)| name.len() + value.as_str().map_or(0, str::len);
    if annotations.iter().map(size).sum::<usize>() > ANNOTATIONS_BYTES_MAX {
        annotations.remove(ANNOTATION);
    }
}

fn annotation(object: &Value) -> Option<&str> {
    object.get("metadata")?.get("annotations")?.get(ANNOTATION)?.as_str()
}

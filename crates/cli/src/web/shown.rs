//! Objects as responses show them: decoded one at a time, with masked values.

use kube_informer::StoredObject;
use serde_json::{Value, json};

use crate::masks;

/// The value of an object. If it cannot be decoded, the value has the name and the error.
pub(super) fn value(object: &StoredObject) -> Value {
    let mut value = object.decode().unwrap_or_else(|error| {
        json!({
            "metadata": {"name": object.name(), "namespace": object.namespace()},
            "error": error.to_string(),
        })
    });
    masks::mask(&mut value);
    masks::mask_last_applied(&mut value);
    value
}

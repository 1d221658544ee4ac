//! The fields of one object that its cells show. They are read from the object's bytes; a decoded object works as well.

use std::borrow::Cow;

use kube_informer::StoredObject;
use kube_wire::path::PathReader;
use kube_wire::{RawObject, TypeMeta};
use serde_json::Value;

/// Fields of the head that cells and orders use, in addition to the fields of a kind.
const HEAD: &[&str] =
    &["metadata.name", "metadata.labels", "metadata.creationTimestamp", "metadata.deletionTimestamp"];

/// The paths that the cells of a kind read, compiled.
pub(crate) struct ColumnReader {
    readers: Vec<(&'static str, PathReader)>,
}

/// The fields of one object.
pub(crate) enum RowFields<'o> {
    Decoded(&'o Value),
    /// The bytes, unpacked once for all fields.
    Bytes {
        raw: RawObject,
        reader: &'o ColumnReader,
    },
}

// === impl ColumnReader ===

impl ColumnReader {
    /// Compiles the paths of kept fields. Lists are read as a whole, because only a few fields of their elements are kept.
    pub(super) fn new(kept: &[&'static str], type_meta: &TypeMeta) -> Self {
        let mut reader = Self { readers: Vec::new() };
        for path in HEAD.iter().chain(kept).map(|path| list_of(path)) {
            // A path that a kind lacks has no values.
            if reader.of(path).is_none()
                && let Ok(parsed) = path.parse()
                && let Ok(compiled) = PathReader::new(&parsed, type_meta)
            {
                reader.readers.push((path, compiled));
            }
        }
        reader
    }

    pub(crate) fn fields(&self, object: &StoredObject) -> RowFields<'_> {
        RowFields::Bytes { raw: object.raw(), reader: self }
    }

    fn of(&self, path: &str) -> Option<&PathReader> {
        self.readers.iter().find(|(known, _)| *known == path).map(|(_, reader)| reader)
    }
}

/// The path up to the first list.
fn list_of(path: &'static str) -> &'static str {
    path.find('[').map_or(path, |end| &path[..end])
}

// === impl RowFields ===

impl RowFields<'_> {
    /// The value at a path, which is one of the head or of the kind's columns; `null` if it is missing or malformed.
    pub(crate) fn get(&self, path: &'static str) -> Cow<'_, Value> {
        match self {
            Self::Decoded(object) => {
                let found = path.split('.').try_fold(*object, |value, name| value.get(name));
                Cow::Borrowed(found.unwrap_or(&Value::Null))
            }
            Self::Bytes { raw, reader } => {
                let reader = reader.of(path);
                debug_assert!(reader.is_some(), "{path} is not a field of the columns");
                let found = reader.and_then(|reader| reader.first(raw.head()).ok().flatten());
                Cow::Owned(found.and_then(|value| value.to_value().ok()).unwrap_or_default())
            }
        }
    }

    /// A text; empty if it is missing.
    pub(crate) fn text(&self, path: &'static str) -> String {
        self.text_or(path, "")
    }

    /// A text, or another one if it is missing or empty.
    pub(crate) fn text_or(&self, path: &'static str, otherwise: &str) -> String {
        super::text_or(&self.get(path), otherwise)
    }
}

#[cfg(test)]
mod tests {
    use kube_informer::Scope;
    use kube_wire::{Encoding, Limits, ObjectReader, Projection};
    use serde_json::json;

    use super::*;

    #[test]
    fn bytes_and_decoded_objects_have_the_same_fields() {
        let pod = json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "a", "labels": {"app": "x"}, "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"containers": [{"name": "c", "image": "i"}]}, "status": {"phase": "Running"}});
        let kept = ["status.phase", "status.reason", "spec.containers[*].name", "spec.containers[*].image"];
        let mut reader = ObjectReader::new(Projection::default(), Limits::default());
        let object = reader.read(pod.to_string().as_bytes(), Encoding::Json, None).unwrap();
        let object = StoredObject::new(Scope::default(), object).unwrap();
        let reader = ColumnReader::new(&kept, object.type_meta());
        let (read, decoded) = (reader.fields(&object), RowFields::Decoded(&pod));
        for path in HEAD.iter().chain(&["status.phase", "status.reason", "spec.containers"]) {
            assert_eq!(read.get(path), decoded.get(path), "{path}");
        }
        assert_eq!(
            (read.text("status.phase").as_str(), read.text("status.reason").as_str()),
            ("Running", "")
        );
        assert_eq!(read.get("spec.containers").as_array().map(Vec::len), Some(1));
    }
}

//! The fields that a command reads of each object. All other fields are dropped on arrival, before an object is stored.

use kube_informer::EncodingPreference;
use kube_wire::path::PathReader;
use kube_wire::{FieldPath, Projection, TypeMeta};

use crate::failure::Failure;

/// The fields of objects that are read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reads {
    /// All fields, with `metadata.managedFields` or without.
    Everything { managed_fields: bool },
    /// The head (names, labels, timestamps, owners), and these paths.
    Fields {
        paths: Vec<String>,
        /// A path that the schema table lacks can only be read from JSON.
        in_json: bool,
    },
}

impl Reads {
    /// Names, labels, timestamps and owners only.
    pub(crate) fn heads() -> Self {
        Self::Fields { paths: Vec::new(), in_json: false }
    }

    /// All fields, for objects that have to be decoded.
    pub(crate) fn complete(&self) -> Self {
        match self {
            Self::Fields { .. } => Self::default(),
            everything => everything.clone(),
        }
    }

    /// Adds a field of objects of this type.
    #[must_use]
    pub(crate) fn and(self, path: &FieldPath, type_meta: &TypeMeta) -> Self {
        let Self::Fields { mut paths, mut in_json } = self else { return self };
        in_json |= PathReader::new(path, type_meta).is_err();
        match kept_part(&path.to_string()) {
            // A path that begins with a list element names no field, so no projection can select it.
            "" => return Self::Everything { managed_fields: false },
            part => paths.push(part.to_owned()),
        }
        Self::Fields { paths, in_json }
    }

    /// Adds fields of a built-in kind.
    #[must_use]
    pub(crate) fn and_known(self, fields: &[&str]) -> Self {
        match self {
            Self::Fields { mut paths, in_json } => {
                paths.extend(fields.iter().map(|&field| field.to_owned()));
                Self::Fields { paths, in_json }
            }
            everything => everything,
        }
    }

    /// The fields that are kept on arrival.
    ///
    /// # Errors
    /// If a path is invalid.
    pub(crate) fn projection(&self) -> Result<Projection, Failure> {
        match self {
            Self::Everything { managed_fields: true } => Ok(Projection::everything()),
            Self::Everything { managed_fields: false } => Ok(Projection::default()),
            Self::Fields { paths, .. } => Projection::keeping(paths.iter().map(String::as_str))
                .map_err(|error| Failure::Usage(error.to_string())),
        }
    }

    /// The encoding to request if objects are read only once. Printed objects must be complete, and only JSON names every
    /// field regardless of the server's version. Single fields can be read from protobuf, which is smaller.
    pub(crate) fn encoding(&self) -> EncodingPreference {
        match self {
            Self::Fields { in_json: false, .. } => EncodingPreference::Auto,
            _ => EncodingPreference::Json,
        }
    }
}

impl Default for Reads {
    fn default() -> Self {
        Self::Everything { managed_fields: false }
    }
}

/// The beginning of a path that a projection can keep: up to the first single element of a list.
fn kept_part(path: &str) -> &str {
    let (mut quoted, mut escaped) = (false, false);
    for (at, c) in path.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '\'' => quoted = !quoted,
            '[' if !quoted && path[at + 1..].starts_with(|c: char| c == '?' || c.is_ascii_digit()) => {
                return &path[..at];
            }
            _ => {}
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_kept_up_to_its_first_single_element() {
        for (path, kept) in [
            ("spec.nodeName", "spec.nodeName"),
            ("spec.containers[*].image", "spec.containers[*].image"),
            ("status.conditions[?type=Ready].status", "status.conditions"),
            ("spec.containers[0].image", "spec.containers"),
            ("metadata.annotations['a[0]\\'?b'][0]", "metadata.annotations['a[0]\\'?b']"),
        ] {
            assert_eq!(kept_part(path), kept, "{path}");
        }
    }

    #[test]
    fn fields_of_built_in_kinds_are_read_from_protobuf_and_others_from_json() {
        let pods = TypeMeta::new("v1", "Pod");
        let path = |text: &str| text.parse::<FieldPath>().unwrap();
        let known = Reads::heads().and(&path("spec.nodeName"), &pods);
        assert_eq!(known.encoding(), EncodingPreference::Auto);
        assert_eq!(known.projection().unwrap(), Projection::keeping(["spec.nodeName"]).unwrap());
        let unknown = known.and(&path("spec.future"), &pods);
        assert_eq!(unknown.encoding(), EncodingPreference::Json);
        assert_eq!(Reads::default().encoding(), EncodingPreference::Json);
        assert_eq!(Reads::default().and(&path("spec.nodeName"), &pods), Reads::default());
    }
}

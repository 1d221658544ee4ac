//! apiVersion and kind, stored apart from an object's bytes.

use std::fmt;
use std::sync::Arc;

/// The apiVersion and kind of an object.
///
/// Items of a built-in list lack them, watch events have them. They are therefore removed from an object's bytes on
/// arrival, stored here once for all objects of a stream, and restored when an object is decoded. Cloning is cheap.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct TypeMeta(Arc<(Box<str>, Box<str>)>);

impl TypeMeta {
    /// From apiVersion (`apps/v1`, `v1`) and kind (`Deployment`).
    pub fn new(api_version: &str, kind: &str) -> Self {
        Self(Arc::new((api_version.into(), kind.into())))
    }

    /// `v1`, `apps/v1`.
    pub fn api_version(&self) -> &str {
        &self.0.0
    }

    /// `Pod`, `Deployment`.
    pub fn kind(&self) -> &str {
        &self.0.1
    }

    /// The group: `apps`, or `""` for core kinds.
    pub fn group(&self) -> &str {
        self.api_version().rsplit_once('/').map_or("", |(group, _)| group)
    }

    /// The version: `v1`.
    pub fn version(&self) -> &str {
        self.api_version().rsplit_once('/').map_or(self.api_version(), |(_, version)| version)
    }

    /// The type of a list's items: `PodList` gives `Pod`. `None` if the kind is not a list.
    pub fn item_of_list(&self) -> Option<Self> {
        match self.kind().strip_suffix("List") {
            Some(kind) if !kind.is_empty() => Some(Self::new(self.api_version(), kind)),
            _ => None,
        }
    }
}

impl fmt::Debug for TypeMeta {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for TypeMeta {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.api_version(), self.kind())
    }
}

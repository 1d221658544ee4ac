//! Limits on input. Every length from the network is checked against one of these before memory is allocated for it,
//! so a broken or hostile server causes an error instead of exhausting memory.

use std::fmt;

/// Limits on input. `Limits::default()` suits a kube-apiserver, whose own limit on a written object is 3 MiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Largest object, frame or error body, in bytes. Default: 8 MiB.
    pub object_bytes_max: usize,
    /// Deepest nesting of objects, lists or messages for decoding and encoding. Default: 128. (Reading an object works
    /// at any depth, because it needs no memory per level.)
    pub nesting_max: usize,
}

/// Identifies one of the [`Limits`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Limit {
    /// [`Limits::object_bytes_max`].
    ObjectBytes,
    /// [`Limits::nesting_max`].
    Nesting,
}

// === impl Limits ===

impl Limits {
    /// The defaults, for use in constants.
    pub const DEFAULT: Self = Self { object_bytes_max: 8 << 20, nesting_max: 128 };

    /// Sets the limit on an object's size.
    #[must_use]
    pub const fn object_bytes_max(mut self, bytes: usize) -> Self {
        self.object_bytes_max = bytes;
        self
    }

    /// Sets the limit on nesting. Values above 512 count as 512.
    ///
    /// Decoding a deeply nested typed value may need much stack: without optimization, 128 levels of a
    /// `JSONSchemaProps` needed 2 to 3 MB. Raise the limit only if threads have enough stack.
    #[must_use]
    pub const fn nesting_max(mut self, levels: usize) -> Self {
        self.nesting_max = if levels > 512 { 512 } else { levels };
        self
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self::DEFAULT
    }
}

// === impl Limit ===

impl Limit {
    pub(crate) fn field(self) -> &'static str {
        match self {
            Self::ObjectBytes => "object_bytes_max",
            Self::Nesting => "nesting_max",
        }
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ObjectBytes => "limit on object size in bytes",
            Self::Nesting => "limit on nesting depth",
        })
    }
}

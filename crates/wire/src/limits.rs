//! What a server may ask of us. Every length that comes from the network is checked against one of these before
//! memory is set aside for it, so that a broken or hostile server costs an error and not the process.

use std::fmt;

/// Limits on what is read. `Limits::default()` suits a kube-apiserver, whose own limit on a written object is 3 MiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Largest object, frame or error body, in bytes. Default: 8 MiB.
    pub object_bytes_max: usize,
    /// Deepest nesting of objects, lists or messages in what is decoded or encoded. Default: 128. (Reading an object does not
    /// care how deep it is: nothing is kept for a level.)
    pub nesting_max: usize,
}

/// Names one of the [`Limits`].
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
    /// The defaults, usable in constants.
    pub const DEFAULT: Self = Self { object_bytes_max: 8 << 20, nesting_max: 128 };

    /// With another limit on an object's size.
    #[must_use]
    pub const fn object_bytes_max(mut self, bytes: usize) -> Self {
        self.object_bytes_max = bytes;
        self
    }

    /// With another limit on nesting. Values above 512 are taken as 512.
    ///
    /// Decoding a deep typed value may take much of the stack: 128 levels of a `JSONSchemaProps` have been seen to need 2 to
    /// 3 MB without optimisation. Raise it only where threads have the stack.
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

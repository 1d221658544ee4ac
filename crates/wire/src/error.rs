//! The crate's one error: what was being read, where it went wrong, and which limit it broke.

use crate::head::key::Key;
use crate::limits::Limit;

/// Result with this crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why bytes could not be read or written.
///
/// An error about an object is that object's alone: framing errors end a stream (the next frame cannot be found), all
/// others leave it readable. [`Error::is_fatal`] tells them apart. [`Error::key`] says which object it was.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// The bytes are not what they should be.
    #[error("malformed {what} at byte {at}: {why}")]
    Malformed {
        /// What was being read, e.g. `protobuf message`.
        what: &'static str,
        /// Offset in the bytes that were being read.
        at: usize,
        /// What is wrong there.
        why: &'static str,
    },
    /// The bytes end too early.
    #[error("the {what} ends too early, after {at} bytes")]
    Truncated {
        /// What was being read.
        what: &'static str,
        /// How many bytes there were.
        at: usize,
    },
    /// A limit was exceeded.
    #[error("{limit} exceeded: found {found}, allowed {allowed} (raise `Limits::{field}` if this is legitimate)", field = limit.field())]
    Limit {
        /// Which limit.
        limit: Limit,
        /// What was found (at least this much).
        found: usize,
        /// What is allowed.
        allowed: usize,
    },
    /// One object could not be read, and this one it is. See [`key`](Self::key).
    #[error("{namespace}{slash}{name}: {error}", slash = if namespace.is_empty() { "" } else { "/" })]
    Object {
        /// Namespace of the object; empty if it is in none.
        namespace: Box<str>,
        /// Name of the object.
        name: Box<str>,
        /// Why it could not be read.
        #[source]
        error: Box<Error>,
    },
    /// The stream cannot be read on: its framing is lost.
    #[error("the stream cannot be read on: {0}")]
    Framing(#[source] Box<Error>),
    /// The schema table has no entry for a kind, so its protobuf bytes cannot be read by name.
    #[error("no protobuf schema for {kind} in {api_version}; ask the server for JSON")]
    UnknownKind {
        /// apiVersion of the object.
        api_version: String,
        /// kind of the object.
        kind: String,
    },
    /// A protobuf field that the schema table does not know: a value without it would be incomplete.
    #[error(
        "field {number} of {message} is newer than the schema table (Kubernetes {table}); ask the server for JSON"
    )]
    UnknownField {
        /// The protobuf message.
        message: &'static str,
        /// The field's number.
        number: u32,
        /// The table's Kubernetes version.
        table: &'static str,
    },
    /// A field path does not parse, or does not fit the kind.
    #[error("field path `{path}`: {why}")]
    Path {
        /// The path as given.
        path: String,
        /// What is wrong with it.
        why: String,
    },
    /// The fields of a protobuf message are not in the order in which Go writes them, and the value borrows from the bytes.
    #[error(
        "the message's fields are not in order; read it by `de::Deserializer::read`, which puts them in order"
    )]
    Unordered,
    /// The value does not fit the type that was asked for (or cannot be written as the message).
    #[error("{0}")]
    Value(String),
}

impl Error {
    pub(crate) const fn malformed(what: &'static str, at: usize, why: &'static str) -> Self {
        Self::Malformed { what, at, why }
    }

    pub(crate) fn framing(self) -> Self {
        match self {
            Self::Framing(_) => self,
            other => Self::Framing(Box::new(other)),
        }
    }

    /// With the object that the error is about, if that is known.
    pub(crate) fn about(self, key: Option<Key>) -> Self {
        match key {
            Some((namespace, name)) => Self::Object { namespace, name, error: Box::new(self) },
            None => self,
        }
    }

    /// Namespace and name of the object that could not be read, where they could be: for who has to know which of its objects
    /// is not up to date. The namespace of a cluster-scoped object is empty.
    ///
    /// ```
    /// # use kube_wire::{Encoding, Limits, ObjectReader, Projection};
    /// # let mut reader = ObjectReader::new(Projection::default(), Limits::default());
    /// let text = br#"{"kind":"Pod","apiVersion":"v1","metadata":{"namespace":"shop","name":"web","labels":7}}"#;
    /// let error = reader.read(text, Encoding::Json, None).unwrap_err();
    /// assert_eq!(error.key(), Some(("shop", "web")));
    /// assert!(!error.is_fatal());
    /// ```
    pub fn key(&self) -> Option<(&str, &str)> {
        match self {
            Self::Object { namespace, name, .. } => Some((namespace, name)),
            _ => None,
        }
    }

    /// Whether the stream the error came from is lost. Otherwise only one object is.
    pub fn is_fatal(&self) -> bool {
        matches!(self, Self::Framing(_))
    }
}

impl serde::de::Error for Error {
    fn custom<T: std::fmt::Display>(message: T) -> Self {
        Self::Value(message.to_string())
    }
}

impl serde::ser::Error for Error {
    fn custom<T: std::fmt::Display>(message: T) -> Self {
        Self::Value(message.to_string())
    }
}

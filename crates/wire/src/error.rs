//! The crate's error type: what was being read, where it failed, and which limit it exceeded.

use crate::head::key::Key;
use crate::limits::Limit;

/// Result with this crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why bytes could not be read or written.
///
/// Framing errors end a stream, because the next frame cannot be found. All other errors concern one object and leave
/// the stream readable. [`Error::is_fatal`] distinguishes them, [`Error::key`] identifies the object, and
/// [`Error::event_type`] the watch event.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// The bytes are malformed.
    #[error("malformed {what} at byte {at}: {why}")]
    Malformed {
        /// What was being read, e.g. `protobuf message`.
        what: &'static str,
        /// Offset in the bytes that were being read.
        at: usize,
        /// Why they are malformed.
        why: &'static str,
    },
    /// The bytes end too early.
    #[error("truncated {what}: ends after {at} bytes")]
    Truncated {
        /// What was being read.
        what: &'static str,
        /// The number of bytes available.
        at: usize,
    },
    /// A limit was exceeded.
    #[error("{limit} exceeded: found {found}, allowed {allowed}; raise `Limits::{field}` if this is expected", field = limit.field())]
    Limit {
        /// The limit.
        limit: Limit,
        /// The value found, or a lower bound of it.
        found: usize,
        /// The value allowed.
        allowed: usize,
    },
    /// One object could not be read; the error identifies it. See [`key`](Self::key).
    #[error("{namespace}{slash}{name}: {error}", slash = if namespace.is_empty() { "" } else { "/" })]
    Object {
        /// Namespace of the object; empty if it is cluster-scoped.
        namespace: Box<str>,
        /// Name of the object.
        name: Box<str>,
        /// Why it could not be read.
        #[source]
        error: Box<Error>,
    },
    /// The object of one watch event could not be read. See [`event_type`](Self::event_type).
    #[error("{error}")]
    Event {
        /// The type of the event, as the server wrote it.
        event_type: Box<str>,
        /// Why the object could not be read.
        #[source]
        error: Box<Error>,
    },
    /// The rest of the stream cannot be read: its framing is lost.
    #[error("cannot read the rest of the stream: {0}")]
    Framing(#[source] Box<Error>),
    /// The schema table has no entry for a kind, so its protobuf bytes cannot be read by name.
    #[error("cannot decode {kind} of {api_version}: no protobuf schema; request JSON")]
    UnknownKind {
        /// apiVersion of the object.
        api_version: String,
        /// kind of the object.
        kind: String,
    },
    /// A protobuf field is not in the schema table: a value without it would be incomplete.
    #[error(
        "cannot decode field {number} of {message}: newer than the schema table (Kubernetes {table}); request JSON"
    )]
    UnknownField {
        /// The protobuf message.
        message: &'static str,
        /// The field's number.
        number: u32,
        /// The table's Kubernetes version.
        table: &'static str,
    },
    /// A field path is invalid, or does not exist in the kind.
    #[error("invalid field path `{path}`: {why}")]
    Path {
        /// The path as given.
        path: String,
        /// Why it is invalid.
        why: String,
    },
    /// The fields of a protobuf message are not in the order in which Go writes them, and the value borrows from the
    /// bytes.
    #[error("cannot decode protobuf: fields are out of order; decode into an owned type")]
    Unordered,
    /// The value does not match the requested type (or cannot be written as the message).
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

    /// Adds the key of the object to the error, if known.
    pub(crate) fn about(self, key: Option<Key>) -> Self {
        match key {
            Some((namespace, name)) => Self::Object { namespace, name, error: Box::new(self) },
            None => self,
        }
    }

    /// Adds the type of the event to the error of its object, if known.
    pub(crate) fn in_event(self, event_type: Option<impl Into<Box<str>>>) -> Self {
        match event_type {
            Some(event_type) if !self.is_fatal() => {
                Self::Event { event_type: event_type.into(), error: Box::new(self) }
            }
            _ => self,
        }
    }

    /// The type of the watch event whose object could not be read (`ADDED`, `MODIFIED`, `DELETED`), if it could be read.
    pub fn event_type(&self) -> Option<&str> {
        match self {
            Self::Event { event_type, .. } => Some(event_type),
            _ => None,
        }
    }

    /// Namespace and name of the object that could not be read, if they could be read: identifies the stale object to
    /// a cache. The namespace of a cluster-scoped object is empty.
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
            Self::Event { error, .. } => error.key(),
            _ => None,
        }
    }

    /// Whether the rest of the stream is unreadable. Otherwise only one object is.
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

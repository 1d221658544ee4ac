//! Why a list or watch failed, as the source saw it. One table in the reflector decides what to do about it.

use std::sync::Arc;

use kube_wire::Status;

use crate::Key;

/// Why a request failed, or a body ended early.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SourceError {
    /// The server answered with an error, immediately or in the stream.
    #[error("{0}")]
    Status(#[from] Status),
    /// The server's address refuses connections.
    #[error("connection refused: {0}; check the address and whether the API server is running")]
    ConnectionRefused(Arc<dyn std::error::Error + Send + Sync>),
    /// The connection failed for another reason: name resolution, TLS, a proxy.
    #[error("cannot connect to the API server: {0}")]
    Connect(Arc<dyn std::error::Error + Send + Sync>),
    /// A connection or stream broke: reset, GOAWAY, closed in the middle.
    #[error("connection broken: {0}")]
    Interrupted(Arc<dyn std::error::Error + Send + Sync>),
    /// The server reset a stream, or did not answer a ping.
    #[error("stream broken: {0}")]
    Unsound(Arc<dyn std::error::Error + Send + Sync>),
    /// Nothing was received for too long.
    #[error("nothing received for {0:?}")]
    Idle(std::time::Duration),
    /// A list arrived too slowly for too long.
    #[error("the list is too slow: {bytes} B received in {waited:.0?}; at least 1 KiB/s is required")]
    Slow {
        /// The bytes received while it was slow.
        bytes: usize,
        /// How long the server took for them.
        waited: std::time::Duration,
    },
    /// The credentials are not available; the request was not sent.
    #[error("cannot get credentials for the request: {0}")]
    Auth(Arc<dyn std::error::Error + Send + Sync>),
    /// The response could not be read.
    #[error("cannot read the response: {0}")]
    Wire(#[from] kube_wire::Error),
    /// The response has an unexpected kind.
    #[error("expected {expected}, but the server sent {found}")]
    UnexpectedKind {
        /// The expected kind.
        expected: String,
        /// The kind in the response.
        found: String,
    },
    /// The watch-list was not sent: watch-lists of this API group are known not to work on this server.
    #[error("watch-lists do not work for this API group on this server")]
    NoWatchList,
    /// Any other error; it ends the request.
    #[error("{0}")]
    Other(Arc<dyn std::error::Error + Send + Sync>),
}

impl SourceError {
    /// Whether the error concerns a single object or event, and the stream continues.
    pub fn is_about_one_object(&self) -> bool {
        match self {
            Self::Wire(error) => !error.is_fatal(),
            _ => false,
        }
    }

    /// The key of the object that the error concerns, as far as it is known.
    pub(crate) fn key(&self) -> Option<Key> {
        let Self::Wire(error) = self else { return None };
        error.key().map(|(namespace, name)| Key::new(namespace, name))
    }

    /// The type of the watch event that the error concerns, as far as it is known.
    pub(crate) fn event_type(&self) -> Option<&str> {
        let Self::Wire(error) = self else { return None };
        error.event_type()
    }

    /// The server's status, if it answered with an error.
    pub fn status(&self) -> Option<&Status> {
        match self {
            Self::Status(status) => Some(status),
            _ => None,
        }
    }
}

//! Why a list or watch failed, as the source saw it. What is to be done about it is decided elsewhere, in one table.

use std::sync::Arc;

use kube_wire::Status;

use crate::Key;

/// Why a request failed, or a body ended early.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SourceError {
    /// The server answered with an error, at once or in the stream.
    #[error("{0}")]
    Status(#[from] Status),
    /// The server's address refuses connections.
    #[error("connection refused: {0}; is the API server running, and is its address right?")]
    ConnectionRefused(Arc<dyn std::error::Error + Send + Sync>),
    /// No connection could be made for another reason: name resolution, TLS, a proxy.
    #[error("no connection to the API server: {0}")]
    Connect(Arc<dyn std::error::Error + Send + Sync>),
    /// A connection or stream broke: reset, GOAWAY, closed in the middle.
    #[error("the connection broke: {0}")]
    Interrupted(Arc<dyn std::error::Error + Send + Sync>),
    /// A stream was reset by the server, or a ping was not answered.
    #[error("the stream is not sound: {0}")]
    Unsound(Arc<dyn std::error::Error + Send + Sync>),
    /// Nothing came for too long.
    #[error("nothing received for {0:?}")]
    Idle(std::time::Duration),
    /// Credentials could not be had: the request was never sent.
    #[error("no credentials for the request: {0}")]
    Auth(Arc<dyn std::error::Error + Send + Sync>),
    /// The answer could not be read.
    #[error("the answer could not be read: {0}")]
    Wire(#[from] kube_wire::Error),
    /// The answer is of another kind than asked for.
    #[error("expected {expected}, but the server sent {found}")]
    UnexpectedKind {
        /// What was asked for.
        expected: String,
        /// What came.
        found: String,
    },
    /// A watch-list was not asked for: those of this API group are known not to end on this server.
    #[error("watch-lists of this API group did not end on this server")]
    NoWatchList,
    /// Something else; it ends the request.
    #[error("{0}")]
    Other(Arc<dyn std::error::Error + Send + Sync>),
}

impl SourceError {
    /// Whether the error is about a single object or event, and the stream goes on.
    pub fn is_about_one_object(&self) -> bool {
        match self {
            Self::Wire(error) => !error.is_fatal(),
            _ => false,
        }
    }

    /// The key of the object that the error is about, as far as it can be told.
    pub(crate) fn key(&self) -> Option<Key> {
        let Self::Wire(error) = self else { return None };
        error.key().map(|(namespace, name)| Key::new(namespace, name))
    }

    /// The server's refusal, if this is one.
    pub fn status(&self) -> Option<&Status> {
        match self {
            Self::Status(status) => Some(status),
            _ => None,
        }
    }
}

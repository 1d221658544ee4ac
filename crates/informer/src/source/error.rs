//! Errors of lists and watches. The reflector's decision table maps each to the next step (`reflector/decide.rs`).

use std::error::Error;
use std::fmt::{self, Write};
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
    #[error(
        "cannot connect to the API server: {}; check the address and whether the API server is running",
        causes(.0)
    )]
    ConnectionRefused(#[source] Arc<dyn Error + Send + Sync>),
    /// The connection failed for another reason: name resolution, TLS, a proxy.
    #[error("cannot connect to the API server: {}", causes(.0))]
    Connect(#[source] Arc<dyn Error + Send + Sync>),
    /// A connection or stream broke: reset, GOAWAY, closed in the middle.
    #[error("connection broken: {}", causes(.0))]
    Interrupted(#[source] Arc<dyn Error + Send + Sync>),
    /// The server reset a stream, or did not answer a ping.
    #[error("stream broken: {}", causes(.0))]
    StreamBroken(#[source] Arc<dyn Error + Send + Sync>),
    /// Nothing was received for too long.
    #[error("nothing received for {0:?}")]
    Idle(std::time::Duration),
    /// A watch was still open long after it was requested to end.
    #[error(
        "the watch did not end after {asked:?} as requested{}",
        if *within_event { ", and its last event is incomplete" } else { "" }
    )]
    Overdue {
        /// How long it was requested to last.
        asked: std::time::Duration,
        /// Whether a part of an event had arrived.
        within_event: bool,
    },
    /// The request could not be created, for example because it is too long. It was not sent.
    #[error("cannot create the request: {0}")]
    Unsendable(#[source] Arc<dyn Error + Send + Sync>),
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
    Auth(#[source] Arc<dyn Error + Send + Sync>),
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
    #[error("{}", causes(.0))]
    Other(#[source] Arc<dyn Error + Send + Sync>),
}

/// Prints an error and its causes, each once. Omits the texts of the layers between a request and its connection, which say
/// only that the request failed.
struct Causes<'a>(&'a (dyn Error + 'static));

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

// === impl Causes ===

fn causes(error: &Arc<dyn Error + Send + Sync>) -> Causes<'_> {
    Causes(&**error)
}

impl Causes<'_> {
    /// Whether an error adds nothing to the text of its cause.
    fn is_wrapper(error: &(dyn Error + 'static)) -> bool {
        error.source().is_some()
            && (error.is::<kube_client::Error>() || error.is::<hyper_util::client::legacy::Error>())
    }
}

impl fmt::Display for Causes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let causes = std::iter::successors(Some(self.0), |error| (*error).source());
        let mut printed = String::new();
        for error in causes.filter(|error| !Self::is_wrapper(*error)) {
            let text = error.to_string();
            // Many errors print their cause, too.
            if printed.contains(&text) {
                continue;
            }
            let separator = if printed.is_empty() { "" } else { ": " };
            write!(printed, "{separator}{text}")?;
        }
        f.write_str(&printed)
    }
}

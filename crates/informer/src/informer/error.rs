//! Errors of informers, one type per operation.

use std::sync::Arc;
use std::time::Duration;

use kube_wire::{InvalidSelector, Status};

use crate::Key;
use crate::source::InvalidPathSegment;
use crate::store::IndexError;

/// Why an informer could not be started.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum StartError {
    /// A selector is invalid.
    #[error(transparent)]
    Selector(#[from] InvalidSelector),
    /// A namespace, or a name of the resource, cannot be part of a URL.
    #[error(transparent)]
    Name(#[from] InvalidPathSegment),
    /// A path of a field to drop or keep is invalid.
    #[error("invalid field to drop or keep: {0}")]
    Field(kube_wire::Error),
    /// An index is invalid.
    #[error(transparent)]
    Index(#[from] IndexError),
    /// The informer cannot read what its shard is divided by.
    #[cfg(feature = "shards")]
    #[error(transparent)]
    Shard(#[from] crate::shard::InvalidShard),
    /// Two settings contradict each other.
    #[error("{0}")]
    Contradiction(&'static str),
    /// No tokio runtime is running.
    #[error("cannot start an informer: no tokio runtime; start it inside one")]
    NoRuntime,
}

/// Why an informer is not synced.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SyncError {
    /// The server refuses, and repeating the request will not help until something changes: 401, 403, 404 or an invalid shard
    /// selector; for a list also 400, 405, 406 or 422. The informer keeps trying, and syncs once the server accepts.
    #[error("cannot list {resource}: {status}; {}", remedy(status))]
    Refused {
        /// The requested resource.
        resource: Arc<str>,
        /// The server's answer.
        status: Status,
    },
    /// The objects do not fit the factory's [memory budget](crate::InformerFactory::memory_max). The informer keeps trying, and
    /// syncs once they do.
    #[error("{0}")]
    OverBudget(String),
    /// The informer was stopped, or the handler removed.
    #[error(transparent)]
    Stopped(#[from] Stopped),
}

/// Why a wait failed.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WaitError {
    /// This informer will never see the object: its namespace or labels are not selected, or it has no uid or
    /// resourceVersion (only objects returned by a server have them).
    #[error("cannot wait for `{key}`: {why}")]
    Never {
        /// The object's key.
        key: Key,
        /// The selector or namespace that excludes it, or the missing field.
        why: String,
    },
    /// The time limit passed.
    #[error("timed out after {limit:?} waiting for `{key}`; see the informer's status for the cause")]
    TimedOut {
        /// The object's key.
        key: Key,
        /// The time limit.
        limit: Duration,
    },
    /// The server was reset to an earlier state.
    #[error(transparent)]
    ServerReset(#[from] crate::store::ServerReset),
    /// The object cannot be decoded to its type.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// The informer was stopped.
    #[error(transparent)]
    Stopped(#[from] Stopped),
}

/// The informer was stopped.
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
#[error("the informer was stopped")]
pub struct Stopped;

/// An object cannot be decoded to its type. Other objects are not affected.
#[derive(Clone, Debug, thiserror::Error)]
#[error("cannot decode {}", about(.key, .error))]
#[non_exhaustive]
pub struct DecodeError {
    /// The object's key.
    pub key: Key,
    /// The reason. The message contains it, so `source()` does not return it.
    pub error: kube_wire::Error,
}

impl DecodeError {
    /// Whether this state of the object can never be decoded. `false` if it has fields that the schema does not know: then
    /// the object is fetched again as JSON.
    #[doc(hidden)]
    pub fn is_permanent(&self) -> bool {
        !matches!(self.error, kube_wire::Error::UnknownField { .. })
    }
}

/// The object, named once, and the reason.
fn about(key: &Key, error: &kube_wire::Error) -> String {
    match error {
        // The reason names kind and key.
        kube_wire::Error::Value(why) => why.clone(),
        error => format!("`{key}`: {error}"),
    }
}

/// What to do about a refusal.
fn remedy(refusal: &Status) -> &'static str {
    match refusal.code {
        401 => "check the credentials",
        403 => "grant `list` and `watch` on it (a role and a binding)",
        400 | 422 => "check the field and label selectors",
        405 => "this resource cannot be listed",
        406 => "request another encoding",
        500 => {
            "disable the server's feature gate `ShardedListAndWatch`, or start the informer without a shard"
        }
        _ => "install its CustomResourceDefinition, or check group, version and plural",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_the_resource_and_what_to_do() {
        for (code, remedy) in [
            (400, "selectors"),
            (401, "credentials"),
            (403, "`list` and `watch`"),
            (404, "CustomResourceDefinition"),
            (500, "ShardedListAndWatch"),
        ] {
            let mut status = Status::default();
            status.code = code;
            let error = SyncError::Refused { resource: "widgets.example.com".into(), status }.to_string();
            assert!(error.starts_with(&format!("cannot list widgets.example.com: {code}")), "{error}");
            assert!(error.contains(remedy), "{error}");
        }
    }
}

//! What can go wrong with an informer, one enum an operation.

use std::sync::Arc;
use std::time::Duration;

use kube_wire::Status;

use crate::source::InvalidPathSegment;
use crate::store::IndexError;
use crate::{InvalidSelector, Key};

/// Why an informer was not started.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum StartError {
    /// A selector is none.
    #[error(transparent)]
    Selector(#[from] InvalidSelector),
    /// A namespace, or a name of the resource, cannot be part of a URL.
    #[error(transparent)]
    Name(#[from] InvalidPathSegment),
    /// A field to be dropped or kept cannot be.
    #[error("a field to be dropped or kept: {0}")]
    Field(kube_wire::Error),
    /// An index cannot be.
    #[error(transparent)]
    Index(#[from] IndexError),
    /// Two settings contradict each other.
    #[error("{0}")]
    Contradiction(&'static str),
    /// There is no tokio runtime to run in.
    #[error("an informer needs a tokio runtime: start it from within one")]
    NoRuntime,
}

/// Why an informer is not synced.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SyncError {
    /// The server refuses, and asking again will not help until something is changed: 401, 403 or 404, or 400, 405, 406 or
    /// 422 to a list. The informer goes on trying; it syncs should the server change its mind.
    #[error("{resource}: the server refuses: {status}; {}", remedy(status))]
    Refused {
        /// What was asked for.
        resource: Arc<str>,
        /// The server's answer.
        status: Status,
    },
    /// The informer was stopped, or the handler removed.
    #[error(transparent)]
    Stopped(#[from] Stopped),
}

/// Why waiting ended without what was waited for.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WaitError {
    /// This informer will never see the object: its namespace or its labels are not among those asked for.
    #[error("`{key}` is not in the informer's scope: {why}")]
    NotInScope {
        /// The object's key.
        key: Key,
        /// What excludes it.
        why: String,
    },
    /// The object does not say which one it is, or in which state: only what a server has returned can be waited for.
    #[error(
        "cannot wait for `{key}`: no {missing} in its metadata; pass the object as the server returned it"
    )]
    Unidentified {
        /// The object's key.
        key: Key,
        /// The field that is not set.
        missing: &'static str,
    },
    /// It took too long.
    #[error("`{key}` did not get there within {limit:?}; see the informer's status for what holds it up")]
    TimedOut {
        /// The object's key.
        key: Key,
        /// How long was waited.
        limit: Duration,
    },
    /// The server has gone back in time.
    #[error(transparent)]
    ServerReset(#[from] crate::store::ServerReset),
    /// The object does not fit its type.
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

/// An object does not fit its type. Other objects are not affected.
#[derive(Clone, Debug, thiserror::Error)]
#[error("cannot decode {}", about(.key, .error))]
#[non_exhaustive]
pub struct DecodeError {
    /// The object's key.
    pub key: Key,
    /// Why. It is part of the message, and so not a source in addition.
    pub error: kube_wire::Error,
}

impl DecodeError {
    /// Whether the same state of the object will never fit. Not so if it has fields that the schema does not know: the object
    /// is then fetched once more, as JSON.
    pub fn is_permanent(&self) -> bool {
        !matches!(self.error, kube_wire::Error::UnknownField { .. })
    }
}

/// The object, named once, and what is wrong with it.
fn about(key: &Key, error: &kube_wire::Error) -> String {
    match error {
        // It names kind and key.
        kube_wire::Error::Value(why) => why.clone(),
        error => format!("`{key}`: {error}"),
    }
}

/// What to do about a refusal.
fn remedy(refusal: &Status) -> &'static str {
    match refusal.code {
        401 => "check the credentials",
        403 => "let this account `list` and `watch` it (a role, and a binding to it)",
        400 | 422 => "check the field and label selectors",
        405 => "this resource cannot be listed",
        406 => "ask for another encoding",
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
        ] {
            let mut status = Status::default();
            status.code = code;
            let error = SyncError::Refused { resource: "widgets.example.com".into(), status }.to_string();
            assert!(
                error.starts_with(&format!("widgets.example.com: the server refuses: {code}")),
                "{error}"
            );
            assert!(error.contains(remedy), "{error}");
        }
    }
}

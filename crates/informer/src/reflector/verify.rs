//! Verifies that the server still has the cached state: after a broken or refused connection, a watch that ended early, or a
//! list or watch that no watch followed soon.
//!
//! An etcd restored from a backup continues from an older revision, with a different history. While the server is behind
//! the last resourceVersion, a watch there stays silent. Once it has passed it, the watch returns events of the new
//! history, which do not mention the objects that were lost or reappeared. So the cached state is compared before events
//! are trusted: at exactly the last resourceVersion, the server must have the newest cached object with the same content,
//! and must not have the most recently deleted object. That costs one list of one object, and a second one after a
//! deletion. If objects can move to another shard, the last one that did is treated as a deleted one.

use std::time::Duration;

use futures::StreamExt;
use kube_wire::{RawObject, Status};

use super::{CycleEnd, Reflector, ReflectorError};
use crate::Key;
use crate::object::StoredObject;
use crate::queue::{Newest, Sink};
use crate::source::{ListOptions, ListPart, SourceError, VersionMatch};
use crate::version::is_older;

/// How long the server may take to answer.
const ANSWER_MAX: Duration = Duration::from_secs(10);

/// Whether the server still has the cached history.
#[derive(Clone, Copy, PartialEq, Eq)]
enum History {
    Same,
    Other,
    /// The server shows only objects that this source does not select.
    Unknown,
}

/// What the server has at a resourceVersion.
enum Found {
    /// An object.
    Object(RawObject),
    /// Nothing.
    Nothing,
    /// Unknown: the source ignores parts of the request.
    Unclear,
}

impl<S: Sink> Reflector<S> {
    /// Compares the cached state with the server's at this resourceVersion, if the server may have been restored since the last
    /// comparison. Returns whether it was compared.
    ///
    /// A server that does not answer is asked again with the next watch; one that does not support the request is trusted.
    pub(super) async fn verify(&mut self, version: &str) -> Result<Result<bool, SourceError>, CycleEnd> {
        if !self.unverified || matches!(version, "" | "0") || deliberate_bug!("verification-skipped") {
            return Ok(Ok(false));
        }
        let newest = self.sink.newest(self.scope).await?;
        match self.history(&newest, version).await {
            Ok(history) if history == History::Same || deliberate_bug!("divergence-ignored") => {
                self.unverified = false;
                Ok(Ok(true))
            }
            Ok(History::Unknown) => Err(CycleEnd::Outdated),
            Ok(_) => Err(CycleEnd::because(ReflectorError::Diverged { version: version.to_owned() })),
            Err(error) => match error.status() {
                Some(status) if status.is_expired() => Err(CycleEnd::because(ReflectorError::Verify(error))),
                Some(status) if status.is_too_large_resource_version() => {
                    self.version_unavailable = true;
                    Err(CycleEnd::because(ReflectorError::Verify(error)))
                }
                Some(status) if cannot_answer(status) => {
                    self.unverified = false;
                    Ok(Ok(false))
                }
                _ => Ok(Err(error)),
            },
        }
    }

    async fn history(&self, newest: &Newest, version: &str) -> Result<History, SourceError> {
        let same = match newest {
            Newest::Unknown => {
                self.object_at(None, version).await?;
                true
            }
            Newest::Empty => match self.object_at(None, version).await? {
                Found::Object(object) if self.is_foreign(&object) => return Ok(History::Unknown),
                found => !matches!(found, Found::Object(_)),
            },
            Newest::Object { object, as_received } if !is_older(version, object.resource_version()) => {
                match self.object_at(Some(&object.key()), version).await? {
                    Found::Object(found) => is_same_state(object, found, *as_received),
                    Found::Nothing => false,
                    Found::Unclear => true,
                }
            }
            // Its resourceVersion is not comparable with the list's.
            Newest::Object { .. } => true,
        };
        let same = same
            && self.is_still_gone(self.last_deletion.as_ref(), newest, version).await?
            && self.is_still_gone(self.last_left.as_ref(), newest, version).await?;
        Ok(if same { History::Same } else { History::Other })
    }

    /// Whether an object that was deleted, or has left, is still gone. Checked only if that happened after the last
    /// change of every cached object.
    async fn is_still_gone(
        &self,
        gone: Option<&RawObject>,
        newest: &Newest,
        version: &str,
    ) -> Result<bool, SourceError> {
        let Some(gone) = gone.map(RawObject::head) else { return Ok(true) };
        if deliberate_bug!("deletion-not-verified") {
            return Ok(true);
        }
        if let Newest::Object { object, .. } = newest
            && !is_older(object.resource_version(), gone.resource_version())
        {
            return Ok(true);
        }
        let found = self.object_at(Some(&Key::of_head(&gone)), version).await?;
        // Nor may another object have this key: it would be newer than the deletion, so the cache would have it.
        Ok(!matches!(found, Found::Object(object) if self.source.selects(&object)))
    }

    /// The object with this key (or any object) at exactly this resourceVersion.
    async fn object_at(&self, key: Option<&Key>, version: &str) -> Result<Found, SourceError> {
        let namespace = key.map(Key::namespace).filter(|namespace| !namespace.is_empty());
        let options = ListOptions {
            field_selector: key.map(|key| format!("metadata.name={}", key.name())).unwrap_or_default(),
            namespace: namespace.map(str::to_owned),
            resource_version: version.to_owned(),
            version_match: Some(VersionMatch::Exact),
            limit: Some(1),
            ..ListOptions::default()
        };
        let read = self.read_one(options, key);
        tokio::time::timeout(ANSWER_MAX, read).await.unwrap_or(Err(SourceError::Idle(ANSWER_MAX)))
    }

    /// Reads a list of at most one object.
    async fn read_one(&self, options: ListOptions, key: Option<&Key>) -> Result<Found, SourceError> {
        let version = options.resource_version.clone();
        let mut parts = self.source.list(options).await?;
        let mut found = Found::Nothing;
        while let Some(part) = parts.next().await {
            found = match (part, found) {
                (Ok(ListPart::End(head)), found) => {
                    let head = self.check_list(head)?;
                    return Ok(if head.resource_version == version { found } else { Found::Unclear });
                }
                (Ok(ListPart::Item(object)), Found::Nothing)
                    if key.is_none_or(|key| *key == Key::of_head(&object.head())) =>
                {
                    Found::Object(object)
                }
                // Another object, or more than one: the source ignored the request's selector or limit.
                (Ok(ListPart::Item(_)), _) => return Ok(Found::Unclear),
                (Err(error), _) if error.is_about_one_object() => return Ok(Found::Unclear),
                (Err(error), _) => return Err(error),
            };
        }
        Err(SourceError::Wire(kube_wire::Error::Truncated { what: "list", at: 0 }))
    }
}

/// Whether the server has an object in its cached state. In another history the same object may have got the same
/// resourceVersion (a Lease is renewed all the time), so the content is compared too, where possible.
fn is_same_state(cached: &StoredObject, found: RawObject, as_received: bool) -> bool {
    let Ok(found) = StoredObject::new(cached.scope(), found) else { return false };
    let same_version = found.uid() == cached.uid() && found.resource_version() == cached.resource_version();
    let comparable = as_received && found.encoding() == cached.encoding();
    same_version && (!comparable || found.content_hash() == cached.content_hash())
}

/// Whether a server rejects the request itself: it does not select by name, or not at a resourceVersion. A missing
/// permission or resource does not count: by the time it is available again, the history may have changed.
fn cannot_answer(status: &Status) -> bool {
    (400..500).contains(&status.code) && !matches!(status.code, 401 | 403 | 404 | 408 | 429)
}

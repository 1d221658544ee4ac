//! Feeding a resource from elsewhere, with the resourceVersions that its objects have there.
//!
//! So a mirror of a cluster can be served: what the mirror hears, it feeds, and clients that list and watch here see
//! the cluster's own resourceVersions. A fed resource keeps its own revision; writes of clients are not meant for it.

use std::sync::Arc;

use serde_json::Value;

use super::Server;
use crate::api::Api;
use crate::codec;
use crate::objects::meta;
use crate::resources::Resource;
use crate::storage::{OutOfOrder, WriteKind};

/// The largest revision that can be fed, as in etcd. The server goes on counting from what it is fed.
const REVISION_MAX: u64 = i64::MAX as u64;

/// Puts objects of one resource into the server as they are.
#[derive(Clone, Debug)]
pub struct Feed {
    api: Arc<Api>,
    resource: Arc<Resource>,
}

/// Why an object was not taken.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FeedError {
    /// Revisions of one resource have to grow.
    #[error(
        "{key}: revision {given} does not exceed the last one, {last}: feed changes in the order of their revisions"
    )]
    OutOfOrder {
        /// The object's key.
        key: String,
        /// The revision given.
        given: u64,
        /// The resource's last revision.
        last: u64,
    },
    /// The revision is larger than any that an API server gives.
    #[error("{key}: revision {given} exceeds the largest one, {REVISION_MAX}")]
    TooLarge {
        /// The object's key; empty for a bookmark.
        key: String,
        /// The revision given.
        given: u64,
    },
    /// The resourceVersion is missing or no number.
    #[error("{key}: the resourceVersion {text:?} is no number: feed objects as the server gave them")]
    NoRevision {
        /// The object's key.
        key: String,
        /// What stands there.
        text: String,
    },
    /// The object is not of the resource's kind.
    #[error("{key}: the object does not fit its kind: {reason}")]
    Misfit {
        /// The object's key.
        key: String,
        /// Why.
        reason: String,
    },
}

impl Server {
    /// A feed for a resource, if it is served: `server.feed("apps", "v1", "deployments")`.
    pub fn feed(&self, group: &str, version: &str, plural: &str) -> Option<Feed> {
        let resource = self.api.registry().find(group, version, plural)?.clone();
        Some(Feed { api: self.api.clone(), resource })
    }
}

impl Feed {
    /// Stores an object under its resourceVersion.
    ///
    /// # Errors
    /// If the resourceVersion is none or not newer than the last one, or the object is of another kind.
    pub fn put(&self, object: &Value) -> Result<(), FeedError> {
        self.write(object, WriteKind::Put)
    }

    /// Takes an object away; its resourceVersion is the deletion's.
    ///
    /// # Errors
    /// As [`put`](Self::put).
    pub fn delete(&self, object: &Value) -> Result<(), FeedError> {
        self.write(object, WriteKind::Delete)
    }

    /// Moves the resource's revision on without a change.
    ///
    /// # Errors
    /// If the revision is not newer than the last one, or larger than a signed 64-bit number.
    pub fn bookmark(&self, revision: u64) -> Result<(), FeedError> {
        check_size("", revision)?;
        let moved = self.api.storage.feed_bookmark(self.resource.collection, revision);
        moved.map_err(|error| out_of_order(String::new(), error))
    }

    fn write(&self, object: &Value, write: WriteKind) -> Result<(), FeedError> {
        let key = self.resource.key(meta::namespace(object), meta::name(object));
        let text = meta::text(object, "resourceVersion");
        let Ok(revision) = text.parse() else {
            return Err(FeedError::NoRevision { key, text: text.to_owned() });
        };
        check_size(&key, revision)?;
        let draft = codec::encode(&self.resource, object)
            .map_err(|error| FeedError::Misfit { key: key.clone(), reason: error.to_string() })?;
        let fed = self.api.storage.feed(self.resource.collection, &key, write, revision, draft);
        fed.map_err(|error| out_of_order(key, error))
    }
}

fn check_size(key: &str, given: u64) -> Result<(), FeedError> {
    if given > REVISION_MAX { Err(FeedError::TooLarge { key: key.to_owned(), given }) } else { Ok(()) }
}

fn out_of_order(key: String, OutOfOrder { given, last }: OutOfOrder) -> FeedError {
    FeedError::OutOfOrder { key, given, last }
}

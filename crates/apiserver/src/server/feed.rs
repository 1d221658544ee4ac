//! Feeds: write objects of a resource with the resourceVersions they have elsewhere.
//!
//! A feed serves a mirror of a cluster: the mirror feeds every change it receives, and clients that list and watch
//! here see the cluster's own resourceVersions. A fed resource has its own revision; clients should not write to it.

use std::sync::Arc;

use serde_json::Value;

use super::Server;
use crate::api::Api;
use crate::codec;
use crate::objects::meta;
use crate::resources::Resource;
use crate::storage::{OutOfOrder, WriteKind};

/// The largest revision that can be fed, as in etcd. The server's own counter continues from fed revisions.
const REVISION_MAX: u64 = i64::MAX as u64;

/// Stores objects of one resource unmodified, with their own resourceVersions.
#[derive(Clone, Debug)]
pub struct Feed {
    api: Arc<Api>,
    resource: Arc<Resource>,
}

/// Why a fed object was rejected.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FeedError {
    /// Revisions of one resource have to grow.
    #[error(
        "cannot feed {key}: revision {given} is not newer than {last}; feed changes in order of their revisions"
    )]
    OutOfOrder {
        /// The object's key.
        key: String,
        /// The object's revision.
        given: u64,
        /// The resource's latest revision.
        last: u64,
    },
    /// The revision exceeds the maximum.
    #[error("cannot feed {}: revision {given} exceeds the maximum {REVISION_MAX}", if key.is_empty() { "bookmark" } else { key.as_str() })]
    TooLarge {
        /// The object's key; empty for a bookmark.
        key: String,
        /// The object's revision.
        given: u64,
    },
    /// The resourceVersion is missing or not a number.
    #[error("cannot feed {key}: invalid resourceVersion {text:?}; feed objects as received from the server")]
    NoRevision {
        /// The object's key.
        key: String,
        /// The resourceVersion found.
        text: String,
    },
    /// The object is not of the resource's kind.
    #[error("cannot feed {key}: object does not match its kind: {reason}")]
    Misfit {
        /// The object's key.
        key: String,
        /// The reason.
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
    /// If the resourceVersion is invalid or not newer than the latest one, or the object is of another kind.
    pub fn put(&self, object: &Value) -> Result<(), FeedError> {
        self.write(object, WriteKind::Put)
    }

    /// Deletes an object; its resourceVersion is that of the deletion.
    ///
    /// # Errors
    /// Like [`put`](Self::put).
    pub fn delete(&self, object: &Value) -> Result<(), FeedError> {
        self.write(object, WriteKind::Delete)
    }

    /// Advances the resource's revision without a change.
    ///
    /// # Errors
    /// If the revision is not newer than the latest one, or exceeds a signed 64-bit number.
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

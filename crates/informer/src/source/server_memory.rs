//! Facts that were learned about a server, shared so that only one informer has to find them out.
//!
//! A [`ListWatch`](super::ListWatch) has an ordinary `kube` client, which does not identify its server. So its requests
//! carry an [`Introduction`]. The service below [`Cluster`](super::Cluster) puts its memory there, and rejects a watch-list
//! that is known not to end before it is sent.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::deadline::after;

/// Facts that were learned about a server. Each fact concerns one API group, because different programs may serve the groups of one
/// address.
#[derive(Debug, Default)]
pub struct ServerMemory {
    /// Until when not to try watch-lists of a group.
    broken_watch_lists: Mutex<HashMap<Box<str>, Instant>>,
}

/// How long to remember that watch-lists do not end.
const REMEMBERED: Duration = Duration::from_secs(3600);

/// How many groups to remember.
const GROUPS_MAX: usize = 1000;

/// Connects a source with the service below its client: an extension of a request.
#[derive(Clone, Debug)]
pub(super) struct Introduction {
    pub(super) server: Arc<OnceLock<Arc<ServerMemory>>>,
    /// The API group of a watch-list that may be skipped.
    pub(super) optional_watch_list: Option<Box<str>>,
}

/// The request was not sent: watch-lists of its API group do not end on this server.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("watch-lists do not work for this API group on this server")]
pub(super) struct KnownBroken;

// === impl ServerMemory ===

impl ServerMemory {
    /// Whether watch-lists of this API group did not end on this server within the last hour.
    pub fn is_watch_list_broken(&self, group: &str) -> bool {
        self.broken_watch_lists.lock().get(group).is_some_and(|until| Instant::now() < *until)
    }

    /// Records that a watch-list of this API group did not end.
    pub(crate) fn watch_list_is_broken(&self, group: &str) {
        let Some(until) = after(REMEMBERED) else { return };
        let mut broken = self.broken_watch_lists.lock();
        let now = Instant::now();
        broken.retain(|_, until| now < *until);
        if broken.len() < GROUPS_MAX {
            broken.insert(group.into(), until);
        }
    }
}

// === impl Introduction ===

impl Introduction {
    /// Called by the service of this server with a request.
    ///
    /// # Errors
    /// Returns an error if the request should not be sent.
    pub(super) fn meet(&self, server: &Arc<ServerMemory>) -> Result<(), KnownBroken> {
        let _ = self.server.set(server.clone());
        match &self.optional_watch_list {
            Some(group) if server.is_watch_list_broken(group) => Err(KnownBroken),
            _ => Ok(()),
        }
    }
}

//! What was learned about a server, so that one informer pays for it and not each.
//!
//! A [`ListWatch`](super::ListWatch) has an ordinary `kube` client, which does not say whose it is. So its requests carry an
//! [`Introduction`], which the service under [`Cluster`](super::Cluster) meets: it leaves its memory there, and refuses a
//! watch-list that is known not to end before anything is sent.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::deadline::after;

/// What was learned about a server. Each fact is about one API group: groups may be served by different programs, behind
/// one address.
#[derive(Debug, Default)]
pub struct ServerMemory {
    /// Until when watch-lists of a group are not tried.
    broken_watch_lists: Mutex<HashMap<Box<str>, Instant>>,
}

/// How long it is remembered that watch-lists do not end.
const REMEMBERED: Duration = Duration::from_secs(3600);

/// Groups that are remembered at most.
const GROUPS_MAX: usize = 1000;

/// How a source and the service under its client get to know each other: the extension of a request.
#[derive(Clone, Debug)]
pub(super) struct Introduction {
    pub(super) server: Arc<OnceLock<Arc<ServerMemory>>>,
    /// The API group of a watch-list that need not be tried.
    pub(super) optional_watch_list: Option<Box<str>>,
}

/// The request was not sent: watch-lists of its API group do not end on this server.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("watch-lists of this API group did not end on this server")]
pub(super) struct KnownBroken;

// === impl ServerMemory ===

impl ServerMemory {
    /// Whether watch-lists of this API group were found not to end on this server, within the last hour.
    pub fn is_watch_list_broken(&self, group: &str) -> bool {
        self.broken_watch_lists.lock().get(group).is_some_and(|until| Instant::now() < *until)
    }

    /// A watch-list of this API group did not end.
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
    /// The service of this server meets the request.
    ///
    /// # Errors
    /// If it need not be sent.
    pub(super) fn meet(&self, server: &Arc<ServerMemory>) -> Result<(), KnownBroken> {
        let _ = self.server.set(server.clone());
        match &self.optional_watch_list {
            Some(group) if server.is_watch_list_broken(group) => Err(KnownBroken),
            _ => Ok(()),
        }
    }
}

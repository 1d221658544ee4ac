//! Writes whose outcome is unknown: the connection broke, or the server gave an answer that leaves the outcome open, such as 5xx.
//! They are recorded by target. Before a worker reconciles their key again, it reads the live object: see
//! [`live_read`](super::live_read).

use std::collections::HashMap;
use std::time::Duration;

use kube_core::ObjectMeta;
use kube_informer::Key;
use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::request::WriteTarget;

/// Writes whose outcome is unknown, by the key that made them.
#[derive(Debug)]
pub(crate) struct UnsettledWrites {
    by_key: Mutex<HashMap<Key, Vec<UnsettledWrite>>>,
    limit: Duration,
}

/// Writes to one target whose outcome is unknown. It is removed when a live read has shown the outcome.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct UnsettledWrite {
    pub(crate) target: WriteTarget,
    /// Whether one of the writes may have deleted an object that the cache does not have yet.
    pub(crate) may_have_deleted: bool,
    /// The objects that the server has deleted with the collection, in the state before the deletion.
    pub(crate) deleted: Vec<ObjectMeta>,
    /// Set if the live read found no object. Until the cache has reached the resourceVersion of that read, the object may still
    /// appear in the cache.
    pub(crate) absent: Option<Absent>,
}

/// A live read that found no object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Absent {
    /// The server's resourceVersion at the read.
    pub(crate) revision: String,
    /// When the key is reconciled anyway.
    pub(crate) until: Instant,
}

impl UnsettledWrites {
    /// `limit` is how long a key waits for the cache to reach the resourceVersion of a live read that found no object.
    pub(super) fn new(limit: Duration) -> Self {
        Self { by_key: Mutex::default(), limit }
    }

    /// Records a write of `key` whose outcome is unknown, unless its cluster was removed.
    pub(crate) fn unknown(&self, key: &Key, write: UnsettledWrite, removed: &CancellationToken) {
        let mut by_key = self.by_key.lock();
        // Checked under the lock that `forget` takes too.
        if removed.is_cancelled() {
            return;
        }
        let unsettled = by_key.entry(key.clone()).or_default();
        match unsettled.iter_mut().find(|other| other.target == write.target) {
            Some(known) => {
                known.may_have_deleted |= write.may_have_deleted;
                known.deleted.extend(write.deleted);
                known.absent = None;
            }
            None => unsettled.push(write),
        }
    }

    /// Records that a live read has found no object at this resourceVersion of the server.
    pub(crate) fn absent(&self, key: &Key, target: &WriteTarget, revision: String) -> Absent {
        let absent = Absent { revision, until: Instant::now() + self.limit };
        let mut by_key = self.by_key.lock();
        let mut unsettled = by_key.get_mut(key).into_iter().flatten();
        if let Some(known) = unsettled.find(|known| known.target == *target) {
            known.absent = Some(absent.clone());
        }
        absent
    }

    /// The writes of `key` whose outcome is unknown.
    pub(crate) fn of(&self, key: &Key) -> Vec<UnsettledWrite> {
        self.by_key.lock().get(key).cloned().unwrap_or_default()
    }

    /// Records that a live read has shown the outcome of a write.
    pub(crate) fn settled(&self, key: &Key, target: &WriteTarget) {
        let mut by_key = self.by_key.lock();
        let Some(unsettled) = by_key.get_mut(key) else { return };
        unsettled.retain(|other| other.target != *target);
        if unsettled.is_empty() {
            by_key.remove(key);
        }
    }

    /// Forgets keys.
    pub(super) fn forget(&self, is_key: impl Fn(&Key) -> bool) {
        self.by_key.lock().retain(|key, _| !is_key(key));
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.by_key.lock().is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_write_is_remembered_once_until_it_is_settled() {
        let writes = UnsettledWrites::new(Duration::from_secs(30));
        let target = |name: &str| WriteTarget::of("/api/v1/namespaces/web/pods", Some(name)).unwrap();
        let unsettled = |name: &str, may_have_deleted| UnsettledWrite {
            target: target(name),
            may_have_deleted,
            deleted: Vec::new(),
            absent: None,
        };
        let removed = CancellationToken::new();
        for (name, may_have_deleted) in [("x", false), ("y", false), ("x", true), ("x", false)] {
            writes.unknown(&Key::new("", "a"), unsettled(name, may_have_deleted), &removed);
        }
        assert_eq!(writes.of(&Key::new("", "a")), [unsettled("x", true), unsettled("y", false)]);
        writes.settled(&Key::new("", "a"), &target("x"));
        assert_eq!(writes.of(&Key::new("", "a")), [unsettled("y", false)]);
        assert_eq!(writes.of(&Key::new("", "b")), []);
        writes.settled(&Key::new("", "a"), &target("y"));
        assert!(writes.is_empty());
        removed.cancel();
        writes.unknown(&Key::new("", "a"), unsettled("x", true), &removed);
        assert!(writes.is_empty(), "the cluster was removed");
    }
}

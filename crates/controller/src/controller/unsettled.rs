//! Writes whose outcome is unknown: the connection broke, or the server answered 5xx. They are recorded by their target, and a worker
//! reads the live object before it reconciles their key again: see [`live_read`](super::live_read).

use std::collections::HashMap;
use std::time::Duration;

use kube_core::ObjectMeta;
use kube_informer::Key;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::request::WriteTarget;

/// Writes whose outcome is unknown, by the key that made them.
#[derive(Debug)]
pub(crate) struct UnsettledWrites {
    by_key: Mutex<HashMap<Key, Vec<UnsettledWrite>>>,
    limit: Duration,
}

/// Writes to a target whose outcome is unknown, until a live read has shown it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct UnsettledWrite {
    pub(crate) target: WriteTarget,
    /// One of them may have deleted an object that the cache does not have yet.
    pub(crate) may_have_deleted: bool,
    /// The objects that the server has deleted with the collection, as they were before.
    pub(crate) deleted: Vec<ObjectMeta>,
    /// The live read has found nothing. Until the cache has reached that moment, the object may still appear in it.
    pub(crate) absent: Option<Absent>,
}

/// When a live read found nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Absent {
    /// The server's resourceVersion.
    pub(crate) revision: String,
    /// When the key is reconciled anyway.
    pub(crate) until: Instant,
}

impl UnsettledWrites {
    /// `limit` is how long a key waits for the cache to reach a live read that found nothing.
    pub(super) fn new(limit: Duration) -> Self {
        Self { by_key: Mutex::default(), limit }
    }

    /// Records a write of `key` whose outcome is unknown.
    pub(crate) fn unknown(&self, key: &Key, write: UnsettledWrite) {
        let mut by_key = self.by_key.lock();
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

    /// A live read has found nothing at this resourceVersion of the server.
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

    /// A live read has shown the outcome of a write.
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
        for (name, may_have_deleted) in [("x", false), ("y", false), ("x", true), ("x", false)] {
            writes.unknown(&Key::new("", "a"), unsettled(name, may_have_deleted));
        }
        assert_eq!(writes.of(&Key::new("", "a")), [unsettled("x", true), unsettled("y", false)]);
        writes.settled(&Key::new("", "a"), &target("x"));
        assert_eq!(writes.of(&Key::new("", "a")), [unsettled("y", false)]);
        assert_eq!(writes.of(&Key::new("", "b")), []);
        writes.settled(&Key::new("", "a"), &target("y"));
        assert!(writes.is_empty());
    }
}

//! The state that a cache must reach before a key that has made writes is reconciled again.

use std::cmp::Ordering;

use kube_informer::Key;
use kube_informer::internals::compare_resource_versions;

/// An object in an informer: the informer's number, and the object's key.
pub(crate) type Place = (usize, Key);

/// The state of one object that a cache must reach before a key is reconciled again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Expected {
    /// The informers and keys where the object may appear. One of them suffices.
    pub(crate) places: Vec<Place>,
    /// The object's uid.
    pub(crate) uid: String,
    /// The cache must have at least this state of the object. Empty for a deletion whose resourceVersion is unknown.
    pub(crate) version: String,
    /// Whether the object must also be gone.
    pub(crate) gone: bool,
}

/// Whether the caches have what a key waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    Pending,
    Done,
    /// Every cache has reached the resourceVersion of the write, but none has the object in that state or a newer one. No event may
    /// report that: the object was deleted during an outage, or the server was restored from a backup.
    Lost,
}

impl Progress {
    pub(super) fn of(is_met: bool) -> Self {
        if is_met { Self::Done } else { Self::Pending }
    }
}

impl Expected {
    /// Includes the requirements of an earlier write of the same object: the newer version counts, and a deletion is final.
    pub(super) fn include(&mut self, earlier: &Self) {
        let same = !self.uid.is_empty()
            && self.uid == earlier.uid
            && earlier.places.iter().any(|place| self.places.contains(place));
        if !same {
            return;
        }
        if self.version.is_empty() || earlier.is_newer_than(&self.version) {
            self.version.clone_from(&earlier.version);
        }
        self.gone |= earlier.gone;
    }

    pub(super) fn is_newer_than(&self, version: &str) -> bool {
        compare_resource_versions(&self.version, version) == Some(Ordering::Greater)
    }

    /// Whether a cache that meets this also has the earlier write.
    pub(super) fn replaces(&self, earlier: &Self) -> bool {
        let is_later = || {
            let order = compare_resource_versions(&self.version, &earlier.version);
            !self.version.is_empty() && !earlier.gone && order != Some(Ordering::Less)
        };
        self.places == earlier.places && (self.uid == earlier.uid || is_later())
    }
}

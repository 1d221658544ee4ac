//! One change of one object, shared by all watches. [`Frames`](super::Frames) decides which events cache their frames.

use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;

use super::Stored;

/// What happened to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ChangeType {
    Added,
    Modified,
    Deleted,
}

/// Identifies one encoding of an event, which depends on the version, the encoding, the projection, and the change as
/// seen through a selector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FrameKey {
    /// The index of the version in its resource.
    pub(crate) version: u8,
    /// The number of the encoding and projection.
    pub(crate) representation: u8,
    /// The change as the watcher sees it.
    pub(crate) seen: ChangeType,
}

/// A change, the object after it, and the object before it.
#[derive(Debug)]
pub(crate) struct Event {
    pub(crate) revision: u64,
    pub(crate) change: ChangeType,
    /// After the change; for [`ChangeType::Deleted`] the last state with the deletion's revision.
    pub(crate) object: Arc<Stored>,
    pub(crate) previous: Option<Arc<Stored>>,
    frames: Mutex<Vec<(FrameKey, Bytes)>>,
}

impl Event {
    pub(crate) fn new(
        revision: u64,
        change: ChangeType,
        object: Arc<Stored>,
        previous: Option<Arc<Stored>>,
    ) -> Self {
        Self { revision, change, object, previous, frames: Mutex::new(Vec::new()) }
    }

    /// The cached frame for `key`, or a new one from `encode`.
    pub(super) fn frame(&self, key: FrameKey, encode: impl FnOnce() -> Bytes) -> Bytes {
        let mut frames = self.frames.lock();
        if let Some((_, frame)) = frames.iter().find(|(known, _)| *known == key) {
            return frame.clone();
        }
        let frame = encode();
        frames.push((key, frame.clone()));
        frame
    }

    /// Bytes that the event keeps alive. Each superseded version of an object counts once, with the event that
    /// superseded it; the current version belongs to the collection.
    pub(super) fn weight(&self) -> usize {
        let deleted = (self.change == ChangeType::Deleted).then(|| self.object.weight());
        deleted.unwrap_or(0) + self.previous.as_ref().map_or(0, |previous| previous.weight())
    }

    /// Drops the encoded frames; they can be encoded again.
    pub(super) fn drop_frames(&self) {
        *self.frames.lock() = Vec::new();
    }
}

//! What a watcher sees of a change: an object that begins to match its selector is added to its world, one that ceases
//! to match is deleted from it.

use std::sync::Arc;

use bytes::Bytes;

use super::WatchRequest;
use crate::codec;
use crate::objects::meta;
use crate::resources::Resource;
use crate::storage::{ChangeType, Event, FrameKey, Frames, Stored};

/// The event with which a watcher is told of an object that was there before.
pub(super) fn initial(request: &WatchRequest, object: &Stored) -> Bytes {
    codec::watch_event(&request.resource, "ADDED", &object.bytes, request.representation)
}

/// The event with which a watcher is told of a change, if it is told.
pub(super) fn live(request: &WatchRequest, event: &Arc<Event>, frames: &Frames) -> Option<Bytes> {
    let seen = seen(request, event)?;
    let WatchRequest { resource, representation, .. } = request;
    let key = FrameKey { version: resource.view, representation: representation.number(), seen };
    Some(frames.get(event, key, || {
        let kind = match seen {
            ChangeType::Added => "ADDED",
            ChangeType::Modified => "MODIFIED",
            ChangeType::Deleted => "DELETED",
        };
        let departed = (seen == ChangeType::Deleted && event.change == ChangeType::Modified)
            .then(|| event.previous.as_ref().map(|previous| at_revision(resource, previous, event.revision)))
            .flatten();
        let bytes = departed.as_deref().unwrap_or(&event.object.bytes);
        codec::watch_event(resource, kind, bytes, *representation)
    }))
}

fn seen(request: &WatchRequest, event: &Event) -> Option<ChangeType> {
    if !event.object.key.starts_with(&request.prefix) {
        return None;
    }
    if request.selection.is_everything() {
        return Some(event.change);
    }
    let before = event.previous.as_ref().is_some_and(|previous| request.selection.matches(previous));
    let after = event.change != ChangeType::Deleted && request.selection.matches(&event.object);
    match (before, after) {
        (false, false) => None,
        (false, true) => Some(ChangeType::Added),
        (true, true) => Some(ChangeType::Modified),
        (true, false) => Some(ChangeType::Deleted),
    }
}

/// The object's old content under the revision of the change that took it out of sight.
fn at_revision(resource: &Resource, object: &Stored, revision: u64) -> Box<[u8]> {
    let mut value = codec::decode(resource, &object.bytes);
    meta::set_revision(&mut value, revision);
    // It was decoded from what was stored.
    codec::encode_bytes(resource, &value).unwrap_or_else(|_| object.bytes.to_vec()).into()
}

//! A change as seen through a watch's selector: an object that starts to match is reported as added, one that ceases
//! to match as deleted.

use std::sync::Arc;

use bytes::Bytes;

use super::WatchRequest;
use crate::codec;
use crate::objects::meta;
use crate::resources::Resource;
use crate::storage::{ChangeType, Event, FrameKey, Frames, Stored};

/// The event for an object of the initial state.
pub(super) fn initial(request: &WatchRequest, object: &Stored) -> Bytes {
    codec::watch_event(&request.resource, "ADDED", &object.bytes, request.representation)
}

/// The event for a change; `None` if the watch does not select it.
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

/// The object's old content with the revision of the change after which it no longer matches.
fn at_revision(resource: &Resource, object: &Stored, revision: u64) -> Box<[u8]> {
    let mut value = codec::decode(resource, &object.bytes);
    meta::set_revision(&mut value, revision);
    // It was decoded from stored bytes.
    codec::encode_bytes(resource, &value).unwrap_or_else(|_| object.bytes.to_vec()).into()
}

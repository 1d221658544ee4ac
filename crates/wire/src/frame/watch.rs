//! The events of a watch, in either encoding.

use bytes::Bytes;

use super::proto::WatchFrames;
use crate::error::Result;
use crate::json;
use crate::object::{ObjectReader, RawObject};
use crate::{Encoding, Status};

/// One event of a watch.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum WatchEvent {
    /// The object is new, or has started to match the selector.
    Added(RawObject),
    /// The object has changed.
    Modified(RawObject),
    /// The object was deleted, or no longer matches the selector.
    Deleted(RawObject),
    /// No changes up to this object's resourceVersion.
    Bookmark(RawObject),
    /// The server ended the watch with an error.
    Error(Status),
    /// An event of an unknown type.
    Other {
        /// The type as the server wrote it.
        event_type: String,
        /// The object of the event.
        object: RawObject,
    },
}

/// Reads the events of a watch from its body, in chunks of any size.
///
/// ```
/// use kube_wire::{Encoding, Limits, ObjectReader, Projection, WatchDecoder, WatchEvent};
///
/// let reader = ObjectReader::new(Projection::default(), Limits::default());
/// let mut watch = WatchDecoder::new(Encoding::Json, reader);
/// watch.push(r#"{"type":"ADDED","object":{"kind":"Pod","apiVersion":"v1","metadata":{"na"#.into());
/// assert!(watch.next_event().is_none());
/// watch.push("me\":\"web\",\"namespace\":\"default\"}}}\n".into());
/// let Some(Ok(WatchEvent::Added(pod))) = watch.next_event() else { panic!() };
/// assert_eq!(pod.head().name(), "web");
/// watch.finish()?;
/// # Ok::<(), kube_wire::Error>(())
/// ```
#[derive(Debug)]
pub struct WatchDecoder {
    reader: ObjectReader,
    frames: Frames,
}

#[derive(Debug)]
enum Frames {
    Json(json::Lines),
    Protobuf(WatchFrames),
}

// === impl WatchEvent ===

impl WatchEvent {
    /// The object of the event; `None` for an error.
    pub fn object(&self) -> Option<&RawObject> {
        match self {
            Self::Added(object)
            | Self::Modified(object)
            | Self::Deleted(object)
            | Self::Bookmark(object)
            | Self::Other { object, .. } => Some(object),
            Self::Error(_) => None,
        }
    }
}

// === impl WatchDecoder ===

impl WatchDecoder {
    /// A decoder for a body in this encoding; `reader` reads its objects. A reader that reads [into
    /// blocks](ObjectReader::in_blocks) does so until the first bookmark, which ends the initial state.
    pub fn new(encoding: Encoding, reader: ObjectReader) -> Self {
        let frames = match encoding {
            Encoding::Json => Frames::Json(json::Lines::new(reader.limits())),
            Encoding::Protobuf => Frames::Protobuf(WatchFrames::new(reader.limits())),
        };
        Self { reader, frames }
    }

    /// Adds a chunk of the body. Read all available events before adding the next chunk.
    pub fn push(&mut self, chunk: Bytes) {
        match &mut self.frames {
            Frames::Json(lines) => lines.push(chunk),
            Frames::Protobuf(frames) => frames.push(chunk),
        }
    }

    /// The next event; `None` until one is available.
    ///
    /// # Errors
    /// Concerns one event, unless [`Error::is_fatal`](crate::Error::is_fatal) returns true: then the rest is
    /// unreadable. Type and object of the event are in the error, as far as they could be read.
    pub fn next_event(&mut self) -> Option<Result<WatchEvent>> {
        let (reader, frames) = (&mut self.reader, &mut self.frames);
        Some(match frames {
            Frames::Json(lines) => lines.next()?.and_then(|event| {
                if event.event_type == "ERROR" {
                    return Status::from_body(event.object, Encoding::Json).map(WatchEvent::Error);
                }
                let object = reader.read(event.object, Encoding::Json, None);
                let object = object.map_err(|error| error.in_event(Some(&*event.event_type)))?;
                Ok(WatchEvent::new(&event.event_type, object, reader))
            }),
            Frames::Protobuf(frames) => frames.next()?.and_then(|event| {
                if event.event_type == "ERROR" {
                    return Status::from_body(event.object, Encoding::Protobuf).map(WatchEvent::Error);
                }
                let object = reader.read_envelope(event.object);
                let object = object.map_err(|error| error.in_event(Some(event.event_type)))?;
                Ok(WatchEvent::new(event.event_type, object, reader))
            }),
        })
    }

    /// Ends the body.
    ///
    /// # Errors
    /// If the body ends within an event.
    pub fn finish(&mut self) -> Result<()> {
        match &mut self.frames {
            Frames::Json(lines) => lines.finish(),
            Frames::Protobuf(frames) => frames.finish(),
        }
    }
}

impl WatchEvent {
    fn new(event_type: &str, object: RawObject, reader: &mut ObjectReader) -> Self {
        match event_type {
            "ADDED" => Self::Added(object),
            "MODIFIED" => Self::Modified(object),
            "DELETED" => Self::Deleted(object),
            "BOOKMARK" => {
                reader.leave_blocks();
                Self::Bookmark(object)
            }
            other => Self::Other { event_type: other.to_owned(), object },
        }
    }
}

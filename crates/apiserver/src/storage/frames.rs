//! A cache of encoded frames, shared by watches and limited in size.
//!
//! An event is encoded once per representation, and the frame is cached with it: five thousand watches share one
//! buffer. The oldest frames are evicted when the cache exceeds its limits; a watch that lags further encodes again.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};

use bytes::Bytes;
use parking_lot::Mutex;

use super::event::{Event, FrameKey};

/// Maximum number of cached frames.
const FRAMES_MAX: usize = 1024;
/// Maximum size of cached frames, in bytes.
const FRAMES_BYTES_MAX: usize = 16 << 20;

/// The frame cache; see the module documentation.
#[derive(Debug, Default)]
pub(crate) struct Frames(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    /// Oldest first, each with the frame's length.
    frames: VecDeque<(Weak<Event>, usize)>,
    bytes: usize,
}

impl Frames {
    /// The event's frame for `key`: cached, or made by `encode`.
    pub(crate) fn get(&self, event: &Arc<Event>, key: FrameKey, encode: impl FnOnce() -> Bytes) -> Bytes {
        let mut is_new = false;
        let frame = event.frame(key, || {
            is_new = true;
            encode()
        });
        if is_new {
            self.keep(event, frame.len());
        }
        frame
    }

    fn keep(&self, event: &Arc<Event>, bytes: usize) {
        let mut kept = self.0.lock();
        kept.frames.push_back((Arc::downgrade(event), bytes));
        kept.bytes += bytes;
        while kept.frames.len() > FRAMES_MAX || kept.bytes > FRAMES_BYTES_MAX {
            let Some((oldest, bytes)) = kept.frames.pop_front() else { break };
            kept.bytes -= bytes;
            if let Some(event) = oldest.upgrade() {
                event.drop_frames();
            }
        }
    }
}

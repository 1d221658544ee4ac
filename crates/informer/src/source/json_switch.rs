//! Going over from protobuf to JSON while running.
//!
//! A server newer than the schema table may send protobuf fields that the table does not know. A value without them would
//! be incomplete, and a read-modify-write would erase them. So decoding such an object is an error, and the decoder turns
//! this switch: the sources list again, in JSON.
//!
//! So a read can cause a relist: the first [`decode`](crate::Object::decode) that meets an unknown protobuf field makes every
//! watch of its informer list again, in JSON. This happens at most once in an informer's life, and only if the server is newer
//! than the schema table.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::watch;

/// Shared by the sources of an informer and those who decode its objects. Once turned it stays so.
#[derive(Clone, Debug, Default)]
pub struct JsonSwitch(Arc<watch::Sender<bool>>);

/// Whether what a source has given since its last full state may be in protobuf. A clone is another source, which has asked for nothing.
#[derive(Debug, Default)]
pub(super) struct AskedProtobuf(AtomicBool);

impl JsonSwitch {
    /// From now on sources ask for JSON, and list anew what they have in protobuf.
    pub fn turn(&self) {
        self.0.send_if_modified(|on| !std::mem::replace(on, true));
    }

    /// Whether it was turned.
    pub fn is_on(&self) -> bool {
        *self.0.borrow()
    }

    /// Waits until it is turned.
    pub(super) async fn turned(&self) {
        // The sender lives in `self`.
        let _ = self.0.subscribe().wait_for(|on| *on).await;
    }
}

impl AskedProtobuf {
    pub(super) fn set(&self, protobuf: bool) {
        self.0.store(protobuf, Ordering::Relaxed);
    }

    pub(super) fn get(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

impl Clone for AskedProtobuf {
    fn clone(&self) -> Self {
        Self::default()
    }
}

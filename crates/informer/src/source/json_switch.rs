//! Switches from protobuf to JSON at run time.
//!
//! A server newer than the schema table may send protobuf fields that the table does not know. A value without them would
//! be incomplete, and a read-modify-write would erase them. Decoding such an object therefore fails, and the decoder turns this
//! switch on: every watch of the informer lists again, in JSON.
//!
//! A read can thus cause a relist. This happens at most once in an informer's life, and only if the server is newer than the
//! schema table.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::watch;

/// Shared by an informer's sources and decoders. It stays on once turned on.
#[derive(Clone, Debug, Default)]
pub struct JsonSwitch(Arc<watch::Sender<bool>>);

/// Whether objects that a source returned in or after its last complete list may be in protobuf. A clone starts with `false`.
#[derive(Debug, Default)]
pub(super) struct AskedProtobuf(AtomicBool);

impl JsonSwitch {
    /// Makes the sources request JSON from now on, and relist what they have in protobuf.
    pub fn turn(&self) {
        self.0.send_if_modified(|on| !std::mem::replace(on, true));
    }

    /// Whether it is on.
    pub fn is_on(&self) -> bool {
        *self.0.borrow()
    }

    /// Waits until it is on.
    pub(super) async fn turned(&self) {
        // Cannot fail: the sender lives in `self`.
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

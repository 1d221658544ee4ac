//! Whether the port is open, and the means to close every connection at once.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// Shared by the server and its listener.
#[derive(Clone, Debug)]
pub(super) struct Connections(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    /// Ends all connections that were made since the last time.
    current: Mutex<CancellationToken>,
    wanted: watch::Sender<bool>,
    open: watch::Sender<bool>,
}

impl Default for Connections {
    fn default() -> Self {
        Self(Arc::new(Shared {
            current: Mutex::default(),
            wanted: watch::Sender::new(true),
            open: watch::Sender::new(false),
        }))
    }
}

impl Connections {
    /// Closes all connections; new ones can be made.
    pub(super) fn close_all(&self) {
        std::mem::take(&mut *self.0.current.lock()).cancel();
    }

    /// A token that ends a connection made now, together with all others.
    pub(super) fn token(&self) -> CancellationToken {
        self.0.current.lock().child_token()
    }

    /// Opens or closes the port, and waits until it is done.
    pub(super) async fn set_open(&self, open: bool) {
        let mut state = self.0.open.subscribe();
        self.0.wanted.send_replace(open);
        // The sender lives in `self`.
        let _closed = state.wait_for(|state| *state == open).await;
    }

    /// What the listener has to follow.
    pub(super) fn wanted(&self) -> watch::Receiver<bool> {
        self.0.wanted.subscribe()
    }

    /// What the listener has come to.
    pub(super) fn report(&self, open: bool) {
        self.0.open.send_replace(open);
    }
}

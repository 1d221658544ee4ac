//! Whether the port is open, and the means to close every connection.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

/// Shared by the server and its listener; by the server and its service, if there is no socket.
#[derive(Clone, Debug, Default)]
pub(crate) struct Connections {
    /// Ends all connections that were made since the last time.
    current: Arc<Mutex<CancellationToken>>,
    /// `None` without a socket.
    port: Option<mpsc::UnboundedSender<SetPort>>,
    /// Without a socket: requests are refused.
    closed: Arc<AtomicBool>,
}

/// Asks the listener to open or to close its port.
#[derive(Debug)]
pub(super) struct SetPort {
    pub(super) open: bool,
    pub(super) done: oneshot::Sender<io::Result<()>>,
}

impl Connections {
    /// For a server with a socket; its listener follows what it receives.
    pub(super) fn with_port() -> (Self, mpsc::UnboundedReceiver<SetPort>) {
        let (port, requests) = mpsc::unbounded_channel();
        (Self { port: Some(port), ..Self::default() }, requests)
    }

    /// Closes all connections; new ones can be made.
    pub(super) fn close_all(&self) {
        std::mem::take(&mut *self.current.lock()).cancel();
    }

    /// A token that ends a connection made now, together with all others.
    pub(super) fn token(&self) -> CancellationToken {
        self.current.lock().child_token()
    }

    /// A token that breaks a request made now without a socket.
    ///
    /// # Errors
    /// While connections are refused.
    pub(crate) fn admit(&self) -> io::Result<CancellationToken> {
        if self.closed.load(Ordering::Acquire) {
            return Err(io::Error::new(io::ErrorKind::ConnectionRefused, "the server refuses connections"));
        }
        Ok(self.token())
    }

    /// Opens or closes the port, and waits until it is done. Once the server has stopped, there is nothing to do.
    pub(super) async fn set_open(&self, open: bool) -> io::Result<()> {
        let Some(port) = &self.port else {
            self.closed.store(!open, Ordering::Release);
            return Ok(());
        };
        let (done, outcome) = oneshot::channel();
        if port.send(SetPort { open, done }).is_err() {
            return Ok(());
        }
        outcome.await.unwrap_or(Ok(()))
    }
}

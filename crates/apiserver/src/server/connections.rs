//! Opening and closing the port, and closing all connections.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

/// Shared by the server and its listener or, without a socket, its service.
#[derive(Clone, Debug, Default)]
pub(crate) struct Connections {
    /// Closes all connections opened since the last cancellation.
    current: Arc<Mutex<CancellationToken>>,
    /// `None` without a socket.
    port: Option<mpsc::UnboundedSender<SetPort>>,
    /// Without a socket: requests are refused.
    closed: Arc<AtomicBool>,
}

/// Asks the listener to open or close its port.
#[derive(Debug)]
pub(super) struct SetPort {
    pub(super) open: bool,
    pub(super) done: oneshot::Sender<io::Result<()>>,
}

impl Connections {
    /// For a server with a socket. The listener handles the received requests.
    pub(super) fn with_port() -> (Self, mpsc::UnboundedReceiver<SetPort>) {
        let (port, requests) = mpsc::unbounded_channel();
        (Self { port: Some(port), ..Self::default() }, requests)
    }

    /// Closes all connections; new ones can be opened.
    pub(super) fn close_all(&self) {
        std::mem::take(&mut *self.current.lock()).cancel();
    }

    /// A token that closes a connection opened now, along with all others.
    pub(super) fn token(&self) -> CancellationToken {
        self.current.lock().child_token()
    }

    /// A token that breaks an in-process request made now.
    ///
    /// # Errors
    /// If connections are refused.
    pub(crate) fn admit(&self) -> io::Result<CancellationToken> {
        if self.closed.load(Ordering::Acquire) {
            return Err(io::Error::new(io::ErrorKind::ConnectionRefused, "connection refused by the server"));
        }
        Ok(self.token())
    }

    /// Opens or closes the port and waits for completion. Does nothing after the server has stopped.
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

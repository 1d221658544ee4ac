//! Sockets: accepts connections and serves HTTP/1.1 and HTTP/2 on them.
//!
//! Every task belongs to the server's tracker and ends when the server stops, including connections and their streams.
//! The number of connections is limited, and so are the resources of each: requests must arrive in time, unresponsive
//! clients are dropped, and a connection has at most a hundred streams, as with a kube-apiserver.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::coalesce::Coalesced;
use super::connections::{Connections, SetPort};
use super::first_request::FirstRequest;
use crate::http::ApiService;

/// Default maximum number of open connections.
pub(super) const CONNECTIONS_MAX: usize = 16_384;
/// Timeout for a connection's first request, and for the headers of each request.
const HEADER_TIMEOUT: Duration = Duration::from_secs(30);
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
const STREAMS_MAX: u32 = 100;
/// Maximum number of bytes queued on one stream, beyond the last chunk. The HTTP/2 implementation keeps some 300 bytes
/// per queued chunk for as long as the connection is open, so small events on a slow connection would add up.
const SEND_BUFFER_BYTES: usize = 4 << 10;
/// How often an HTTP/2 client is pinged, and the timeout of a ping.
const PING_INTERVAL: Duration = Duration::from_secs(30);
const PING_TIMEOUT: Duration = Duration::from_secs(20);
/// Delay after accepting failed for lack of file descriptors, to let connections close.
const ACCEPT_RETRY: Duration = Duration::from_millis(50);

/// The state of a listening server.
#[derive(Clone)]
pub(super) struct Listen {
    pub(super) service: ApiService,
    pub(super) tls: Option<TlsAcceptor>,
    pub(super) tasks: TaskTracker,
    pub(super) stop: CancellationToken,
    pub(super) connections: Connections,
    /// One permit per open connection.
    pub(super) slots: Arc<Semaphore>,
}

/// Spawns hyper's tasks on the server's tracker.
#[derive(Clone)]
struct Tracked {
    tasks: TaskTracker,
    stop: CancellationToken,
}

impl Listen {
    /// Accepts connections until the server stops. While the port is closed there is no listener, so the operating
    /// system refuses connections.
    pub(super) async fn run(
        self,
        listener: TcpListener,
        address: SocketAddr,
        mut requests: mpsc::UnboundedReceiver<SetPort>,
    ) {
        let mut listener = Some(listener);
        loop {
            let accepted = tokio::select! {
                biased;
                () = self.stop.cancelled() => return self.connections.close_all(),
                Some(SetPort { open, done }) = requests.recv() => {
                    let outcome = set_port(&mut listener, address, open).await;
                    // The caller may have stopped waiting.
                    let _unheeded = done.send(outcome);
                    continue;
                }
                accepted = self.accept(listener.as_ref()) => accepted,
            };
            match accepted {
                Ok((socket, slot)) => {
                    let listen = Self { stop: self.connections.token(), ..self.clone() };
                    let stop = listen.stop.clone();
                    self.tasks.spawn(async move {
                        let _open = slot;
                        stop.run_until_cancelled_owned(listen.connection(socket)).await
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot accept connections; retrying");
                    tokio::time::sleep(ACCEPT_RETRY).await;
                }
            }
        }
    }

    /// The next connection and its permit. Without a free permit, connections wait in the system's accept queue.
    async fn accept(&self, listener: Option<&TcpListener>) -> io::Result<(TcpStream, OwnedSemaphorePermit)> {
        let Some(listener) = listener else { return std::future::pending().await };
        let slot = self.slots.clone().acquire_owned().await.map_err(io::Error::other)?;
        let (socket, _) = listener.accept().await?;
        Ok((socket, slot))
    }

    async fn connection(self, socket: TcpStream) {
        // Send small frames without delay.
        let _unsupported = socket.set_nodelay(true);
        let Some(tls) = self.tls.clone() else { return self.serve(socket).await };
        match tokio::time::timeout(HANDSHAKE_TIMEOUT, tls.accept(socket)).await {
            Ok(Ok(stream)) => self.serve(stream).await,
            Ok(Err(error)) => tracing::debug!(%error, "TLS handshake failed"),
            Err(_) => tracing::debug!("TLS handshake timed out"),
        }
    }

    async fn serve<S>(self, stream: S)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let executor = Tracked { tasks: self.tasks.clone(), stop: self.stop.clone() };
        let mut builder = auto::Builder::new(executor);
        builder.http1().timer(TokioTimer::new()).header_read_timeout(HEADER_TIMEOUT);
        builder
            .http2()
            .timer(TokioTimer::new())
            .keep_alive_interval(PING_INTERVAL)
            .keep_alive_timeout(PING_TIMEOUT)
            .max_concurrent_streams(STREAMS_MAX)
            .max_send_buf_size(SEND_BUFFER_BYTES);
        let first = FirstRequest::default();
        let service = TowerToHyperService::new(first.observe(self.service));
        let served = tokio::select! {
            served = builder.serve_connection(TokioIo::new(Coalesced::new(stream)), service) => served,
            () = first.overdue(HEADER_TIMEOUT) => return tracing::debug!("connection closed: no request arrived in time"),
        };
        if let Err(error) = served {
            tracing::debug!(%error, "connection ended");
        }
    }
}

/// Opens or closes the port.
async fn set_port(listener: &mut Option<TcpListener>, address: SocketAddr, open: bool) -> io::Result<()> {
    match (open, listener.is_some()) {
        (false, true) => *listener = None,
        (true, false) => *listener = Some(TcpListener::bind(address).await?),
        _ => {}
    }
    Ok(())
}

impl<F> hyper::rt::Executor<F> for Tracked
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    fn execute(&self, future: F) {
        let stop = self.stop.clone();
        self.tasks.spawn(async move { stop.run_until_cancelled_owned(future).await.map(|_| ()) });
    }
}

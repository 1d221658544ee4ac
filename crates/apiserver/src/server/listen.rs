//! Sockets: accepting connections and serving HTTP/1.1 and HTTP/2 on them.
//!
//! Every task belongs to the server's tracker and ends when the server stops, connections and the streams on them
//! included. Connections are limited in number, and so is what each may take: requests must arrive in time, a client that
//! no longer answers is dropped, and each has at most a hundred streams, as with kube-apiserver.

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

/// Connections that are open at the same time.
pub(super) const CONNECTIONS_MAX: usize = 16_384;
/// A connection must bring its first request in this time, and the headers of each request.
const HEADER_TIMEOUT: Duration = Duration::from_secs(30);
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
const STREAMS_MAX: u32 = 100;
/// Bytes that may wait to be sent on one stream, beyond a last piece. HTTP/2 keeps some 300 bytes for each piece that
/// waits, for as long as the connection is open: small events of a slow connection would add up.
const SEND_BUFFER_BYTES: usize = 4 << 10;
/// How often an HTTP/2 client is asked whether it is there, and how long it may take to answer.
const PING_INTERVAL: Duration = Duration::from_secs(30);
const PING_TIMEOUT: Duration = Duration::from_secs(20);
/// Accepting fails when descriptors run out; waiting gives connections time to close.
const ACCEPT_RETRY: Duration = Duration::from_millis(50);

/// What a listening server needs.
#[derive(Clone)]
pub(super) struct Listen {
    pub(super) service: ApiService,
    pub(super) tls: Option<TlsAcceptor>,
    pub(super) tasks: TaskTracker,
    pub(super) stop: CancellationToken,
    pub(super) connections: Connections,
    /// One for each connection that may be open.
    pub(super) slots: Arc<Semaphore>,
}

/// Spawns hyper's tasks where the server can join them.
#[derive(Clone)]
struct Tracked {
    tasks: TaskTracker,
    stop: CancellationToken,
}

impl Listen {
    /// Accepts until the server stops. While the port is closed there is no listener at all, so that the system itself
    /// refuses connections.
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
                    tracing::warn!(%error, "cannot accept connections for the moment");
                    tokio::time::sleep(ACCEPT_RETRY).await;
                }
            }
        }
    }

    /// The next connection and its slot. While all slots are taken, connections wait in the system's queue.
    async fn accept(&self, listener: Option<&TcpListener>) -> io::Result<(TcpStream, OwnedSemaphorePermit)> {
        let Some(listener) = listener else { return std::future::pending().await };
        let slot = self.slots.clone().acquire_owned().await.map_err(io::Error::other)?;
        let (socket, _) = listener.accept().await?;
        Ok((socket, slot))
    }

    async fn connection(self, socket: TcpStream) {
        // Small frames must not wait for company.
        let _unsupported = socket.set_nodelay(true);
        let Some(tls) = self.tls.clone() else { return self.serve(socket).await };
        match tokio::time::timeout(HANDSHAKE_TIMEOUT, tls.accept(socket)).await {
            Ok(Ok(stream)) => self.serve(stream).await,
            Ok(Err(error)) => tracing::debug!(%error, "TLS handshake failed"),
            Err(_) => tracing::debug!("TLS handshake took too long"),
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
            () = first.overdue(HEADER_TIMEOUT) => return tracing::debug!("connection brought no request in time"),
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

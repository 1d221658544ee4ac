//! Sockets: accepting connections and serving HTTP/1.1 and HTTP/2 on them.
//!
//! Every task belongs to the server's tracker and ends when the server stops, connections and the streams on them
//! included. What a connection may take is bounded: headers must arrive in time, and a client has at most a hundred
//! streams, as with kube-apiserver.

use std::future::Future;
use std::net::SocketAddr;
use std::time::Duration;

use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::coalesce::Coalesced;
use super::connections::Connections;
use crate::http::ApiService;

const HEADER_TIMEOUT: Duration = Duration::from_secs(30);
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
const STREAMS_MAX: u32 = 100;
/// Bytes that may wait to be sent on one stream.
const SEND_BUFFER_BYTES: usize = 64 << 10;
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
    pub(super) async fn run(self, listener: TcpListener, address: SocketAddr) {
        let mut listener = Some(listener);
        let mut wanted = self.connections.wanted();
        loop {
            let open = *wanted.borrow_and_update();
            match (open, listener.is_some()) {
                (false, true) => listener = None,
                (true, false) => listener = bind(address).await,
                _ => {}
            }
            self.connections.report(listener.is_some());
            let accept = async {
                match &listener {
                    Some(listener) => listener.accept().await,
                    None => std::future::pending().await,
                }
            };
            let accepted = tokio::select! {
                biased;
                () = self.stop.cancelled() => return self.connections.close_all(),
                // The sender lives in `self`.
                _ = wanted.changed() => continue,
                accepted = accept => accepted,
            };
            match accepted {
                Ok((socket, _)) => {
                    let listen = Self { stop: self.connections.token(), ..self.clone() };
                    let stop = listen.stop.clone();
                    self.tasks.spawn(async move {
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
            .max_concurrent_streams(STREAMS_MAX)
            .max_send_buf_size(SEND_BUFFER_BYTES);
        let service = TowerToHyperService::new(self.service);
        if let Err(error) = builder.serve_connection(TokioIo::new(Coalesced::new(stream)), service).await {
            tracing::debug!(%error, "connection ended");
        }
    }
}

async fn bind(address: SocketAddr) -> Option<TcpListener> {
    TcpListener::bind(address)
        .await
        .inspect_err(|error| tracing::error!(%address, %error, "somebody else has taken the server's port"))
        .ok()
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

//! Sockets: accepting connections and serving HTTP/1.1 and HTTP/2 on them.
//!
//! Every task belongs to the server's tracker and ends when the server stops, connections and the streams on them
//! included. What a connection may take is bounded: headers must arrive in time, and a client has at most a hundred
//! streams, as with kube-apiserver.

use std::future::Future;
use std::time::Duration;

use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

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
}

/// Spawns hyper's tasks where the server can join them.
#[derive(Clone)]
struct Tracked {
    tasks: TaskTracker,
    stop: CancellationToken,
}

impl Listen {
    /// Accepts until the server stops.
    pub(super) async fn run(self, listener: TcpListener) {
        loop {
            let accepted = tokio::select! {
                biased;
                () = self.stop.cancelled() => return,
                accepted = listener.accept() => accepted,
            };
            match accepted {
                Ok((socket, _)) => {
                    let listen = self.clone();
                    let stop = self.stop.clone();
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
        if let Err(error) = builder.serve_connection(TokioIo::new(stream), service).await {
            tracing::debug!(%error, "connection ended");
        }
    }
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

//! The listening server: a bounded number of connections, background tasks, and a graceful shutdown.
//!
//! axum routes and answers. Connections are accepted here, because `axum::serve` limits neither their number nor the time
//! that a client takes to send its request.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::AbortHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::{Served, recorder, routes, timeline};
use crate::failure::Failure;

/// Most concurrent connections. When another one arrives, the oldest is closed: clients that read slowly or send
/// nothing must not delay a health check.
const CONNECTIONS_MAX: usize = 256;
/// The size of a connection's buffers, and thus of the headers of a request. With the default of 408 KiB, unfinished requests could
/// take 100 MiB.
const BUFFER_BYTES_MAX: usize = 64 << 10;
/// How long a client may take to send its request.
const REQUEST_TIME_MAX: Duration = Duration::from_secs(10);
/// How long pending responses may take during the shutdown.
const DRAIN_TIME_MAX: Duration = Duration::from_secs(5);
/// How long to wait when the system cannot accept another connection.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// Listens on a port; 0 takes a free one.
///
/// # Errors
/// If the address cannot be used.
pub(crate) async fn bind(
    address: IpAddr,
    port: u16,
    flag: &str,
) -> Result<(TcpListener, SocketAddr), Failure> {
    let address = SocketAddr::new(address, port);
    let cannot = |error: std::io::Error| {
        Failure::Usage(format!("cannot listen on {address}: {error}; choose another {flag}, or 0 for any"))
    };
    let listener = TcpListener::bind(address).await.map_err(cannot)?;
    let bound = listener.local_addr().map_err(cannot)?;
    Ok((listener, bound))
}

/// The running server.
pub(crate) struct Endpoint {
    tasks: TaskTracker,
    stop: CancellationToken,
}

impl Endpoint {
    pub(crate) fn start(listener: TcpListener, served: Arc<Served>) -> Self {
        let endpoint = Self { tasks: TaskTracker::new(), stop: served.stop.clone() };
        endpoint.tasks.spawn(timeline::sample(served.clone()));
        for number in 0..served.mirrors.len() {
            endpoint.tasks.spawn(recorder::record(served.clone(), number));
        }
        let router = routes::router(served);
        endpoint.tasks.spawn(accept(listener, router, endpoint.tasks.clone(), endpoint.stop.clone()));
        endpoint
    }

    /// Stops accepting connections, ends streams and waits for pending responses.
    pub(crate) async fn shutdown(self) {
        self.stop.cancel();
        self.tasks.close();
        // After the limit, responses to clients that read too slowly are cut off when the program ends.
        let _ = tokio::time::timeout(DRAIN_TIME_MAX, self.tasks.wait()).await;
    }
}

async fn accept(listener: TcpListener, router: Router, tasks: TaskTracker, stop: CancellationToken) {
    let mut connections = VecDeque::<AbortHandle>::new();
    loop {
        let accepted = tokio::select! {
            biased;
            () = stop.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        let Ok((stream, _)) = accepted else {
            tokio::time::sleep(ACCEPT_RETRY).await;
            continue;
        };
        connections.retain(|connection| !connection.is_finished());
        if connections.len() >= CONNECTIONS_MAX
            && let Some(oldest) = connections.pop_front()
        {
            oldest.abort();
        }
        let connection = tasks.spawn(serve(stream, router.clone(), stop.clone()));
        connections.push_back(connection.abort_handle());
    }
}

async fn serve(stream: TcpStream, router: Router, stop: CancellationToken) {
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(REQUEST_TIME_MAX)
        .max_buf_size(BUFFER_BYTES_MAX)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    tokio::pin!(connection);
    // Errors are ignored: the client disconnected, or did not send HTTP.
    tokio::select! {
        biased;
        _ = connection.as_mut() => return,
        () = stop.cancelled() => connection.as_mut().graceful_shutdown(),
    }
    let _ = connection.await;
}

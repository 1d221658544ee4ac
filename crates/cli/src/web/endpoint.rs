//! The listening server: a bounded number of connections, background tasks, and a graceful shutdown.
//!
//! axum routes and answers. Connections are accepted here, because `axum::serve` limits neither their number nor the time
//! that a client takes to send its request.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::AbortHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::{Served, recorder, routes, timeline};
use crate::failure::Failure;

/// Most concurrent connections. When another one arrives, one is closed: clients that read slowly or send nothing must not delay a
/// health check.
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

/// Whether a connection has had a request from a client that may read data. Each request carries it as an extension.
#[derive(Clone, Debug, Default)]
pub(super) struct Admitted(Arc<AtomicBool>);

impl Admitted {
    pub(super) fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    fn get(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// An open connection.
struct Connection {
    task: AbortHandle,
    admitted: Admitted,
}

/// The open connections, the oldest first.
#[derive(Default)]
struct Connections(VecDeque<Connection>);

impl Connections {
    /// Closes a connection if there are too many: the oldest one that never had an admitted request, or else the oldest. Otherwise,
    /// clients without the token could end the streams of those that have it.
    fn make_place(&mut self) {
        self.0.retain(|connection| !connection.task.is_finished());
        if self.0.len() >= CONNECTIONS_MAX {
            let stranger = self.0.iter().position(|connection| !connection.admitted.get());
            if let Some(closed) = self.0.remove(stranger.unwrap_or(0)) {
                closed.task.abort();
            }
        }
    }
}

async fn accept(listener: TcpListener, router: Router, tasks: TaskTracker, stop: CancellationToken) {
    let mut connections = Connections::default();
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
        connections.make_place();
        let admitted = Admitted::default();
        let task = tasks.spawn(serve(stream, router.clone(), admitted.clone(), stop.clone()));
        connections.0.push_back(Connection { task: task.abort_handle(), admitted });
    }
}

async fn serve(stream: TcpStream, router: Router, admitted: Admitted, stop: CancellationToken) {
    let service = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(admitted.clone());
        TowerToHyperService::new(router.clone()).call(request)
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(REQUEST_TIME_MAX)
        .max_buf_size(BUFFER_BYTES_MAX)
        .serve_connection(TokioIo::new(stream), service);
    tokio::pin!(connection);
    // Errors are ignored: the client disconnected, or did not send HTTP.
    tokio::select! {
        biased;
        _ = connection.as_mut() => return,
        () = stop.cancelled() => connection.as_mut().graceful_shutdown(),
    }
    let _ = connection.await;
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use prometheus_client::registry::Registry;
    use serde_json::Value;
    use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};

    use super::super::Access;
    use super::*;

    /// Sends a request and reads until the response contains this.
    async fn ask(address: SocketAddr, request: &str, until: &str) -> TcpStream {
        let mut client = TcpStream::connect(address).await.unwrap();
        client.write_all(format!("{request}\r\n\r\n").as_bytes()).await.unwrap();
        read_until(&mut client, until).await;
        client
    }

    async fn read_until(client: &mut TcpStream, text: &str) {
        let mut received = Vec::new();
        while !String::from_utf8_lossy(&received).contains(text) {
            let count = client.read_buf(&mut received).await.unwrap();
            assert!(count > 0, "closed before {text:?}: {}", String::from_utf8_lossy(&received));
        }
    }

    #[tokio::test]
    async fn clients_without_the_token_close_only_connections_of_each_other() {
        let address = Ipv4Addr::LOCALHOST.into();
        let access = Access::new(Some("right".to_owned()), Vec::new(), address);
        let served = Arc::new(Served::new(Vec::new(), Registry::default(), access));
        let (listener, address) = bind(address, 0, "--port").await.unwrap();
        let endpoint = Endpoint::start(listener, served);
        let stream = "GET /api/v1/stream HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer right";
        let stream = ask(address, stream, "event: hello").await;
        let mut strangers = Vec::new();
        for number in 0..2 * CONNECTIONS_MAX {
            let request = match number % 3 {
                0 => "GET /api/v1 HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer wrong",
                1 => "GET /livez HTTP/1.1\r\nhost: localhost",
                _ => "GET / HTTP/1.1\r\nhost: localhost",
            };
            strangers.push(ask(address, request, "HTTP/1.1 ").await);
        }
        // Earlier statuses may wait in the buffers of a closed connection.
        let now = jiff::Timestamp::now().as_millisecond();
        let mut lines = BufReader::new(stream).lines();
        loop {
            let line = lines.next_line().await.unwrap().expect("the stream is open");
            let data = line.strip_prefix("data: ").map(|data| serde_json::from_str::<Value>(data).unwrap());
            if data.is_some_and(|data| data["time"].as_i64() > Some(now)) {
                break;
            }
        }
        drop((lines, strangers));
        endpoint.shutdown().await;
    }

    #[tokio::test]
    async fn the_oldest_connection_is_closed_if_all_were_admitted() {
        let mut connections = Connections::default();
        for _ in 0..=CONNECTIONS_MAX {
            connections.make_place();
            let task = tokio::spawn(std::future::pending::<()>()).abort_handle();
            let admitted = Admitted::default();
            admitted.set();
            connections.0.push_back(Connection { task, admitted });
        }
        assert_eq!(connections.0.len(), CONNECTIONS_MAX);
        // The next one that never had such a request goes first.
        connections.0[7].admitted = Admitted::default();
        let closed = connections.0[7].task.clone();
        connections.make_place();
        assert_eq!(connections.0.len(), CONNECTIONS_MAX - 1);
        tokio::task::yield_now().await;
        assert!(closed.is_finished());
    }
}

//! Clients that send anything to the page's server: it answers or closes, serves others, and needs little memory.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::serve::{address_of, ask, ready};
use crate::support::{Running, World, peak_memory};

/// The memory that hostile clients may cost, with as many connections as the server accepts.
const MEMORY_MAX: usize = 64 << 20;
/// Longer than the time that a client may take to send its request.
const CLOSED_WITHIN: Duration = Duration::from_secs(60);
/// As often as the tests repeat 4 KiB: 40 MiB.
const TIMES: usize = 10_000;

/// A mirror with its server, and the memory that it needed before any test.
struct Site {
    _world: World,
    serve: Running,
    address: SocketAddr,
    memory: usize,
}

impl Site {
    async fn start() -> Self {
        let world = World::populated().await;
        let mut serve = world.start(&["serve", "pods", "-A", "--port", "0"]);
        let address = address_of(&mut serve).await;
        ready(address).await;
        let memory = peak_memory(&serve.child);
        Self { _world: world, serve, address, memory }
    }

    /// Sends these bytes, and reads until the server closes the connection. It may close before it has read everything.
    async fn exchange(&self, head: &[u8], again: &[u8], times: usize) -> String {
        let (mut from, mut to) = TcpStream::connect(self.address).await.unwrap().into_split();
        let sending = async {
            to.write_all(head).await?;
            for _ in 0..times {
                to.write_all(again).await?;
            }
            // Keep the connection open for writing.
            std::future::pending::<std::io::Result<()>>().await
        };
        let reading = async {
            let mut received = Vec::new();
            // A reset, because the server did not read the rest, ends it too.
            let _ = from.read_to_end(&mut received).await;
            received
        };
        let exchanged = async {
            tokio::pin!(reading);
            tokio::select! {
                received = &mut reading => received,
                Err(_) = sending => reading.await,
            }
        };
        let received = tokio::time::timeout(CLOSED_WITHIN, exchanged).await.expect("the connection is open");
        String::from_utf8(received).unwrap()
    }

    /// Checks that it serves others, within its memory, and ends it.
    async fn end(self) {
        assert_eq!(ask(self.address, "GET /livez", "").await, (200, "ok\n".to_owned()));
        let used = peak_memory(&self.serve.child) - self.memory;
        assert!(used < MEMORY_MAX, "{} MiB", used >> 20);
        assert_eq!(self.serve.end().await, 0);
    }
}

/// The status code; `None` if the server closed the connection without a response, or the response was lost with the reset.
fn code(response: &str) -> Option<&str> {
    response.strip_prefix("HTTP/1.1 ").map(|rest| &rest[..3])
}

#[tokio::test(flavor = "multi_thread")]
async fn endless_headers_and_uris_are_refused() {
    let site = Site::start().await;
    let head = b"GET /livez HTTP/1.1\r\nhost: localhost\r\n".as_slice();
    let line = b"x-header: value\r\n".as_slice();
    let uri = b"GET /api/v1/objects/pods?text=".as_slice();
    let long = [b'x'; 4096];
    for (name, head, again, codes) in [
        ("many headers", head, line, &["431"][..]),
        ("a long header", head, &long, &["431"]),
        ("a long URI", uri, &long, &["414", "431"]),
        ("no request", b"", &long, &["400", "414", "431"]),
    ] {
        let response = site.exchange(head, again, TIMES).await;
        assert!(code(&response).is_none_or(|code| codes.contains(&code)), "{name}: {response}");
    }
    site.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn unfinished_requests_on_all_connections_need_little_memory() {
    let site = Site::start().await;
    let long = vec![b'x'; 400 << 10];
    let mut clients = Vec::new();
    for _ in 0..256 {
        let mut client = TcpStream::connect(site.address).await.unwrap();
        client.write_all(b"GET /livez HTTP/1.1\r\nhost: localhost\r\nx-header: ").await.unwrap();
        // The server may refuse it before it has read everything.
        let _ = client.write_all(&long).await;
        clients.push(client);
    }
    site.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_without_an_end_is_not_read() {
    let site = Site::start().await;
    let chunk = [b"1000\r\n".as_slice(), &[b' '; 4096], b"\r\n"].concat();
    for (request, expected) in [
        ("POST /api/v1/objects/pods", "405"),
        ("PUT /api/v1/demo/faults/slow", "405"),
        ("GET /livez", "200"),
        ("GET /api/v1/objects/pods", "200"),
    ] {
        for framing in ["transfer-encoding: chunked", "content-length: 1000000000000"] {
            let head = format!("{request} HTTP/1.1\r\nhost: localhost\r\n{framing}\r\n\r\n");
            let response = site.exchange(head.as_bytes(), &chunk, TIMES).await;
            assert!(code(&response).is_none_or(|code| code == expected), "{request}, {framing}: {response}");
        }
    }
    // Bodies that stop after their beginning do not keep the connection open.
    let head = "POST /api/v1/objects/pods HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n1\r\n{\r\n";
    let response = site.exchange(head.as_bytes(), b"", 0).await;
    assert_eq!(code(&response), Some("405"), "{response}");
    site.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pipelined_requests_are_answered_in_order() {
    let site = Site::start().await;
    let paths = (0..100).map(|n| if n % 2 == 0 { "/livez" } else { "/nowhere" });
    let mut requests =
        paths.map(|path| format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n")).collect::<String>();
    requests += "GET /livez HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    let responses = site.exchange(requests.as_bytes(), b"", 0).await;
    let codes = responses.split("HTTP/1.1 ").skip(1).map(|response| &response[..3]).collect::<Vec<_>>();
    assert_eq!(codes.len(), 101);
    assert!(codes.iter().enumerate().all(|(n, code)| *code == ["200", "404"][n % 2]), "{codes:?}");
    site.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn responses_that_are_not_read_stop_the_requests_behind_them() {
    let site = Site::start().await;
    let request = b"GET /assets/page.css HTTP/1.1\r\nhost: localhost\r\n\r\n".repeat(100);
    let mut clients = Vec::new();
    for _ in 0..50 {
        let mut client = TcpStream::connect(site.address).await.unwrap();
        // 10,000 responses of 20 kB, which the client does not read. The server stops reading its requests.
        let sending = async {
            for _ in 0..100 {
                client.write_all(&request).await?;
            }
            Ok::<_, std::io::Error>(())
        };
        let _ = tokio::time::timeout(Duration::from_millis(100), sending).await;
        clients.push(client);
    }
    site.end().await;
}

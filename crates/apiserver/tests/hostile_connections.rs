//! Clients that send anything over a socket: the server answers or closes, and serves others.

use crate::support;

use std::time::Duration;

use embedded_apiserver::Server;
use support::Session;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// Far longer than any timeout. The clock is paused and advances when all tasks are idle.
const LONG: Duration = Duration::from_secs(24 * 3600);

/// Sends these bytes, and reads until the server closes the connection. The server may close before it has read everything.
async fn exchange(server: &Server, head: &[u8], again: &[u8], times: usize) -> String {
    let socket = TcpStream::connect(server.address().unwrap()).await.unwrap();
    let (mut from, mut to) = socket.into_split();
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
    let received = tokio::time::timeout(LONG, exchanged).await.expect("the connection is still open");
    String::from_utf8_lossy(&received).into_owned()
}

async fn still_serves(server: &Server) {
    let request = b"GET /livez HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    let answer = exchange(server, request, b"", 0).await;
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
}

#[tokio::test(start_paused = true)]
async fn requests_with_too_many_or_too_long_headers_are_refused() {
    let server = Server::start().await.unwrap();
    let head = b"GET /livez HTTP/1.1\r\nhost: localhost\r\n";
    for (name, again, code) in
        [("many headers", &b"x-header: value\r\n"[..], "431"), ("a long header", &[b'x'; 4096], "431")]
    {
        let answer = exchange(&server, head, again, 10_000).await;
        assert!(answer.is_empty() || answer.starts_with(&format!("HTTP/1.1 {code} ")), "{name}: {answer}");
        still_serves(&server).await;
    }
    server.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_request_with_a_long_uri_is_refused() {
    let server = Server::start().await.unwrap();
    let answer = exchange(&server, b"GET /api/v1/pods?labelSelector=", &[b'x'; 4096], 10_000).await;
    let is_refused =
        answer.is_empty() || answer.starts_with("HTTP/1.1 414 ") || answer.starts_with("HTTP/1.1 431 ");
    assert!(is_refused, "{answer}");
    still_serves(&server).await;
    server.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_chunked_body_without_an_end_is_refused() {
    let server = Server::start().await.unwrap();
    let head = b"POST /api/v1/namespaces HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
                 transfer-encoding: chunked\r\n\r\n";
    // As fast as it is read.
    let chunk = [b"1000\r\n".as_slice(), &[b' '; 4096], b"\r\n"].concat();
    let answer = exchange(&server, head, &chunk, 10_000).await;
    assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
    // A chunk, and then silence.
    let answer = exchange(&server, &[head.as_slice(), b"1\r\n{\r\n"].concat(), b"", 0).await;
    assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
    still_serves(&server).await;
    server.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn pipelined_requests_are_answered_in_order() {
    let server = Server::start().await.unwrap();
    let paths = (0..100).map(|n| if n % 2 == 0 { "/livez" } else { "/nowhere" });
    let mut requests =
        paths.map(|path| format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n")).collect::<String>();
    requests += "GET /livez HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    let answers = exchange(&server, requests.as_bytes(), b"", 0).await;
    let codes = answers.split("HTTP/1.1 ").skip(1).map(|answer| &answer[..3]).collect::<Vec<_>>();
    assert_eq!(codes.len(), 101);
    assert!(codes.iter().enumerate().all(|(n, code)| *code == ["200", "404"][n % 2]), "{codes:?}");
    server.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_compressed_body_is_refused() {
    let session = Session::new(Server::builder().without_socket().start().await.unwrap());
    let gzip = b"\x1f\x8b\x08\0\0\0\0\0\0\x03\xab\xae\x05\0\x43\xbf\xa6\xa3\x02\0\0\0".to_vec();
    let headers = [("content-type", "application/json"), ("content-encoding", "gzip")];
    let answer = session.request("POST", "/api/v1/namespaces", &headers, gzip).await;
    assert!(matches!(answer.code, 400 | 415), "{}", answer.code);
}

#[tokio::test(start_paused = true)]
async fn a_yaml_alias_bomb_is_refused() {
    let session = Session::new(Server::builder().without_socket().start().await.unwrap());
    let mut bomb = String::from(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\na: &a [x, x, x, x, x, x, x, x, x]\n",
    );
    for (name, before) in ('b'..='m').zip('a'..) {
        let aliases = format!("*{before}, ").repeat(9);
        bomb += &format!("{name}: &{name} [{aliases}]\n");
    }
    let path = "/api/v1/namespaces/default/configmaps/x?fieldManager=test";
    let headers = [("content-type", "application/apply-patch+yaml")];
    let answer = session.request("PATCH", path, &headers, bomb.into_bytes()).await;
    assert!(
        matches!(answer.code, 400 | 413 | 415),
        "{}: {}",
        answer.code,
        String::from_utf8_lossy(&answer.body)
    );
}

//! Idle, slow and dead connections, and too many of them.

use std::time::Duration;

use embedded_apiserver::Server;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// Far longer than any timeout. The clock is paused and advances when all tasks are idle.
const LONG: Duration = Duration::from_secs(24 * 3600);

async fn connect(server: &Server) -> TcpStream {
    TcpStream::connect(server.address().unwrap()).await.unwrap()
}

/// Reads until the server closes the connection.
async fn closed(socket: &mut TcpStream) -> Vec<u8> {
    let mut received = Vec::new();
    let end = tokio::time::timeout(LONG, socket.read_to_end(&mut received)).await;
    assert!(end.is_ok(), "the connection is still open");
    received
}

#[tokio::test(start_paused = true)]
async fn a_client_that_sends_no_request_is_dropped() {
    let server = Server::start().await.unwrap();
    // The second starts like HTTP/2 and the third like HTTP/1.1; the last speaks HTTP/2 but sends no request.
    for sent in [&b""[..], b"P", b"G", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0"] {
        let mut socket = connect(&server).await;
        socket.write_all(sent).await.unwrap();
        closed(&mut socket).await;
    }
    server.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn an_endless_request_body_times_out() {
    let server = Server::start().await.unwrap();
    let mut socket = connect(&server).await;
    let head = b"POST /api/v1/namespaces HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{";
    socket.write_all(head).await.unwrap();
    let answer = String::from_utf8(closed(&mut socket).await).unwrap();
    assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
    server.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_dead_http2_client_is_noticed() {
    let server = Server::start().await.unwrap();
    let mut socket = connect(&server).await;
    let path = b"/api/v1/pods?watch=1&timeoutSeconds=1000000000";
    let mut block = vec![0x82, 0x86, 0x04, path.len() as u8];
    block.extend_from_slice(path);
    block.extend_from_slice(b"\x01\x09localhost");
    let mut request = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0".to_vec();
    request.extend_from_slice(&[0, 0, block.len() as u8, 1, 5, 0, 0, 0, 1]);
    request.extend_from_slice(&block);
    socket.write_all(&request).await.unwrap();
    // The client never answers a ping.
    let received = closed(&mut socket).await;
    assert!(received.len() > 9 + 9, "the watch was not answered");
    server.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn reopening_a_taken_port_is_an_error() {
    let server = Server::start().await.unwrap();
    server.refuse_connections().await;
    let other = TcpListener::bind(server.address().unwrap()).await.unwrap();
    let opened = tokio::time::timeout(LONG, server.accept_connections()).await;
    let refused = opened.expect("accept_connections waits forever").unwrap_err();
    assert!(refused.to_string().contains(&server.address().unwrap().to_string()), "{refused}");
    drop(other);
    server.accept_connections().await.unwrap();
    connect(&server).await;
    server.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_server_without_a_socket_has_no_port_to_open() {
    let server = Server::builder().without_socket().start().await.unwrap();
    assert!(tokio::time::timeout(LONG, server.refuse_connections()).await.is_ok());
    tokio::time::timeout(LONG, server.accept_connections()).await.unwrap().unwrap();
}

/// The status line of the response, if there is one before the timeout.
async fn status_line(socket: &mut TcpStream) -> Option<String> {
    let mut line = [0; 12];
    tokio::time::timeout(Duration::from_secs(1), socket.read_exact(&mut line)).await.ok()?.unwrap();
    Some(String::from_utf8(line.to_vec()).unwrap())
}

#[tokio::test(start_paused = true)]
async fn connections_beyond_the_limit_wait() {
    let server = Server::builder().connections_max(2).start().await.unwrap();
    let mut sockets = Vec::new();
    for _ in 0..3 {
        let mut socket = connect(&server).await;
        socket.write_all(b"GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
        sockets.push(socket);
    }
    let mut third = sockets.pop().unwrap();
    for socket in &mut sockets {
        assert_eq!(status_line(socket).await.as_deref(), Some("HTTP/1.1 200"));
    }
    assert_eq!(status_line(&mut third).await, None, "the limit is two");
    sockets.pop();
    assert_eq!(status_line(&mut third).await.as_deref(), Some("HTTP/1.1 200"));
    server.shutdown().await;
}

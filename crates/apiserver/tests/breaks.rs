//! Broken connections of in-process clients: a server without a socket breaks the requests and streams of its service.

use std::time::Duration;

use bytes::Bytes;
use embedded_apiserver::{Action, ApiBody, Clock, Fault, Match, Restart, Server, Verb};
use http_body_util::{BodyExt as _, Full};
use serde_json::{Value, json};
use tower::ServiceExt as _;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const WATCH: &str = "/api/v1/configmaps?watch=1&timeoutSeconds=3600";

async fn server() -> Server {
    let clock = Clock::starting_at(std::time::UNIX_EPOCH);
    Server::builder().without_socket().clock(clock).start().await.unwrap()
}

async fn send(
    server: &Server,
    method: &str,
    path: &str,
    body: Value,
) -> Result<http::Response<ApiBody>, std::io::Error> {
    let request =
        http::Request::builder().method(method).uri(path).header("content-type", "application/json");
    server.service().oneshot(request.body(Full::new(Bytes::from(body.to_string()))).unwrap()).await
}

async fn code(server: &Server, method: &str, path: &str, body: Value) -> u16 {
    send(server, method, path, body).await.unwrap().status().as_u16()
}

fn map(name: &str) -> Value {
    json!({"metadata": {"name": name}})
}

/// The next chunk of a stream as text, or the error it broke with.
async fn next(watch: &mut ApiBody) -> Result<String, std::io::ErrorKind> {
    // Time is paused: it advances when all tasks are idle.
    let frame = tokio::time::timeout(Duration::from_secs(60), watch.frame()).await;
    let frame = frame.expect("the stream stays silent").expect("the stream ended cleanly");
    frame
        .map(|frame| String::from_utf8(frame.into_data().unwrap().to_vec()).unwrap())
        .map_err(|error| error.kind())
}

#[tokio::test(start_paused = true)]
async fn disconnecting_breaks_watches_without_a_socket() {
    let server = server().await;
    let mut watch = send(&server, "GET", WATCH, json!({})).await.unwrap().into_body();
    assert_eq!(code(&server, "POST", MAPS, map("a")).await, 201);
    assert!(next(&mut watch).await.unwrap().contains("\"ADDED\""));
    server.disconnect_all();
    assert_eq!(next(&mut watch).await, Err(std::io::ErrorKind::ConnectionReset));
    assert_eq!(code(&server, "GET", MAPS, json!({})).await, 200, "new requests are served");
}

#[tokio::test(start_paused = true)]
async fn disconnecting_breaks_pending_requests_without_a_socket() {
    let server = server().await;
    server.faults().arm(Fault::new(Action::Hang).on(Match::verb(Verb::Get)));
    let path = format!("{MAPS}/a");
    let pending = send(&server, "GET", &path, json!({}));
    let disconnect = async {
        tokio::task::yield_now().await;
        server.disconnect_all();
    };
    let (pending, ()) = tokio::join!(tokio::time::timeout(Duration::from_secs(60), pending), disconnect);
    let error = pending.expect("the request stays pending").unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
}

#[tokio::test(start_paused = true)]
async fn a_restart_breaks_watches_without_a_socket() {
    let server = server().await;
    let mut watch = send(&server, "GET", WATCH, json!({})).await.unwrap().into_body();
    server.restart(&Restart::HistoryLost);
    assert_eq!(next(&mut watch).await, Err(std::io::ErrorKind::ConnectionReset));
}

#[tokio::test(start_paused = true)]
async fn a_closed_port_refuses_requests_without_a_socket() {
    let server = server().await;
    let mut watch = send(&server, "GET", WATCH, json!({})).await.unwrap().into_body();
    server.refuse_connections().await;
    assert_eq!(next(&mut watch).await, Err(std::io::ErrorKind::ConnectionReset));
    let refused = send(&server, "GET", MAPS, json!({})).await.unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
    let accepted = tokio::time::timeout(Duration::from_secs(60), server.accept_connections()).await;
    accepted.expect("the port stays closed").unwrap();
    assert_eq!(code(&server, "GET", MAPS, json!({})).await, 200);
}

#[tokio::test(start_paused = true)]
async fn a_disconnect_precedes_the_write_and_a_cut_follows_it() {
    let server = server().await;
    let on_create = || Match::verb(Verb::Create).resource("configmaps");
    server.faults().arm(Fault::new(Action::Disconnect).on(on_create()).once());
    assert!(send(&server, "POST", MAPS, map("never")).await.is_err());
    assert_eq!(code(&server, "GET", &format!("{MAPS}/never"), json!({})).await, 404, "nothing was written");
    server.faults().arm(Fault::new(Action::CutAfterBytes(0)).on(on_create()).once());
    let answer = send(&server, "POST", MAPS, map("written")).await.unwrap();
    assert!(answer.into_body().collect().await.is_err());
    assert_eq!(
        code(&server, "GET", &format!("{MAPS}/written"), json!({})).await,
        200,
        "only the answer is lost"
    );
}

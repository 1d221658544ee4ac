//! Sequential requests to the embedded server: each gets an allowed status, and the server keeps working.
#![no_main]

use std::time::Duration;

use bytes::Bytes;
use embedded_apiserver::{ApiService, Server};
use http::Request;
use http_body_util::{BodyExt as _, Full};
use libfuzzer_sys::fuzz_target;
use serde_json::Value;
use tower::ServiceExt as _;

// Requests are separated by `---`. Each has a line with method and path, header lines that start with `> `, an empty
// line and a body.
fuzz_target!(|input: &[u8]| {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_time().start_paused(true).build().expect("a runtime");
    runtime.block_on(async {
        let server = Server::builder().without_socket().seed(7).start().await.expect("a server");
        let mut rest = input;
        for _ in 0..8 {
            let (one, others) = split(rest, b"\n---\n");
            send(&server.service(), one).await;
            match others {
                Some(others) => rest = others,
                None => break,
            }
        }
        let (code, _) = answer(
            &server.service(),
            Request::get("/api/v1/namespaces/default").body(Bytes::new()).expect("a request"),
        )
        .await;
        assert!(code == 200 || code == 404, "{code}");
    });
});

async fn send(service: &ApiService, text: &[u8]) {
    let (head, body) = split(text, b"\n\n");
    let Ok(head) = std::str::from_utf8(head) else { return };
    let mut lines = head.lines();
    let Some((method, path)) = lines.next().and_then(|line| line.split_once(' ')) else { return };
    let mut request = Request::builder().method(method).uri(path);
    for line in lines {
        if let Some((name, value)) = line.trim_start_matches("> ").split_once(": ") {
            request = request.header(name, value);
        }
    }
    let Ok(request) = request.body(Bytes::copy_from_slice(body.unwrap_or_default())) else { return };
    let (code, body) = answer(service, request).await;
    // Like kube-apiserver, the server rejects some invalid requests with 500 and an explanation, for instance a create
    // with a resourceVersion. A resourceVersion in the future gets 504.
    let allowed = (200..500).contains(&code) || (matches!(code, 500 | 504) && !body.is_empty());
    assert!(allowed, "{method} {path}: {code} {}", String::from_utf8_lossy(&body));
    if code >= 400 && body.starts_with(b"{") {
        let status = serde_json::from_slice::<Value>(&body).expect("a status");
        assert!(status["message"].is_string() || status["kind"] != "Status", "{method} {path}: {status}");
    }
}

/// Returns the status and the start of the body, because a watch does not end.
async fn answer(service: &ApiService, request: Request<Bytes>) -> (u16, Vec<u8>) {
    let request = request.map(Full::new);
    let response = tokio::time::timeout(Duration::from_secs(3600), service.clone().oneshot(request)).await;
    let response = response.expect("an answer").expect("a response");
    let code = response.status().as_u16();
    let (mut body, mut bytes) = (response.into_body(), Vec::new());
    while let Ok(Some(Ok(frame))) = tokio::time::timeout(Duration::from_secs(1), body.frame()).await {
        bytes.extend_from_slice(&frame.into_data().unwrap_or_default());
        if bytes.len() > 1 << 20 {
            break;
        }
    }
    (code, bytes)
}

fn split<'a>(text: &'a [u8], by: &[u8]) -> (&'a [u8], Option<&'a [u8]>) {
    match text.windows(by.len()).position(|found| found == by) {
        Some(at) => (&text[..at], Some(&text[at + by.len()..])),
        None => (text, None),
    }
}

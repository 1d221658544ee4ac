//! Hostile and invalid requests are rejected in bounded time and memory.

use crate::support;

use embedded_apiserver::Server;
use serde_json::Value;
use support::Session;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

#[tokio::test(start_paused = true)]
async fn invalid_requests_are_rejected() {
    let session = Session::new(Server::builder().without_socket().start().await.unwrap());
    let deep = format!(
        "{{\"metadata\":{{\"name\":\"x\"}},\"data\":{}{}}}",
        "[".repeat(100_000),
        "]".repeat(100_000)
    );
    let large = format!("{{\"data\":{{\"k\":\"{}\"}}}}", "x".repeat(4 << 20));
    let token = "A".repeat(1 << 15);
    let cases: Vec<(&str, String, Vec<u8>, u16)> = vec![
        ("POST", MAPS.to_owned(), deep.into_bytes(), 400),
        ("POST", MAPS.to_owned(), large.into_bytes(), 413),
        ("POST", MAPS.to_owned(), b"[]".to_vec(), 400),
        ("POST", MAPS.to_owned(), b"{\"metadata\":3}".to_vec(), 400),
        ("POST", MAPS.to_owned(), b"{\"metadata\":{\"name\":\"x\"},\"data\":7}".to_vec(), 400),
        (
            "POST",
            "/apis/batch/v1/namespaces/default/jobs".to_owned(),
            b"{\"metadata\":{\"name\":\"x\"},\"spec\":{\"template\":{\"metadata\":{\"labels\":\"y\"}}}}"
                .to_vec(),
            400,
        ),
        ("GET", format!("{MAPS}?limit=9223372036854775807"), Vec::new(), 200),
        ("GET", format!("{MAPS}?limit=-5"), Vec::new(), 200),
        ("GET", format!("{MAPS}?limit=many"), Vec::new(), 400),
        ("GET", format!("{MAPS}?limit=1&continue={token}"), Vec::new(), 400),
        ("GET", format!("{MAPS}?resourceVersion=-1"), Vec::new(), 400),
        ("GET", format!("{MAPS}?resourceVersion=18446744073709551616"), Vec::new(), 400),
        (
            "GET",
            format!("{MAPS}?watch=1&resourceVersion=1&timeoutSeconds=99999999999999999999"),
            Vec::new(),
            400,
        ),
        ("GET", format!("{MAPS}/%2e%2e%2f%2e%2e"), Vec::new(), 404),
        ("GET", "/api/v1/namespaces//configmaps".to_owned(), Vec::new(), 404),
        ("DELETE", "/api/v1/namespaces".to_owned(), Vec::new(), 405),
        ("PUT", format!("{MAPS}/x"), b"{}".to_vec(), 400),
    ];
    for (method, path, body, code) in cases {
        let shown = &path[..path.len().min(90)];
        let answer = session.request(method, &path, &[("content-type", "application/json")], body).await;
        assert_eq!(answer.code, code, "{method} {shown}: {}", String::from_utf8_lossy(&answer.body));
        if answer.headers["content-type"] == "application/json" {
            assert!(serde_json::from_slice::<Value>(&answer.body).is_ok(), "{method} {shown}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_patch_cannot_change_the_type_of_an_object() {
    let session = Session::new(Server::builder().without_socket().start().await.unwrap());
    session.json("POST", MAPS, serde_json::json!({"metadata": {"name": "x"}})).await;
    for (kind, patch) in [
        ("json-patch", r#"[{"op": "replace", "path": "", "value": "y"}]"#),
        ("json-patch", r#"[{"op": "remove", "path": "/metadata"}]"#),
        ("merge-patch", r#""y""#),
        ("merge-patch", r#"{"metadata": 3}"#),
        ("merge-patch", r#"{"kind": "Secret", "apiVersion": 7, "metadata": {"uid": null, "name": null}}"#),
        ("merge-patch", r#"{"metadata": {"name": "y"}}"#),
        ("merge-patch", r#"{"metadata": {"namespace": "y"}}"#),
    ] {
        let content_type = format!("application/{kind}+json");
        let headers = [("content-type", content_type.as_str())];
        session.request("PATCH", &format!("{MAPS}/x"), &headers, patch.into()).await;
        let object = session.json("GET", &format!("{MAPS}/x"), Value::Null).await;
        assert_eq!(
            (&object["kind"], &object["metadata"]["name"]),
            (&"ConfigMap".into(), &"x".into()),
            "{patch}"
        );
        assert_eq!(object["metadata"]["namespace"], "default", "{patch}");
    }
}

#[tokio::test(start_paused = true)]
async fn malformed_protobuf_is_rejected() {
    let session = Session::new(Server::builder().without_socket().start().await.unwrap());
    let content_type = [("content-type", "application/vnd.kubernetes.protobuf")];
    for body in [&b""[..], b"k8s\0", b"k8s\0\x12\xff\xff\xff\xff\x7f", b"not at all", &[0xff; 1000]] {
        assert_eq!(session.request("POST", MAPS, &content_type, body.to_vec()).await.code, 400, "{body:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_that_never_finishes_its_headers_is_dropped() {
    let server = Server::start().await.unwrap();
    let mut socket = tokio::net::TcpStream::connect(server.address().unwrap()).await.unwrap();
    socket.write_all(b"GET /api HTTP/1.1\r\nhost: x\r\nslow: ").await.unwrap();
    let mut rest = Vec::new();
    // The clock advances when all tasks are idle, so this takes no time.
    let _closed = socket.read_to_end(&mut rest).await;
    assert!(!rest.starts_with(b"HTTP/1.1 200"));
    server.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn nothing_is_served_without_the_token() {
    let session = Session::new(
        Server::builder().without_socket().token("right").admin_endpoint(true).start().await.unwrap(),
    );
    for headers in [vec![], vec![("authorization", "Bearer wrong")], vec![("authorization", "right")]] {
        for path in ["/", "/api/v1/pods", "/apis", "/faults"] {
            assert_eq!(session.request("GET", path, &headers, Vec::new()).await.code, 401, "{path}");
        }
    }
    let headers = [("authorization", "Bearer right")];
    assert_eq!(session.request("GET", "/api/v1/pods", &headers, Vec::new()).await.code, 200);
}

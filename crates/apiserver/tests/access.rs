//! Access control: tokens, public paths, and requests from web pages.

use bytes::Bytes;
use embedded_apiserver::{Action, Fault, Server};
use http_body_util::Empty;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tower::ServiceExt as _;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// The status code of a request over the socket.
async fn ask(server: &Server, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> u16 {
    let mut socket = TcpStream::connect(server.address().unwrap()).await.unwrap();
    let mut request =
        format!("{method} {path} HTTP/1.1\r\nconnection: close\r\ncontent-length: {}\r\n", body.len());
    for (name, value) in headers {
        request += &format!("{name}: {value}\r\n");
    }
    socket.write_all(format!("{request}\r\n{body}").as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    socket.read_to_end(&mut answer).await.unwrap();
    let answer = String::from_utf8_lossy(&answer).into_owned();
    answer.split(' ').nth(1).unwrap_or_default().parse().unwrap_or_else(|_| panic!("{path}: {answer:?}"))
}

async fn get(server: &Server, path: &str, headers: &[(&str, &str)]) -> u16 {
    ask(server, "GET", path, headers, "").await
}

/// The status code of an in-process request.
async fn get_in_process(server: &Server, path: &str, headers: &[(&str, &str)]) -> u16 {
    let mut request = http::Request::get(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.body(Empty::<Bytes>::new()).unwrap();
    server.service().oneshot(request).await.unwrap().status().as_u16()
}

#[tokio::test]
async fn health_and_version_are_answered_without_a_token() {
    let server = Server::builder().without_socket().token("right").start().await.unwrap();
    for path in ["/healthz", "/livez", "/readyz", "/version", "/version/", "/readyz?verbose"] {
        assert_eq!(get_in_process(&server, path, &[]).await, 200, "{path}");
        let wrong = [("authorization", "Bearer wrong")];
        assert_eq!(get_in_process(&server, path, &wrong).await, 401, "{path}");
    }
    for path in ["/livez/ping", "/api", "/healthzz", "/version/x", "/api/v1/pods", "/faults"] {
        assert_eq!(get_in_process(&server, path, &[]).await, 401, "{path}");
    }
}

#[tokio::test]
async fn a_token_is_compared_as_a_whole() {
    let server = Server::builder().without_socket().token("right").start().await.unwrap();
    for (given, code) in [
        ("Bearer right", 200),
        ("bearer right", 200),
        ("BEARER right", 200),
        ("Bearer  right", 401),
        ("Bearer righ", 401),
        ("Bearer rights", 401),
        ("Bearer ", 401),
        ("Bearer", 401),
        ("Basic right", 401),
        ("right", 401),
    ] {
        let headers = [("authorization", given)];
        assert_eq!(get_in_process(&server, "/api/v1/pods", &headers).await, code, "{given:?}");
    }
}

#[tokio::test]
async fn faults_apply_only_to_authenticated_requests() {
    let server = Server::builder().without_socket().token("right").start().await.unwrap();
    let faults = server.faults();
    let id = faults.arm(Fault::new(Action::Html { code: 502 }).once());
    assert_eq!(get_in_process(&server, "/api/v1/pods", &[]).await, 401);
    assert_eq!(faults.fired(id), Some(0));
    let right = [("authorization", "Bearer right")];
    assert_eq!(get_in_process(&server, "/api/v1/pods", &right).await, 502);
}

#[tokio::test]
async fn a_server_without_a_token_answers_only_loopback_hosts() {
    let server = Server::start().await.unwrap();
    let port = server.address().unwrap().port();
    for host in ["localhost", "LOCALHOST", "127.0.0.1", "127.8.8.8", "[::1]", "app.localhost", "localhost."] {
        for host in [host.to_owned(), format!("{host}:{port}")] {
            assert_eq!(get(&server, "/api/v1/secrets", &[("host", &host)]).await, 200, "{host}");
        }
    }
    for host in [
        "evil.example",
        "localhost.evil.example",
        "10.0.0.1",
        "evil.example:80",
        "127.0.0.1.evil.example",
        "[::2]",
        "",
        "localhost@evil.example",
    ] {
        assert_eq!(get(&server, "/api/v1/secrets", &[("host", host)]).await, 403, "{host}");
        assert_eq!(get(&server, "/livez", &[("host", host)]).await, 200, "{host}");
    }
    server.shutdown().await;
}

#[tokio::test]
async fn a_server_with_a_token_answers_any_host() {
    let server = Server::builder().token("right").start().await.unwrap();
    let token = ("authorization", "Bearer right");
    assert_eq!(get(&server, "/api/v1/secrets", &[("host", "api.example"), token]).await, 200);
    let foreign = [("host", "api.example"), ("origin", "https://evil.example"), token];
    assert_eq!(get(&server, "/api/v1/secrets", &foreign).await, 403);
    let same = [("host", "api.example:8080"), ("origin", "https://api.example:8080"), token];
    assert_eq!(get(&server, "/api/v1/secrets", &same).await, 200);
    server.shutdown().await;
}

#[tokio::test]
async fn a_foreign_origin_is_rejected() {
    let server = Server::start().await.unwrap();
    let address = server.address().unwrap().to_string();
    let host = ("host", address.as_str());
    let map = |name: &str| json!({"metadata": {"name": name}}).to_string();
    for origin in
        ["http://evil.example", "null", "http://localhost:1", "file://", "http://127.0.0.1.evil.example"]
    {
        let headers = [host, ("origin", origin)];
        assert_eq!(ask(&server, "POST", MAPS, &headers, &map("foreign")).await, 403, "{origin}");
        assert_eq!(get(&server, "/api/v1/secrets", &headers).await, 403, "{origin}");
    }
    let own = format!("http://{address}");
    let headers = [host, ("origin", own.as_str()), ("content-type", "application/json")];
    assert_eq!(ask(&server, "POST", MAPS, &headers, &map("own")).await, 201);
    assert_eq!(get(&server, &format!("{MAPS}/foreign"), &[host]).await, 404);
    server.shutdown().await;
}

#[tokio::test]
async fn a_web_page_cannot_write_without_a_content_type() {
    let server = Server::start().await.unwrap();
    let address = server.address().unwrap().to_string();
    let (host, own) = (("host", address.as_str()), format!("http://{address}"));
    let map = |name: &str| json!({"metadata": {"name": name}}).to_string();
    // What a page can send without a CORS preflight.
    for page in [vec![("origin", own.as_str())], vec![("sec-fetch-mode", "no-cors")]] {
        let mut headers = vec![host];
        headers.extend(page);
        assert_eq!(ask(&server, "POST", MAPS, &headers, &map("page")).await, 415, "{headers:?}");
        headers.push(("content-type", "text/plain"));
        assert_eq!(ask(&server, "POST", MAPS, &headers, &map("page")).await, 415, "{headers:?}");
        headers.push(("sec-fetch-site", "cross-site"));
        assert_eq!(get(&server, "/api/v1/secrets", &headers).await, 403, "{headers:?}");
    }
    // `kubectl create --raw` sends none either, and a kube-apiserver then expects JSON.
    assert_eq!(ask(&server, "POST", MAPS, &[host], &map("raw")).await, 201);
    assert_eq!(ask(&server, "DELETE", &format!("{MAPS}/raw"), &[host, ("origin", &own)], "").await, 200);
    server.shutdown().await;
}

#[tokio::test]
async fn allowed_hosts_and_their_pages_are_answered() {
    let server = Server::builder().allowed_host("host.docker.internal").start().await.unwrap();
    for host in ["host.docker.internal", "HOST.docker.internal:1234", "localhost"] {
        assert_eq!(get(&server, "/api/v1/secrets", &[("host", host)]).await, 200, "{host}");
    }
    assert_eq!(get(&server, "/api/v1/secrets", &[("host", "docker.internal")]).await, 403);
    let page = [
        ("host", "localhost"),
        ("origin", "https://host.docker.internal:3000"),
        ("sec-fetch-site", "cross-site"),
    ];
    assert_eq!(get(&server, "/api/v1/secrets", &page).await, 200);
    server.shutdown().await;
}

#[tokio::test]
async fn a_reachable_server_accepts_addresses_but_no_foreign_host_names() {
    let any = std::net::IpAddr::from([0, 0, 0, 0]);
    let server = Server::builder().address(any).start().await.unwrap();
    for (host, code) in
        [("10.1.2.3:8080", 200), ("[fe80::1]", 200), ("localhost", 200), ("evil.example", 403)]
    {
        assert_eq!(get(&server, "/api/v1/secrets", &[("host", host)]).await, code, "{host}");
    }
    server.shutdown().await;
}

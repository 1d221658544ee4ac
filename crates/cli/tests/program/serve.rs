//! `serve`: health checks, metrics, the query API, and access to them.

use std::net::SocketAddr;
use std::time::Duration;

use embedded_apiserver::{Action, Fault, Match, Verb};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::{Running, World};

/// Asks; gives the status line's code and the body.
pub(crate) async fn ask(address: SocketAddr, request: &str, headers: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!("{request} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{headers}\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

pub(crate) async fn address_of(serve: &mut Running) -> SocketAddr {
    let line = serve.line_with(&["mirroring"]).await;
    let address = line.split("http://").nth(1).unwrap().split('/').next().unwrap();
    address.parse().unwrap()
}

/// Asks until it is ready.
pub(crate) async fn ready(address: SocketAddr) {
    while ask(address, "GET /readyz", "").await.0 != 200 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mirror_serves_requests_and_shuts_down_cleanly() {
    let world = World::populated().await;
    let mut serve = world.start(&["serve", "pods,deploy", "-A", "--port", "0"]);
    let address = address_of(&mut serve).await;
    assert!(address.ip().is_loopback());
    ready(address).await;
    for path in ["/livez", "/readyz", "/healthz"] {
        assert_eq!(ask(address, &format!("GET {path}"), "").await, (200, "ok\n".to_owned()), "{path}");
    }
    let (code, metrics) = ask(address, "GET /metrics", "").await;
    assert_eq!(code, 200);
    assert!(metrics.contains("informer_objects{name=\"pods\"") && metrics.ends_with("# EOF\n"), "{metrics}");

    let (code, report) = ask(address, "GET /debug/informers", "").await;
    let report: Value = serde_json::from_str(&report).unwrap();
    let pods = &report["informers"][0];
    assert_eq!((code, &pods["resource"], &pods["state"]), (200, &"pods".into(), &"live".into()));
    assert_eq!((&pods["objects"], &pods["synced"]), (&3.into(), &true.into()));
    assert!(pods["lastBookmarkAgeSeconds"].as_f64().is_some(), "{pods}");
    let checksum = pods["checksum"].as_str().unwrap().to_owned();
    assert_eq!(checksum.len(), 16);
    let version: u64 = pods["resourceVersion"].as_str().unwrap().parse().unwrap();

    // A change is mirrored: the resourceVersion and the checksum differ, and the last event has an age.
    world.set_phase("shop", "web-1", "Running").await;
    loop {
        let report: Value = serde_json::from_str(&ask(address, "GET /debug/informers", "").await.1).unwrap();
        let pods = &report["informers"][0];
        if pods["resourceVersion"].as_str().unwrap().parse::<u64>().unwrap() > version {
            assert_ne!(pods["checksum"], *checksum);
            assert!(pods["lastEventAgeSeconds"].as_f64().is_some(), "{pods}");
            break;
        }
    }
    assert_eq!(ask(address, "GET /nothing", "").await.0, 404);
    assert_eq!(ask(address, "POST /metrics", "").await.0, 405);
    assert_eq!(serve.end().await, 0);
    assert!(TcpStream::connect(address).await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn two_mirrors_of_the_same_objects_have_the_same_checksum() {
    let world = World::populated().await;
    let mut checksums = Vec::new();
    for _ in 0..2 {
        let mut serve = world.start(&["serve", "pods", "-A", "--port", "0"]);
        let address = address_of(&mut serve).await;
        ready(address).await;
        let report: Value = serde_json::from_str(&ask(address, "GET /debug/informers", "").await.1).unwrap();
        checksums.push(report["informers"][0]["checksum"].clone());
    }
    assert_eq!(checksums[0], checksums[1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn with_a_token_file_metrics_require_the_token() {
    let world = World::populated().await;
    let file = world.directory.path().join("token");
    std::fs::write(&file, "secret\n").unwrap();
    let mut serve = world.start(&[
        "serve",
        "pods",
        "--port",
        "0",
        "--address",
        "0.0.0.0",
        "--token-file",
        file.to_str().unwrap(),
    ]);
    let address = SocketAddr::new([127, 0, 0, 1].into(), address_of(&mut serve).await.port());
    for path in ["/metrics", "/debug/informers"] {
        let request = format!("GET {path}");
        assert_eq!(ask(address, &request, "").await.0, 401, "{path}");
        assert_eq!(ask(address, &request, "authorization: Bearer secreT\r\n").await.0, 401, "{path}");
        assert_eq!(ask(address, &request, "authorization: Bearer secret\r\n").await.0, 200, "{path}");
    }
    assert_eq!(ask(address, "GET /livez", "").await.0, 200);
    std::fs::write(&file, "\n").unwrap();
    let ended = world.run(&["serve", "pods", "--token-file", file.to_str().unwrap()]).await;
    assert!(ended.code == 2 && ended.stderr.contains("invalid token: it is empty"), "{ended:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn g1_pages_of_other_origins_and_rebound_hosts_are_refused() {
    let world = World::populated().await;
    let mut serve = world.start(&["serve", "pods", "--port", "0", "--allowed-host", "mirror.example"]);
    let address = address_of(&mut serve).await;
    let ask_as = async |path: &str, host: &str, headers: &str| {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n{headers}\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer.split(' ').nth(1).unwrap().parse::<u16>().unwrap()
    };
    for path in ["/metrics", "/debug/informers"] {
        for (host, headers, code) in [
            ("localhost", "", 200),
            ("127.0.0.1:8080", "", 200),
            ("[::1]:8080", "", 200),
            ("mirror.example", "", 200),
            ("evil.example", "", 403),
            ("", "", 403),
            ("localhost", "origin: http://evil.example\r\n", 403),
            ("localhost", "origin: null\r\n", 403),
            ("localhost:8080", "origin: http://localhost:8080\r\n", 200),
        ] {
            assert_eq!(ask_as(path, host, headers).await, code, "{path} {host} {headers}");
        }
    }
    assert_eq!(ask_as("/livez", "10.1.2.3:8080", "").await, 200, "probes come with any Host");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_kind_fails_readiness_but_not_liveness() {
    let world = World::populated().await;
    let forbidden = Action::Status {
        code: 403,
        reason: "Forbidden".into(),
        message: "not for you".into(),
        retry_after_seconds: 0,
    };
    world.server.faults().arm(Fault::new(forbidden).on(Match::default().resource("secrets")));
    let mut serve = world.start(&["serve", "pods,secrets", "--port", "0"]);
    let address = address_of(&mut serve).await;
    serve.error_with("not for you").await;
    assert_eq!(ask(address, "GET /livez", "").await.0, 200);
    loop {
        let (code, words) = ask(address, "GET /readyz", "").await;
        assert_eq!(code, 503);
        if words == "not synced: secrets\n" {
            break;
        }
    }
    // The mirror knows nothing about its objects, not even whether one exists.
    for path in [
        "objects/secrets",
        "counts/secrets",
        "objects/secrets/shop/a",
        "indexes/secrets/shop/a",
        "graph/secrets/shop/a",
    ] {
        let (code, answer) = ask(address, &format!("GET /api/v1/{path}"), "").await;
        assert!(code == 503 && answer.contains("secrets are not synced yet"), "{path}: {code} {answer}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn readiness_ends_when_the_server_is_gone_for_longer_than_asked() {
    let world = World::populated().await;
    let mut serve = world.start(&["serve", "pods", "-A", "--port", "0"]);
    let address = address_of(&mut serve).await;
    ready(address).await;
    while ask(address, "GET /readyz?max-age=0", "").await.0 != 200 {
        tokio::task::yield_now().await;
    }
    world.server.refuse_connections().await;
    world.server.disconnect_all();
    loop {
        let (code, text) = ask(address, "GET /readyz?max-age=0", "").await;
        if code == 503 {
            assert!(text.starts_with("stale: pods (no watch for "), "{text}");
            break;
        }
    }
    assert_eq!(ask(address, "GET /readyz?max-age=1h", "").await.0, 200);
    assert_eq!(ask(address, "GET /readyz", "").await.0, 200);
    let (code, text) = ask(address, "GET /readyz?max-age=soon", "").await;
    assert!(code == 400 && text.contains("give a duration"), "{text}");
    assert_eq!(serve.end().await, 0);
}

fn unavailable() -> Action {
    Action::Status {
        code: 503,
        reason: "ServiceUnavailable".into(),
        message: "planted".into(),
        retry_after_seconds: 0,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kind_that_never_had_a_watch_is_stale() {
    let world = World::populated().await;
    world.server.faults().arm(Fault::new(unavailable()).on(Match::verb(Verb::Watch).resource("pods")));
    // With compressed lists, not even the initial state comes from a watch.
    let mut serve = world.start(&["serve", "pods,nodes", "-A", "--port", "0", "--compress"]);
    let address = address_of(&mut serve).await;
    ready(address).await;
    loop {
        let (code, text) = ask(address, "GET /readyz?max-age=0", "").await;
        assert_eq!(code, 503, "{text}");
        if text.starts_with("stale: pods (no watch for ") && !text.contains("nodes") {
            break;
        }
    }
    assert_eq!(ask(address, "GET /readyz?max-age=1h", "").await.0, 200);
    world.server.faults().clear();
    while ask(address, "GET /readyz?max-age=0", "").await.0 != 200 {
        tokio::task::yield_now().await;
    }
    assert_eq!(serve.end().await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_in_one_namespace_does_not_hide_a_missing_one_in_another() {
    let world = World::populated().await;
    let mut serve = world.start(&["serve", "pods", "-n", "default,shop", "--port", "0"]);
    let address = address_of(&mut serve).await;
    let watching = async |count: u64| {
        loop {
            let report = ask(address, "GET /api/v1/informers", "").await.1;
            let report: Value = serde_json::from_str(&report).unwrap();
            if report["informers"][0]["scopes"]["watching"] == count {
                return;
            }
        }
    };
    watching(2).await;
    assert_eq!(ask(address, "GET /readyz?max-age=0", "").await.0, 200);
    for verb in [Verb::Watch, Verb::List] {
        let on = Match::verb(verb).resource("pods").namespace("shop");
        world.server.faults().arm(Fault::new(unavailable()).on(on));
    }
    world.server.disconnect_all();
    watching(1).await;
    loop {
        let (code, text) = ask(address, "GET /readyz?max-age=0", "").await;
        if code == 503 {
            assert!(text.starts_with("stale: pods (no watch for "), "{text}");
            break;
        }
    }
    world.server.faults().clear();
    watching(2).await;
    assert_eq!(ask(address, "GET /readyz?max-age=0", "").await.0, 200);
    assert_eq!(serve.end().await, 0);
}

/// Less than the time that a client may take to send its request: a server that waits for silent clients takes longer.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(8);

#[tokio::test(flavor = "multi_thread")]
async fn clients_that_send_nothing_do_not_delay_health_checks() {
    let world = World::populated().await;
    let mut serve = world.start(&["serve", "pods", "-A", "--port", "0"]);
    let address = address_of(&mut serve).await;
    let looks = async {
        let mut silent = Vec::new();
        for _ in 0..300 {
            let mut stream = TcpStream::connect(address).await.unwrap();
            let request = b"GET /metrics HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n";
            stream.write_all(request).await.unwrap();
            silent.push(stream);
        }
        assert_eq!(ask(address, "GET /livez", "").await, (200, "ok\n".to_owned()));
        // The oldest connections were closed to make place for it.
        let mut rest = Vec::new();
        assert!(silent[0].read_to_end(&mut rest).await.is_err() || rest.is_empty());
        // All others were accepted and can still complete their requests, in any order.
        for at in [299, 200, 100] {
            silent[at].write_all(b"\r\n").await.unwrap();
            let mut answer = String::new();
            silent[at].read_to_string(&mut answer).await.unwrap();
            assert!(answer.starts_with("HTTP/1.1 200"), "client {at}: {answer:?}");
        }
    };
    tokio::time::timeout(ANSWER_TIME_MAX, looks).await.expect("silent clients delay others");
    assert_eq!(serve.end().await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_name_the_resource_the_process_and_the_build() {
    let world = World::populated().await;
    let mut serve = world.start(&["serve", "pods", "-A", "--port", "0", "--token", "right"]);
    let address = address_of(&mut serve).await;
    let (code, metrics) = ask(address, "GET /metrics", "authorization: bearer right\r\n").await;
    assert_eq!(code, 200);
    for line in [
        "informer_objects{name=\"pods\",group=\"\",version=\"v1\",resource=\"pods\"}",
        "kube_informer_build_info{version=\"",
        "process_cpu_seconds_total ",
        "process_resident_memory_bytes ",
        "process_virtual_memory_bytes ",
        "process_open_fds ",
        "process_max_fds ",
        "process_start_time_seconds ",
    ] {
        assert!(metrics.lines().any(|found| found.starts_with(line)), "{line}: {metrics}");
    }
    assert_eq!(serve.end().await, 0);
}

//! The server's cost: watches of one resource over HTTP/2 and TLS, a million pods, startup.
//!
//! ```text
//! cargo bench -p embedded-apiserver --bench load -- watches 5000     # deliveries, CPU and memory per watch
//! cargo bench -p embedded-apiserver --bench load -- pods 1000000     # memory of pods, and listing them in pages
//! cargo bench -p embedded-apiserver --bench load -- start            # time to the first response, memory when empty
//! ```
//!
//! The server runs in its own process, so that its CPU time and memory are separate from the client's.

#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a program that measures")]

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use embedded_apiserver::Server;
use http::Request;
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http2::SendRequest;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use serde_json::json;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

/// Watches on one connection; the server allows a hundred.
const STREAMS: usize = 80;
/// Maximum number of changes in flight before the slowest watch has seen them.
const AHEAD: u64 = 256;

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let arguments: Vec<String> =
        std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect();
    let number = |default: u64| arguments.get(1).and_then(|text| text.parse().ok()).unwrap_or(default);
    match arguments.first().map(String::as_str) {
        Some("serve") => serve(number(0)).await,
        Some("watches") => watches(number(5000) as usize).await,
        Some("pods") => pods(number(1_000_000)).await,
        Some("start") => start().await,
        _ => {
            for count in [100, 1000, 5000] {
                watches(count).await;
            }
            start().await;
        }
    }
}

/// The server process: prints its address and its certificate authority, then serves until its input ends.
async fn serve(pods: u64) {
    let server = Server::builder().tls().start().await.unwrap();
    if pods > 0 {
        let feed = server.feed("", "v1", "pods").unwrap();
        for n in 0..pods {
            feed.put(&pod(n)).unwrap();
        }
    }
    println!("{}\n{}", server.address().unwrap(), server.ca_pem().unwrap().replace('\n', "|"));
    std::io::stdout().flush().unwrap();
    tokio::task::spawn_blocking(|| std::io::stdin().lines().count()).await.unwrap();
    server.shutdown().await;
}

struct Process {
    child: Child,
    address: String,
    connector: TlsConnector,
}

impl Process {
    fn start(pods: u64) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["serve", &pods.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let address = lines.next().unwrap().unwrap();
        let pem = lines.next().unwrap().unwrap().replace('|', "\n");
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(pem.as_bytes()).unwrap()).unwrap();
        let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = vec![b"h2".to_vec()];
        Self { child, address, connector: TlsConnector::from(Arc::new(config)) }
    }

    async fn connect(&self) -> SendRequest<Full<Bytes>> {
        let socket = tokio::net::TcpStream::connect(&self.address).await.unwrap();
        socket.set_nodelay(true).unwrap();
        let stream =
            self.connector.connect(ServerName::try_from("localhost").unwrap(), socket).await.unwrap();
        let (sender, connection) = hyper::client::conn::http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .initial_stream_window_size(1 << 20)
            .initial_connection_window_size(16 << 20)
            .handshake(TokioIo::new(stream))
            .await
            .unwrap();
        tokio::spawn(connection);
        sender
    }

    fn request(&self, method: &str, path: &str, body: String) -> Request<Full<Bytes>> {
        let uri = format!("https://{}{path}", self.address);
        Request::builder().method(method).uri(uri).body(Full::new(Bytes::from(body))).unwrap()
    }

    /// CPU seconds so far, user and system.
    fn cpu(&self) -> f64 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap();
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
        (fields[11].parse::<f64>().unwrap() + fields[12].parse::<f64>().unwrap()) / 100.0
    }

    fn resident_bytes(&self) -> f64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<f64>().unwrap() * 1024.0
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        self.child.wait().ok();
    }
}

async fn watches(count: usize) {
    let process = Process::start(0);
    let mut writer = process.connect().await;
    let path = "/api/v1/namespaces/default/configmaps";
    let object = |n: u64| {
        json!({"metadata": {"name": "c"}, "data": {"n": n.to_string(), "padding": "x".repeat(640)}})
            .to_string()
    };
    let created = writer.send_request(process.request("POST", path, object(0))).await.unwrap();
    assert_eq!(created.status(), 201);
    created.into_body().collect().await.unwrap();
    let before = process.resident_bytes();

    let seen: Arc<Vec<AtomicU64>> = Arc::new((0..count).map(|_| AtomicU64::new(0)).collect());
    let bytes = Arc::new(AtomicU64::new(0));
    let mut connections = Vec::new();
    for at in 0..count {
        if at % STREAMS == 0 {
            connections.push(process.connect().await);
        }
        let sender = connections.last_mut().unwrap();
        let request = process.request("GET", "/api/v1/configmaps?watch=1&resourceVersion=0", String::new());
        let response = sender.send_request(request).await.unwrap();
        assert_eq!(response.status(), 200);
        let (seen, bytes) = (seen.clone(), bytes.clone());
        tokio::spawn(async move {
            let mut body = response.into_body();
            while let Some(Ok(frame)) = body.frame().await {
                let data = frame.into_data().unwrap_or_default();
                bytes.fetch_add(data.len() as u64, Ordering::Relaxed);
                let events = data.iter().filter(|byte| **byte == b'\n').count() as u64;
                seen[at].fetch_add(events, Ordering::Relaxed);
            }
        });
    }
    let slowest = |seen: &[AtomicU64]| seen.iter().map(|n| n.load(Ordering::Relaxed)).min().unwrap();
    while slowest(&seen) < 1 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let idle = process.resident_bytes();
    let changes = (2_000_000 / count as u64).clamp(200, 5_000);
    let (cpu, began) = (process.cpu(), Instant::now());
    for n in 1..=changes {
        let put = writer.send_request(process.request("PUT", &format!("{path}/c"), object(n))).await.unwrap();
        assert_eq!(put.status(), 200);
        put.into_body().collect().await.unwrap();
        while n > slowest(&seen) + AHEAD {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
    while slowest(&seen) < changes + 1 {
        assert!(began.elapsed() < Duration::from_secs(300), "lost events: {} of {changes}", slowest(&seen));
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let (cpu, elapsed) = (process.cpu() - cpu, began.elapsed().as_secs_f64());
    let deliveries = (count as u64 * changes) as f64;
    println!(
        "{count} watches: {deliveries:.0} deliveries of {:.0} B in {elapsed:.1} s, {:.0}/s; server CPU {:.2} µs a delivery; \
         memory a watch {:.1} KB idle, {:.1} KB after; {:.1} MB before",
        bytes.load(Ordering::Relaxed) as f64 / (deliveries + count as f64),
        deliveries / elapsed,
        cpu / deliveries * 1e6,
        (idle - before) / count as f64 / 1024.0,
        (process.resident_bytes() - before) / count as f64 / 1024.0,
        before / 1e6,
    );
}

async fn pods(count: u64) {
    let began = Instant::now();
    let process = Process::start(count);
    println!(
        "{count} pods fed in {:.1} s, resident {:.2} GB",
        began.elapsed().as_secs_f64(),
        process.resident_bytes() / 1e9
    );
    let mut sender = process.connect().await;
    let (began, cpu) = (Instant::now(), process.cpu());
    let (mut token, mut pages, mut bytes) = (String::new(), 0, 0);
    loop {
        let path = format!("/api/v1/pods?limit=500&continue={token}");
        let response = sender.send_request(process.request("GET", &path, String::new())).await.unwrap();
        assert_eq!(response.status(), 200);
        let body = response.into_body().collect().await.unwrap().to_bytes();
        pages += 1;
        bytes += body.len();
        let head = std::str::from_utf8(&body[..body.len().min(400)]).unwrap();
        let Some(found) = head.split_once("\"continue\":\"") else { break };
        token = found.1.split('"').next().unwrap().to_owned();
    }
    println!(
        "listed in {pages} pages of JSON, {:.2} GB, {:.1} s, server CPU {:.1} s, resident {:.2} GB",
        bytes as f64 / 1e9,
        began.elapsed().as_secs_f64(),
        process.cpu() - cpu,
        process.resident_bytes() / 1e9
    );
}

async fn start() {
    let began = Instant::now();
    let server = Server::builder().start().await.unwrap();
    let socket = tokio::net::TcpStream::connect(server.address().unwrap()).await.unwrap();
    // As every client does: otherwise the second write may wait 40 ms for an acknowledgement.
    socket.set_nodelay(true).unwrap();
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(socket)).await.unwrap();
    tokio::spawn(connection);
    let uri = format!("http://{}/api/v1/namespaces", server.address().unwrap());
    let request = Request::get(uri).body(Full::<Bytes>::default()).unwrap();
    assert_eq!(sender.send_request(request).await.unwrap().status(), 200);
    let elapsed = began.elapsed();
    server.shutdown().await;
    println!(
        "start to first answer {:.1} ms; empty server {:.1} MB",
        elapsed.as_secs_f64() * 1e3,
        Process::start(0).resident_bytes() / 1e6
    );
}

/// A unique pod of about 2.4 KB in protobuf.
fn pod(n: u64) -> serde_json::Value {
    let container = |name: &str, at: u64| {
        json!({
            "name": name, "image": format!("registry.example.com/team/{name}:v1.{}", n % 50),
            "env": (0..8).map(|e| json!({"name": format!("SETTING_{e}"), "value": format!("value-{e}-{}", n % 100)})).collect::<Vec<_>>(),
            "resources": {"limits": {"cpu": "500m", "memory": "256Mi"}, "requests": {"cpu": "100m", "memory": "128Mi"}},
            "ports": [{"containerPort": 8080 + at, "protocol": "TCP"}],
            "volumeMounts": [{"name": "token", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount", "readOnly": true}],
            "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File", "imagePullPolicy": "IfNotPresent",
        })
    };
    let status = |name: &str| {
        json!({
            "name": name, "ready": true, "restartCount": 0, "started": true,
            "image": format!("registry.example.com/team/{name}:v1.{}", n % 50),
            "imageID": format!("registry.example.com/team/{name}@sha256:{:064x}", u128::from(n) * 0x9e37_79b9_7f4a_7c15),
            "containerID": format!("containerd://{:064x}", u128::from(n) * 0xc2b2_ae3d_27d4_eb4f),
            "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}},
        })
    };
    let condition =
        |kind: &str| json!({"type": kind, "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"});
    let conditions = ["Initialized", "Ready", "ContainersReady", "PodScheduled"].map(condition);
    let uid = |salt: u64| {
        let x = (u128::from(n) + 1) * 0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c834 * u128::from(salt);
        format!("{:08x}-0000-4000-8000-{:012x}", x >> 96, x & 0xffff_ffff_ffff)
    };
    json!({
        "metadata": {
            "name": format!("web-{:06}-{:05x}", n / 10, n), "namespace": format!("ns-{}", n % 200), "uid": uid(1),
            "resourceVersion": (n + 10).to_string(), "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {"app": format!("web-{}", n % 500), "pod-template-hash": format!("{:010x}", n / 10), "tier": "backend"},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": format!("web-{:06}", n / 10), "uid": uid(2), "controller": true, "blockOwnerDeletion": true}],
        },
        "spec": {
            "containers": [container("app", 0), container("proxy", 1)],
            "nodeName": format!("node-{}", n % 5000), "serviceAccountName": "default", "restartPolicy": "Always",
            "volumes": [{"name": "token", "projected": {"sources": [{"serviceAccountToken": {"path": "token", "expirationSeconds": 3607}}]}}],
        },
        "status": {
            "phase": "Running", "podIP": format!("10.{}.{}.{}", n >> 16 & 255, n >> 8 & 255, n & 255), "hostIP": "192.168.0.1",
            "conditions": conditions,
            "containerStatuses": [status("app"), status("proxy")], "qosClass": "Burstable", "startTime": "2026-01-01T00:00:00Z",
        },
    })
}

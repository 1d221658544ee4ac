//! Encodings and compression that the program asks for, seen by a server between it and the embedded one.

use std::convert::Infallible;
use std::io::Write as _;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use embedded_apiserver::ApiService;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tower::Service;

use crate::support::{World, run};

const PODS: &str = "/api/v1/namespaces/default/pods";

/// Answers as the embedded server does, except that a list contains one pod with a field that no schema table has. Compresses with
/// gzip if the client accepts it.
struct Front {
    /// The path and `accept-encoding` of each request.
    asked: Arc<Mutex<Vec<String>>>,
    kubeconfig: std::path::PathBuf,
    _task: JoinSet<()>,
}

impl Front {
    async fn start(world: &World) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let kubeconfig = world.directory.path().join("front");
        write_kubeconfig(world, listener.local_addr().unwrap(), &kubeconfig);
        let (asked, server) = (Arc::<Mutex<Vec<String>>>::default(), world.server.service());
        let noted = asked.clone();
        let mut task = JoinSet::new();
        task.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((socket, _)) = listener.accept().await {
                let (noted, server) = (noted.clone(), server.clone());
                let service = service_fn(move |request: Request<Incoming>| {
                    let encoding = request.headers().get("accept-encoding");
                    let encoding = encoding.map_or("", |encoding| encoding.to_str().unwrap());
                    noted.lock().unwrap().push(format!("{} {encoding}", request.uri().path()));
                    answer(request, server.clone())
                });
                connections.spawn(async move {
                    let _ = http1::Builder::new().serve_connection(TokioIo::new(socket), service).await;
                });
            }
        });
        Self { asked, kubeconfig, _task: task }
    }

    async fn output(&self, world: &World, arguments: &[&str]) -> String {
        let mut command = world.command(arguments);
        command.env("KUBECONFIG", &self.kubeconfig);
        let ended = run(command).await;
        assert_eq!(ended.code, 0, "{arguments:?}: {ended:?}");
        ended.stdout
    }
}

fn write_kubeconfig(world: &World, address: SocketAddr, file: &std::path::Path) {
    let url = world.server.url().unwrap();
    let kubeconfig = world.server.kubeconfig().unwrap().replace(&url, &format!("http://{address}"));
    std::fs::write(file, kubeconfig).unwrap();
}

async fn answer(
    request: Request<Incoming>,
    mut server: ApiService,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let header = |name| request.headers().get(name).map_or("", |value| value.to_str().unwrap());
    let (gzip, accept) = (header("accept-encoding") == "gzip", header("accept"));
    let is_table = accept.contains("as=Table");
    let mut answer = if request.uri().path() != PODS || is_table {
        let (head, body) = request.into_parts();
        let body = Full::new(body.collect().await.unwrap().to_bytes());
        let (head, body) = server.call(Request::from_parts(head, body)).await.unwrap().into_parts();
        Response::from_parts(head, Full::new(body.collect().await.unwrap().to_bytes()))
    } else if accept.starts_with("application/vnd.kubernetes.protobuf") {
        with_type("application/vnd.kubernetes.protobuf", in_protobuf())
    } else {
        let list = serde_json::json!({"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "7"},
            "items": [{"metadata": {"name": "a", "uid": "u", "resourceVersion": "5"}, "future": "bright"}]});
        with_type("application/json", list.to_string().into_bytes())
    };
    if gzip {
        let body = answer.body().clone().collect().await.unwrap().to_bytes();
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        packed.write_all(&body).unwrap();
        *answer.body_mut() = Full::new(packed.finish().unwrap().into());
        answer.headers_mut().remove("content-length");
        answer.headers_mut().insert("content-encoding", http::HeaderValue::from_static("gzip"));
    }
    Ok(answer)
}

fn with_type(content_type: &str, body: Vec<u8>) -> Response<Full<Bytes>> {
    Response::builder().header("content-type", content_type).body(Full::new(body.into())).unwrap()
}

/// The same list: the field is number 99.
fn in_protobuf() -> Vec<u8> {
    let field = |number: u16, bytes: &[u8]| {
        let tag = number << 3 | 2;
        let tag = if tag < 0x80 { vec![tag as u8] } else { vec![tag as u8 | 0x80, (tag >> 7) as u8] };
        [&tag, &[u8::try_from(bytes.len()).unwrap()][..], bytes].concat()
    };
    let meta = [field(1, b"a"), field(5, b"u"), field(6, b"5")].concat();
    let pod = [field(1, &meta), field(99, b"bright")].concat();
    let list = [field(1, &field(2, b"7")), field(2, &pod)].concat();
    let types = [field(1, b"v1"), field(2, b"PodList")].concat();
    [b"k8s\0".to_vec(), field(1, &types), field(2, &list)].concat()
}

#[tokio::test]
async fn promise_13_get_prints_fields_that_the_schema_table_does_not_know() {
    let world = World::new().await;
    let front = Front::start(&world).await;
    for format in ["yaml", "json"] {
        let printed = front.output(&world, &["get", "pods", "-o", format]).await;
        assert!(printed.contains("future") && printed.contains("bright"), "{printed}");
    }
}

#[tokio::test]
async fn compress_asks_for_lists_in_gzip_and_prints_the_same() {
    let world = World::populated().await;
    let front = Front::start(&world).await;
    for arguments in [&["get", "pods", "-o", "name"][..], &["get", "pods", "--no-headers"]] {
        let plain = front.output(&world, arguments).await;
        assert!(!front.asked.lock().unwrap().iter().any(|asked| asked.ends_with("gzip")));
        let compressed = front.output(&world, &[arguments, &["--compress"]].concat()).await;
        assert_eq!(plain, compressed);
        let asked = std::mem::take(&mut *front.asked.lock().unwrap());
        assert!(asked.contains(&format!("{PODS} gzip")), "{asked:?}");
    }
}

//! A stub kubelet: the log of every container never ends, and every executed command is `cat`.

use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use futures::{StreamExt, stream};
use http::{Request, Response};
use http_body_util::{BodyExt, Empty, StreamBody, combinators::BoxBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::{net::TcpListener, task::JoinSet};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::{self, pki_types::PrivateKeyDer};

/// The first line of every log.
pub(crate) const LOG_LINE: &str = "started\n";

pub(crate) struct Kubelet {
    port: u16,
    _task: JoinSet<()>,
}

impl Kubelet {
    pub(crate) async fn start() -> Self {
        let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
        let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key)
            .unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let mut task = JoinSet::new();
        task.spawn(serve(listener, TlsAcceptor::from(Arc::new(config))));
        Self { port, _task: task }
    }

    /// The status of a node with this kubelet.
    pub(crate) fn node_status(&self) -> serde_json::Value {
        serde_json::json!({
            "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": self.port}},
        })
    }
}

async fn serve(listener: TcpListener, tls: TlsAcceptor) {
    let mut connections = JoinSet::new();
    while let Ok((socket, _)) = listener.accept().await {
        let tls = tls.clone();
        connections.spawn(async move {
            let Ok(stream) = tls.accept(socket).await else { return };
            let builder = hyper_util::server::conn::auto::Builder::new(TokioExecutor::new());
            let service = service_fn(answer);
            let _ = builder.serve_connection_with_upgrades(TokioIo::new(stream), service).await;
        });
    }
}

async fn answer(mut request: Request<Incoming>) -> Result<Response<BoxBody<Bytes, Infallible>>, Infallible> {
    let path = request.uri().path();
    if path.starts_with("/containerLogs/") {
        let line = stream::iter([Ok(Frame::data(Bytes::from(LOG_LINE)))]).chain(stream::pending());
        return Ok(Response::new(BodyExt::boxed(StreamBody::new(line))));
    }
    let nothing = BodyExt::boxed(Empty::new());
    let Some(protocol) = request.headers().get("upgrade").cloned().filter(|_| path.starts_with("/exec/"))
    else {
        let mut missing = Response::new(nothing);
        *missing.status_mut() = http::StatusCode::NOT_FOUND;
        return Ok(missing);
    };
    let upgrade = hyper::upgrade::on(&mut request);
    tokio::spawn(async move {
        let Ok(connection) = upgrade.await else { return };
        let (mut read, mut write) = tokio::io::split(TokioIo::new(connection));
        let _ = tokio::io::copy(&mut read, &mut write).await;
    });
    let mut taken_over = Response::new(nothing);
    *taken_over.status_mut() = http::StatusCode::SWITCHING_PROTOCOLS;
    taken_over.headers_mut().insert("connection", http::HeaderValue::from_static("upgrade"));
    taken_over.headers_mut().insert("upgrade", protocol);
    Ok(taken_over)
}

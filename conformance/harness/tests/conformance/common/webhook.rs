//! A conversion webhook for a custom resource with two versions: the field `size` of `v1` is `replicas` in `v2`.

use std::convert::Infallible;
use std::sync::Arc;

use base64::{Engine as _, prelude::BASE64_STANDARD};
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::{body::Incoming, service::service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::{Value, json};
use tokio::{net::TcpListener, task::JoinSet};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::{self, pki_types::PrivateKeyDer};

pub(crate) struct Webhook {
    url: String,
    certificate: String,
    _task: JoinSet<()>,
}

impl Webhook {
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
        let url = format!("https://{}/convert", listener.local_addr().unwrap());
        let mut task = JoinSet::new();
        task.spawn(serve(listener, TlsAcceptor::from(Arc::new(config))));
        Self { url, certificate: BASE64_STANDARD.encode(made.cert.pem()), _task: task }
    }

    /// The `conversion` of a definition that uses this webhook.
    pub(crate) fn conversion(&self) -> Value {
        let config = json!({"url": self.url, "caBundle": self.certificate});
        json!({"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"], "clientConfig": config}})
    }
}

async fn serve(listener: TcpListener, tls: TlsAcceptor) {
    let mut connections = JoinSet::new();
    while let Ok((socket, _)) = listener.accept().await {
        let tls = tls.clone();
        connections.spawn(async move {
            let Ok(stream) = tls.accept(socket).await else { return };
            let builder = hyper_util::server::conn::auto::Builder::new(TokioExecutor::new());
            let _ = builder.serve_connection(TokioIo::new(stream), service_fn(answer)).await;
        });
    }
}

async fn answer(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let body = request.into_body().collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    let mut review: Value = serde_json::from_slice(&body).unwrap_or_default();
    let asked = review["request"].take();
    let objects = asked["objects"].as_array().into_iter().flatten();
    let converted: Vec<_> = objects.map(|object| convert(object, &asked["desiredAPIVersion"])).collect();
    review["response"] =
        json!({"uid": asked["uid"], "convertedObjects": converted, "result": {"status": "Success"}});
    let answer = Response::new(Full::from(review.to_string()));
    Ok(answer)
}

fn convert(object: &Value, version: &Value) -> Value {
    let mut object = object.clone();
    object["apiVersion"] = version.clone();
    let (from, to) = match version.as_str() {
        Some("example.com/v2") => ("size", "replicas"),
        _ => ("replicas", "size"),
    };
    if let Some(spec) = object["spec"].as_object_mut()
        && let Some(value) = spec.remove(from)
    {
        spec.insert(to.to_owned(), value);
    }
    object
}

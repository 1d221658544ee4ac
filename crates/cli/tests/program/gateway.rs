//! A gateway in front of the embedded server that answers some requests itself, as broken proxies and servers do.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tower::Service;

use crate::support::World;

/// An answer of the gateway's own.
pub(crate) enum Canned {
    /// Status, headers, body.
    Answer(u16, Vec<(&'static str, &'static str)>, String),
    /// No answer, ever.
    Silence,
}

/// Decides about a request by its path with query and by the number of earlier decisions; `None` passes it on.
pub(crate) type Decide = dyn Fn(&str, usize) -> Option<Canned> + Send + Sync;

impl Canned {
    pub(crate) fn json(body: &str) -> Self {
        Self::Answer(200, vec![("content-type", "application/json")], body.to_owned())
    }

    pub(crate) fn status(code: u16, reason: &str, header: (&'static str, &'static str)) -> Self {
        let body = format!(
            r#"{{"apiVersion":"v1","kind":"Status","status":"Failure","reason":"{reason}","message":"canned {reason}","code":{code}}}"#
        );
        Self::Answer(code, vec![("content-type", "application/json"), header], body)
    }
}

/// Puts a gateway before the world's server, and points its kubeconfig there. It ends with the test's runtime.
pub(crate) async fn before(
    world: &World,
    decide: impl Fn(&str, usize) -> Option<Canned> + Send + Sync + 'static,
) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let kubeconfig = std::fs::read_to_string(world.kubeconfig()).unwrap();
    let kubeconfig = kubeconfig.replace(&world.server.url().unwrap(), &format!("http://{address}"));
    std::fs::write(world.kubeconfig(), kubeconfig).unwrap();
    let decide: Arc<Decide> = Arc::new(decide);
    let (count, service) = (Arc::new(AtomicUsize::new(0)), world.server.service());
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (decide, count, service) = (decide.clone(), count.clone(), service.clone());
            let answer = service_fn(move |request: Request<Incoming>| {
                let (decide, count, mut service) = (decide.clone(), count.clone(), service.clone());
                async move {
                    let target = request.uri().path_and_query().map_or_else(String::new, ToString::to_string);
                    match decide(&target, count.load(Ordering::SeqCst)) {
                        Some(canned) => {
                            count.fetch_add(1, Ordering::SeqCst);
                            Ok::<_, Infallible>(canned.response().await)
                        }
                        None => Ok(service.call(request).await.unwrap().map(BodyExt::boxed_unsync)),
                    }
                }
            });
            let connection = hyper::server::conn::http1::Builder::new();
            tokio::spawn(connection.serve_connection(TokioIo::new(stream), answer));
        }
    });
}

type BoxedBody = http_body_util::combinators::UnsyncBoxBody<Bytes, std::io::Error>;

impl Canned {
    async fn response(self) -> Response<BoxedBody> {
        let Self::Answer(code, headers, body) = self else { return std::future::pending().await };
        let mut response = Response::builder().status(code);
        for (name, value) in headers {
            response = response.header(name, value);
        }
        response.body(Full::from(body).map_err(|never| match never {}).boxed_unsync()).unwrap()
    }
}

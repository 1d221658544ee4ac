//! The HTTP side of `serve`: a handful of paths, bounded connections, and an orderly end.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE, WWW_AUTHENTICATE};
use http::{Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::AbortHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::{Served, browsers, report};
use crate::cluster::parse_duration;

/// Connections at the same time, at most. When another one comes, the oldest is closed: clients that read slowly or send
/// nothing must not keep a health check waiting.
const CONNECTIONS_MAX: usize = 256;
/// How long a client may take to send its request.
const REQUEST_TIME_MAX: Duration = Duration::from_secs(10);
/// How long answers that are under way may take once the program is to end.
const DRAIN_TIME_MAX: Duration = Duration::from_secs(5);
/// How long to wait when the system has no room for another connection.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

const TEXT: &str = "text/plain; charset=utf-8";
const METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The running server.
pub(super) struct Endpoint {
    tasks: TaskTracker,
    stop: CancellationToken,
}

impl Endpoint {
    pub(super) fn start(listener: TcpListener, served: Arc<Served>) -> Self {
        let endpoint = Self { tasks: TaskTracker::new(), stop: CancellationToken::new() };
        endpoint.tasks.spawn(accept(listener, served, endpoint.tasks.clone(), endpoint.stop.clone()));
        endpoint
    }

    /// Takes no more connections, lets answers that are under way be finished, and waits for that.
    pub(super) async fn shutdown(self) {
        self.stop.cancel();
        self.tasks.close();
        // Whoever reads too slowly is cut off by the end of the program.
        let _ = tokio::time::timeout(DRAIN_TIME_MAX, self.tasks.wait()).await;
    }
}

async fn accept(listener: TcpListener, served: Arc<Served>, tasks: TaskTracker, stop: CancellationToken) {
    let mut connections = VecDeque::<AbortHandle>::new();
    loop {
        let accepted = tokio::select! {
            biased;
            () = stop.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        let Ok((stream, _)) = accepted else {
            tokio::time::sleep(ACCEPT_RETRY).await;
            continue;
        };
        connections.retain(|connection| !connection.is_finished());
        if connections.len() >= CONNECTIONS_MAX
            && let Some(oldest) = connections.pop_front()
        {
            oldest.abort();
        }
        let connection = tasks.spawn(serve(stream, served.clone(), stop.clone()));
        connections.push_back(connection.abort_handle());
    }
}

async fn serve(stream: TcpStream, served: Arc<Served>, stop: CancellationToken) {
    let service = service_fn(move |request: Request<hyper::body::Incoming>| {
        let answer = answer(&request, &served);
        async move { Ok::<_, Infallible>(answer) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(REQUEST_TIME_MAX)
        .serve_connection(TokioIo::new(stream), service);
    tokio::pin!(connection);
    // An error is the client's: it has gone, or sent no HTTP.
    tokio::select! {
        biased;
        _ = connection.as_mut() => return,
        () = stop.cancelled() => connection.as_mut().graceful_shutdown(),
    }
    let _ = connection.await;
}

fn answer<B>(request: &Request<B>, served: &Served) -> Response<Full<Bytes>> {
    let path = request.uri().path();
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return plain(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD are answered\n");
    }
    match path {
        "/livez" => plain(StatusCode::OK, "ok\n"),
        "/readyz" | "/healthz" => health(request.uri().query().unwrap_or_default(), served),
        "/metrics" | "/debug/informers" if let Err(refusal) = browsers::check(request.headers(), served) => {
            plain(StatusCode::FORBIDDEN, refusal)
        }
        "/metrics" | "/debug/informers" if !is_admitted(request, served) => {
            let mut refusal = plain(StatusCode::UNAUTHORIZED, "send the token: Authorization: Bearer …\n");
            refusal.headers_mut().insert(WWW_AUTHENTICATE, http::HeaderValue::from_static("Bearer"));
            refusal
        }
        "/metrics" => metrics(served),
        "/debug/informers" => {
            let text = format!("{:#}\n", report::informers(&served.mirrors));
            respond(StatusCode::OK, "application/json", text)
        }
        _ => plain(
            StatusCode::NOT_FOUND,
            "there are /metrics, /healthz, /livez, /readyz and /debug/informers\n",
        ),
    }
}

/// Ready is a mirror that has the initial state of every kind and, with `max-age`, has had a watch open within that time.
fn health(query: &str, served: &Served) -> Response<Full<Bytes>> {
    let max_age = form_urlencoded::parse(query.as_bytes()).find(|(name, _)| name == "max-age");
    let max_age = match max_age.map(|(_, value)| parse_duration(&value)) {
        None => None,
        Some(Ok(max_age)) => Some(max_age),
        Some(Err(why)) => return plain(StatusCode::BAD_REQUEST, &format!("max-age: {why}\n")),
    };
    let unsynced = served.unsynced();
    if !unsynced.is_empty() {
        return plain(StatusCode::SERVICE_UNAVAILABLE, &format!("not synced: {}\n", unsynced.join(", ")));
    }
    let stale = max_age.map(|max_age| served.stale(max_age)).unwrap_or_default();
    if !stale.is_empty() {
        return plain(StatusCode::SERVICE_UNAVAILABLE, &format!("stale: {}\n", stale.join(", ")));
    }
    plain(StatusCode::OK, "ok\n")
}

fn metrics(served: &Served) -> Response<Full<Bytes>> {
    let mut text = String::new();
    match prometheus_client::encoding::text::encode(&mut text, &served.registry) {
        Ok(()) => respond(StatusCode::OK, METRICS, text),
        Err(error) => plain(StatusCode::INTERNAL_SERVER_ERROR, &format!("{error}\n")),
    }
}

fn is_admitted<B>(request: &Request<B>, served: &Served) -> bool {
    let Some(token) = &served.token else { return true };
    let given = request.headers().get(AUTHORIZATION).and_then(|header| {
        // The scheme is case-insensitive.
        let (scheme, given) = header.as_bytes().split_at_checked(b"Bearer ".len())?;
        scheme.eq_ignore_ascii_case(b"Bearer ").then_some(given)
    });
    // Takes as long for a token that is nearly right as for one that is all wrong.
    given.is_some_and(|given| {
        given.len() == token.len()
            && given.iter().zip(token.bytes()).fold(0, |seen, (a, b)| seen | (a ^ b)) == 0
    })
}

fn plain(status: StatusCode, text: &str) -> Response<Full<Bytes>> {
    respond(status, TEXT, text.to_owned())
}

fn respond(status: StatusCode, content_type: &'static str, text: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(text));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, http::HeaderValue::from_static(content_type));
    response
}

//! The HTTP side of `serve`: a handful of routes, bounded connections, and an orderly end.
//!
//! axum routes and answers. Connections are accepted here, because `axum::serve` limits neither their number nor the time
//! that a client takes to send its request.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{RawQuery, Request, State};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use http::header::{AUTHORIZATION, CONTENT_TYPE, WWW_AUTHENTICATE};
use http::{HeaderMap, Method, StatusCode};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::AbortHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::{Served, browsers, report};
use crate::cluster::parse_duration;

/// Concurrent connections, at most. When another one comes, the oldest is closed: clients that read slowly or send
/// nothing must not keep a health check waiting.
const CONNECTIONS_MAX: usize = 256;
/// How long a client may take to send its request.
const REQUEST_TIME_MAX: Duration = Duration::from_secs(10);
/// How long pending answers may take once the program is to end.
const DRAIN_TIME_MAX: Duration = Duration::from_secs(5);
/// How long to wait when the system cannot accept another connection.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

const METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The running server.
pub(super) struct Endpoint {
    tasks: TaskTracker,
    stop: CancellationToken,
}

impl Endpoint {
    pub(super) fn start(listener: TcpListener, served: Arc<Served>) -> Self {
        let endpoint = Self { tasks: TaskTracker::new(), stop: CancellationToken::new() };
        endpoint.tasks.spawn(accept(listener, router(served), endpoint.tasks.clone(), endpoint.stop.clone()));
        endpoint
    }

    /// Takes no more connections and waits for pending answers.
    pub(super) async fn shutdown(self) {
        self.stop.cancel();
        self.tasks.close();
        // A client that reads too slowly is cut off by the end of the program.
        let _ = tokio::time::timeout(DRAIN_TIME_MAX, self.tasks.wait()).await;
    }
}

async fn accept(listener: TcpListener, router: Router, tasks: TaskTracker, stop: CancellationToken) {
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
        let connection = tasks.spawn(serve(stream, router.clone(), stop.clone()));
        connections.push_back(connection.abort_handle());
    }
}

async fn serve(stream: TcpStream, router: Router, stop: CancellationToken) {
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(REQUEST_TIME_MAX)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    tokio::pin!(connection);
    // An error is the client's: it has gone, or sent something other than HTTP.
    tokio::select! {
        biased;
        _ = connection.as_mut() => return,
        () = stop.cancelled() => connection.as_mut().graceful_shutdown(),
    }
    let _ = connection.await;
}

fn router(served: Arc<Served>) -> Router {
    Router::new()
        .route("/metrics", get(metrics))
        .route("/debug/informers", get(informers))
        .route_layer(middleware::from_fn_with_state(served.clone(), admit))
        // Probes come with any Host and without a token.
        .route("/livez", get("ok\n"))
        .route("/readyz", get(health))
        .route("/healthz", get(health))
        .fallback((
            StatusCode::NOT_FOUND,
            "there are /metrics, /healthz, /livez, /readyz and /debug/informers\n",
        ))
        .layer(middleware::from_fn(read_only))
        .with_state(served)
}

async fn read_only(request: Request, next: Next) -> Response {
    match *request.method() {
        Method::GET | Method::HEAD => next.run(request).await,
        _ => (StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD are answered\n").into_response(),
    }
}

/// Refuses pages from elsewhere, and clients without the token.
async fn admit(State(served): State<Arc<Served>>, request: Request, next: Next) -> Response {
    if let Err(refusal) = browsers::check(request.headers(), &served) {
        return (StatusCode::FORBIDDEN, refusal).into_response();
    }
    if !has_token(request.headers(), served.token.as_deref()) {
        let refusal = "send the token: Authorization: Bearer …\n";
        return (StatusCode::UNAUTHORIZED, [(WWW_AUTHENTICATE, "Bearer")], refusal).into_response();
    }
    next.run(request).await
}

/// Ready is a mirror that has the initial state of every kind and, with `max-age`, has had a watch open within that time.
async fn health(State(served): State<Arc<Served>>, RawQuery(query): RawQuery) -> (StatusCode, String) {
    let query = query.unwrap_or_default();
    let max_age = form_urlencoded::parse(query.as_bytes()).find(|(name, _)| name == "max-age");
    let max_age = match max_age.map(|(_, value)| parse_duration(&value)).transpose() {
        Ok(max_age) => max_age,
        Err(why) => return (StatusCode::BAD_REQUEST, format!("max-age: {why}\n")),
    };
    let unsynced = served.unsynced();
    let stale = max_age.map(|max_age| served.stale(max_age)).unwrap_or_default();
    match (&unsynced[..], &stale[..]) {
        ([], []) => (StatusCode::OK, "ok\n".to_owned()),
        ([], stale) => (StatusCode::SERVICE_UNAVAILABLE, format!("stale: {}\n", stale.join(", "))),
        (unsynced, _) => (StatusCode::SERVICE_UNAVAILABLE, format!("not synced: {}\n", unsynced.join(", "))),
    }
}

async fn metrics(State(served): State<Arc<Served>>) -> Response {
    let mut text = String::new();
    match prometheus_client::encoding::text::encode(&mut text, &served.registry) {
        Ok(()) => ([(CONTENT_TYPE, METRICS)], text).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")).into_response(),
    }
}

async fn informers(State(served): State<Arc<Served>>) -> impl IntoResponse {
    ([(CONTENT_TYPE, "application/json")], format!("{:#}\n", report::informers(&served.mirrors)))
}

fn has_token(headers: &HeaderMap, token: Option<&str>) -> bool {
    let Some(token) = token else { return true };
    let given = headers.get(AUTHORIZATION).and_then(|header| {
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

//! The routes, and the headers of every response.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, put};
use http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY, WWW_AUTHENTICATE,
    X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use http::{HeaderName, HeaderValue, Method, StatusCode};

use super::endpoint::Admitted;
use super::{
    Access, Refusal, Served, assets, change, counts, feed, graph, health, informers, listing, object,
    playground, report,
};

/// Forbids scripts, styles, images and requests of other origins, inline scripts and styles, and framing. Text cannot become
/// markup: with trusted types, `innerHTML` throws.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
    base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'";

const HEADERS: [(HeaderName, &str); 8] = [
    (CONTENT_SECURITY_POLICY, POLICY),
    (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (X_FRAME_OPTIONS, "DENY"),
    (REFERRER_POLICY, "no-referrer"),
    (CACHE_CONTROL, "no-store"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("permissions-policy"), "camera=(), geolocation=(), microphone=()"),
];

const NO_SUCH_PATH: &str =
    "there are / (the page), /api/v1, /metrics, /healthz, /livez, /readyz and /debug/informers\n";

pub(super) fn router(served: Arc<Served>) -> Router {
    let data = Router::new()
        .route("/metrics", get(health::metrics))
        .route("/debug/informers", get(report::debug))
        .route("/api/v1", get(informers::index))
        .route("/api/v1/informers", get(informers::informers))
        .route("/api/v1/objects/{resource}", get(listing::list))
        .route("/api/v1/objects/{resource}/{first}", get(object::object))
        .route("/api/v1/objects/{resource}/{first}/{second}", get(object::object))
        .route("/api/v1/counts/{resource}", get(counts::counts))
        .route("/api/v1/history/{resource}/{first}", get(object::history))
        .route("/api/v1/history/{resource}/{first}/{second}", get(object::history))
        .route("/api/v1/indexes/{resource}/{first}", get(object::indexes))
        .route("/api/v1/indexes/{resource}/{first}/{second}", get(object::indexes))
        .route("/api/v1/graph/{resource}/{first}", get(graph::graph))
        .route("/api/v1/graph/{resource}/{first}/{second}", get(graph::graph))
        .route("/api/v1/changes/{id}", get(change::change))
        .route("/api/v1/stream", get(feed::stream))
        .route("/api/v1/demo", get(playground::show))
        .route("/api/v1/demo/faults/{name}", put(playground::arm).delete(playground::disarm))
        .route_layer(middleware::from_fn_with_state(served.clone(), admit));
    let page = Router::new()
        .route("/", get(assets::index))
        .route("/assets/{name}", get(assets::asset))
        .route_layer(middleware::from_fn_with_state(served.clone(), admit_page));
    data.merge(page)
        // Probes send any Host and no token.
        .route("/livez", get("ok\n"))
        .route("/readyz", get(health::health))
        .route("/healthz", get(health::health))
        .fallback((StatusCode::NOT_FOUND, NO_SUCH_PATH))
        .layer(middleware::from_fn_with_state(served.clone(), read_only))
        .layer(middleware::from_fn(with_headers))
        .with_state(served)
}

/// Rejects methods other than GET and HEAD, except for the faults of the demo's server.
async fn read_only(State(served): State<Arc<Served>>, request: Request, next: Next) -> Response {
    let is_read = [Method::GET, Method::HEAD].contains(request.method());
    let is_demo = served.playground.is_some() && request.uri().path().starts_with("/api/v1/demo/");
    match is_read || is_demo {
        true => next.run(request).await,
        false => Refusal::method_not_allowed("only GET and HEAD are allowed").into_response(),
    }
}

/// Refuses pages of other origins, and clients without the token.
async fn admit(State(served): State<Arc<Served>>, request: Request, next: Next) -> Response {
    let headers = request.headers();
    let checked = served
        .access
        .check_origin(headers)
        .and_then(|()| Access::check_site(headers))
        .and_then(|()| served.access.check_token(headers));
    match checked {
        Ok(()) => {
            if let Some(admitted) = request.extensions().get::<Admitted>() {
                admitted.set();
            }
            next.run(request).await
        }
        Err(refusal) if refusal.code == StatusCode::UNAUTHORIZED => {
            ([(WWW_AUTHENTICATE, "Bearer")], refusal).into_response()
        }
        Err(refusal) => refusal.into_response(),
    }
}

/// The page's files contain no data: they need no token, but an accepted `Host`.
async fn admit_page(State(served): State<Arc<Served>>, request: Request, next: Next) -> Response {
    match served.access.check_origin(request.headers()) {
        Ok(()) => next.run(request).await,
        Err(refusal) => refusal.into_response(),
    }
}

async fn with_headers(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    for (name, value) in HEADERS {
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    }
    response
}

/// A JSON response.
pub(super) fn json(value: &serde_json::Value) -> Response {
    let text = format!("{}\n", crate::terminal::escape::json(&value.to_string()));
    ([(CONTENT_TYPE, "application/json")], text).into_response()
}

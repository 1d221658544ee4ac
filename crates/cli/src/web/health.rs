//! Health checks and metrics, for probes and Prometheus.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{RawQuery, State};
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use http::header::CONTENT_TYPE;

use super::Served;
use crate::cluster::parse_duration;
use crate::mirror::Mirror;

const METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Ready means that every kind is synced and, with `max-age`, had an open watch within that time in each of its namespaces.
pub(super) async fn health(
    State(served): State<Arc<Served>>,
    RawQuery(query): RawQuery,
) -> (StatusCode, String) {
    let query = query.unwrap_or_default();
    let max_age = form_urlencoded::parse(query.as_bytes()).find(|(name, _)| name == "max-age");
    let max_age = match max_age.map(|(_, value)| parse_duration(&value)).transpose() {
        Ok(max_age) => max_age,
        Err(why) => return (StatusCode::BAD_REQUEST, format!("max-age: {why}\n")),
    };
    let unsynced = unsynced(&served.mirrors);
    let stale = max_age.map(|max_age| stale(&served.mirrors, max_age)).unwrap_or_default();
    match (&unsynced[..], &stale[..]) {
        ([], []) => (StatusCode::OK, "ok\n".to_owned()),
        ([], stale) => (StatusCode::SERVICE_UNAVAILABLE, format!("stale: {}\n", stale.join(", "))),
        (unsynced, _) => (StatusCode::SERVICE_UNAVAILABLE, format!("not synced: {}\n", unsynced.join(", "))),
    }
}

pub(super) async fn metrics(State(served): State<Arc<Served>>) -> Response {
    let mut text = String::new();
    match prometheus_client::encoding::text::encode(&mut text, &served.registry) {
        Ok(()) => ([(CONTENT_TYPE, METRICS)], text).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")).into_response(),
    }
}

/// The kinds that have had no open watch for longer than this, in one of their namespaces.
fn stale(mirrors: &[Mirror], max_age: Duration) -> Vec<String> {
    let ages = mirrors.iter().map(|mirror| (mirror, mirror.unwatched_for()));
    let stale = ages.filter(|(_, age)| *age > max_age);
    let name = |(mirror, age): (&Mirror, Duration)| {
        format!("{} (no watch for {} s)", mirror.selected.kind.qualified(), age.as_secs())
    };
    stale.map(name).collect()
}

/// The kinds that are not synced.
fn unsynced(mirrors: &[Mirror]) -> Vec<String> {
    let unsynced = mirrors.iter().filter(|mirror| !mirror.informer.is_synced());
    unsynced.map(|mirror| mirror.selected.kind.qualified()).collect()
}

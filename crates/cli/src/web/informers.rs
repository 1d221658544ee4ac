//! `GET /api/v1/informers`: the state and the counters of each informer, controller and replica; `GET /api/v1`: the resources and paths.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use kube_informer::ScopeStatus;
use kube_informer::building_blocks::{ReflectorState, ReflectorStatus};
use serde_json::{Value, json};

use super::{Served, routes, scopes};
use crate::handler_lag::HandlerLag;
use crate::mirror::Mirror;

const PATHS: [&str; 9] = [
    "/api/v1/informers",
    "/api/v1/objects/RESOURCE",
    "/api/v1/objects/RESOURCE/[NAMESPACE/]NAME",
    "/api/v1/counts/RESOURCE?by=PATH",
    "/api/v1/history/RESOURCE/[NAMESPACE/]NAME",
    "/api/v1/indexes/RESOURCE/[NAMESPACE/]NAME",
    "/api/v1/graph/RESOURCE/[NAMESPACE/]NAME",
    "/api/v1/changes/ID",
    "/api/v1/stream",
];

/// The resources and paths of the API.
pub(super) async fn index(State(served): State<Arc<Served>>) -> Response {
    let resource = |mirror: &Mirror| {
        let kind = &mirror.selected.kind;
        json!({"name": kind.qualified(), "kind": kind.resource.kind, "group": kind.resource.group,
            "version": kind.resource.version, "namespaced": kind.namespaced})
    };
    routes::json(&json!({
        "version": env!("CARGO_PKG_VERSION"),
        "session": served.journal.session(),
        "demo": served.playground.is_some(),
        "resources": served.mirrors.iter().map(resource).collect::<Vec<_>>(),
        "paths": PATHS,
    }))
}

pub(super) async fn informers(State(served): State<Arc<Served>>) -> Response {
    let informer = |number: usize| {
        let mut informer = status(&served, number);
        merge(&mut informer, served.timelines.past(number));
        informer
    };
    let informers: Vec<_> = (0..served.mirrors.len()).map(informer).collect();
    routes::json(&json!({
        "informers": informers,
        "controllers": served.timelines.controllers_with_past(),
        "sharing": served.timelines.sharing(),
    }))
}

/// The figures that change often; the stream sends them every second.
pub(super) fn status(served: &Served, number: usize) -> Value {
    let mirror = &served.mirrors[number];
    let informer = &mirror.informer;
    let view = informer.lister().view();
    let snapshot = view.snapshot();
    let scopes = informer.status();
    let sum = |of: fn(&ReflectorStatus) -> u64| scopes.iter().map(|scope| of(scope.reflector())).sum::<u64>();
    let is_watching = |scope: &&ScopeStatus| matches!(scope.reflector().state, ReflectorState::Watching);
    let handler = |handler: Arc<HandlerLag>| {
        json!({
            "name": handler.name,
            "delivered": handler.delivered(),
            "lag": handler.pending(),
            "coalesced": handler.coalesced(),
        })
    };
    let mut status = json!({
        "number": number,
        "resource": mirror.selected.kind.qualified(),
        "kind": mirror.selected.kind.resource.kind,
        "name": mirror.selected.name,
        "synced": informer.is_synced(),
        "objects": snapshot.len(),
        "storedBytes": snapshot.stored_bytes(),
        "received": {
            "objects": mirror.traffic.objects(),
            "events": mirror.traffic.events(),
            "bookmarks": mirror.traffic.bookmarks(),
        },
        "resourceVersion": {
            "received": scopes::oldest(scopes.iter().map(|scope| scope.resource_version.as_str())),
            "stored": scopes::stored_version(mirror, snapshot),
        },
        "scopes": {"count": scopes.len(), "watching": scopes.iter().filter(is_watching).count()},
        "lists": sum(|reflector| reflector.complete_lists),
        "watches": sum(|reflector| reflector.watches),
        "errors": sum(scopes::errors),
        "handlers": mirror.handlers.all().into_iter().map(handler).collect::<Vec<_>>(),
        "indexes": snapshot.indexes().collect::<Vec<_>>(),
    });
    merge(&mut status, served.timelines.present(number));
    status
}

fn merge(into: &mut Value, from: Value) {
    if let (Value::Object(into), Value::Object(from)) = (into, from) {
        into.extend(from);
    }
}

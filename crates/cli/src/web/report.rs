//! `/debug/informers`: the state of each informer, its resourceVersion, the age of its last event, and a checksum of its objects; and
//! the slots of replicas that share work.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::response::IntoResponse;
use http::header::CONTENT_TYPE;
use kube_informer::{InformerState, ScopeStatus, StoredObject};
use serde_json::{Value, json};

use super::{Served, gauges, scopes};
use crate::mirror::Mirror;
use crate::terminal::escape;

/// All informers, and the replicas that share work, as JSON.
pub(super) async fn debug(State(served): State<Arc<Served>>) -> impl IntoResponse {
    let informers: Vec<_> = served.mirrors.iter().map(informer).collect();
    let sharing = gauges::read(&served.registry).sharing();
    let report = json!({"informers": informers, "sharing": sharing});
    // Errors quote the server, and `curl` prints them on a terminal.
    let text = format!("{report:#}\n");
    ([(CONTENT_TYPE, "application/json")], escape::json(&text).into_owned())
}

fn informer(mirror: &Mirror) -> Value {
    let informer = &mirror.informer;
    let view = informer.lister().view();
    let snapshot = view.snapshot();
    let state = match informer.state() {
        InformerState::Degraded(_) => "degraded".to_owned(),
        state => state.to_string(),
    };
    let scope = |scope: ScopeStatus| {
        let reflector = scope.reflector();
        json!({
            "namespace": scope.namespace,
            "state": reflector.state.to_string(),
            "received": scope.resource_version,
            "stored": snapshot.resource_version(scope.scope),
            "epoch": reflector.epoch,
            "lastError": reflector.last_error.as_ref().map(|error| error.to_string()),
        })
    };
    let status = informer.status();
    let stored = scopes::stored_version(mirror, snapshot);
    let traffic = &mirror.traffic;
    json!({
        "resource": mirror.selected.kind.qualified(),
        "version": mirror.selected.kind.resource.version,
        "state": state,
        "synced": informer.is_synced(),
        "resourceVersion": stored,
        "objects": snapshot.len(),
        "storedBytes": snapshot.stored_bytes(),
        "checksum": format!("{:016x}", checksum(snapshot.iter())),
        "eventsReceived": traffic.events(),
        "bookmarksReceived": traffic.bookmarks(),
        "lastEventAgeSeconds": seconds(traffic.last_event_age()),
        "lastBookmarkAgeSeconds": seconds(traffic.last_bookmark_age()),
        "scopes": status.into_iter().map(scope).collect::<Vec<_>>(),
    })
}

/// A checksum of objects and their states, independent of the order. Mirrors with the same checksum hold the same objects.
fn checksum<'o>(objects: impl Iterator<Item = &'o StoredObject>) -> u64 {
    let one = |object: &StoredObject| {
        let parts = [object.namespace(), object.name(), object.uid(), object.resource_version()];
        // FNV-1a: small, and the same on every machine.
        let bytes = parts.iter().flat_map(|part| part.bytes().chain([0]));
        bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        })
    };
    objects.map(one).fold(0, u64::wrapping_add)
}

fn seconds(age: Option<Duration>) -> Option<f64> {
    age.map(|age| (age.as_secs_f64() * 1000.0).round() / 1000.0)
}

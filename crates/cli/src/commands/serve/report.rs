//! What `/debug/informers` shows: each informer's state, how far it has come, how fresh it is, and a checksum of what it holds.

use std::time::Duration;

use kube_informer::building_blocks::StoredObject;
use kube_informer::{InformerState, ScopeStatus};
use serde_json::{Value, json};

use crate::mirror::Mirror;

/// All informers, as JSON.
pub(super) fn informers(mirrors: &[Mirror]) -> Value {
    json!({"informers": mirrors.iter().map(informer).collect::<Vec<_>>()})
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
        json!({
            "namespace": scope.namespace,
            "state": scope.reflector.state.to_string(),
            "received": scope.resource_version,
            "stored": snapshot.resource_version(scope.scope),
            "epoch": scope.reflector.epoch,
            "lastError": scope.reflector.last_error.map(|error| error.to_string()),
        })
    };
    let status = informer.status();
    let stored = status.first().map_or("", |scope| snapshot.resource_version(scope.scope)).to_owned();
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

/// The same for the same objects in the same states, in whatever order: two mirrors with the same checksum agree.
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

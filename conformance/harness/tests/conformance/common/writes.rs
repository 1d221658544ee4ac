//! Writes to many config maps, several concurrently.

use futures::{TryStreamExt, stream};
use kube_client::Client;
use serde_json::json;

use super::MAPS;

/// The number of concurrent writes.
const CONCURRENT: usize = 16;

/// A write to the map with this number.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Change {
    Create(usize, usize),
    Update(usize, usize),
    Delete(usize),
}

/// Deletes a tenth of the maps, creates a tenth again and updates three tenths; which ones depends on the round.
pub(crate) fn churn(round: usize, present: &mut Vec<usize>, objects: usize) -> Vec<Change> {
    let mut changes = Vec::new();
    for n in 0..objects {
        let there = present.binary_search(&n);
        match ((n * 7 + round * 13) % 10, there) {
            (0, Ok(at)) => {
                present.remove(at);
                changes.push(Change::Delete(n));
            }
            (0 | 1, Err(at)) => {
                present.insert(at, n);
                changes.push(Change::Create(n, round % 10));
            }
            (2..5, Ok(_)) => changes.push(Change::Update(n, round)),
            _ => {}
        }
    }
    changes
}

/// Sends changes, several concurrently. No map may occur twice.
pub(crate) async fn write(client: &Client, changes: impl IntoIterator<Item = Change>) {
    let sent = stream::iter(changes.into_iter().map(Ok::<_, ()>));
    sent.try_for_each_concurrent(CONCURRENT, async |change| {
        let body = |value: &serde_json::Value| value.to_string().into_bytes().into();
        let name = |n: usize| format!("map-{n}");
        let request = match change {
            Change::Create(n, group) => {
                let labels = json!({"group": format!("g{group}")});
                let data = json!({"number": n.to_string(), "text": "x".repeat(300)});
                let map = json!({"metadata": {"name": name(n), "labels": labels}, "data": data});
                http::Request::post(MAPS).header("content-type", "application/json").body(body(&map))
            }
            Change::Update(n, value) => http::Request::patch(format!("{MAPS}/{}", name(n)))
                .header("content-type", "application/merge-patch+json")
                .body(body(&json!({"data": {"changed": value.to_string()}}))),
            Change::Delete(n) => http::Request::delete(format!("{MAPS}/{}", name(n))).body(Vec::new().into()),
        };
        let answer = client.send(request.unwrap()).await.unwrap();
        assert!(answer.status().is_success(), "{change:?}: {}", answer.status());
        Ok(())
    })
    .await
    .unwrap();
}

/// Creates this many maps, in ten groups.
pub(crate) fn create(objects: usize) -> impl Iterator<Item = Change> {
    (0..objects).map(|n| Change::Create(n, n % 10))
}

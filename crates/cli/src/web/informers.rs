//! `GET /api/v1/informers`: the state and the counters of each informer, controller and replica; `GET /api/v1`: the resources and paths.

use std::sync::Arc;

use axum::extract::{RawQuery, State};
use axum::response::Response;
use kube_informer::ScopeStatus;
use kube_informer::building_blocks::{ReflectorState, ReflectorStatus};
use serde_json::{Value, json};

use super::change::compared;
use super::params::Params;
use super::{Refusal, Served, routes, scopes};
use crate::handler_lag::HandlerLag;
use crate::mirror::Mirror;

/// The latest time of `since`, in Unix time in milliseconds: the end of the year 9999.
const TIME_MAX: usize = 253_402_300_799_999;

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

/// The requested informers with their past. Hundreds of timelines take a while to write: not on a thread that serves other requests.
pub(super) async fn informers(
    State(served): State<Arc<Served>>,
    RawQuery(query): RawQuery,
) -> Result<Response, Refusal> {
    let mut params = Params::parse(query.as_deref())?;
    let mut numbers = params.numbers("number", served.mirrors.len().saturating_sub(1))?;
    let since = params.number("since", TIME_MAX)?;
    params.finish()?;
    if numbers.is_empty() {
        numbers.extend(0..served.mirrors.len());
    }
    numbers.sort_unstable();
    numbers.dedup();
    let since = since.and_then(|since| i64::try_from(since).ok());
    let report = compared(&served, move |served| {
        let (pasts, omitted) = served.timelines.pasts(&numbers, since);
        let informer = |(number, past): (usize, Value)| {
            let mut informer = status(served, number);
            merge(&mut informer, past);
            informer
        };
        json!({
            "informers": numbers.into_iter().zip(pasts).map(informer).collect::<Vec<_>>(),
            "omitted": omitted,
            "controllers": served.timelines.controllers_with_past(),
            "sharing": served.timelines.sharing(),
        })
    });
    Ok(routes::json(&report.await?))
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

#[cfg(test)]
mod tests {
    use super::super::testing;
    use super::super::timeline::{PASTS_BYTES_MAX, SEGMENTS_MAX};
    use super::*;

    async fn ask(served: &Arc<Served>, query: &str) -> Result<(usize, Value), Refusal> {
        let response = informers(State(served.clone()), RawQuery(Some(query.to_owned()))).await?;
        let body = axum::body::to_bytes(response.into_body(), usize::MAX).await.unwrap();
        Ok((body.len(), serde_json::from_slice(&body).unwrap()))
    }

    fn numbers(report: &Value) -> Vec<u64> {
        let informers = report["informers"].as_array().unwrap();
        informers.iter().map(|informer| informer["number"].as_u64().unwrap()).collect()
    }

    /// The number of states of each informer.
    fn states(report: &Value) -> Vec<usize> {
        let informers = report["informers"].as_array().unwrap();
        informers.iter().map(|informer| informer["timeline"].as_array().unwrap().len()).collect()
    }

    #[tokio::test]
    async fn a_client_can_ask_for_some_informers_and_for_newer_states() {
        let (_server, served) = testing::mirrors(5).await;
        for (number, second) in [(1, 10), (1, 20), (3, 15), (3, 20), (3, 30)] {
            served.timelines.add_failure(number, second, "503");
        }
        let (_, all) = ask(&served, "").await.unwrap();
        assert_eq!(
            (numbers(&all), states(&all), &all["omitted"]),
            (vec![0, 1, 2, 3, 4], vec![0, 2, 0, 3, 0], &json!(0))
        );
        let (_, some) = ask(&served, "number=3&number=1&number=3").await.unwrap();
        assert_eq!((numbers(&some), states(&some)), (vec![1, 3], vec![2, 3]));
        assert_eq!(some["informers"][1]["timeline"][0]["since"], 15_000);
        let (_, newer) = ask(&served, "number=3&since=20000").await.unwrap();
        assert_eq!((numbers(&newer), states(&newer)), (vec![3], vec![2]));
        let (_, none) = ask(&served, "since=30001").await.unwrap();
        assert_eq!(states(&none), [0; 5]);
        for (query, message) in [
            ("number=5", "give a number from 0 to 4"),
            ("number=x", "invalid number"),
            ("since=yesterday", "invalid since"),
            ("since=1&since=2", "more than once"),
            ("kind=pods", "unknown parameter"),
        ] {
            let refusal = ask(&served, query).await.unwrap_err();
            assert!(refusal.message.contains(message), "{query}: {}", refusal.message);
        }
    }

    #[tokio::test]
    async fn timelines_that_are_long_are_cut_to_their_newest_states() {
        const KINDS: usize = 60;
        let (_server, served) = testing::mirrors(KINDS).await;
        let (figures, _) = ask(&served, "").await.unwrap();
        // Each control character takes six bytes.
        let reason = format!("503 {}", "\u{7f}".repeat(80));
        for number in 0..KINDS - 1 {
            (0..300).for_each(|second| served.timelines.add_failure(number, second, &reason));
        }
        served.timelines.add_failure(KINDS - 1, 1, &reason);
        let (bytes, all) = ask(&served, "").await.unwrap();
        // The current state of each informer is outside of its timeline.
        assert!(bytes - figures < PASTS_BYTES_MAX + KINDS * 1000, "{bytes}");
        let kept = states(&all);
        assert_eq!(
            kept[KINDS - 1],
            1,
            "the only state of an informer is not displaced by the many of others"
        );
        let (least, most) = (kept[..KINDS - 1].iter().min().unwrap(), kept.iter().max().unwrap());
        assert!(*least >= 4 && most - least <= 1, "{kept:?}");
        let total = (KINDS - 1) * SEGMENTS_MAX + 1;
        assert_eq!(all["omitted"], total - kept.iter().sum::<usize>());
        assert_eq!(all["informers"][0]["timeline"][kept[0] - 1]["since"], 299_000, "the newest are kept");
        // One informer alone is complete.
        let (_, one) = ask(&served, "number=7").await.unwrap();
        assert_eq!((states(&one), &one["omitted"]), (vec![SEGMENTS_MAX], &json!(0)));
    }
}

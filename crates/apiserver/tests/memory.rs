//! The server's memory is bounded and released when no longer needed. Measured by counting allocations.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod hostile_http2;
mod support;

use std::sync::Arc;

use bytes::Bytes;
use embedded_apiserver::{ApiBody, Server};
use futures::FutureExt as _;
use http::Request;
use http_body_util::{BodyExt as _, Empty};
use peak_alloc::PeakAlloc;
use serde_json::{Value, json};
use support::Session;
use tokio::sync::{Mutex, MutexGuard};
use tower::ServiceExt as _;

#[global_allocator]
static ALLOCATED: PeakAlloc = PeakAlloc;

/// All tests of this file share one allocator counter, so they run one at a time.
static TURN: Mutex<()> = Mutex::const_new(());

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const LARGE_BYTES: usize = 128 << 10;
const CHANGES: usize = 60;

async fn turn() -> MutexGuard<'static, ()> {
    TURN.lock().await
}

fn large(n: usize) -> Value {
    json!({"metadata": {"name": "large"}, "data": {"n": n.to_string(), "padding": "x".repeat(LARGE_BYTES)}})
}

impl Session {
    async fn change(&self, changes: usize) {
        for n in 1..=changes {
            self.json("PUT", &format!("{MAPS}/large"), large(n)).await;
        }
    }

    async fn watch(&self, query: &str) -> ApiBody {
        let request = Request::get(format!("/api/v1/configmaps?watch=1&{query}"));
        let response = self.server.service().oneshot(request.body(Empty::<Bytes>::new()).unwrap()).await;
        response.unwrap().into_body()
    }
}

/// Reads all pending data of the watch; returns the number of events and chunks.
fn drain(watch: &mut ApiBody) -> (usize, usize) {
    let (mut events, mut chunks) = (0, 0);
    while let Some(Some(Ok(frame))) = watch.frame().now_or_never() {
        let chunk = frame.into_data().unwrap();
        events += chunk.iter().filter(|byte| **byte == b'\n').count();
        chunks += 1;
    }
    (events, chunks)
}

#[tokio::test(start_paused = true)]
async fn expired_events_are_freed() {
    let _turn = turn().await;
    let session = Session::new(Server::builder().without_socket().history(5).start().await.unwrap());
    session.json("POST", MAPS, large(0)).await;
    let mut open = session.watch("resourceVersion=1").await;
    let before = ALLOCATED.current_usage();
    for _ in 0..CHANGES {
        session.change(1).await;
        drain(&mut open);
    }
    let kept = ALLOCATED.current_usage().saturating_sub(before);
    assert!(kept < 20 * LARGE_BYTES, "{CHANGES} changes of {LARGE_BYTES} bytes: {kept} bytes kept");
}

#[tokio::test(start_paused = true)]
async fn the_history_is_limited_in_bytes() {
    const LIMIT: usize = 4 * LARGE_BYTES;
    let _turn = turn().await;
    let server = Server::builder().without_socket().history_bytes(LIMIT).watch_buffer_bytes(2 * LIMIT);
    let session = Session::new(server.start().await.unwrap());
    session.json("POST", MAPS, large(0)).await;
    let before = ALLOCATED.current_usage();
    session.change(CHANGES).await;
    let kept = ALLOCATED.current_usage().saturating_sub(before);
    assert!(kept < LIMIT + 2 * LARGE_BYTES, "{kept} bytes kept without a watch");
    let mut unread = session.watch("").await;
    session.change(CHANGES).await;
    let kept = ALLOCATED.current_usage().saturating_sub(before);
    assert!(kept < 2 * LIMIT + 2 * LARGE_BYTES, "{kept} bytes kept for a watch that is not read");
    while unread.frame().await.is_some_and(|frame| frame.is_ok()) {}
    // A large object that becomes small is held by the event that made it small.
    session.change(1).await;
    let small = json!({"metadata": {"name": "large"}});
    for _ in 0..CHANGES {
        session.json("PUT", &format!("{MAPS}/large"), small.clone()).await;
        session.change(1).await;
    }
    let kept = ALLOCATED.current_usage().saturating_sub(before);
    assert!(kept < 2 * LIMIT + 2 * LARGE_BYTES, "{kept} bytes kept after changes of size");
}

#[tokio::test(start_paused = true)]
async fn compaction_frees_events_read_by_every_open_watch() {
    let _turn = turn().await;
    let session = Session::new(Server::builder().without_socket().start().await.unwrap());
    session.json("POST", MAPS, large(0)).await;
    let mut current = session.watch("resourceVersion=1").await;
    drain(&mut current);
    let before = ALLOCATED.current_usage();
    session.change(CHANGES).await;
    assert_eq!(drain(&mut current).0, CHANGES);
    session.server.compact();
    let kept = ALLOCATED.current_usage().saturating_sub(before);
    assert!(kept < 5 * LARGE_BYTES, "{CHANGES} changes of {LARGE_BYTES} bytes: {kept} bytes kept");
}

#[tokio::test(start_paused = true)]
async fn compaction_keeps_unread_events_of_open_watches() {
    let _turn = turn().await;
    let session = Session::new(Server::builder().without_socket().start().await.unwrap());
    session.json("POST", MAPS, large(0)).await;
    let mut behind = session.watch("resourceVersion=1").await;
    drain(&mut behind);
    session.change(CHANGES).await;
    session.server.compact();
    session.change(1).await;
    assert_eq!(drain(&mut behind).0, CHANGES + 1);
}

#[tokio::test(start_paused = true)]
async fn an_unread_watch_on_a_large_collection_costs_little() {
    const OBJECTS: usize = 10_000;
    const WATCHES: usize = 100;
    const WATCH_BYTES_MAX: usize = 16 << 10;
    let _turn = turn().await;
    let session = Session::new(Server::builder().without_socket().start().await.unwrap());
    let feed = session.server.feed("", "v1", "configmaps").unwrap();
    for n in 0..OBJECTS {
        let metadata = json!({"name": format!("m-{n}"), "namespace": "default", "uid": n.to_string(), "resourceVersion": (n + 100).to_string()});
        feed.put(&json!({"metadata": metadata, "data": {"padding": "x".repeat(400)}})).unwrap();
    }
    let query = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    let before = ALLOCATED.current_usage();
    let mut watches = Vec::new();
    for _ in 0..WATCHES {
        let mut watch = session.watch(query).await;
        let first = watch.frame().await.unwrap().unwrap().into_data().unwrap();
        watches.push((watch, first));
    }
    let each = ALLOCATED.current_usage().saturating_sub(before) / WATCHES;
    assert!(each < WATCH_BYTES_MAX, "{each} bytes per unread watch on {OBJECTS} objects");
    // They show the state at their start, regardless of later changes, and then the changes.
    for n in 0..3 {
        let path = format!("{MAPS}/m-{}", OBJECTS - 1 - n);
        session.json("PATCH", &path, json!({"data": {"changed": "yes"}})).await;
    }
    session.json("DELETE", &format!("{MAPS}/m-5000"), json!({})).await;
    session.server.compact();
    let (watch, first) = &mut watches[0];
    let mut text = first.to_vec();
    while let Some(Some(Ok(frame))) = watch.frame().now_or_never() {
        text.extend_from_slice(&frame.into_data().unwrap());
    }
    let text = String::from_utf8(text).unwrap();
    let (initial, later) = text.split_once("initial-events-end").unwrap();
    assert_eq!(initial.matches("\"ADDED\"").count(), OBJECTS);
    assert_eq!(initial.matches("changed").count(), 0);
    assert_eq!((later.matches("\"MODIFIED\"").count(), later.matches("\"DELETED\"").count()), (3, 1));
}

#[tokio::test(start_paused = true)]
async fn pending_small_changes_are_sent_in_few_chunks() {
    const SMALL_CHANGES: usize = 200;
    let _turn = turn().await;
    let session = Session::new(Server::builder().without_socket().start().await.unwrap());
    session.json("POST", MAPS, json!({"metadata": {"name": "small"}})).await;
    let mut watch = session.watch("resourceVersion=1").await;
    drain(&mut watch);
    for n in 0..SMALL_CHANGES {
        session.json("PATCH", &format!("{MAPS}/small"), json!({"data": {"n": n.to_string()}})).await;
    }
    // HTTP/2 keeps some 300 bytes per queued chunk and never shrinks: one chunk per change would cost five thousand
    // watches of one resource 300 MB.
    let (events, chunks) = drain(&mut watch);
    assert_eq!(events, SMALL_CHANGES);
    assert!(chunks <= SMALL_CHANGES / 4, "{chunks} chunks for {events} events");
}

#[tokio::test(start_paused = true)]
async fn a_definition_is_compiled_only_when_it_changes() {
    const DEFINITIONS: usize = 60;
    let _turn = turn().await;
    let session = Session::new(Server::builder().without_socket().start().await.unwrap());
    let crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let fields: Value = (0..80)
        .map(|n| (format!("field{n}"), json!({"type": "string", "pattern": format!("^[a-z]{{{n}}}$"), "description": "d".repeat(60)})))
        .collect::<serde_json::Map<_, _>>()
        .into();
    let definition = |n: usize| {
        let schema =
            json!({"type": "object", "properties": {"spec": {"type": "object", "properties": fields}}});
        json!({
            "metadata": {"name": format!("things{n}.example.com")},
            "spec": {"group": "example.com", "scope": "Namespaced", "names": {"plural": format!("things{n}"), "kind": format!("Thing{n}")},
                     "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}]},
        })
    };
    let before = ALLOCATED.current_usage();
    for n in 0..DEFINITIONS {
        session.json("POST", crds, definition(n)).await;
    }
    let all = ALLOCATED.current_usage().saturating_sub(before);
    let before = ALLOCATED.current_usage();
    ALLOCATED.reset_peak_usage();
    let patch = json!({"metadata": {"labels": {"changed": "yes"}}});
    session.json("PATCH", &format!("{crds}/things1.example.com"), patch).await;
    let needed = ALLOCATED.peak_usage().saturating_sub(before);
    assert!(
        needed < all / 4,
        "one of {DEFINITIONS} definitions changed: {needed} bytes allocated, all take {all}"
    );
}

#[tokio::test(start_paused = true)]
async fn no_memory_is_kept_for_pods_deleted_early() {
    const PODS: &str = "/api/v1/namespaces/default/pods";
    let _turn = turn().await;
    let session = Session::new(Server::builder().without_socket().history(5).start().await.unwrap());
    let pass = async |pods: usize| {
        for n in 0..pods {
            let spec = json!({"nodeName": "node", "containers": [{"name": "c"}]});
            session.json("POST", PODS, json!({"metadata": {"name": format!("p-{n}")}, "spec": spec})).await;
            for seconds in [1_000_000, 900_000, 0] {
                let path = format!("{PODS}/p-{n}?gracePeriodSeconds={seconds}");
                session.json("DELETE", &path, json!({})).await;
            }
        }
        ALLOCATED.current_usage()
    };
    let before = pass(50).await;
    let kept = pass(300).await.saturating_sub(before);
    assert!(kept < 300 * 100, "{kept} bytes kept for 300 pods that are gone");
}

#[tokio::test(start_paused = true)]
async fn memory_of_watches_is_released_when_they_end() {
    let _turn = turn().await;
    let session = Arc::new(Session::new(Server::builder().without_socket().start().await.unwrap()));
    session.json("POST", MAPS, large(0)).await;
    let before = ALLOCATED.current_usage();
    let mut watches = Vec::new();
    for _ in 0..20 {
        watches.push(session.watch("resourceVersion=1").await);
    }
    session.change(CHANGES).await;
    for watch in &mut watches {
        watch.frame().await.unwrap().unwrap();
    }
    drop(watches);
    session.server.compact();
    let kept = ALLOCATED.current_usage().saturating_sub(before);
    assert!(kept < 5 * LARGE_BYTES, "{kept} bytes kept after all watches ended");
}

/// A body of the largest size, of members as small as possible: while it is parsed, it takes up to a hundred times its size.
#[tokio::test(start_paused = true)]
async fn a_body_of_tiny_members_takes_bounded_memory() {
    const LIMIT: usize = 400 << 20;
    let _turn = turn().await;
    let session = Session::new(Server::builder().without_socket().start().await.unwrap());
    let bytes = (3 << 20) - 100;
    for member in ["{\"\":0},", "[],", "0,"] {
        let body =
            format!("{{\"metadata\":{{\"name\":\"x\"}},\"x\":[{}0]}}", member.repeat(bytes / member.len()));
        let before = ALLOCATED.current_usage();
        ALLOCATED.reset_peak_usage();
        let headers = [("content-type", "application/json")];
        let answer =
            session.request("POST", &format!("{MAPS}?dryRun=All"), &headers, body.into_bytes()).await;
        let most = ALLOCATED.peak_usage().saturating_sub(before);
        println!("{member} {}: {} KiB", answer.code, most >> 10);
        assert!(most < LIMIT, "{member}: {} KiB", most >> 10);
        drop(answer);
        let kept = ALLOCATED.current_usage().saturating_sub(before);
        assert!(kept < 1 << 20, "{member}: {kept} bytes kept");
    }
}

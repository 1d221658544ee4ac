//! The guarantees of docs/contract.md, by number, checked through the public API. Guarantees of the reflector and the
//! store have more tests elsewhere.

use crate::support;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::StreamExt;
use futures::future::pending;
use k8s_openapi::api::core::v1::Pod;
use kube_informer::Index;
use kube_informer::testing::WatchListSupport;
use kube_informer::{Event, Key, ListenerConfig, Origin, SyncError};
use parking_lot::Mutex;
use support::informers::*;
use support::*;

fn key(text: &str) -> Key {
    text.parse().unwrap()
}

fn behind_by(changes_max: usize) -> ListenerConfig {
    let mut config = ListenerConfig::default();
    config.changes_max = changes_max;
    config
}

#[tokio::test(start_paused = true)]
async fn promise_1_converges_after_any_connection_failure() {
    let source = pods();
    let pods = informer(&source).start().unwrap();
    for round in 0..20 {
        source.put(pod(&format!("p{}", round % 7)));
        match round % 5 {
            0 => source.close_watches(),
            1 => source.break_watches(),
            2 => {
                source.compact();
                source.send_error(status(410, "Expired"));
            }
            3 => source.break_next_list_after(1),
            _ => source.fail_next_watch(status(500, "InternalError")),
        }
        source.delete(&format!("web/p{}", (round + 3) % 7));
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    tokio::time::sleep(Duration::from_secs(120)).await;
    let stored = pods
        .lister()
        .list()
        .iter()
        .map(|object| format!("{object:?}"))
        .collect::<std::collections::BTreeSet<_>>();
    let served = source
        .objects()
        .into_iter()
        .map(|o| format!("{}@{}", Key::of_head(&o.head()), o.head().resource_version()));
    assert_eq!(stored, served.collect());
}

#[tokio::test(start_paused = true)]
async fn promise_2_never_regresses_when_a_watch_repeats_an_older_state() {
    let source = pods();
    source.put(pod("a"));
    let pods = informer(&source).start().unwrap();
    pods.synced().await.unwrap();
    let older = source
        .object(&serde_json::json!({"metadata": {"namespace": "web", "name": "a", "uid": "uid-1",
        "resourceVersion": "101"}}));
    source.put(pod("a"));
    settle().await;
    source.send(&kube_wire::WatchEvent::Modified(older));
    source.put(pod("b"));
    settle().await;
    assert!(pods.lister().get(&key("web/b")).is_some(), "the stale event was processed");
    assert_eq!(pods.lister().get(&key("web/a")).unwrap().resource_version(), "102");
}

#[tokio::test(start_paused = true)]
async fn promise_2_a_repeated_state_of_a_deleted_object_does_not_replace_its_successor() {
    let source = pods();
    source.put(pod("a"));
    let first = source.get(&key("web/a")).unwrap();
    let pods = informer(&source).start().unwrap();
    let mut events = pods.subscribe();
    expect_events(&mut events, &["added web/a@101 (Initial)", "synced"]).await;
    source.delete("web/a");
    source.put(pod("a"));
    expect_events(&mut events, &["deleted web/a@102 (Live)", "added web/a@103 (Live)"]).await;
    let successor = pods.lister().get(&key("web/a")).unwrap();
    source.send(&kube_wire::WatchEvent::Added(first.clone()));
    source.send(&kube_wire::WatchEvent::Deleted(first));
    source.put(pod("b"));
    expect_events(&mut events, &["added web/b@104 (Live)"]).await;
    let stored = pods.lister().get(&key("web/a")).unwrap();
    assert_eq!((stored.uid(), stored.resource_version()), (successor.uid(), "103"));
}

#[tokio::test(start_paused = true)]
async fn promise_3_every_deletion_is_reported() {
    let source = pods();
    source.put(pod("gone"));
    source.put(pod("again"));
    let pods = informer(&source).start().unwrap();
    let mut events = pods.subscribe();
    expect_events(&mut events, &["added web/again@102 (Initial)", "added web/gone@101 (Initial)", "synced"])
        .await;
    settle().await;
    // While the watch is down:
    source.close_watches();
    source.delete("web/gone");
    source.delete("web/again");
    source.put(pod("again"));
    source.compact();
    let mut received = Vec::new();
    for _ in 0..3 {
        received.push(format!("{:?}", events.next().await.unwrap()));
    }
    received[..2].sort();
    let expected =
        ["vanished web/again@102 (Relist)", "vanished web/gone@101 (Relist)", "added web/again@105 (Relist)"];
    assert_eq!(received, expected);
    // While it is up, the final state is known.
    settle().await;
    source.delete("web/again");
    expect_events(&mut events, &["deleted web/again@106 (Live)"]).await;
}

#[tokio::test(start_paused = true)]
async fn promise_4_store_and_indexes_show_a_change_before_its_event() {
    let source = pods();
    let by_node = Index::field("node", "spec.nodeName");
    let pods = informer(&source).index(&by_node).start().unwrap();
    let (lister, checked) = (pods.lister(), Arc::new(AtomicUsize::new(0)));
    let count = checked.clone();
    let check = move |event: Event<Pod>| {
        let (lister, count) = (lister.clone(), count.clone());
        async move {
            let Some(object) = event.object() else { return };
            let on_node =
                |node| lister.by_index("node", node).unwrap().iter().any(|o| o.key() == object.key());
            let node = object.decode().unwrap().spec.clone().unwrap().node_name.unwrap();
            match &event {
                Event::Deleted { .. } => assert!(lister.get(&object.key()).is_none() && !on_node(&node)),
                _ => assert!(lister.get(&object.key()).is_some() && on_node(&node)),
            }
            count.fetch_add(1, Ordering::Relaxed);
        }
    };
    let handler = pods.add_handler(check).unwrap();
    handler.synced().await.unwrap();
    for node in ["n1", "n2"] {
        source.put(on_node("a", node));
        settle().await;
    }
    source.delete("web/a");
    settle().await;
    assert_eq!((checked.load(Ordering::Relaxed), handler.panics()), (3, 0));
}

#[tokio::test(start_paused = true)]
async fn promise_5_a_fast_listener_receives_everything_in_server_order() {
    let source = pods();
    let pods = informer(&source).start().unwrap();
    pods.synced().await.unwrap();
    let mut events = pods.subscribe();
    expect_events(&mut events, &["synced"]).await;
    settle().await;
    for name in ["c", "a", "c", "b"] {
        source.put(pod(name));
    }
    source.delete("web/a");
    expect_events(
        &mut events,
        &[
            "added web/c@101 (Live)",
            "added web/a@102 (Live)",
            "updated web/c@103 from 101 (Live)",
            "added web/b@104 (Live)",
            "deleted web/a@105 (Live)",
        ],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn promise_6_a_slow_listener_is_bounded_by_keys_and_loses_no_last_state() {
    bounded_by(behind_by(10)).await;
}

#[tokio::test(start_paused = true)]
async fn promise_6_a_slow_listener_is_bounded_by_bytes() {
    let mut config = ListenerConfig::default();
    // These pods have 100 bytes each, and a third of that packed.
    config.bytes_max = 300;
    bounded_by(config).await;
}

/// A listener with a limit of ten changes, while three objects change a thousand times.
async fn bounded_by(config: ListenerConfig) {
    let source = pods();
    source.put(pod("a"));
    let pods = informer(&source).start().unwrap();
    let mut events = pods.subscribe_with(config);
    let mut view = ListenerView::default();
    while !view.synced {
        view.receive(&events.next().await.unwrap());
    }
    settle().await;
    for round in 0..1000 {
        source.put(pod(["a", "b", "c"][round % 3]));
        if round % 10 == 0 {
            settle().await;
            assert!(events.lag() <= 13, "three keys and its limit: {}", events.lag());
        }
    }
    settle().await;
    assert!(events.coalesced_count() > 0);
    while events.lag() > 0 {
        view.receive(&events.next().await.unwrap());
    }
    assert_eq!(view, ListenerView::of(&source));
}

#[tokio::test(start_paused = true)]
async fn promise_7_a_hanging_or_panicking_handler_affects_no_other() {
    let source = pods();
    source.put(pod("a"));
    let pods = informer(&source).start().unwrap();
    let hanging = pods.add_handler(|_: Event<Pod>| pending::<()>()).unwrap();
    let panicking = pods.add_handler(async |event: Event<Pod>| panic!("at {event:?}")).unwrap();
    let received = Arc::<Mutex<Vec<String>>>::default();
    let log = received.clone();
    let sound = pods.add_handler(move |event: Event<Pod>| {
        log.lock().push(format!("{event:?}"));
        async {}
    });
    let sound = sound.unwrap();
    sound.synced().await.unwrap();
    panicking.synced().await.unwrap();
    settle().await;
    source.put(pod("a"));
    settle().await;
    assert_eq!(
        *received.lock(),
        ["added web/a@101 (Initial)", "synced", "updated web/a@102 from 101 (Live)"]
    );
    assert_eq!(panicking.panics(), 3, "each is counted, and the next event follows");
    assert_eq!((hanging.is_synced(), hanging.panics()), (false, 0));
}

#[tokio::test(start_paused = true)]
async fn promise_8_a_view_is_one_moment() {
    let source = pods();
    let by_node = Index::field("node", "spec.nodeName");
    source.put(on_node("a", "n1"));
    let pods = informer(&source).index(&by_node).start().unwrap();
    pods.synced().await.unwrap();
    settle().await;
    let before = pods.lister().view();
    source.put(on_node("a", "n2"));
    source.put(on_node("b", "n1"));
    settle().await;
    let after = pods.lister().view();
    let scope = pods.status()[0].scope;
    let on = |view: &kube_informer::View<Pod>, node| {
        let mut names =
            view.by_index(&by_node, node).unwrap().iter().map(|o| o.name().to_owned()).collect::<Vec<_>>();
        names.sort();
        names.join(" ")
    };
    assert_eq!((on(&before, "n1"), on(&before, "n2"), before.iter().count()), ("a".into(), String::new(), 1));
    assert_eq!((on(&after, "n1"), on(&after, "n2"), after.iter().count()), ("b".into(), "a".into(), 2));
    assert_eq!((before.resource_version(scope), after.resource_version(scope)), ("101", "103"));
}

#[tokio::test(start_paused = true)]
async fn promise_9_synced_is_accurate_for_each_handler() {
    let source = pods();
    source.put(pod("a"));
    source.put(pod("b"));
    let pods = informer(&source).start().unwrap();
    let (go, gate) = tokio::sync::watch::channel(0);
    let handler = pods.add_handler(move |event: Event<Pod>| {
        let mut gate = gate.clone();
        async move {
            let nth = if format!("{event:?}").contains("web/b") { 2 } else { 1 };
            gate.wait_for(|open| *open >= nth).await.unwrap();
        }
    });
    let handler = handler.unwrap();
    pods.synced().await.unwrap();
    assert_eq!(pods.lister().count(), 2, "the whole list is in the store");
    go.send(1).unwrap();
    settle().await;
    assert!(!handler.is_synced(), "the call for `b` has not returned");
    go.send(2).unwrap();
    handler.synced().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn promise_9_a_refusal_is_reported_and_recovered_from() {
    for (code, reason) in [(401, "Unauthorized"), (403, "Forbidden"), (404, "NotFound")] {
        let source = pods();
        source.fail_next_list(status(code, reason));
        let pods = informer(&source).start().unwrap();
        let handler = pods.add_handler(async |_: Event<Pod>| {}).unwrap();
        let error = pods.synced().await.unwrap_err();
        let SyncError::Refused { status, .. } = &error else { panic!("{error}") };
        assert_eq!(status.code, code);
        assert!(error.to_string().contains("for a test"), "the server's message: {error}");
        assert!(matches!(handler.synced().await, Err(SyncError::Refused { .. })));
        // The server now accepts.
        tokio::time::sleep(Duration::from_secs(5)).await;
        pods.synced().await.unwrap();
        handler.synced().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn promise_9_a_list_that_can_never_succeed_is_reported() {
    for (code, reason) in
        [(400, "BadRequest"), (405, "MethodNotAllowed"), (406, "NotAcceptable"), (422, "Invalid")]
    {
        let source = pods();
        source.support_watch_list(WatchListSupport::Refused); // 422, and a list follows
        (0..3).for_each(|_| source.fail_next_list(status(code, reason)));
        let pods = informer(&source).reflector(streaming()).start().unwrap();
        let synced = tokio::time::timeout(Duration::from_secs(1), pods.synced()).await;
        let error = synced.unwrap_or_else(|_| panic!("{code} is not reported")).unwrap_err();
        let SyncError::Refused { status, .. } = &error else { panic!("{error}") };
        assert_eq!(status.code, code);
        // The server now accepts.
        tokio::time::sleep(Duration::from_secs(20)).await; // paused time: nothing sleeps
        pods.synced().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn promise_9_a_refused_watch_is_not_a_refused_list() {
    let source = pods();
    source.support_watch_list(WatchListSupport::Refused);
    source.put(pod("a"));
    let pods = informer(&source).reflector(streaming()).start().unwrap();
    pods.synced().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn promise_9_other_errors_are_retried() {
    let source = pods();
    for _ in 0..3 {
        source.fail_next_list(status(500, "InternalError"));
    }
    let pods = informer(&source).start().unwrap();
    settle().await;
    assert!(format!("{:?}", pods.state()).starts_with("Degraded"), "{:?}", pods.state());
    pods.synced().await.unwrap();
    settle().await;
    assert!(format!("{:?}", pods.state()).starts_with("Live"), "{:?}", pods.state());
}

#[tokio::test(start_paused = true)]
async fn promise_10_a_dead_watch_is_detected_by_the_age_of_bookmarks() {
    let source = pods();
    let pods = informer(&source).start().unwrap();
    pods.synced().await.unwrap();
    let mut events = pods.subscribe();
    expect_events(&mut events, &["synced"]).await;
    settle().await;
    for _ in 0..5 {
        tokio::time::sleep(Duration::from_secs(60)).await;
        source.bookmark();
    }
    let watches = source.requests().len();
    // Nothing more is sent, and the connection stays open.
    tokio::time::timeout(Duration::from_secs(1200), source.requests_made(watches + 1)).await.unwrap();
    source.put(pod("a"));
    assert_eq!(events.next().await.unwrap().origin(), Some(Origin::Live));
}

#[tokio::test(start_paused = true)]
async fn promise_9_a_watch_list_syncs_as_a_list_does() {
    for support in [WatchListSupport::Full, WatchListSupport::Refused, WatchListSupport::Ignored] {
        let source = pods();
        source.support_watch_list(support);
        source.put(pod("a"));
        let pods = informer(&source).reflector(streaming()).start().unwrap();
        let mut events = pods.subscribe();
        expect_events(&mut events, &["added web/a@101 (Initial)", "synced"]).await;
    }
}

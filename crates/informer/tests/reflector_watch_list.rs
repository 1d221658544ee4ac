//! The rules of watch-list: the initial list as a stream of events.

use crate::support;

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use kube_informer::Scope;
use kube_informer::building_blocks::{
    ListOptions, ListStream, ListerWatcher, Reflector, SourceError, WatchOptions, WatchStream,
};
use kube_informer::testing::{ScriptedSource, WatchListSupport};
use kube_wire::WatchEvent;
use serde_json::json;
use support::*;
use tokio::time::Instant;

#[tokio::test(start_paused = true)]
async fn the_initial_events_become_one_replace_and_the_stream_continues() {
    let source = pods();
    ["a", "b"].iter().for_each(|name| drop(source.put(pod(name))));
    let mut rig = Rig::start(&source, streaming());
    rig.watching().await;
    source.put(pod("c"));
    rig.logged("add web/c 103").await;
    assert_eq!(rig.sink.log(), ["replace 102 [web/a web/b]", "add web/c 103"]);
    assert_eq!(rig.requests(), [r#"watch rv="" initial NotOlderThan"#]);
    let kube_informer::testing::Request::Watch(options) = &source.requests()[0] else { panic!() };
    assert!(options.allow_bookmarks && options.timeout.is_some());
}

#[tokio::test(start_paused = true)]
async fn a_later_watch_list_begins_at_the_last_version() {
    let source = pods();
    source.put(pod("a"));
    let mut rig = Rig::start(&source, streaming());
    rig.watching().await;
    source.fail_watches(status(403, "Forbidden"));
    rig.source.requests_made(2).await;
    assert_eq!(rig.requests()[1], r#"watch rv="101" initial NotOlderThan"#);
}

#[tokio::test(start_paused = true)]
async fn changes_between_the_initial_events_count() {
    let source = pods();
    source.support_watch_list(WatchListSupport::Ignored); // the test sends the events itself
    let rig = Rig::start(&source, streaming());
    source.requests_made(1).await;
    let object = |name: &str, version: &str| {
        source.object(&json!({"metadata": {"namespace": "web", "name": name, "resourceVersion": version}}))
    };
    source.send(&WatchEvent::Added(object("a", "1")));
    source.send(&WatchEvent::Added(object("b", "2")));
    source.send(&WatchEvent::Deleted(object("a", "3")));
    source.send(&WatchEvent::Modified(object("b", "4")));
    source.send(&WatchEvent::Bookmark(source.object(&json!({"metadata": {
        "resourceVersion": "5", "annotations": {"k8s.io/initial-events-end": "true"}}}))));
    rig.logged("replace 5 [web/b]").await;
    let objects = rig.sink.objects.lock();
    assert_eq!(objects.values().next().unwrap().head().resource_version(), "4");
}

#[tokio::test(start_paused = true)]
async fn a_refused_connection_and_429_back_off_and_stream_again() {
    let source = pods();
    source.refuse_next_watch();
    source.fail_next_watch(status(429, "TooManyRequests"));
    let mut rig = Rig::start(&source, streaming());
    let started = Instant::now();
    rig.watching().await;
    assert_eq!(rig.requests(), [r#"watch rv="" initial NotOlderThan"#; 3]);
    assert!(started.elapsed() >= Duration::from_millis(2400), "0.8 s and 1.6 s at least");
}

#[tokio::test(start_paused = true)]
async fn an_expired_or_too_large_version_is_retried_at_the_most_recent_state() {
    let source = pods();
    let old = source.checkpoint();
    source.put(pod("a"));
    let mut rig = Rig::start(&source, streaming());
    rig.watching().await;
    tokio::time::advance(Duration::from_secs(2)).await;
    source.restore(&old); // 101 is now in the future: an in-stream 504
    source.fail_next_watch(status(410, "Expired")); // resuming the watch ends the cycle
    rig.logged("replace 100 []").await;
    assert_eq!(
        rig.requests()[1..],
        [
            r#"watch rv="101""#,
            r#"watch rv="101" initial NotOlderThan"#,
            r#"watch rv="" initial NotOlderThan"#
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_server_that_keeps_answering_expired_gets_a_list() {
    let source = pods();
    source.fail_next_watch(status(410, "Expired"));
    let mut rig = Rig::start(&source, streaming());
    rig.watching().await;
    assert_eq!(rig.requests()[..2], [r#"watch rv="" initial NotOlderThan"#, r#"list rv="0" limit=500"#]);
}

#[tokio::test(start_paused = true)]
async fn any_other_refusal_causes_a_list_in_this_cycle_only() {
    let source = pods();
    source.support_watch_list(WatchListSupport::Refused);
    let mut rig = Rig::start(&source, streaming());
    let started = Instant::now();
    rig.watching().await;
    assert_eq!(started.elapsed(), Duration::ZERO, "the list follows immediately");
    assert_eq!(
        rig.requests(),
        [r#"watch rv="" initial NotOlderThan"#, r#"list rv="0" limit=500"#, r#"watch rv="100""#]
    );
    source.support_watch_list(WatchListSupport::Full);
    source.fail_watches(status(403, "Forbidden"));
    rig.source.requests_made(4).await;
    assert_eq!(rig.requests()[3], r#"watch rv="100" initial NotOlderThan"#);
}

#[tokio::test(start_paused = true)]
async fn the_status_counts_how_many_lists_were_streamed() {
    let source = pods();
    let mut rig = Rig::start(&source, streaming());
    rig.watching().await;
    source.support_watch_list(WatchListSupport::Refused);
    source.fail_watches(status(403, "Forbidden"));
    let mut counts = Vec::new();
    for lists in 1..=2 {
        let status = rig.status.wait_for(|status| status.complete_lists == lists).await.unwrap();
        counts.push((status.complete_lists, status.streamed_lists));
    }
    assert_eq!(counts, [(1, 1), (2, 1)]);
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_closes_without_its_bookmark_is_followed_by_a_list_and_remembered() {
    let source = pods();
    source.put(pod("a"));
    source.support_watch_list(WatchListSupport::ClosesEarly);
    let mut rig = Rig::start(&source, streaming());
    let started = Instant::now();
    rig.watching().await;
    assert!(started.elapsed() >= Duration::from_millis(800), "with back-off");
    assert_eq!(rig.sink.log(), ["replace 101 [web/a]"]);
    source.fail_watches(status(403, "Forbidden"));
    rig.source.requests_made(4).await;
    assert_eq!(rig.requests()[3], r#"list rv="101""#, "the next cycle does not try again");
}

#[tokio::test(start_paused = true)]
async fn a_missing_bookmark_times_out_after_the_last_event() {
    let source = pods();
    source.put(pod("a"));
    source.support_watch_list(WatchListSupport::Ignored);
    let config = streaming();
    let server = config.server.clone();
    let mut rig = Rig::start(&source, config.clone());
    rig.source.requests_made(1).await;
    tokio::time::sleep(Duration::from_secs(29)).await; // paused time: nothing sleeps
    source.put(pod("b"));
    rig.settle().await;
    let last_event = Instant::now();
    rig.watching().await;
    assert!(last_event.elapsed() >= Duration::from_secs(30));
    assert_eq!(rig.sink.log(), ["replace 102 [web/a web/b]"]);
    assert!(rig.errors()[0].contains("timed out after 30s waiting for the bookmark"));

    // All users of this server remember it, for an hour and for this API group.
    assert!(server.is_watch_list_broken(""));
    let config = || {
        let mut config = streaming();
        config.server = Arc::clone(&server);
        config
    };
    let mut rig = Rig::start(&pods(), config());
    rig.watching().await;
    assert_eq!(rig.requests()[0], r#"list rv="0" limit=500"#);
    let mut rig = Rig::start(&ScriptedSource::new("apps/v1", "Deployment"), config());
    rig.watching().await;
    assert_eq!(rig.requests(), [r#"watch rv="" initial NotOlderThan"#]);
    tokio::time::advance(Duration::from_secs(3600)).await;
    let mut rig = Rig::start(&pods(), config());
    rig.watching().await;
    assert_eq!(rig.requests(), [r#"watch rv="" initial NotOlderThan"#]);
}

#[tokio::test(start_paused = true)]
async fn an_interrupted_stream_changes_nothing_and_a_list_follows() {
    let source = pods();
    source.put(pod("a"));
    source.support_watch_list(WatchListSupport::Ignored);
    let mut rig = Rig::start(&source, streaming());
    source.requests_made(1).await;
    rig.settle().await;
    source.break_watches();
    rig.settle().await;
    assert_eq!(rig.requests()[1], r#"list rv="0" limit=500"#);
    rig.watching().await;
    assert_eq!(rig.sink.log(), ["replace 101 [web/a]"]);
}

#[tokio::test(start_paused = true)]
async fn an_unreadable_event_is_followed_by_a_list() {
    let source = pods();
    source.put(pod("a"));
    source.support_watch_list(WatchListSupport::Ignored); // it sends no bookmark
    let mut rig = Rig::start(&source, streaming());
    source.requests_made(1).await;
    source.send_unreadable_event();
    rig.watching().await;
    assert_eq!(rig.requests()[1], r#"list rv="0" limit=500"#);
    assert_eq!(rig.sink.log(), ["replace 101 [web/a]"]);
}

#[tokio::test(start_paused = true)]
async fn a_slow_stream_that_is_never_quiet_times_out() {
    let source = pods();
    source.support_watch_list(WatchListSupport::Ignored);
    let mut rig = Rig::start(&source, streaming());
    source.requests_made(1).await;
    let started = Instant::now();
    while rig.requests().len() == 1 {
        source.put(pod("a"));
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(started.elapsed() < Duration::from_secs(150), "the reflector does not end");
    }
    assert!(started.elapsed() >= Duration::from_secs(120));
    rig.watching().await;
    assert_eq!(rig.requests()[1], r#"list rv="0" limit=500"#);
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_does_not_even_open_is_followed_by_a_list() {
    let source = pods();
    source.put(pod("a"));
    let held = Arc::new(HeldBack(source.clone()));
    let sink = RecorderSink::default();
    let reflector = Reflector::new(held, Arc::new(sink.clone()), Scope::default(), streaming());
    let started = Instant::now();
    tokio::spawn(reflector.run());
    sink.0.logged("replace 101 [web/a]").await;
    assert!(started.elapsed() <= Duration::from_secs(31), "{:?}", started.elapsed());
}

/// A proxy that holds back the response to watch-lists.
struct HeldBack(ScriptedSource);

impl ListerWatcher for HeldBack {
    fn list(&self, options: ListOptions) -> BoxFuture<'_, Result<ListStream, SourceError>> {
        self.0.list(options)
    }

    fn watch(&self, options: WatchOptions) -> BoxFuture<'_, Result<WatchStream, SourceError>> {
        match options.send_initial_events {
            true => std::future::pending().boxed(),
            false => self.0.watch(options),
        }
    }

    fn describe(&self) -> String {
        self.0.describe()
    }
}

#[tokio::test(start_paused = true)]
async fn an_endless_busy_stream_is_followed_by_a_list_after_ten_minutes() {
    let source = pods();
    source.support_watch_list(WatchListSupport::Ignored);
    let mut rig = Rig::start(&source, streaming());
    source.requests_made(1).await;
    let started = Instant::now();
    // Faster than any limit that grows with the number of events.
    while rig.requests().len() == 1 {
        (0..10).for_each(|_| drop(source.put(pod("a"))));
        tokio::time::sleep(Duration::from_millis(100)).await; // paused time: nothing sleeps
        assert!(started.elapsed() < Duration::from_secs(700), "the reflector does not end");
    }
    rig.watching().await;
    assert_eq!(rig.requests()[1], r#"list rv="0" limit=500"#);
    assert!(
        rig.errors()[0].contains("timed out after 600s waiting for the watch-list's initial list"),
        "{:?}",
        rig.errors()
    );
}

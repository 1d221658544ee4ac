//! The rules of watching: when a watch resumes, when everything is relisted, and what is reported.

use crate::support;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use kube_informer::Scope;
use kube_informer::building_blocks::{Reflector, SourceError};
use kube_informer::testing::{Request, ScriptedSource, WatchListSupport};
use kube_wire::{Status, WatchEvent};
use serde_json::json;
use support::*;
use tokio::time::Instant;

const LIST: &str = r#"list rv="0" limit=500"#;
const WATCH_100: &str = r#"watch rv="100""#;
/// The request that verifies the cached state after a broken or refused connection.
const VERIFY_100: &str = r#"list rv="100" limit=1"#;
/// Consecutive opens of a watch are at least this far apart.
const PACE: Duration = Duration::from_millis(800);

#[tokio::test(start_paused = true)]
async fn changes_reach_the_sink_in_order_and_advance_the_last_version() {
    let source = pods();
    let mut rig = Rig::start(&source, listing());
    rig.watching().await;
    source.put(pod("a"));
    source.put(pod("a"));
    source.delete("web/a");
    source.bookmark();
    rig.logged("bookmark 103").await;
    assert_eq!(
        rig.sink.log(),
        ["replace 100 []", "add web/a 101", "update web/a 102", "delete web/a 103", "bookmark 103"]
    );
    rig.settle().await;
    assert_eq!(rig.last_version.get(), "103");
}

/// The timeout of a watch, and that it allows bookmarks.
async fn requested_timeout(seed: u64, timeout_min: Duration) -> Duration {
    let source = pods();
    let mut config = listing();
    config.seed = Some(seed);
    config.watch_timeout_min = timeout_min;
    let mut rig = Rig::start(&source, config);
    rig.watching().await;
    let Request::Watch(options) = &source.requests()[1] else { panic!() };
    assert!(options.allow_bookmarks);
    options.timeout.unwrap()
}

#[tokio::test(start_paused = true)]
async fn watches_request_bookmarks_and_a_timeout_of_five_to_ten_minutes_in_whole_seconds() {
    let mut timeouts = Vec::new();
    for seed in 0..20 {
        // Too small: ignored.
        let timeout = requested_timeout(seed, Duration::from_secs(1)).await;
        assert_eq!(timeout.subsec_nanos(), 0);
        assert!((300..600).contains(&timeout.as_secs()), "{timeout:?}");
        timeouts.push(timeout);
        let longer = requested_timeout(seed, Duration::from_secs(30 * 60)).await;
        assert!((1800..3600).contains(&longer.as_secs()), "{longer:?}");
    }
    timeouts.sort();
    timeouts.dedup();
    assert!(timeouts.len() > 10, "timeouts are random");
}

#[tokio::test(start_paused = true)]
async fn a_refused_connection_and_429_at_opening_back_off_and_resume_at_the_same_version() {
    let source = pods();
    source.refuse_next_watch();
    source.fail_next_watch(status(429, "TooManyRequests"));
    let mut rig = Rig::start(&source, listing());
    let started = Instant::now();
    rig.watching().await;
    assert_eq!(rig.requests(), [LIST, WATCH_100, WATCH_100, WATCH_100, VERIFY_100]);
    assert!(started.elapsed() >= Duration::from_millis(2400));
}

#[tokio::test(start_paused = true)]
async fn a_short_outage_causes_no_relist() {
    for error in [
        SourceError::Status(status(503, "ServiceUnavailable")),
        SourceError::Interrupted(Arc::new(std::io::Error::other("reset"))),
        SourceError::Connect(Arc::new(std::io::Error::other("no route"))),
    ] {
        let source = pods();
        source.fail_next_watch(error.clone());
        let mut rig = Rig::start(&source, listing());
        rig.watching().await;
        assert_eq!(rig.requests(), [LIST, WATCH_100, WATCH_100, VERIFY_100], "{error}");
        // The second time without progress, it relists.
        tokio::time::advance(Duration::from_secs(2)).await;
        source.fail_next_watch(error);
        source.close_watches();
        rig.source.requests_made(6).await;
        assert_eq!(rig.requests()[5], r#"list rv="100""#);
    }
}

#[tokio::test(start_paused = true)]
async fn other_refusals_at_opening_end_the_cycle_and_a_list_follows_after_back_off() {
    let source = pods();
    source.fail_next_watch(status(403, "Forbidden"));
    let mut rig = Rig::start(&source, listing());
    rig.state("backing off: cannot open watch: 403 Forbidden").await;
    let started = Instant::now();
    rig.watching().await;
    assert_eq!(rig.requests(), [LIST, WATCH_100, r#"list rv="100""#, WATCH_100]);
    assert!(started.elapsed() >= Duration::from_millis(800));
}

#[tokio::test(start_paused = true)]
async fn a_410_in_the_stream_relists_at_the_last_version_after_back_off() {
    let source = pods();
    let mut rig = Rig::start(&source, listing());
    rig.watching().await;
    source.put(pod("a"));
    rig.logged("add web/a 101").await;
    let started = Instant::now();
    source.send_error(status(410, "Expired"));
    rig.logged("replace 101 [web/a]").await;
    assert_eq!(rig.requests()[2], r#"list rv="101""#, "the version is not marked unavailable");
    assert!(started.elapsed() >= Duration::from_millis(800), "every cycle ends with a wait");
}

#[tokio::test(start_paused = true)]
async fn a_429_in_the_stream_backs_off_and_resumes() {
    let source = pods();
    let mut rig = Rig::start(&source, listing());
    rig.watching().await;
    let started = Instant::now();
    source.send_error(status(429, "TooManyRequests"));
    rig.source.requests_made(4).await;
    assert_eq!(rig.requests(), [LIST, WATCH_100, WATCH_100, VERIFY_100]);
    assert!(started.elapsed() >= Duration::from_millis(800));
}

#[tokio::test(start_paused = true)]
async fn internal_errors_relist_unless_a_retry_deadline_is_set() {
    let source = pods();
    let mut rig = Rig::start(&source, listing());
    rig.watching().await;
    source.send_error(status(500, "InternalError"));
    rig.source.requests_made(3).await;
    assert_eq!(rig.requests()[2], r#"list rv="100""#);

    let source = pods();
    let mut config = listing();
    config.internal_error_retry_max = Duration::from_secs(20);
    let mut rig = Rig::start(&source, config);
    rig.watching().await;
    for count in [3, 4] {
        let started = Instant::now();
        source.send_error(status(500, "InternalError"));
        rig.source.requests_made(count).await;
        assert_eq!(rig.requests()[count - 1], WATCH_100);
        assert!(started.elapsed() <= PACE, "without back-off: {:?}", started.elapsed());
        tokio::time::advance(Duration::from_secs(15)).await;
    }
    source.send_error(status(500, "InternalError"));
    rig.source.requests_made(5).await;
    assert_eq!(rig.requests()[4], r#"list rv="100""#, "the deadline, counted from the first, has passed");
}

#[tokio::test(start_paused = true)]
async fn internal_errors_far_apart_start_a_new_deadline() {
    let source = pods();
    let mut config = listing();
    config.internal_error_retry_max = Duration::from_secs(20);
    let mut rig = Rig::start(&source, config);
    rig.watching().await;
    for count in [3, 4] {
        source.send_error(status(500, "InternalError"));
        rig.source.requests_made(count).await;
        assert_eq!(rig.requests()[count - 1], WATCH_100);
        tokio::time::advance(Duration::from_secs(61)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn other_errors_in_the_stream_relist() {
    let source = pods();
    let mut rig = Rig::start(&source, listing());
    rig.watching().await;
    source.send_error(status(500, "StoreReadError"));
    rig.source.requests_made(3).await;
    assert_eq!(rig.requests()[2], r#"list rv="100""#);
}

#[tokio::test(start_paused = true)]
async fn an_unsafely_deleted_corrupt_object_is_gone_after_the_next_list() {
    let source = pods();
    ["kept", "corrupt"].iter().for_each(|name| drop(source.put(pod(name))));
    let mut rig = Rig::start(&source, listing());
    rig.watching().await;
    // The server cannot send the deletion of an unreadable object: it ends the watch with an error instead.
    source.send_error(status(500, "StoreReadError"));
    source.delete("web/corrupt");
    rig.logged("replace 103 [web/kept]").await;
    assert_eq!(rig.sink.objects.lock().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_ends_or_breaks_resumes_immediately_and_misses_nothing() {
    let source = pods();
    let mut rig = Rig::start(&source, listing());
    rig.watching().await;
    source.put(pod("a"));
    rig.logged("add web/a 101").await;
    for (round, end) in [ScriptedEnd::Close, ScriptedEnd::Break, ScriptedEnd::Break].into_iter().enumerate() {
        tokio::time::advance(Duration::from_secs(2)).await;
        let started = Instant::now();
        match end {
            ScriptedEnd::Close => source.close_watches(),
            ScriptedEnd::Break => source.break_watches(),
        }
        source.put(pod("a")); // while no watch is open
        rig.logged(&format!("update web/a {}", 102 + round)).await;
        assert_eq!(started.elapsed(), Duration::ZERO);
    }
    assert_eq!(
        rig.requests()[2..],
        [
            r#"watch rv="101""#,
            r#"list rv="101" limit=1"#,
            r#"watch rv="102""#,
            r#"list rv="102" limit=1"#,
            r#"watch rv="103""#,
            r#"list rv="103" limit=1"#
        ],
        "broken and early watches are verified, without a relist"
    );
}

enum ScriptedEnd {
    Close,
    Break,
}

#[tokio::test(start_paused = true)]
async fn a_watch_closed_within_a_second_without_a_new_event_is_an_error() {
    let source = pods();
    source.close_next_watch_immediately();
    let mut rig = Rig::start(&source, listing());
    let started = Instant::now();
    rig.watching().await;
    rig.source.requests_made(4).await;
    assert_eq!(rig.requests(), [LIST, WATCH_100, r#"list rv="100""#, WATCH_100]);
    assert!(started.elapsed() >= Duration::from_millis(800));
    assert!(rig.errors()[0].contains("closed within 1s without a new event; relisting in"));
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_keeps_breaking_immediately_is_not_reopened_in_a_tight_loop() {
    let source = pods();
    let mut rig = Rig::start(&source, listing());
    rig.watching().await;
    source.put(pod("a"));
    rig.logged("add web/a 101").await;
    tokio::time::advance(Duration::from_secs(2)).await;
    let started = Instant::now();
    // Like a load balancer without backends: it accepts, then resets.
    while started.elapsed() < Duration::from_secs(60) {
        source.break_watches();
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let requests = rig.requests()[2..].to_vec();
    let (watch, verify, list) = (r#"watch rv="101""#, r#"list rv="101" limit=1"#, r#"list rv="101""#);
    assert_eq!(requests[..6], [watch, verify, watch, verify, list, watch]);
    assert!(requests.len() < 30, "{} requests in a minute", requests.len());
    // The state shows it until there is progress.
    rig.state("degraded: watch failed: connection broken").await;
    source.put(pod("b"));
    rig.logged("add web/b 102").await;
    rig.watching().await;
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_repeats_old_events_and_closes_is_too_short() {
    let source = pods();
    let mut rig = Rig::start(&source, listing());
    rig.watching().await;
    source.bookmark(); // of the current version
    source.close_watches();
    rig.state("backing off: cannot keep watch open: closed within 1s without a new event").await;
    assert_eq!(rig.requests(), [LIST, WATCH_100]);
}

#[tokio::test(start_paused = true)]
async fn unlimited_durations_are_accepted() {
    let source = pods();
    let mut config = listing();
    config.resume_check_after = Duration::MAX;
    config.resync_period = Some(Duration::MAX);
    config.watch_timeout_min = Duration::MAX;
    config.watch_list_quiet_max = Duration::MAX;
    config.watch_list_max = Duration::MAX;
    config.watch_answer_max = Duration::MAX;
    config.backoff.longest = Duration::MAX;
    config.backoff.reset_after = Duration::MAX;
    let mut rig = Rig::start(&source, config);
    rig.watching().await;
    tokio::time::advance(Duration::from_secs(2)).await;
    source.close_watches();
    rig.source.requests_made(3).await;
    source.put(pod("a"));
    rig.logged("add web/a 101").await;
}

#[tokio::test(start_paused = true)]
async fn functions_that_panic_do_not_end_the_reflector() {
    let source = pods();
    let mut config = listing();
    config.resync_period = Some(Duration::from_secs(60));
    config.should_resync = Some(Arc::new(|| panic!("in should_resync")));
    let (sink, asked) = (RecorderSink::default(), Arc::new(AtomicBool::default()));
    let received = asked.clone();
    config.on_error = Some(Arc::new(move |_| {
        received.store(true, Ordering::Relaxed);
        panic!("in on_error");
    }));
    let reflector =
        Reflector::new(Arc::new(source.clone()), Arc::new(sink.clone()), Scope::default(), config);
    let running = tokio::spawn(reflector.run());
    sink.0.logged("replace 100 []").await;
    source.fail_watches(status(403, "Forbidden"));
    source.put(pod("a"));
    sink.0.logged("replace 101 [web/a]").await;
    sink.0.logged("resync").await;
    assert!(asked.load(Ordering::Relaxed));
    assert!(!running.is_finished());
}

#[tokio::test(start_paused = true)]
async fn a_short_watch_with_a_new_event_is_not_an_error() {
    let source = pods();
    let mut rig = Rig::start(&source, listing());
    rig.watching().await;
    source.put(pod("a"));
    source.close_watches();
    rig.source.requests_made(3).await;
    assert_eq!(rig.requests()[2], r#"watch rv="101""#);
    assert_eq!(rig.errors(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn an_unreadable_event_resumes_once_then_relists_then_shows_as_degraded() {
    let source = pods();
    let mut rig = Rig::start(&source, listing());
    rig.watching().await;
    source.send_unreadable_event();
    rig.source.requests_made(3).await;
    rig.settle().await;
    assert_eq!(rig.requests()[2..], [WATCH_100, VERIFY_100], "the first time it resumes");
    source.send_unreadable_event();
    rig.source.requests_made(6).await;
    rig.settle().await;
    assert_eq!(rig.requests()[4..], [r#"list rv="100""#, WATCH_100]);
    rig.watching().await;
    source.send_unreadable_event();
    rig.source.requests_made(8).await;
    rig.state("degraded: watch failed: cannot read the response").await;
    // Progress ends it.
    source.put(pod("a"));
    rig.watching().await;
    source.send_unreadable_event();
    rig.source.requests_made(9).await;
    assert_eq!(rig.requests()[8], r#"watch rv="101""#);
}

#[tokio::test(start_paused = true)]
async fn the_third_watch_that_fails_in_a_row_shows_as_degraded_however_it_fails() {
    let failures: [fn(&ScriptedSource); 2] =
        [ScriptedSource::close_watches, |source| source.send_error(status(403, "Forbidden"))];
    for fails in failures {
        let source = pods();
        let mut rig = Rig::start(&source, listing());
        for round in 1..=3 {
            rig.source.requests_made(2 * round).await;
            rig.settle().await;
            rig.watching().await;
            fails(&source);
        }
        rig.source.requests_made(8).await;
        rig.settle().await;
        assert_eq!(rig.requests()[7], WATCH_100, "the next watch is open");
        let state = rig.status.borrow().state.to_string();
        assert!(
            state.starts_with("degraded: watch ") || state.starts_with("degraded: cannot keep watch open: "),
            "{state}"
        );
        source.put(pod("a"));
        rig.watching().await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_object_of_another_kind_is_skipped_reported_and_does_not_advance_the_version() {
    let source = pods();
    let mut rig = Rig::start(&source, listing());
    rig.watching().await;
    let table =
        json!({"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": {"resourceVersion": "999"}});
    source.send(&WatchEvent::Added(source.object(&table)));
    source.send(&WatchEvent::Bookmark(source.object(&table)));
    source.put(pod("a"));
    rig.logged("add web/a 101").await;
    rig.settle().await;
    assert_eq!(rig.last_version.get(), "101");
    assert_eq!(
        rig.errors(),
        ["scripted v1/Pod: invalid event: expected v1/Pod, found meta.k8s.io/v1/Table; skipped"; 2]
    );
}

#[tokio::test(start_paused = true)]
async fn an_event_of_an_unknown_type_is_reported_and_advances_the_version() {
    let source = pods();
    let mut rig = Rig::start(&source, listing());
    rig.watching().await;
    let object = source.object(&json!({"metadata": {"name": "a", "resourceVersion": "150"}}));
    source.send(&WatchEvent::Other { event_type: "RENAMED".to_owned(), object });
    rig.settle().await;
    assert_eq!(rig.last_version.get(), "150");
    assert_eq!(rig.errors(), ["scripted v1/Pod: invalid event: unknown type `RENAMED`; skipped"]);
}

#[tokio::test(start_paused = true)]
async fn an_object_that_the_sink_rejects_is_reported_and_advances_the_version() {
    let source = pods();
    let mut rig = Rig::start(&source, listing());
    rig.watching().await;
    source.put(pod(REJECTED));
    rig.settle().await;
    assert_eq!(rig.last_version.get(), "101");
    assert_eq!(rig.errors(), ["scripted v1/Pod: cannot store object `web/rejected`: for a test; skipped"]);
}

#[tokio::test(start_paused = true)]
async fn incomparable_versions_do_not_stop_the_watch() {
    let source = pods();
    let mut rig = Rig::start(&source, listing());
    rig.watching().await;
    for version in ["abc", "", "0", "007", "102"] {
        let object = json!({"metadata": {"namespace": "web", "name": "a", "resourceVersion": version}});
        source.send(&WatchEvent::Modified(source.object(&object)));
    }
    rig.logged("update web/a 102").await;
    assert_eq!(rig.sink.log().len(), 6);
    rig.settle().await;
    assert_eq!(rig.last_version.get(), "102");
}

#[tokio::test(start_paused = true)]
async fn a_repeated_event_does_not_move_the_watch_back() {
    let source = pods();
    let mut rig = Rig::start(&source, listing());
    rig.watching().await;
    source.put(pod("a"));
    source.put(pod("a"));
    let old = json!({"metadata": {"namespace": "web", "name": "a", "resourceVersion": "101"}});
    source.send(&WatchEvent::Modified(source.object(&old)));
    rig.logged("update web/a 101").await;
    rig.settle().await;
    assert_eq!(rig.last_version.get(), "102");
}

#[tokio::test(start_paused = true)]
async fn a_watch_from_zero_advances_the_version_only_after_the_first_event_other_than_added() {
    let source = pods();
    ["a", "b"].iter().for_each(|name| drop(source.put(pod(name))));
    source.answer_next_list_with_version("");
    let mut rig = Rig::start(&source, listing());
    rig.logged("add web/b 102").await;
    assert_eq!(rig.requests()[1], r#"watch rv="""#);
    rig.settle().await;
    assert_eq!(rig.last_version.get(), "", "synthetic events are unordered");
    source.put(pod("a"));
    rig.logged("update web/a 103").await;
    rig.settle().await;
    assert_eq!(rig.last_version.get(), "103");
    rig.watching().await;
}

#[tokio::test(start_paused = true)]
async fn the_error_handler_receives_every_error_and_the_next_step() {
    let source = pods();
    let mut rig = Rig::start(&source, listing());
    rig.watching().await;
    source.break_watches();
    source.refuse_next_watch();
    rig.source.requests_made(4).await;
    rig.watching().await;
    source.send_error(status(410, "Expired"));
    rig.source.requests_made(6).await;
    let errors = rig.errors();
    for (line, (what, next)) in errors.iter().zip([
        ("watch failed: connection broken", "; resuming from the last resourceVersion"),
        (
            "cannot open watch: cannot connect to the API server: connection refused",
            "; resuming from the last resourceVersion in",
        ),
        ("watch failed: 410 Expired: for a test", "; relisting in"),
    ]) {
        assert!(line.contains(what) && line.contains(next), "{line}");
    }
    assert_eq!(errors.len(), 3);
}

#[tokio::test(start_paused = true)]
async fn the_servers_retry_after_is_honoured_and_shown() {
    let source = pods();
    source.fail_next_watch(Status::from_response(429, "text/plain", Some("17"), b"slow down"));
    let mut rig = Rig::start(&source, listing());
    rig.state("backing off: cannot open watch: 429 TooManyRequests: slow down").await;
    let started = Instant::now();
    rig.watching().await;
    assert_eq!(started.elapsed(), Duration::from_secs(17));
}

#[tokio::test(start_paused = true)]
async fn everything_is_delivered_again_after_each_period_while_watching() {
    let source = pods();
    let should = Arc::new(AtomicBool::new(true));
    let asked = should.clone();
    let mut config = listing();
    config.resync_period = Some(Duration::from_secs(60));
    config.should_resync = Some(Arc::new(move || asked.load(Ordering::Relaxed)));
    source.fail_next_list(Status::from_response(429, "text/plain", Some("300"), b""));
    let mut rig = Rig::start(&source, config);
    rig.watching().await;
    assert_eq!(rig.sink.log(), ["replace 100 []"], "no resync while the server could not be listed");
    let started = Instant::now();
    rig.logged("resync").await;
    assert_eq!(started.elapsed(), Duration::from_secs(60));
    should.store(false, Ordering::Relaxed);
    tokio::time::sleep(Duration::from_secs(200)).await; // paused time: nothing sleeps
    assert_eq!(rig.sink.log().len(), 2, "should_resync returned false");
    assert_eq!(rig.requests().len(), 3, "a resync sends no request");
}

#[tokio::test(start_paused = true)]
async fn a_watch_without_bookmarks_never_counts_as_dead() {
    let source = pods();
    let mut rig = Rig::start(&source, listing());
    rig.watching().await;
    source.bookmark(); // one bookmark is not an interval
    rig.logged("bookmark 100").await;
    tokio::time::sleep(Duration::from_secs(3600)).await; // paused time: nothing sleeps
    assert_eq!(rig.requests().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_dead_watch_is_detected_by_missing_bookmarks_resumed_and_then_relisted() {
    let source = pods();
    let mut rig = Rig::start(&source, listing());
    rig.watching().await;
    for _ in 0..3 {
        tokio::time::advance(Duration::from_secs(70)).await;
        source.bookmark();
        rig.settle().await;
    }
    let silent_since = Instant::now();
    rig.source.requests_made(3).await;
    assert_eq!(silent_since.elapsed(), Duration::from_secs(210), "three times the longest interval");
    assert_eq!(rig.requests()[2], WATCH_100);
    rig.source.requests_made(5).await;
    assert_eq!(
        rig.requests()[3..5],
        [r#"list rv="100" limit=1"#, r#"list rv="100""#],
        "the server knows the version, but is silent again"
    );
    assert!(rig.errors()[0].contains("timed out after 210s waiting for events"), "{:?}", rig.errors());
}

#[tokio::test(start_paused = true)]
async fn a_regressed_server_is_detected_when_a_resumed_watch_stays_silent() {
    let source = pods();
    source.put(pod("kept"));
    let old = source.checkpoint();
    source.put(pod("lost"));
    let mut rig = Rig::start(&source, listing());
    rig.watching().await;
    tokio::time::advance(Duration::from_secs(2)).await;
    source.restore(&old);
    let started = Instant::now();
    rig.logged("replace 101 [web/kept]").await;
    assert!(started.elapsed() < Duration::from_secs(35));
    assert_eq!(
        rig.requests()[2..5],
        [r#"watch rv="102""#, r#"list rv="102" limit=1"#, r#"list rv="" limit=500"#]
    );
}

#[tokio::test(start_paused = true)]
async fn a_closed_sink_ends_the_reflector() {
    let source = pods();
    let mut rig = Rig::start(&source, listing());
    rig.watching().await;
    rig.sink.closed.store(true, Ordering::Relaxed);
    source.put(pod("a"));
    rig.state("stopped").await;
    (&mut rig.task).await.unwrap();
    assert_eq!(source.open_watches(), 0);
}

#[tokio::test(start_paused = true)]
async fn the_state_follows_the_phases() {
    let source = pods();
    source.fail_next_list(status(503, "ServiceUnavailable"));
    let mut rig = Rig::start(&source, listing());
    assert_eq!(rig.status.borrow().state.to_string(), "pending");
    rig.state("backing off: cannot list: 503 ServiceUnavailable").await;
    rig.watching().await;
    rig.task.abort();

    // A watch-list whose end is pending.
    let source = pods();
    source.support_watch_list(WatchListSupport::Ignored);
    let mut rig = Rig::start(&source, streaming());
    rig.state("streaming the initial list").await;
    rig.watching().await;
}

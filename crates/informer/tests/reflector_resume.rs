//! How a watch is reopened: when, with which back-off, and what is verified before its events are trusted.

use crate::support;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use kube_informer::Scope;
use kube_informer::building_blocks::{
    ListOptions, ListStream, ListerWatcher, Reflector, ReflectorStatus, SourceError, WatchOptions,
    WatchStream,
};
use kube_informer::testing::{Request, ScriptedSource};
use kube_informer::{Informer, InformerState};
use kube_wire::TypeMeta;
use support::*;
use tokio::time::Instant;

const PACE: Duration = Duration::from_millis(800);

fn watches(rig: &Rig) -> usize {
    rig.source.requests().iter().filter(|request| matches!(request, Request::Watch(_))).count()
}

fn lists(rig: &Rig) -> usize {
    rig.source.requests().len() - watches(rig)
}

/// Breaks the watch as soon as it is open, `rounds` times, after calling `before_break`.
async fn break_watches_repeatedly(
    rig: &mut Rig,
    rounds: usize,
    mut before_break: impl FnMut(&ScriptedSource),
) -> Duration {
    let started = Instant::now();
    for _ in 0..rounds {
        rig.watching().await;
        rig.settle().await;
        let seen = rig.source.requests().len();
        before_break(&rig.source);
        rig.source.requests_made(seen + 1).await;
        rig.settle().await;
    }
    started.elapsed()
}

// === pace ===

#[tokio::test(start_paused = true)]
async fn consecutive_opens_of_a_watch_are_at_least_800_ms_apart() {
    let source = pods();
    let mut rig = Rig::start(&source, listing());
    let elapsed = break_watches_repeatedly(&mut rig, 50, |source| {
        source.put(pod("a"));
        source.close_watches();
    })
    .await;
    assert!(elapsed >= PACE * 50, "50 watches within {elapsed:?}");
    assert!(elapsed <= PACE * 51, "an event is progress: no back-off on top ({elapsed:?})");
    assert_eq!(watches(&rig), 51);
    assert_eq!(rig.status.borrow().complete_lists, 1);
}

#[tokio::test(start_paused = true)]
async fn a_long_watch_is_reopened_without_a_wait() {
    let source = pods();
    let mut rig = Rig::start(&source, listing());
    rig.watching().await;
    tokio::time::sleep(PACE).await; // paused time: nothing sleeps
    let started = Instant::now();
    source.put(pod("a"));
    source.close_watches();
    rig.source.requests_made(3).await;
    assert_eq!(started.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn bookmarks_of_a_known_version_do_not_hide_that_a_watch_keeps_breaking() {
    let source = pods();
    let mut rig = Rig::start(&source, listing());
    break_watches_repeatedly(&mut rig, 2, |source| {
        source.bookmark();
        source.send_unreadable_event();
    })
    .await;
    rig.logged("replace 100 []").await;
    assert_eq!(rig.status.borrow().complete_lists, 2, "the second time at one version relists");
}

// === back-off ===

/// The wait after the next error, as the state shows it.
async fn next_wait(rig: &mut Rig) -> Duration {
    rig.watching().await;
    let started = Instant::now();
    rig.source.fail_watches(status(429, "TooManyRequests"));
    rig.state("backing off").await;
    rig.watching().await;
    started.elapsed()
}

#[tokio::test(start_paused = true)]
async fn back_off_resets_after_a_watch_lived_ten_seconds() {
    let source = pods();
    let mut rig = Rig::start(&source, listing());
    for least in [0.8, 1.6, 3.2, 6.4] {
        let wait = next_wait(&mut rig).await.as_secs_f64();
        assert!((least..2.0 * least).contains(&wait), "{wait} for {least}");
    }
    tokio::time::sleep(Duration::from_secs(9)).await; // paused time: nothing sleeps
    assert!(
        next_wait(&mut rig).await >= Duration::from_secs_f64(12.8),
        "the watch has not lived long enough"
    );
    tokio::time::sleep(Duration::from_secs(10)).await; // paused time: nothing sleeps
    assert!(next_wait(&mut rig).await < Duration::from_secs_f64(1.6));
}

#[tokio::test(start_paused = true)]
async fn a_change_after_many_broken_connections_arrives_within_two_seconds() {
    let source = pods();
    let mut rig = Rig::start(&source, listing());
    for round in 0..8 {
        rig.watching().await;
        tokio::time::sleep(Duration::from_secs(11)).await; // paused time: nothing sleeps
        let started = Instant::now();
        source.refuse_next_watch();
        source.break_watches();
        let version = source.put(pod("a"));
        rig.logged(&format!("{} web/a {version}", if round == 0 { "add" } else { "update" })).await;
        assert!(started.elapsed() < Duration::from_secs(2), "round {round}: {:?}", started.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn a_degraded_watch_on_a_quiet_resource_recovers_after_ten_seconds() {
    let source = pods();
    let mut rig = Rig::start(&source, listing());
    break_watches_repeatedly(&mut rig, 2, ScriptedSource::send_unreadable_event).await;
    rig.watching().await;
    rig.settle().await;
    source.send_unreadable_event();
    rig.state("degraded").await;
    let since = Instant::now();
    tokio::time::timeout(Duration::from_secs(3600), rig.watching()).await.expect("it stays degraded");
    assert_eq!(since.elapsed(), Duration::from_secs(10));
}

// === opening ===

/// Accepts connections, but answers no list or no watch while these are set.
struct Hanging {
    source: ScriptedSource,
    lists: AtomicBool,
    watches: AtomicBool,
}

impl Hanging {
    fn new(source: &ScriptedSource) -> Arc<Self> {
        Arc::new(Self { source: source.clone(), lists: false.into(), watches: false.into() })
    }

    fn hang(&self, hangs: bool) {
        self.lists.store(hangs, Ordering::Relaxed);
        self.watches.store(hangs, Ordering::Relaxed);
    }
}

async fn released(hangs: &AtomicBool) {
    while hangs.load(Ordering::Relaxed) {
        tokio::time::sleep(Duration::from_millis(100)).await; // paused time: nothing sleeps
    }
}

impl ListerWatcher for Hanging {
    fn list(&self, options: ListOptions) -> BoxFuture<'_, Result<ListStream, SourceError>> {
        async move {
            released(&self.lists).await;
            self.source.list(options).await
        }
        .boxed()
    }

    fn watch(&self, options: WatchOptions) -> BoxFuture<'_, Result<WatchStream, SourceError>> {
        async move {
            released(&self.watches).await;
            self.source.watch(options).await
        }
        .boxed()
    }

    fn expected_type(&self) -> Option<TypeMeta> {
        self.source.expected_type()
    }

    fn describe(&self) -> String {
        self.source.describe()
    }
}

#[tokio::test(start_paused = true)]
async fn promise_10_an_unanswered_watch_is_not_live() {
    let source = pods();
    let held = Hanging::new(&source);
    held.watches.store(true, Ordering::Relaxed);
    let pods = Informer::<k8s_openapi::api::core::v1::Pod>::from_source(held.clone())
        .reflector(listing())
        .start()
        .unwrap();
    pods.synced().await.unwrap();
    tokio::time::sleep(Duration::from_secs(11)).await; // paused time: nothing sleeps
    let InformerState::Degraded(error) = pods.state() else { panic!("{}", pods.state()) };
    assert!(error.to_string().contains("10s"), "{error}");
    // The reflector keeps waiting: some proxies hold the headers back until the first event.
    held.watches.store(false, Ordering::Relaxed);
    tokio::time::sleep(Duration::from_secs(1)).await; // paused time: nothing sleeps
    assert!(matches!(pods.state(), InformerState::Live), "{}", pods.state());
    // A list, a watch, and the verification of the list.
    assert_eq!(source.requests().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_hanging_retry_keeps_the_state_degraded() {
    let expire: fn(&ScriptedSource) = |source| source.send_error(status(410, "Expired"));
    let refuse: fn(&ScriptedSource) = |source| {
        source.refuse_next_watch();
        source.break_watches();
    };
    // How long a watch hangs before it counts as unanswered does not matter.
    let patient = || {
        let mut config = listing();
        config.watch_answer_max = Duration::MAX;
        config
    };
    for (config, fail) in [(listing(), expire), (streaming(), expire), (patient(), refuse)] {
        let source = pods();
        source.put(pod("a"));
        let held = Hanging::new(&source);
        let pods = Informer::<k8s_openapi::api::core::v1::Pod>::from_source(held.clone())
            .reflector(config)
            .start()
            .unwrap();
        pods.synced().await.unwrap();
        tokio::time::sleep(Duration::from_secs(20)).await; // paused time: nothing sleeps
        assert!(matches!(pods.state(), InformerState::Live), "{}", pods.state());
        fail(&source);
        tokio::time::sleep(Duration::from_millis(1)).await; // paused time: nothing sleeps
        held.hang(true);
        for _ in 0..200 {
            assert!(matches!(pods.state(), InformerState::Degraded(_)), "{}", pods.state());
            tokio::time::sleep(Duration::from_millis(100)).await; // paused time: nothing sleeps
        }
        held.hang(false);
        tokio::time::sleep(Duration::from_secs(60)).await; // paused time: nothing sleeps
        assert!(matches!(pods.state(), InformerState::Live), "{}", pods.state());
        // An error that is over does not count at the next normal reopening.
        source.close_watches();
        tokio::time::sleep(Duration::from_millis(1)).await; // paused time: nothing sleeps
        assert!(matches!(pods.state(), InformerState::Live), "{}", pods.state());
    }
}

// === verification ===

#[tokio::test(start_paused = true)]
async fn a_restored_server_behind_the_cache_is_detected_at_the_first_reconnect() {
    let source = pods();
    source.put(pod("kept"));
    let old = source.checkpoint();
    source.put(pod("lost"));
    let mut rig = Rig::start(&source, listing());
    rig.watching().await;
    let started = Instant::now();
    source.break_watches();
    source.restore(&old);
    rig.logged("replace 101 [web/kept]").await;
    assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_restored_server_ahead_of_the_cache_is_detected_at_the_first_reconnect() {
    let source = pods();
    source.put(pod("kept"));
    let old = source.checkpoint();
    source.put(pod("lost"));
    let mut rig = Rig::start(&source, listing());
    rig.watching().await;
    source.break_watches();
    source.restore(&old);
    (0..5).for_each(|_| drop(source.put(pod("other"))));
    let started = Instant::now();
    rig.logged("replace 106 [web/kept web/other]").await;
    assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
    let events = rig.sink.log().iter().filter(|line| line.starts_with("update")).count();
    assert_eq!(events, 0, "no event was trusted before: {:?}", rig.sink.log());
}

#[tokio::test(start_paused = true)]
async fn a_server_restored_while_a_throttled_watch_backs_off_is_detected() {
    for in_stream in [false, true] {
        let source = pods();
        source.put(pod("kept"));
        let old = source.checkpoint();
        source.put(pod("lost"));
        if !in_stream {
            source.fail_next_watch(status(429, "TooManyRequests"));
        }
        let mut rig = Rig::start(&source, listing());
        if in_stream {
            rig.watching().await;
            source.send_error(status(429, "TooManyRequests"));
        }
        rig.state("backing off").await;
        source.restore(&old);
        (0..5).for_each(|_| drop(source.put(pod("other"))));
        rig.logged("replace 106 [web/kept web/other]").await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_restored_server_is_detected_after_a_clean_end_of_the_watch() {
    let source = pods();
    source.put(pod("kept"));
    let old = source.checkpoint();
    source.put(pod("lost"));
    let mut rig = Rig::start(&source, listing());
    rig.watching().await;
    tokio::time::sleep(Duration::from_secs(2)).await; // paused time: nothing sleeps
    source.restore(&old); // closes the watch
    (0..5).for_each(|_| drop(source.put(pod("other"))));
    let started = Instant::now();
    rig.logged("replace 106 [web/kept web/other]").await;
    assert!(started.elapsed() < Duration::from_secs(2), "{:?}", started.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_restored_server_is_detected_when_the_newest_object_has_the_same_version_again() {
    let renewed = |by: &str| {
        let mut lease = pod("lease");
        lease["spec"] = serde_json::json!({"renewedBy": by});
        lease
    };
    let source = pods();
    source.put(renewed("one"));
    let old = source.checkpoint();
    source.put(pod("lost"));
    source.put(renewed("one"));
    let mut rig = Rig::start(&source, listing());
    rig.watching().await;
    source.break_watches();
    source.restore(&old);
    source.put(pod("other"));
    source.put(renewed("two"));
    rig.logged("replace 103 [web/lease web/other]").await;
}

#[tokio::test(start_paused = true)]
async fn a_restored_server_is_detected_when_only_deletions_were_lost() {
    let source = pods();
    ["kept", "deleted"].iter().for_each(|name| drop(source.put(pod(name))));
    let old = source.checkpoint();
    let mut rig = Rig::start(&source, listing());
    rig.watching().await;
    source.delete("web/deleted");
    rig.logged("delete web/deleted 103").await;
    source.break_watches();
    source.restore(&old);
    (0..5).for_each(|_| drop(source.put(pod("other"))));
    rig.logged("replace 107 [web/deleted web/kept web/other]").await;
}

#[tokio::test(start_paused = true)]
async fn a_restored_server_is_detected_when_a_deleted_object_was_created_again() {
    let source = pods();
    source.put(pod("kept"));
    let old = source.checkpoint();
    source.put(pod("deleted"));
    let mut rig = Rig::start(&source, listing());
    rig.watching().await;
    source.delete("web/deleted");
    rig.logged("delete web/deleted 103").await;
    source.break_watches();
    source.restore(&old);
    // At version 103, the newest cached object is the same, and the deleted one exists with another uid.
    ["deleted", "b", "c", "d"].iter().for_each(|name| drop(source.put(pod(name))));
    rig.logged("replace 105 [web/b web/c web/d web/deleted web/kept]").await;
}

#[tokio::test(start_paused = true)]
async fn promise_1_a_server_that_is_restored_between_a_list_and_its_watch_is_detected() {
    for hangs in [Duration::from_secs(2), Duration::ZERO] {
        let source = pods();
        source.put(pod("kept"));
        let old = source.checkpoint();
        source.put(pod("lost"));
        let held = Hanging::new(&source);
        held.watches.store(!hangs.is_zero(), Ordering::Relaxed);
        let pods = Informer::<k8s_openapi::api::core::v1::Pod>::from_source(held.clone())
            .reflector(listing())
            .start()
            .unwrap();
        pods.synced().await.unwrap();
        if hangs.is_zero() {
            // A watch that follows soon needs no verification.
            has_reached(&pods, &source.put(pod("other"))).await;
            assert_eq!(source.requests().len(), 2, "{:?}", source.requests());
            continue;
        }
        tokio::time::sleep(hangs).await; // paused time: nothing sleeps
        source.restore(&old);
        (0..5).for_each(|_| drop(source.put(pod("other"))));
        held.watches.store(false, Ordering::Relaxed);
        has_reached(&pods, "106").await;
        let names: Vec<_> = pods.lister().list().iter().map(|pod| pod.name().to_owned()).collect();
        assert_eq!(names, ["kept", "other"]);
    }
}

#[tokio::test(start_paused = true)]
async fn promise_1_a_server_that_is_restored_between_two_watches_is_detected() {
    for hangs in [Duration::from_secs(2), Duration::ZERO] {
        let source = pods();
        source.put(pod("kept"));
        let old = source.checkpoint();
        source.put(pod("lost"));
        let held = Hanging::new(&source);
        let pods = Informer::<k8s_openapi::api::core::v1::Pod>::from_source(held.clone())
            .reflector(listing())
            .start()
            .unwrap();
        pods.synced().await.unwrap();
        let requests = source.requests_made(2).await;
        let Some(Request::Watch(WatchOptions { timeout: Some(lasts), .. })) = requests.last() else {
            panic!("{requests:?}")
        };
        tokio::time::sleep(*lasts).await; // paused time: nothing sleeps
        held.watches.store(!hangs.is_zero(), Ordering::Relaxed);
        source.close_watches();
        if hangs.is_zero() {
            // A watch that follows soon needs no verification.
            has_reached(&pods, &source.put(pod("other"))).await;
            assert_eq!(source.requests().len(), 3, "{:?}", source.requests());
            continue;
        }
        tokio::time::sleep(hangs).await; // paused time: nothing sleeps
        source.restore(&old);
        (0..5).for_each(|_| drop(source.put(pod("other"))));
        held.watches.store(false, Ordering::Relaxed);
        has_reached(&pods, "106").await;
        let names: Vec<_> = pods.lister().list().iter().map(|pod| pod.name().to_owned()).collect();
        assert_eq!(names, ["kept", "other"]);
    }
}

async fn has_reached(pods: &Informer<k8s_openapi::api::core::v1::Pod>, version: &str) {
    while pods.lister().view().resource_version(Scope::default()) != version {
        tokio::time::sleep(Duration::from_millis(100)).await; // paused time: nothing sleeps
    }
}

#[tokio::test(start_paused = true)]
async fn a_restored_server_is_detected_with_an_empty_cache() {
    let source = pods();
    let old = source.checkpoint();
    source.put(pod("a"));
    source.delete("web/a");
    let mut rig = Rig::start(&source, listing());
    rig.watching().await;
    source.break_watches();
    source.restore(&old);
    (0..5).for_each(|number| drop(source.put(pod(&format!("p{number}")))));
    rig.logged("replace 105 [web/p0 web/p1 web/p2 web/p3 web/p4]").await;
}

#[tokio::test(start_paused = true)]
async fn a_broken_or_early_watch_costs_one_small_list_and_a_normal_close_no_list() {
    let source = pods();
    ["a", "b"].iter().for_each(|name| drop(source.put(pod(name))));
    let mut rig = Rig::start(&source, listing());
    rig.watching().await;
    for (count, refused) in [(1, false), (2, true)] {
        tokio::time::sleep(Duration::from_secs(2)).await; // paused time: nothing sleeps
        if refused {
            source.refuse_next_watch();
        }
        source.break_watches();
        let version = source.put(pod("a"));
        rig.logged(&format!("update web/a {version}")).await;
        assert_eq!(lists(&rig), 1 + count, "{:?}", rig.requests());
    }
    let requests = source.requests();
    let Some(Request::List(check)) = requests.iter().rfind(|request| matches!(request, Request::List(_)))
    else {
        panic!("{requests:?}")
    };
    assert_eq!((check.field_selector.as_str(), check.namespace.as_deref()), ("metadata.name=a", Some("web")));
    assert_eq!((check.resource_version.as_str(), check.limit), ("103", Some(1)));
    assert_eq!(check.version_match.map(|m| m.as_str()), Some("Exact"));

    for (lived, count) in [(60, 4), (600, 4)] {
        tokio::time::sleep(Duration::from_secs(lived)).await; // paused time: nothing sleeps
        source.close_watches();
        let version = source.put(pod("a"));
        rig.logged(&format!("update web/a {version}")).await;
        assert_eq!(lists(&rig), count, "a timely close needs no verification");
    }
    assert_eq!(rig.status.borrow().complete_lists, 1, "and no relist");
}

#[tokio::test(start_paused = true)]
async fn a_version_that_can_no_longer_be_verified_causes_a_relist() {
    let source = pods();
    source.put(pod("a"));
    let mut rig = Rig::start(&source, listing());
    rig.watching().await;
    source.fail_next_list(status(410, "Expired"));
    source.break_watches();
    rig.status.wait_for(|status| status.complete_lists == 2).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_unanswered_check_is_repeated_before_events_are_trusted() {
    let source = pods();
    source.put(pod("kept"));
    let old = source.checkpoint();
    source.put(pod("lost"));
    let mut rig = Rig::start(&source, listing());
    rig.watching().await;
    source.fail_next_list(status(429, "TooManyRequests"));
    source.break_watches();
    source.restore(&old);
    (0..5).for_each(|_| drop(source.put(pod("other"))));
    rig.logged("replace 106 [web/kept web/other]").await;
    assert!(!rig.sink.log().iter().any(|line| line.starts_with("update")), "{:?}", rig.sink.log());
}

#[tokio::test(start_paused = true)]
async fn a_server_that_cannot_select_by_name_is_trusted() {
    let source = pods();
    source.put(pod("a"));
    let mut rig = Rig::start(&source, listing());
    rig.watching().await;
    source.fail_next_list(status(400, "BadRequest"));
    source.break_watches();
    source.put(pod("a"));
    rig.logged("update web/a 102").await;
    assert_eq!(rig.status.borrow().complete_lists, 1);
}

/// A refusal does not confirm the history: trusting it would miss a server that was rolled back.
#[tokio::test(start_paused = true)]
async fn a_forbidden_check_causes_a_relist() {
    let source = pods();
    source.put(pod("a"));
    let mut rig = Rig::start(&source, listing());
    rig.watching().await;
    source.fail_next_list(status(403, "Forbidden"));
    source.break_watches();
    let relisted = |status: &ReflectorStatus| status.complete_lists == 2;
    rig.status.wait_for(relisted).await.unwrap();
}

/// Lists the current state, ignoring all options.
struct IgnoresOptions(ScriptedSource);

impl ListerWatcher for IgnoresOptions {
    fn list(&self, _: ListOptions) -> BoxFuture<'_, Result<ListStream, SourceError>> {
        self.0.list(ListOptions::default())
    }

    fn watch(&self, options: WatchOptions) -> BoxFuture<'_, Result<WatchStream, SourceError>> {
        self.0.watch(options)
    }

    fn describe(&self) -> String {
        self.0.describe()
    }
}

#[tokio::test(start_paused = true)]
async fn a_source_that_ignores_options_causes_no_complete_list() {
    let source = pods();
    ["a", "b"].iter().for_each(|name| drop(source.put(pod(name))));
    let sink = RecorderSink::default();
    let ignoring = Arc::new(IgnoresOptions(source.clone()));
    let reflector = Reflector::new(ignoring, Arc::new(sink.clone()), Scope::default(), listing());
    let mut status = reflector.status();
    tokio::spawn(reflector.run());
    for version in [103, 104, 105] {
        status.wait_for(|status| status.state.to_string() == "watching").await.unwrap();
        source.break_watches();
        source.put(pod("a"));
        sink.0.logged(&format!("update web/a {version}")).await;
    }
    assert_eq!(status.borrow().complete_lists, 1, "{:?}", sink.0.log());
}

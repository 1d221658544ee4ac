//! The rules of listing: resourceVersions, pages, and what follows a refusal.

use crate::support;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use futures::{StreamExt, TryStreamExt, stream};
use http_body_util::{BodyExt, StreamBody};
use k8s_openapi::api::core::v1::Pod;
use kube_informer::building_blocks::{
    FunctionSource, ListOptions, ListPart, ListerWatcher, Reflector, SourceError, WatchOptions,
};
use kube_informer::testing::Request;
use kube_informer::{Informer, Scope};
use kube_wire::TypeMeta;
use parking_lot::Mutex;
use serde_json::json;
use support::bodies::{answering, list_of, pieces, trickle, whole};
use support::*;
use tokio::time::Instant;

#[tokio::test(start_paused = true)]
async fn the_first_list_requests_any_state_and_a_relist_the_last_version() {
    let source = pods();
    source.put(pod("a"));
    let mut rig = Rig::start(&source, listing());
    rig.watching().await;
    source.put(pod("b"));
    rig.logged("add web/b 102").await;
    source.compact();
    source.fail_watches(status(403, "Forbidden"));
    rig.logged("replace 102 [web/a web/b]").await;
    assert_eq!(rig.requests()[..3], [r#"list rv="0" limit=500"#, r#"watch rv="101""#, r#"list rv="102""#]);
}

#[tokio::test(start_paused = true)]
async fn an_expired_version_is_followed_immediately_by_a_list_of_the_most_recent_state() {
    for refusal in [status(410, "Expired"), status(410, "Gone")] {
        let source = pods();
        source.put(pod("a"));
        let mut rig = Rig::start(&source, listing());
        rig.watching().await;
        source.fail_next_list(refusal);
        source.fail_watches(status(403, "Forbidden"));
        rig.source.requests_made(5).await;
        assert_eq!(
            rig.requests()[2..],
            [r#"list rv="101""#, r#"list rv="""#, r#"watch rv="101""#],
            "the repeated list is unpaged too"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_version_newer_than_the_servers_counts_as_unavailable() {
    let source = pods();
    let old = source.checkpoint();
    source.put(pod("a"));
    let mut rig = Rig::start(&source, listing());
    rig.watching().await;
    source.restore(&old);
    source.compact();
    source.fail_watches(status(403, "Forbidden"));
    rig.logged("replace 100 []").await;
    assert!(rig.requests().contains(&r#"list rv="101""#.to_owned()));
    assert!(rig.requests().contains(&r#"list rv="""#.to_owned()));
    assert!(rig.errors().iter().any(|line| line.contains("Too large resource version: 101")
        && line.ends_with("requesting the most recent state instead")));
}

#[tokio::test(start_paused = true)]
async fn a_successful_list_clears_the_unavailable_version() {
    let source = pods();
    let mut rig = Rig::start(&source, listing());
    rig.watching().await;
    source.fail_next_list(status(410, "Expired"));
    source.fail_watches(status(403, "Forbidden"));
    rig.source.requests_made(5).await;
    rig.watching().await;
    source.fail_watches(status(403, "Forbidden"));
    rig.source.requests_made(6).await;
    assert_eq!(rig.requests()[5], r#"list rv="100""#);
}

#[tokio::test(start_paused = true)]
async fn lists_request_the_most_recent_state_while_the_version_is_unavailable() {
    let source = pods();
    let mut rig = Rig::start(&source, listing());
    rig.watching().await;
    for refusal in [status(410, "Expired"), status(503, "ServiceUnavailable")] {
        source.fail_next_list(refusal);
    }
    source.fail_watches(status(403, "Forbidden"));
    rig.source.requests_made(6).await;
    assert_eq!(rig.requests()[2..5], [r#"list rv="100""#, r#"list rv="""#, r#"list rv="" limit=500"#]);
}

#[tokio::test(start_paused = true)]
async fn pages_are_requested_only_where_the_servers_cache_does_not_answer() {
    let source = pods();
    let mut rig = Rig::start(&source, listing());
    rig.watching().await;
    source.fail_watches(status(403, "Forbidden"));
    rig.source.requests_made(4).await;
    assert_eq!(rig.requests()[0], r#"list rv="0" limit=500"#);
    assert_eq!(rig.requests()[2], r#"list rv="100""#);
}

#[tokio::test(start_paused = true)]
async fn a_paginated_list_at_zero_is_remembered() {
    let source = pods();
    source.paginate_at_zero(true);
    (0..501).for_each(|i| drop(source.put(pod(&format!("p{i:03}")))));
    let mut rig = Rig::start(&source, listing());
    rig.watching().await;
    source.fail_watches(status(403, "Forbidden"));
    rig.source.requests_made(4).await;
    assert_eq!(rig.requests()[1], "list rv=\"\" limit=500 continue=601-1");
    assert_eq!(rig.requests()[3], r#"list rv="601" limit=500"#);
    assert_eq!(rig.sink.objects.lock().len(), 501);
}

#[tokio::test(start_paused = true)]
async fn a_configured_page_size_is_always_used() {
    let source = pods();
    let mut config = listing();
    config.page_size = Some(3);
    let mut rig = Rig::start(&source, config);
    rig.watching().await;
    source.fail_watches(status(403, "Forbidden"));
    rig.source.requests_made(4).await;
    assert_eq!(rig.requests()[0], r#"list rv="0" limit=3"#);
    assert_eq!(rig.requests()[2], r#"list rv="100" limit=3"#);
}

#[tokio::test(start_paused = true)]
async fn later_pages_send_the_token_without_a_version_and_the_list_has_the_first_pages_version() {
    let source = pods();
    source.paginate_at_zero(true);
    ["a", "b", "c"].iter().for_each(|name| drop(source.put(pod(name))));
    let mut config = listing();
    config.page_size = Some(2);
    let mut rig = Rig::start(&source, config);
    rig.watching().await;
    let Request::List(page) = &source.requests()[1] else { panic!() };
    assert_eq!((page.resource_version.as_str(), page.version_match), ("", None));
    assert_eq!(page.continue_token, "103-1");
    assert_eq!(rig.sink.log(), ["replace 103 [web/a web/b web/c]"]);
    assert_eq!(rig.last_version.get(), "103");
}

#[tokio::test(start_paused = true)]
async fn an_expired_token_is_followed_by_one_unpaged_list_at_the_original_version() {
    let source = pods();
    source.paginate_at_zero(true);
    ["a", "b", "c"].iter().for_each(|name| drop(source.put(pod(name))));
    let mut config = listing();
    config.page_size = Some(2);
    // The first list passes unchanged; the second page has an expired token.
    source.answer_next_list_with_kind("PodList");
    source.fail_next_list(status(410, "Expired"));
    let mut rig = Rig::start(&source, config);
    rig.watching().await;
    assert_eq!(
        rig.requests(),
        [
            r#"list rv="0" limit=2"#,
            "list rv=\"\" limit=2 continue=103-1",
            r#"list rv="0""#,
            r#"watch rv="103""#
        ]
    );
    assert_eq!(rig.sink.log(), ["replace 103 [web/a web/b web/c]"]);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_pages_endlessly_is_reported() {
    let source = pods();
    source.paginate_at_zero(true);
    ["a", "b", "c"].iter().for_each(|name| drop(source.put(pod(name))));
    let mut config = listing();
    config.page_size = Some(2);
    // It pages although no limit was set, and its tokens expire immediately.
    source.answer_next_list_with_token("first");
    source.fail_next_list(status(410, "Expired"));
    source.answer_next_list_with_token("first");
    source.fail_next_list(status(410, "Expired"));
    // Or the next page is the same page.
    source.answer_next_list_with_token("again");
    source.answer_next_list_with_token("again");
    let mut rig = Rig::start(&source, config);
    rig.watching().await;
    let errors = rig.errors();
    assert!(errors[0].contains("Expired") && errors[0].ends_with("listing instead"), "{errors:?}");
    assert!(errors[1].ends_with("requesting the most recent state instead"), "{errors:?}");
    assert!(errors[2].contains("the server repeats a `continue` token; relisting in"), "{errors:?}");
    assert_eq!(rig.sink.log(), ["replace 103 [web/a web/b web/c]"]);
}

#[tokio::test(start_paused = true)]
async fn a_server_whose_tokens_go_in_circles_is_reported() {
    let source = pods();
    source.put(pod("a"));
    ["x", "y", "x", "y"].iter().for_each(|token| source.answer_next_list_with_token(token));
    let mut rig = Rig::start(&source, listing());
    rig.state("backing off").await;
    let requests = rig.requests().len();
    assert_eq!(requests, 3, "{:?}", rig.requests());
    let says = "cannot list: invalid list: the server repeats a `continue` token; relisting in";
    assert!(rig.errors()[0].contains(says), "{:?}", rig.errors());
}

#[tokio::test(start_paused = true)]
async fn a_server_whose_pages_are_empty_is_reported() {
    let source = pods();
    source.put(pod("a"));
    (0..1000).for_each(|page| source.answer_next_list_with_token(&page.to_string()));
    let mut rig = Rig::start(&source, listing());
    rig.state("backing off").await;
    let requests = rig.requests().len();
    assert_eq!(requests, 100);
    let says = "cannot list: invalid list: 100 pages in a row without a new object; relisting in";
    assert!(rig.errors()[0].contains(says), "{:?}", rig.errors());
}

#[tokio::test(start_paused = true)]
async fn a_server_that_repeats_a_page_is_reported() {
    let page = Arc::new(AtomicUsize::new(0));
    let source = answering(move |_| {
        let mut list: serde_json::Value = serde_json::from_str(&list_of(10)).unwrap();
        list["metadata"]["continue"] = page.fetch_add(1, Ordering::Relaxed).to_string().into();
        http::Response::new(whole(&list.to_string()))
    });
    let errors = Arc::new(Mutex::new(Vec::new()));
    let reported = errors.clone();
    let mut config = listing();
    config.on_error = Some(Arc::new(move |report| reported.lock().push(report.to_string())));
    let sink = Arc::new(RecorderSink::default());
    let reflector = Reflector::new(Arc::new(source), sink, Scope::default(), config);
    let mut status = reflector.status();
    tokio::spawn(reflector.run());
    let reported = status.wait_for(|status| status.last_error.is_some());
    tokio::time::timeout(Duration::from_secs(60), reported).await.unwrap().unwrap();
    assert!(errors.lock()[0].contains("100 pages in a row without a new object"), "{:?}", errors.lock());
}

#[tokio::test(start_paused = true)]
async fn a_list_of_many_small_pages_is_complete() {
    let source = pods();
    source.paginate_at_zero(true);
    (0..300).for_each(|i| drop(source.put(pod(&format!("p{i:03}")))));
    let mut config = listing();
    config.page_size = Some(1);
    let mut rig = Rig::start(&source, config);
    rig.watching().await;
    assert_eq!(rig.sink.objects.lock().len(), 300);
    assert_eq!(rig.errors(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn an_interrupted_list_changes_nothing() {
    let source = pods();
    ["a", "b", "c"].iter().for_each(|name| drop(source.put(pod(name))));
    source.break_next_list_after(2);
    let mut rig = Rig::start(&source, listing());
    rig.state("backing off").await;
    assert_eq!(rig.sink.log(), [""; 0]);
    rig.watching().await;
    assert_eq!(rig.sink.log(), ["replace 103 [web/a web/b web/c]"]);
}

#[tokio::test(start_paused = true)]
async fn a_table_is_not_a_list() {
    let source = pods();
    source.answer_next_list_with_kind("Table");
    let mut rig = Rig::start(&source, listing());
    rig.watching().await;
    let errors = rig.errors();
    assert!(
        errors[0].starts_with(
            "scripted v1/Pod: cannot list: expected a list of v1/Pod, but the server sent Table; relisting in"
        ),
        "{errors:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn promise_1_a_response_that_is_not_a_list_of_the_kind_is_an_error_and_the_cache_stays() {
    for kind in ["", "Pod", "Status", "ServiceList", "APIResourceList", "List"] {
        let source = pods();
        source.put(pod("a"));
        let mut rig = Rig::start(&source, listing());
        rig.watching().await;
        source.answer_next_list_with_kind(kind);
        source.fail_watches(status(403, "Forbidden"));
        rig.source.requests_made(3).await;
        rig.settle().await;
        assert_eq!(rig.sink.log(), ["replace 101 [web/a]"], "{kind:?}");
        let named = if kind.is_empty() { "an object without a kind" } else { kind };
        let expected = format!("expected a list of v1/Pod, but the server sent {named}; relisting in");
        assert!(rig.errors()[1].contains(&expected), "{:?}", rig.errors());
        rig.watching().await;
        assert_eq!(rig.sink.log(), ["replace 101 [web/a]"; 2], "{kind:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_later_page_that_is_not_a_list_is_an_error_and_the_cache_stays() {
    let source = pods();
    source.paginate_at_zero(true);
    ["a", "b", "c"].iter().for_each(|name| drop(source.put(pod(name))));
    let mut config = listing();
    config.page_size = Some(2);
    source.answer_next_list_with_kind("PodList");
    source.answer_next_list_with_kind("ServiceList");
    let mut rig = Rig::start(&source, config);
    rig.watching().await;
    assert!(rig.errors()[0].contains("but the server sent ServiceList"), "{:?}", rig.errors());
    assert_eq!(rig.sink.log(), ["replace 103 [web/a web/b web/c]"]);
}

#[tokio::test(start_paused = true)]
async fn a_list_with_an_item_of_another_kind_is_an_error_and_the_cache_stays() {
    let source = pods();
    source.put(pod("a"));
    let foreign = source.object(&json!({"kind": "Service", "apiVersion": "v1", "metadata": {"name": "b"}}));
    let (listed, watched) = (source.clone(), source.clone());
    let polluted = Arc::new(AtomicBool::new(true));
    let list = move |options: ListOptions| {
        let (source, foreign, polluted) = (listed.clone(), foreign.clone(), polluted.clone());
        async move {
            let items = source.list(options).await?;
            let extra = polluted.swap(false, Ordering::Relaxed).then_some(Ok(ListPart::Item(foreign)));
            Ok(stream::iter(extra).chain(items).boxed())
        }
    };
    let watch = move |options: WatchOptions| {
        let source = watched.clone();
        async move { source.watch(options).await }
    };
    let source = FunctionSource::new("pods", list, watch).expect(TypeMeta::new("v1", "Pod"));
    let sink = RecorderSink::default();
    let mut config = listing();
    let errors = Arc::<Mutex<Vec<String>>>::default();
    let log = errors.clone();
    config.on_error = Some(Arc::new(move |error| log.lock().push(error.to_string())));
    let reflector = Reflector::new(Arc::new(source), Arc::new(sink.clone()), Scope::default(), config);
    tokio::spawn(reflector.run());
    sink.0.logged("replace 101 [web/a]").await;
    assert_eq!(sink.0.log().len(), 1);
    let expected =
        "pods: cannot list: expected a list of v1/Pod, but the server sent an item of kind v1/Service;";
    assert!(errors.lock()[0].starts_with(expected), "{:?}", errors.lock());
}

#[tokio::test(start_paused = true)]
async fn one_unreadable_item_is_skipped_and_reported() {
    let source = pods();
    ["a", "b"].iter().for_each(|name| drop(source.put(pod(name))));
    source.add_bad_item_to_next_list();
    let mut rig = Rig::start(&source, listing());
    rig.watching().await;
    assert_eq!(rig.sink.log(), ["replace 102 [web/a web/b]"]);
    assert_eq!(
        rig.errors(),
        ["scripted v1/Pod: cannot read one object: cannot read the response: malformed JSON object at \
          byte 7: a value was expected; skipped"]
    );
}

#[tokio::test(start_paused = true)]
async fn promise_3_an_item_without_a_key_does_not_make_a_cached_object_count_as_deleted() {
    for nameless in [false, true] {
        let source = pods();
        ["a", "b"].iter().for_each(|name| drop(source.put(pod(name))));
        let mut rig = Rig::start(&source, listing());
        rig.watching().await;
        // The next list has an item that may be `b`.
        source.fail_watches(status(403, "Forbidden"));
        source.delete("web/b");
        source.compact();
        match nameless {
            true => source.add_nameless_item_to_next_list(),
            false => source.add_bad_item_to_next_list(),
        }
        rig.logged("replace 103 [web/a web/b]").await;
        let errors = rig.errors();
        assert!(errors[1].ends_with("; skipped"), "{errors:?}");
        // It is listed again when the watch ends, however it ends.
        rig.watching().await;
        let requests = rig.requests().len();
        tokio::time::sleep(Duration::from_secs(400)).await; // paused time: nothing sleeps
        source.close_watches();
        rig.logged("replace 103 [web/a]").await;
        assert_eq!(rig.requests()[requests], r#"list rv="103""#);
        rig.watching().await;
        // This list was complete, so the next watch resumes.
        let requests = rig.requests().len();
        tokio::time::sleep(Duration::from_secs(400)).await; // paused time: nothing sleeps
        source.close_watches();
        rig.source.requests_made(requests + 1).await;
        assert!(rig.requests()[requests].starts_with("watch"), "{:?}", rig.requests());
    }
}

#[tokio::test(start_paused = true)]
async fn a_refusal_shows_in_the_state_until_the_server_accepts() {
    let source = pods();
    source.fail_next_list(status(403, "Forbidden"));
    let mut rig = Rig::start(&source, listing());
    rig.state("backing off: cannot list: 403 Forbidden: for a test").await;
    assert!(!rig.status.borrow().listed);
    rig.watching().await;
    assert!(rig.status.borrow().listed);
    assert!(rig.status.borrow().last_error.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_new_epoch_is_counted_in_the_status() {
    let source = pods();
    let mut rig = Rig::start(&source, listing());
    rig.watching().await;
    assert_eq!(rig.status.borrow().epoch, 0);
    rig.sink.next_commit_is_a_new_epoch.store(true, Ordering::Relaxed);
    source.fail_watches(status(403, "Forbidden"));
    rig.status.wait_for(|status| status.epoch == 1).await.unwrap();
}

// === slow lists ===

#[tokio::test(start_paused = true)]
async fn a_list_that_is_too_slow_is_an_error_that_says_so_and_is_retried() {
    let is_first = Arc::new(AtomicBool::new(true));
    let source = answering(move |request| {
        let is_watch = request.uri().query().unwrap_or_default().contains("watch=");
        http::Response::new(match is_watch {
            true => trickle("x", 1, Duration::MAX),
            false if is_first.swap(false, Ordering::Relaxed) => {
                trickle(&list_of(1000), 1, Duration::from_secs(59))
            }
            false => whole(&list_of(1000)),
        })
    });
    let errors = Arc::new(Mutex::new(Vec::new()));
    let mut config = listing();
    let reported = errors.clone();
    config.on_error = Some(Arc::new(move |report| reported.lock().push(report.to_string())));
    let began = Instant::now();
    let pods = Informer::<Pod>::from_source(Arc::new(source)).reflector(config).start().unwrap();
    pods.synced().await.unwrap();
    assert_eq!(pods.lister().count(), 1);
    let errors = errors.lock().clone();
    let [error] = &errors[..] else { panic!("{errors:?}") };
    let says = "pods in all namespaces: cannot list: the list is too slow: 6 B received in 354s; at least 1 KiB/s is \
                required; relisting in ";
    assert!(error.starts_with(says), "{error}");
    assert!(began.elapsed() < Duration::from_secs(360), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_slow_list_that_makes_progress_is_read_to_its_end() {
    let source =
        answering(|_| http::Response::new(trickle(&list_of(2 << 20), 64 << 10, Duration::from_secs(50))));
    let began = Instant::now();
    let parts = source.list(ListOptions::default()).await.unwrap().try_collect::<Vec<_>>().await.unwrap();
    assert_eq!(parts.len(), 2);
    assert!(began.elapsed() > Duration::from_secs(1500), "{:?}", began.elapsed());
    // A fast beginning does not make up for a slow end.
    let source = answering(|_| {
        let list = list_of(2 << 20);
        let (fast, slow) = list.split_at(list.len() - 100);
        let fast = pieces(fast, 64 << 10, Duration::ZERO);
        let pieces = fast.chain(pieces(slow, 1, Duration::from_secs(50)));
        http::Response::new(StreamBody::new(pieces).boxed_unsync())
    });
    let list = source.list(ListOptions::default()).await.unwrap();
    let error = list.try_collect::<Vec<_>>().await.unwrap_err();
    assert!(matches!(error, SourceError::Slow { bytes: ..100, .. }), "{error}");
}

#[tokio::test(start_paused = true)]
async fn the_body_of_a_refusal_has_a_time_limit() {
    let source = answering(|_| {
        let text = json!({"kind": "Status", "code": 403, "message": "no"}).to_string();
        let mut answer = http::Response::new(trickle(&text, 1, Duration::from_secs(59)));
        *answer.status_mut() = http::StatusCode::FORBIDDEN;
        answer
    });
    let began = Instant::now();
    let Err(error) = source.list(ListOptions::default()).await else { panic!("it was refused") };
    assert_eq!(error.status().map(|status| status.code), Some(403));
    assert!(began.elapsed() <= Duration::from_secs(60), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_watch_list_that_is_too_slow_is_followed_by_a_list() {
    let source = answering(|request| {
        let query = request.uri().query().unwrap_or_default();
        let event = r#"{"type":"ADDED","object":{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a"}}}"#;
        http::Response::new(match query.contains("watch=") {
            true => trickle(event, 1, Duration::from_secs(29)),
            false => whole(&list_of(1000)),
        })
    });
    let began = Instant::now();
    let pods = Informer::<Pod>::from_source(Arc::new(source)).reflector(streaming()).start().unwrap();
    pods.synced().await.unwrap();
    assert!(began.elapsed() < Duration::from_secs(40), "{:?}", began.elapsed());
}

//! The rules of listing: resourceVersions, pages, and what follows a refusal.

use crate::support;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::{StreamExt, stream};
use kube_informer::Scope;
use kube_informer::building_blocks::{
    FunctionSource, ListOptions, ListPart, ListerWatcher, Reflector, WatchOptions,
};
use kube_informer::testing::Request;
use kube_wire::TypeMeta;
use parking_lot::Mutex;
use serde_json::json;
use support::*;

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
    assert!(errors[2].contains("with the same token; relisting in"), "{errors:?}");
    assert_eq!(rig.sink.log(), ["replace 103 [web/a web/b web/c]"]);
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

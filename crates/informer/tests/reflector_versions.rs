//! resourceVersions that no server would send: the reflector neither resumes from them forever nor stops.

use crate::support;

use std::time::Duration;

use kube_informer::testing::ScriptedSource;
use kube_wire::WatchEvent;
use serde_json::{Value, json};
use support::informers::informer;
use support::*;

/// Numbers beyond 64 bits, negative ones, and texts.
const STRANGE: [&str; 4] = ["abc", "-5", "1000000000000000000000000000000", "7 8&limit=1"];

fn pod_at(version: &str) -> Value {
    json!({"metadata": {"namespace": "web", "name": "a", "uid": "uid-1", "resourceVersion": version}})
}

fn send_at(source: &ScriptedSource, version: &str) {
    source.send(&WatchEvent::Modified(source.object(&pod_at(version))));
}

/// Waits for this many complete lists.
async fn listed(rig: &mut Rig, times: u64) {
    let lists = rig.status.wait_for(|status| status.complete_lists == times);
    let listed = tokio::time::timeout(Duration::from_secs(3600), lists).await.map(drop);
    assert!(listed.is_ok(), "{:?}; {:?}", rig.requests(), rig.errors());
}

#[tokio::test(start_paused = true)]
async fn a_version_of_an_event_that_the_server_refuses_is_not_requested_again() {
    for version in STRANGE {
        let source = pods();
        source.put(pod("a"));
        let mut rig = Rig::start(&source, listing());
        rig.watching().await;
        send_at(&source, version);
        rig.logged(&format!("update web/a {version}")).await;
        source.close_watches();
        listed(&mut rig, 2).await;
        rig.watching().await;
        let requests = [
            r#"list rv="0" limit=500"#.to_owned(),
            r#"watch rv="101""#.to_owned(),
            format!("watch rv={version:?}"),
            r#"list rv="" limit=500"#.to_owned(),
            r#"watch rv="101""#.to_owned(),
        ];
        assert_eq!(rig.requests(), requests, "{:?}", rig.errors());
        assert!(rig.errors()[0].contains("cannot open watch: 400 BadRequest: invalid resource version"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_version_of_a_list_that_the_server_refuses_is_not_requested_again() {
    for version in STRANGE {
        let source = pods();
        source.put(pod("a"));
        source.answer_next_list_with_version(version);
        let mut rig = Rig::start(&source, listing());
        listed(&mut rig, 2).await;
        rig.watching().await;
        assert_eq!(rig.requests()[2..], [r#"list rv="" limit=500"#, r#"watch rv="101""#]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_list_that_is_refused_because_of_its_version_is_repeated_without_it() {
    let invalid = json!({"kind": "Status", "code": 500, "reason": "InternalError",
        "message": "Internal error occurred: resourceVersion: Invalid value: \"abc\": invalid syntax"});
    let invalid =
        kube_wire::Status::from_response(500, "application/json", None, invalid.to_string().as_bytes());
    for refusal in [status(400, "BadRequest"), status(422, "Invalid"), invalid] {
        let source = pods();
        source.put(pod("a"));
        let mut rig = Rig::start(&source, listing());
        rig.watching().await;
        source.fail_next_list(refusal);
        source.fail_watches(status(403, "Forbidden"));
        listed(&mut rig, 2).await;
        assert_eq!(rig.requests()[2..4], [r#"list rv="101""#, r#"list rv="""#]);
        assert!(
            rig.errors()[1].ends_with("; requesting the most recent state instead"),
            "{:?}",
            rig.errors()
        );
    }
}

#[tokio::test(start_paused = true)]
async fn another_internal_error_does_not_put_the_version_in_doubt() {
    let source = pods();
    let mut rig = Rig::start(&source, listing());
    rig.watching().await;
    source.fail_next_list(status(500, "InternalError"));
    source.fail_watches(status(403, "Forbidden"));
    listed(&mut rig, 2).await;
    assert_eq!(rig.requests()[2..4], [r#"list rv="100""#; 2]);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_refuses_every_list_is_asked_once_per_cycle() {
    let source = pods();
    let mut rig = Rig::start(&source, listing());
    rig.watching().await;
    (0..4).for_each(|_| source.fail_next_list(status(400, "BadRequest")));
    source.fail_watches(status(403, "Forbidden"));
    listed(&mut rig, 2).await;
    let most_recent = [r#"list rv="" limit=500"#; 3];
    assert_eq!(rig.requests()[2..4], [r#"list rv="100""#, r#"list rv="""#]);
    assert_eq!(rig.requests()[4..7], most_recent);
}

#[tokio::test(start_paused = true)]
async fn a_too_long_version_is_not_resumed_from() {
    let long = "7".repeat(100 << 10);
    let source = pods();
    source.put(pod("a"));
    let mut rig = Rig::start(&source, listing());
    rig.watching().await;
    send_at(&source, &long);
    rig.logged(&format!("update web/a {long}")).await;
    assert_eq!(rig.last_version.get(), "101");
    // A list cannot be continued without one.
    source.answer_next_list_with_version(&long);
    source.fail_watches(status(403, "Forbidden"));
    listed(&mut rig, 2).await;
    let errors = rig.errors();
    let says = "cannot list: invalid list: its resourceVersion has 102400 bytes, at most 1024 are accepted; relisting";
    assert!(errors[1].contains(says), "{errors:?}");
    assert_eq!(rig.last_version.get(), "101");
}

#[tokio::test(start_paused = true)]
async fn a_bookmark_with_a_version_that_is_too_long_does_not_end_a_watch_list() {
    let source = pods();
    source.put(pod("a"));
    let long = "7".repeat(100 << 10);
    let mut rig = Rig::start(&source, streaming());
    rig.watching().await;
    // An ordinary bookmark.
    source.send(&WatchEvent::Bookmark(source.object(&json!({"metadata": {"resourceVersion": long}}))));
    rig.logged(&format!("bookmark {long}")).await;
    assert_eq!(rig.last_version.get(), "101");
}

/// The store drops states that are older than the stored one, so a state with a huge version hides later ones, until the
/// next list, whose states are always accepted.
#[tokio::test(start_paused = true)]
async fn promise_1_a_huge_version_hides_later_states_only_until_the_next_list() {
    let source = pods();
    source.put(pod("a"));
    let pods = informer(&source).start().unwrap();
    pods.synced().await.unwrap();
    let version = |pods: &kube_informer::Informer<k8s_openapi::api::core::v1::Pod>| {
        pods.lister().get(&"web/a".parse().unwrap()).unwrap().resource_version().to_owned()
    };
    let huge = "9".repeat(30);
    send_at(&source, &huge);
    informers::settle().await;
    assert_eq!(version(&pods), huge);
    let real = source.put(pod("a"));
    informers::settle().await;
    assert_eq!(version(&pods), huge, "an older state");
    // The server closes the watch, and does not know where to resume.
    source.close_watches();
    let relisted = async {
        while version(&pods) != real {
            tokio::time::sleep(Duration::from_millis(100)).await; // paused time: nothing sleeps
        }
    };
    tokio::time::timeout(Duration::from_secs(60), relisted).await.unwrap();
}
